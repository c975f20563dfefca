//! Softmax over FP16 scores, in integers, bit for bit as the activation unit.
//!
//! The exponential has two formats: 28 fraction bits for the sum, 13 significant bits for numerators. The sum's
//! reciprocal has 16 significant bits. `docs/numerics.md` argues the bound of 0.91 units in the last place.

use half::f16;

use crate::exp::{FRACTION_BITS, log2_of_exp, power_of_two};
use crate::fp16::{self, CANONICAL_NAN, NEG_INF, POS_INF};
use crate::rounding::round_scaled;

/// Terms of the sum are in units of 2^-`SUM_FRACTION_BITS`; the maximum's is one.
const SUM_FRACTION_BITS: u32 = 28;

/// Numerators have this many bits after the leading one, and ...
const NUMERATOR_FRACTION_BITS: i64 = 12;
/// ... no finer step than 2^-26, the one below 2^-14.
const NUMERATOR_LSB: i64 = 26;

/// A masked score: its exponential is zero in both formats for any maximum.
const MASKED: i64 = -(1 << 62);

/// `softmax(s)`: `exp(s[j]) / sum_k exp(s[k])` within 0.91 units in the last place for `n <= 16384`; `[n] -> [n]`.
///
/// -Inf masks a position: its output is +0. A NaN or +Inf, or only -Inf, makes every output the canonical NaN. The sum
/// is below `n * 2^28 + 1`, so 64 bits hold it for any slice.
pub fn softmax(scores: &[f16]) -> Vec<f16> {
    let undefined = |&s: &f16| fp16::is_nan(s) || s == POS_INF;
    if scores.iter().any(undefined) || scores.iter().all(|&s| s == NEG_INF) {
        return vec![CANONICAL_NAN; scores.len()];
    }
    let exponent = |&s: &f16| if s == NEG_INF { MASKED } else { log2_of_exp(s) };
    let exponents: Vec<i64> = scores.iter().map(exponent).collect();
    // Monotone: the largest exponent is the largest score's.
    let max = exponents.iter().copied().max().unwrap_or(0);
    let mut sum = 0;
    let numerators: Vec<u64> = exponents
        .iter()
        .map(|y| {
            let power = power_of_two(y - max);
            sum += term(power);
            numerator(power)
        })
        .collect();
    let (reciprocal, exponent) = reciprocal(sum);
    numerators.iter().map(|e| round_scaled(e * reciprocal, exponent - NUMERATOR_LSB)).collect()
}

/// `floor(r * 2^(k - 24) * 2^28)` for `k <= 0`.
fn term((r, k): (u64, i64)) -> u64 {
    let shift = (-k).min(63) as u32;
    (r << (SUM_FRACTION_BITS - FRACTION_BITS)) >> shift
}

/// `r * 2^(k - 24)` for `k <= 0` in units of 2^-26: RNE to 13 significant bits or, below 2^-14, to that unit.
fn numerator((r, k): (u64, i64)) -> u64 {
    let step = k.max(NUMERATOR_FRACTION_BITS - NUMERATOR_LSB) - NUMERATOR_FRACTION_BITS; // its exponent
    // At least 12. At 26 and above, r < 2^25 is below half a step and becomes zero.
    let cut = (step - (k - i64::from(FRACTION_BITS))).min(26) as u32;
    let odd = (r >> cut) & 1;
    let rounded = (r + (1 << (cut - 1)) - 1 + odd) >> cut;
    rounded << (step + NUMERATOR_LSB)
}

