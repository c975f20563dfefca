//! Softmax over FP16 scores, in integers.
//!
//! Masked positions are the caller's to leave out: every score given is visible.

use half::f16;

use crate::exp::exp_q30;
use crate::fp16::{CANONICAL_NAN, any_special, fixed_of_finite};
use crate::rne_ratio;

/// `p[j] = RNE16(E(max - s[j]) / sum_k E(max - s[k]))`; `[n] -> [n]`, empty for an empty input.
///
/// A NaN or an infinity among the scores makes every output the canonical NaN. Within one unit in the last place of the
/// real softmax of the same scores. The sum stays below `n * 2^30 + 1`, so 64 bits hold it for any slice in memory.
pub fn softmax(scores: &[f16]) -> Vec<f16> {
    if any_special(scores) {
        return vec![CANONICAL_NAN; scores.len()];
    }
    let exponentials = shifted_exponentials(scores, |d| d);
    let sum: u64 = exponentials.iter().sum();
    exponentials.iter().map(|&e| rne_ratio(i128::from(e), i128::from(sum))).collect()
}

/// `E(scale(I(max) - I(s[j])))` for finite scores; the differences are below 2^41.
pub(crate) fn shifted_exponentials(scores: &[f16], scale: impl Fn(u64) -> u64) -> Vec<u64> {
    let fixed: Vec<i64> = scores.iter().map(|a| fixed_of_finite(a.to_bits())).collect();
    let max = fixed.iter().copied().max().unwrap_or(0);
    fixed.iter().map(|&s| exp_q30(scale(max.abs_diff(s)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ulp(value: f64) -> f64 {
        2f64.powi((value.log2().floor() as i32).max(-14) - 10)
    }

    #[test]
    fn within_one_ulp_of_the_real_softmax() {
        let mut rng = crate::SplitMix64::new(3);
        for n in [1usize, 2, 3, 17, 64, 1000, 16384] {
            for exponent in [10u16, 14, 16, 18, 20] {
                let scores: Vec<f16> = (0..n)
                    .map(|_| {
                        let r = rng.next_u64() as u16;
                        f16::from_bits((r & 0x83FF) | (exponent << 10))
                    })
                    .collect();
                let max = scores.iter().map(|s| s.to_f64()).fold(f64::MIN, f64::max);
                let e: Vec<f64> = scores.iter().map(|s| (s.to_f64() - max).exp()).collect();
                let sum: f64 = e.iter().sum();
                for (p, e) in softmax(&scores).iter().zip(&e) {
                    let real = e / sum;
                    assert!((p.to_f64() - real).abs() <= ulp(real), "{p} vs {real}, n = {n}");
                }
            }
        }
    }

    #[test]
    fn simple_distributions() {
        let bits = |p: Vec<f16>| p.iter().map(|p| p.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(softmax(&[])), []);
        assert_eq!(bits(softmax(&[f16::from_bits(0xFBFF)])), [0x3C00]);
        assert_eq!(bits(softmax(&[f16::from_bits(0x8000), f16::from_bits(0)])), [0x3800; 2]);
        // The widest difference there is.
        let ends = [f16::from_bits(0x7BFF), f16::from_bits(0xFBFF)];
        assert_eq!(bits(softmax(&ends)), [0x3C00, 0]);
        for special in [0x7C00, 0xFC00, 0xFE01] {
            let scores = [f16::from_bits(0), f16::from_bits(special)];
            assert_eq!(bits(softmax(&scores)), [0x7E00; 2]);
        }
    }
}
