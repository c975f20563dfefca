//! RMSNorm over FP16, in integers (LLaMA's normalisation).
//!
//! The mean of the squares is exact, its root one integer square root. Each element is rounded twice: normalised, times
//! gain.

use half::f16;
use ndp_files::Result;

use crate::elementwise::mul;
use crate::fp16::{CANONICAL_NAN, any_special, fixed_of_finite};
use crate::layer_norm::{Epsilon, check_lengths};
use crate::rne_ratio;

/// `y[i] = mul(RNE16(x[i] / sqrt(mean of the squares + eps)), gain[i])`; both `[n]`, 1 <= n <= 16384. A NaN or infinity
/// in any operand makes every output the canonical NaN. Fails if `n` is out of range or lengths differ.
///
/// Bounds, in the contract's names: `|I(x)| < 2^40`, so `n * V < n^2 2^80 <= 2^108` and `n^2 2^48 eps < 2^70`, hence
/// `M * 2^16 < 2^125` and `R < 2^63`; `R >= n 2^32 10^-3 - 1 > 0`. `n * |I(x)| * 2^8 < 2^62`.
pub fn rms_norm(x: &[f16], gain: &[f16], eps: Epsilon) -> Result<Vec<f16>> {
    let len = x.len();
    check_lengths("RMSNorm", len, &[("gain", gain.len())])?;
    if any_special(x) || any_special(gain) {
        return Ok(vec![CANONICAL_NAN; len]);
    }
    let n = len as i64; // at most 2^14
    let fixed: Vec<i64> = x.iter().map(|a| fixed_of_finite(a.to_bits())).collect();
    let square = |i: &i64| u128::from(i.unsigned_abs()).pow(2);
    let n_wide = u128::from(n.unsigned_abs());
    let mean_square = n_wide * fixed.iter().map(square).sum::<u128>() + eps.scaled(n_wide);
    let root = (mean_square << 16).isqrt() as i128;
    let normalised = fixed.iter().map(|&i| rne_ratio(i128::from(n * i) << 8, root));
    Ok(normalised.zip(gain).map(|(z, &g)| mul(z, g)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: f16 = f16::from_bits(0x3C00);

    #[test]
    fn the_extreme_magnitudes_do_not_overflow() {
        let max = f16::from_bits(0x7BFF);
        let y = rms_norm(&vec![max; 16384], &vec![ONE; 16384], Epsilon::OPT).unwrap();
        assert!(y.iter().all(|&y| y == ONE));
        // One element of many: sqrt(n).
        let mut x = vec![f16::from_bits(0); 16384];
        x[9] = f16::from_bits(0xFBFF);
        let y = rms_norm(&x, &vec![ONE; 16384], Epsilon::OPT).unwrap();
        assert_eq!((y[9].to_bits(), y[8].to_bits()), (0xD800, 0));
    }

    #[test]
    fn close_to_real_arithmetic() {
        let mut rng = crate::SplitMix64::new(12);
        for n in [1usize, 2, 7, 64, 768] {
            for (scale, eps) in [(6, 1e-6), (14, 1e-5), (20, 1e-6), (28, 1e-2)] {
                let x: Vec<f16> = (0..n)
                    .map(|_| {
                        let r = rng.next_u64();
                        let exponent = (scale - (r >> 20) % 5) as u16;
                        f16::from_bits((r as u16 & 0x83FF) | exponent << 10)
                    })
                    .collect();
                let mean = x.iter().map(|a| a.to_f64().powi(2)).sum::<f64>() / n as f64;
                let y = rms_norm(&x, &vec![ONE; n], Epsilon::from_f64(eps).unwrap()).unwrap();
                for (x, y) in x.iter().zip(&y) {
                    let z = x.to_f64() / (mean + eps).sqrt();
                    let bound = 0.501 * 2f64.powi((z.abs().log2().floor() as i32).max(-14) - 10);
                    assert!((y.to_f64() - z).abs() <= bound, "n = {n}: {y} vs {z}");
                }
            }
        }
    }

    #[test]
    fn special_inputs_and_bad_shapes() {
        let x = [ONE, ONE];
        for special in [0x7C00, 0xFC00, 0x7C01] {
            let bad = [ONE, f16::from_bits(special)];
            for (x, g) in [(&bad, &x), (&x, &bad)] {
                let y = rms_norm(x, g, Epsilon::OPT).unwrap();
                assert!(y.iter().all(|y| y.to_bits() == 0x7E00));
            }
        }
        let refused = |x: &[f16], g: &[f16]| rms_norm(x, g, Epsilon::OPT).unwrap_err().to_string();
        assert!(refused(&[], &[]).contains("RMSNorm over 0 elements"));
        assert!(refused(&x, &[ONE]).contains("gain has 1 elements"));
    }
}