/// `(R, x)`: `R * 2^x` is the reciprocal of `sum * 2^-28`, from the sum's leading 17 bits, rounded down to 16 or 17
/// bits. `2^15 <= R <= 2^16`; the sum is at least 2^28.
fn reciprocal(sum: u64) -> (u64, i64) {
    let top = sum.ilog2();
    let leading = sum >> (top - 16);
    ((1 << 32) / leading, 12 - i64::from(top))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bits(scores: &[u16]) -> Vec<u16> {
        let scores: Vec<f16> = scores.iter().map(|&s| f16::from_bits(s)).collect();
        softmax(&scores).iter().map(|p| p.to_bits()).collect()
    }

    #[test]
    fn simple_distributions() {
        assert!(bits(&[]).is_empty());
        assert_eq!(bits(&[0xFBFF]), [0x3C00]);
        assert_eq!(bits(&[0x8000, 0]), [0x3800; 2]);
        assert_eq!(bits(&[0x4500; 4]), [0x3400; 4]);
        assert_eq!(bits(&[0x7BFF, 0xFBFF]), [0x3C00, 0]);
        assert_eq!(bits(&[0x7BFF; 16384]), [0x0400; 16384]);
    }

    #[test]
    fn masked_positions_take_no_part() {
        assert_eq!(bits(&[0xFC00, 0x4248, 0xFC00]), [0, 0x3C00, 0]);
        assert_eq!(bits(&[0xFBFF, 0xFC00]), [0x3C00, 0]);
        let row = [0x3C00, 0x3555, 0xC100, 0x0001];
        let with = bits(&[0xFC00, row[0], row[1], 0xFC00, row[2], row[3]]);
        let without = bits(&row);
        assert_eq!(with, [0, without[0], without[1], 0, without[2], without[3]]);
    }

    #[test]
    fn undefined_rows_are_all_nan() {
        for row in
            [[0, 0x7C00], [0x7C00, 0xFC00], [0, 0x7C01], [0xFFFF, 0], [0xFC00, 0xFE00], [0xFC00, 0xFC00]]
        {
            assert_eq!(bits(&row), [0x7E00; 2], "{row:x?}");
        }
        assert_eq!(bits(&[0xFC00]), [0x7E00]);
    }

    #[test]
    fn numerators_round_to_nearest_even() {
        let one = 1 << 24;
        assert_eq!(numerator((one, 0)), 1 << 26);
        // Half a step of 2^-13 at exponent -1: down to even, and up to even.
        assert_eq!(numerator((one + (1 << 11), -1)), 1 << 25);
        assert_eq!(numerator((one + (1 << 11) + 1, -1)), (1 << 25) + (1 << 13));
        assert_eq!(numerator((one + (3 << 11), -1)), (1 << 25) + (2 << 13));
        assert_eq!(numerator((2 * one - 1, -1)), 1 << 26);
        // The step stays 2^-26 below 2^-14: 2^-15 is 2^11 of them.
        assert_eq!(numerator((one, -14)), 1 << 12);
        assert_eq!(numerator((one, -15)), 1 << 11);
        assert_eq!(numerator((one + (1 << 12), -15)), 1 << 11); // half a step
        assert_eq!(numerator((one + (1 << 12) + 1, -15)), (1 << 11) + 1);
        assert_eq!(numerator((one, -27)), 0); // half a step, a tie to zero
        assert_eq!(numerator((one + 1, -27)), 1);
        assert_eq!(numerator((2 * one - 1, -28)), 0);
        assert_eq!(numerator((one, MASKED >> 24)), 0);
    }

    #[test]
    fn terms_are_rounded_down() {
        let one = 1 << 24;
        assert_eq!(term((one, 0)), 1 << 28);
        assert_eq!(term((2 * one - 1, -28)), 1);
        assert_eq!(term((one, -28)), 1);
        assert_eq!(term((2 * one - 1, -29)), 0);
        assert_eq!(term((one, MASKED >> 24)), 0);
    }

    #[test]
    fn reciprocals_at_the_ends_of_their_range() {
        assert_eq!(reciprocal(1 << 28), (1 << 16, -16));
        assert_eq!(reciprocal((1 << 28) + (1 << 12)), (65535, -16));
        assert_eq!(reciprocal((1 << 29) - 1), (1 << 15, -16));
        assert_eq!(reciprocal(1 << 42), (1 << 16, -30));
        assert_eq!(reciprocal(u64::MAX), (1 << 15, -51));
    }
}
