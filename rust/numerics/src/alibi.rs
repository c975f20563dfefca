//! ALiBi (Press et al., ICLR 2022): each head subtracts from a score a multiple of the distance between query and key.

use crate::{elementwise, f16, rne_rsqrt, round_f64};

/// Factors of heads on the scale of scores.
#[derive(Debug, Clone, PartialEq)]
pub struct Alibi(Vec<f16>);

impl Alibi {
    /// `RNE16(slope) * RNE16(1 / sqrt(head_width))` of each head. With the largest power of two `p` up to `heads`, the
    /// slope of head `n` (from 0) is `2^(-8 (n + 1) / p)`; later heads have `2^(-4 (2 (n - p) + 1) / p)`.
    pub fn new(heads: usize, head_width: usize) -> Self {
        let p = heads.checked_ilog2().map_or(1, |log| 1 << log);
        let scale = rne_rsqrt(u32::try_from(head_width).unwrap_or(u32::MAX));
        let of = |head: usize| {
            let power = if head < p { 2 * (head + 1) } else { 2 * (head - p) + 1 };
            elementwise::mul(round_f64(power_of_two(4 * power, p)), scale)
        };
        Self((0..heads).map(of).collect())
    }

    /// The score of a key `distance` positions before its query.
    pub fn of(&self, head: usize, score: f16, distance: usize) -> f16 {
        // 11 bits times the 14 of a distance: the product is exact.
        elementwise::sub(score, round_f64(self.0[head].to_f64() * distance as f64))
    }

    /// A factor for each head.
    pub fn factors(&self) -> &[f16] {
        &self.0
    }
}

/// `2^(-a / b)` for a power of two `b`, with a relative error below `2^-47`: a product of at most 15 repeated square
/// roots of a half, each rounded correctly.
fn power_of_two(a: usize, b: usize) -> f64 {
    let mut result = 1.0;
    let (mut root, mut bit) = (0.5, b);
    for _ in 0..a / b {
        result *= 0.5;
    }
    while bit > 1 {
        bit /= 2;
        root = f64::sqrt(root);
        if a & bit != 0 {
            result *= root;
        }
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 2^14 heads, the most that a model can have, include the slopes of fewer heads.
    #[test]
    fn no_slope_is_so_near_a_tie_that_its_error_matters() {
        let p = 1 << 14;
        for power in 1..=2 * p {
            let slope = power_of_two(4 * power, p);
            // In units of half of FP16's last bit; slopes are at least 2^-8.
            let units = slope * 2f64.powi(11 - slope.log2().floor() as i32);
            let from_tie = ((units - 1.0) / 2.0).fract();
            let is_exact = (4 * power).is_multiple_of(p);
            assert!(is_exact || from_tie.min(1.0 - from_tie) > 1e-9, "{power}: {units}");
        }
    }

    #[test]
    fn slopes_of_four_and_six_heads_are_powers_of_two() {
        let slopes =
            |heads| Alibi::new(heads, 1).0.iter().map(|slope| slope.to_f64().log2()).collect::<Vec<_>>();
        assert_eq!(slopes(4), [-2.0, -4.0, -6.0, -8.0]);
        assert_eq!(slopes(6), [-2.0, -4.0, -6.0, -8.0, -1.0, -3.0]);
        assert_eq!(slopes(1), [-8.0]);
        assert_eq!(Alibi::new(4, 4).of(0, f16::from_f64(-1.0), 12).to_f64(), -2.5);
    }
}
