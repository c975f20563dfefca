//! LayerNorm over FP16, in integers.
//!
//! The mean and the variance are exact integers, the standard deviation is one integer square root, and each element is
//! rounded three times: the normalised value, times the gain, plus the bias.

use half::f16;

use crate::elementwise::{add, mul};
use crate::fp16::{CANONICAL_NAN, any_special, fixed_of_finite};
use crate::{NumericsError, rne_ratio};

/// The longest vector whose intermediate integers the bounds below cover.
pub const MAX_LEN: usize = 16384;

/// eps = 10^-5, as the divisor that the integer formula uses.
const EPS_RECIPROCAL: u128 = 100_000;

/// `y[i] = add(mul(RNE16((x[i] - mean) / sqrt(variance + 10^-5)), gain[i]), bias[i])`; all `[n]`, 1 <= n <= 16384.
///
/// A NaN or an infinity anywhere in `x`, `gain` or `bias` makes every output the canonical NaN. Errors if `n` is out of
/// range or the lengths differ.
///
/// Bounds, in the names of the contract: `|I(x)| < 2^40`, so `|S| < 2^54`, `|D| = |n I(x) - S| < 2^55` and
/// `V = n^2 sum I^2 - n S^2 <= n^2 sum I^2 < 2^28 * 2^94 = 2^122`, hence `V // n < 2^108` (as `V < n^3 2^80`), and
/// `n^2 2^48 <= 2^76`, so `M < 2^109`, `M * 2^16 < 2^125` and `R < 2^63`. `M >= 2^48 // 100000 > 0`, so `R > 0`.
pub fn layer_norm(x: &[f16], gain: &[f16], bias: &[f16]) -> Result<Vec<f16>, NumericsError> {
    let len = x.len();
    if !(1..=MAX_LEN).contains(&len) {
        return Err(NumericsError::VectorLength { operation: "LayerNorm", found: len, min: 1, max: MAX_LEN });
    }
    for (operand, found) in [("gain", gain.len()), ("bias", bias.len())] {
        if found != len {
            return Err(NumericsError::LengthMismatch { operand, found, expected: len });
        }
    }
    if any_special(x) || any_special(gain) || any_special(bias) {
        return Ok(vec![CANONICAL_NAN; len]);
    }

    let n = len as i64; // at most 2^14
    let fixed: Vec<i64> = x.iter().map(|a| fixed_of_finite(a.to_bits())).collect();
    let sum: i64 = fixed.iter().sum();
    let deviation = |i: i64| n * i - sum;
    let square_sum: u128 = fixed
        .iter()
        .map(|&i| {
            let d = u128::from(deviation(i).unsigned_abs());
            d * d
        })
        .sum();
    let n_wide = u128::from(n.unsigned_abs());
    let scaled_variance = square_sum / n_wide + ((n_wide * n_wide) << 48) / EPS_RECIPROCAL;
    let root = (scaled_variance << 16).isqrt() as i128; // sqrt in units of 2^-8

    let normalised = fixed.iter().map(|&i| rne_ratio(i128::from(deviation(i)) << 8, root));
    Ok(normalised.zip(gain.iter().zip(bias)).map(|(z, (&g, &b))| add(mul(z, g), b)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: f16 = f16::from_bits(0x3C00);
    const ZERO: f16 = f16::from_bits(0);

    #[test]
    fn a_constant_vector_normalises_to_zero_and_leaves_the_bias() {
        let bias = f16::from_bits(0x4248);
        for n in [1, 2, 3, 1000] {
            let y = layer_norm(&vec![f16::from_bits(0x5640); n], &vec![ONE; n], &vec![bias; n]);
            assert_eq!(y, Ok(vec![bias; n]));
        }
    }

    #[test]
    fn the_extreme_magnitudes_do_not_overflow() {
        let max = f16::from_bits(0x7BFF);
        let min = f16::from_bits(0xFBFF);
        let n = MAX_LEN;
        // The largest variance: half the elements at each end. z = +-1 exactly, to rounding.
        let x: Vec<f16> = (0..n).map(|i| if i % 2 == 0 { max } else { min }).collect();
        let y = layer_norm(&x, &vec![ONE; n], &vec![ZERO; n]).unwrap();
        assert!(y.chunks(2).all(|pair| pair == [ONE, f16::from_bits(0xBC00)]));
        // The largest deviation: one element at one end. z = sqrt(n - 1) = 127.996...
        let mut x = vec![min; n];
        x[7] = max;
        let y = layer_norm(&x, &vec![ONE; n], &vec![ZERO; n]).unwrap();
        assert_eq!(y[7].to_bits(), 0x5800);
    }

    #[test]
    fn close_to_real_arithmetic() {
        let mut rng = crate::SplitMix64::new(11);
        for n in [1usize, 2, 7, 64, 768] {
            for scale in [6, 14, 20, 28] {
                let x: Vec<f16> = (0..n)
                    .map(|_| {
                        let r = rng.next_u64();
                        let exponent = (scale - (r >> 20) % 5) as u16;
                        f16::from_bits((r as u16 & 0x83FF) | exponent << 10)
                    })
                    .collect();
                let mean = x.iter().map(|a| a.to_f64()).sum::<f64>() / n as f64;
                let var = x.iter().map(|a| (a.to_f64() - mean).powi(2)).sum::<f64>() / n as f64;
                let y = layer_norm(&x, &vec![ONE; n], &vec![ZERO; n]).unwrap();
                for (x, y) in x.iter().zip(&y) {
                    let z = (x.to_f64() - mean) / (var + 1e-5).sqrt();
                    let bound = 0.501 * 2f64.powi((z.abs().log2().floor() as i32).max(-14) - 10);
                    assert!((y.to_f64() - z).abs() <= bound, "n = {n}: {y} vs {z}");
                }
            }
        }
    }

    #[test]
    fn special_inputs_and_bad_shapes() {
        let x = [ONE, ZERO];
        for special in [0x7C00, 0xFC00, 0x7C01] {
            let bad = [ONE, f16::from_bits(special)];
            for (x, g, b) in [(&bad, &x, &x), (&x, &bad, &x), (&x, &x, &bad)] {
                let y = layer_norm(x, g, b).unwrap();
                assert!(y.iter().all(|y| y.to_bits() == 0x7E00));
            }
        }
        assert!(matches!(layer_norm(&[], &[], &[]), Err(NumericsError::VectorLength { found: 0, .. })));
        assert!(matches!(
            layer_norm(&vec![ONE; 16385], &[], &[]),
            Err(NumericsError::VectorLength { found: 16385, .. })
        ));
        assert_eq!(
            layer_norm(&x, &x, &[ONE]),
            Err(NumericsError::LengthMismatch { operand: "bias", found: 1, expected: 2 })
        );
    }
}
