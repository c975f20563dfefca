//! LayerNorm over FP16, in integers.
//!
//! Mean and variance are exact integers, and the standard deviation is one integer square root. Each element is rounded
//! three times: normalised, times gain, plus bias.

use half::f16;
use ndp_files::{Result, bail, refusal};

use crate::elementwise::{add, mul};
use crate::fp16::{CANONICAL_NAN, any_special, fixed_of_finite};
use crate::rne_ratio;

/// Longest vector covered by the bounds below.
pub const MAX_LEN: usize = 16384;

/// Addend of a variance, or of a mean of squares: a multiple of 10^-12 from 10^-6 to 10^-2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Epsilon(u64);

impl Epsilon {
    /// 10^-5, OPT's.
    pub const OPT: Self = Self(10_000_000);

    /// In units of 10^-12.
    const RANGE: std::ops::RangeInclusive<u64> = 1_000_000..=10_000_000_000;

    /// `units * 10^-12`; `None` outside the range.
    pub fn new(units: u64) -> Option<Self> {
        Self::RANGE.contains(&units).then_some(Self(units))
    }

    /// The multiple of 10^-12 whose nearest double is `value`; `None` if none is in the range.
    pub fn from_f64(value: f64) -> Option<Self> {
        let units = (value * 1e12).round();
        // Units below 10^10 are exact as doubles, and so is 10^12.
        (units / 1e12 == value).then(|| Self::new(units as u64)).flatten()
    }

    /// In units of 10^-12.
    pub fn units(self) -> u64 {
        self.0
    }

    /// `n^2 * eps` in units of 2^-48, rounded down, for `n <= 2^14`: below 2^110 before the division.
    pub(crate) fn scaled(self, n: u128) -> u128 {
        ((n * n) << 48) * u128::from(self.0) / 1_000_000_000_000
    }
}

/// Fails for lengths outside the bounds, and for operands of other lengths.
pub(crate) fn check_lengths(
    operation: &'static str,
    len: usize,
    others: &[(&'static str, usize)],
) -> Result<()> {
    if !(1..=MAX_LEN).contains(&len) {
        bail!("{operation} over {len} elements: must be 1..={}", MAX_LEN);
    }
    match others.iter().find(|(_, found)| *found != len) {
        Some(&(operand, found)) => Err(refusal!("{operand} has {found} elements, expected {len}")),
        None => Ok(()),
    }
}

/// `y[i] = add(mul(RNE16((x[i] - mean) / sqrt(variance + eps)), gain[i]), bias[i])`; all `[n]`, 1 <= n <= 16384. A NaN
/// or infinity in any operand makes every output the canonical NaN. Fails if `n` is out of range or lengths differ.
///
/// Bounds, in the contract's names: `|I(x)| < 2^40`, so `|S| < 2^54`, `|D| = |n I(x) - S| < 2^55` and
/// `V = n^2 sum I^2 - n S^2 <= n^2 sum I^2 < 2^28 * 2^94 = 2^122`, hence `V // n < 2^108` (as `V < n^3 2^80`), and
/// `n^2 2^48 eps < 2^70`, so `M < 2^109`, `M * 2^16 < 2^125` and `R < 2^63`. `M >= 2^48 * 10^-6 - 1 > 0`, so `R > 0`.
pub fn layer_norm(x: &[f16], gain: &[f16], bias: &[f16], eps: Epsilon) -> Result<Vec<f16>> {
    let len = x.len();
    check_lengths("LayerNorm", len, &[("gain", gain.len()), ("bias", bias.len())])?;
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
    let scaled_variance = square_sum / n_wide + eps.scaled(n_wide);
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
            let y = layer_norm(&vec![f16::from_bits(0x5640); n], &vec![ONE; n], &vec![bias; n], Epsilon::OPT);
            assert_eq!(y.unwrap(), vec![bias; n]);
        }
    }

    #[test]
    fn the_extreme_magnitudes_do_not_overflow() {
        let max = f16::from_bits(0x7BFF);
        let min = f16::from_bits(0xFBFF);
        let n = MAX_LEN;
        // Largest variance: half the elements at each end. z = +-1 exactly, to rounding.
        let x: Vec<f16> = (0..n).map(|i| if i % 2 == 0 { max } else { min }).collect();
        let y = layer_norm(&x, &vec![ONE; n], &vec![ZERO; n], Epsilon::OPT).unwrap();
        assert!(y.chunks(2).all(|pair| pair == [ONE, f16::from_bits(0xBC00)]));
        // Largest deviation: one element at one end. z = sqrt(n - 1) = 127.996...
        let mut x = vec![min; n];
        x[7] = max;
        let y = layer_norm(&x, &vec![ONE; n], &vec![ZERO; n], Epsilon::OPT).unwrap();
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
                let y = layer_norm(&x, &vec![ONE; n], &vec![ZERO; n], Epsilon::OPT).unwrap();
                for (x, y) in x.iter().zip(&y) {
                    let z = (x.to_f64() - mean) / (var + 1e-5).sqrt();
                    let bound = 0.501 * 2f64.powi((z.abs().log2().floor() as i32).max(-14) - 10);
                    assert!((y.to_f64() - z).abs() <= bound, "n = {n}: {y} vs {z}");
                }
            }
        }
    }

    #[test]
    fn an_epsilon_is_a_multiple_of_a_trillionth_within_its_range() {
        let units = |value| Epsilon::from_f64(value).map(Epsilon::units);
        assert_eq!(units(1e-5), Some(10_000_000));
        assert_eq!(units(1e-6), Some(1_000_000));
        assert_eq!(units(0.01), Some(10_000_000_000));
        assert_eq!(units(1.000001e-6), Some(1_000_001));
        for refused in [0.0, 1e-7, 0.010000000001, 1.0000001e-6, -1e-5, f64::NAN, f64::INFINITY] {
            assert_eq!(units(refused), None, "{refused}");
        }
    }

    #[test]
    fn special_inputs_and_bad_shapes() {
        let x = [ONE, ZERO];
        for special in [0x7C00, 0xFC00, 0x7C01] {
            let bad = [ONE, f16::from_bits(special)];
            for (x, g, b) in [(&bad, &x, &x), (&x, &bad, &x), (&x, &x, &bad)] {
                let y = layer_norm(x, g, b, Epsilon::OPT).unwrap();
                assert!(y.iter().all(|y| y.to_bits() == 0x7E00));
            }
        }
        assert!(ndp_files::said(&layer_norm(&[], &[], &[], Epsilon::OPT)).contains("over 0 elements"));
        assert!(
            ndp_files::said(&layer_norm(&vec![ONE; 16385], &[], &[], Epsilon::OPT))
                .contains("over 16385 elements")
        );
        let text = ndp_files::said(&layer_norm(&x, &x, &[ONE], Epsilon::OPT));
        assert_eq!(text, "bias has 1 elements, expected 2");
    }
}
