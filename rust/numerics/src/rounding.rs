//! The one rounding of the contract: an exact rational number to FP16, to nearest, ties to even (RNE16).
//!
//! Overflow gives infinity when the exact magnitude is at least 65520 (half way between the largest finite number,
//! 65504, and 2^16), an exact zero gives +0, and a non-zero value that rounds to zero keeps its sign.

use half::f16;

use crate::fp16::{CANONICAL_NAN, POS_INF};
use crate::special_flags::SpecialFlags;

/// Unit of fixed-point sums, 2^-`SUM_LSB`: a product of two multiples of 2^-24.
pub const SUM_LSB: u32 = 48;

/// This and larger magnitudes round to infinity.
const OVERFLOW: u64 = 65520;

/// Fraction bits of a ratio before its sticky bit: one more than the 24 of the smallest subnormal, so the half-way
/// point of the finest rounding is a bit.
const RATIO_FRACTION_BITS: u32 = 25;

/// Rounds `magnitude * 2^-48`, plus something in (0, 2^-48) if `sticky`.
///
/// The last place weighs `2^shift` units: 2^24 units (2^-24) for subnormals and the lowest normal binade, 2^(msb - 10)
/// above. The encoding is `(shift - 24) << 10` plus the kept bits: a normal number's hidden bit adds the one to the
/// exponent that a subnormal lacks, and a carry moves to the next binade or to infinity by itself.
#[inline]
fn round_magnitude(negative: bool, magnitude: u64, sticky: bool) -> f16 {
    let sign = if negative { 0x8000u16 } else { 0 };
    if magnitude >= OVERFLOW << SUM_LSB {
        return f16::from_bits(sign | POS_INF.to_bits());
    }
    let msb = 63 - (magnitude | 1).leading_zeros();
    let shift = msb.saturating_sub(10).max(24);
    let kept = magnitude >> shift;
    let rest = magnitude & ((1 << shift) - 1);
    let half = 1u64 << (shift - 1);
    // Without short cuts: mispredictions cost more than both.
    let up = (rest > half) | ((rest == half) & (sticky | (kept & 1 == 1)));
    // kept < 2^11 and shift <= 53, so the sum is at most 0x7C00 and fits below the sign.
    let encoded = (u64::from(shift - 24) << 10) + kept + u64::from(up);
    f16::from_bits(sign | encoded as u16)
}

/// Result of an exact sum `sum * 2^-48`, of any size, and its flags: NaN if NaN or both infinities were seen, else the
/// infinity seen, else the rounded sum. An exact zero gives +0.
pub fn round_fixed(sum: i128, flags: SpecialFlags) -> f16 {
    if let Some(special) = flags.result() {
        return special;
    }
    // Magnitudes above 64 bits are at least 2^16 and round to infinity, as does 2^64 - 1.
    let magnitude = u64::try_from(sum.unsigned_abs()).unwrap_or(u64::MAX);
    round_magnitude(sum < 0, magnitude, false)
}

/// `RNE16(magnitude * 2^exponent)` for every exponent. In units of 2^-48; lower bits are sticky, since the half-way
/// point of the finest rounding weighs 2^-25.
#[inline]
pub fn round_scaled(magnitude: u64, exponent: i64) -> f16 {
    let shift = exponent.saturating_add(i64::from(SUM_LSB));
    let distance = shift.unsigned_abs();
    if magnitude == 0 || shift == 0 {
        round_magnitude(false, magnitude, false)
    } else if shift > 0 {
        // A bit beyond 64 weighs 2^16 or more.
        let fits = distance <= u64::from(magnitude.leading_zeros());
        round_magnitude(false, if fits { magnitude << distance } else { u64::MAX }, false)
    } else if distance < 64 {
        round_magnitude(false, magnitude >> distance, magnitude & ((1 << distance) - 1) != 0)
    } else {
        round_magnitude(false, 0, true)
    }
}

/// `RNE16` of a double; infinities stay, NaN is canonical.
pub fn round_f64(value: f64) -> f16 {
    if value.is_nan() {
        return CANONICAL_NAN;
    }
    let bits = value.abs().to_bits();
    let (exponent, fraction) = ((bits >> 52) as i64, bits & ((1 << 52) - 1));
    // An infinity's exponent exceeds any number's.
    let (significand, exponent) = if exponent == 0 { (fraction, 1) } else { (fraction | 1 << 52, exponent) };
    let magnitude = round_scaled(significand, exponent - 1075);
    f16::from_bits(magnitude.to_bits() | u16::from(value.is_sign_negative()) << 15)
}

/// `RNE16(num / den)` of the exact ratio. A zero numerator gives +0, a zero denominator canonical NaN.
///
/// No overflow: the integer part is below 65520 or the result infinite at once, and fraction bits come from a remainder
/// below `|den| <= 2^127`, doubled in 128 unsigned bits.
pub fn rne_ratio(num: i128, den: i128) -> f16 {
    if den == 0 {
        return CANONICAL_NAN;
    }
    let negative = num != 0 && (num < 0) != (den < 0);
    let (num, den) = (num.unsigned_abs(), den.unsigned_abs());
    let integer = num / den;
    if integer >= u128::from(OVERFLOW) {
        return round_magnitude(negative, u64::MAX, false);
    }
    let mut quotient = integer as u64; // below 2^16, then 25 bits more: below 2^41
    let mut remainder = num % den;
    if den >> (128 - RATIO_FRACTION_BITS) == 0 {
        let scaled = remainder << RATIO_FRACTION_BITS;
        quotient = (quotient << RATIO_FRACTION_BITS) | (scaled / den) as u64;
        remainder = scaled % den;
    } else {
        for _ in 0..RATIO_FRACTION_BITS {
            remainder <<= 1; // remainder < den <= 2^127
            let bit = remainder >= den;
            if bit {
                remainder -= den;
            }
            quotient = (quotient << 1) | u64::from(bit);
        }
    }
    // quotient < 65520 * 2^25, so in units of 2^-48 it stays below 65520 * 2^48 < 2^64.
    let magnitude = quotient << (SUM_LSB - RATIO_FRACTION_BITS);
    round_magnitude(negative, magnitude, remainder != 0)
}

/// `RNE16(1 / sqrt(n))` of the exact real number, the attention scale of width `n`; +Inf for `n = 0`.
/// `floor(2^48 / sqrt(n)) = isqrt(2^96 // n)` is exact only if its square times `n` is 2^96.
pub fn rne_rsqrt(n: u32) -> f16 {
    if n == 0 {
        return POS_INF;
    }
    let n = u128::from(n);
    let root = ((1u128 << (2 * SUM_LSB)) / n).isqrt(); // at most 2^48
    round_magnitude(false, root as u64, root * root * n != 1 << (2 * SUM_LSB))
}

/// `RNE16(sqrt(n))` of the exact real number, for `n` up to 2^30.
pub fn rne_sqrt(n: u32) -> f16 {
    let square = u128::from(n) << 64;
    let root = square.isqrt(); // below 2^47, in units of 2^-32
    round_magnitude(false, (root as u64) << (SUM_LSB - 32), root * root != square)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round(sum: i128) -> u16 {
        round_fixed(sum, SpecialFlags::default()).to_bits()
    }

    #[test]
    fn ties_go_to_even_and_neighbours_to_nearest() {
        let one = 1i128 << 48;
        let ulp = one >> 10;
        assert_eq!(round(one), 0x3C00);
        assert_eq!(round(one + ulp / 2), 0x3C00);
        assert_eq!(round(one + ulp / 2 + 1), 0x3C01);
        assert_eq!(round(one + ulp / 2 - 1), 0x3C00);
        assert_eq!(round(one + ulp + ulp / 2), 0x3C02);
        assert_eq!(round(one + ulp + ulp / 2 - 1), 0x3C01);
        assert_eq!(round(2 * one - ulp / 2), 0x4000);
        assert_eq!(round(2 * one - ulp / 2 - 1), 0x3FFF);
    }

    #[test]
    fn subnormals_and_the_smallest_normal() {
        let tiny = 1i128 << 24; // 2^-24
        assert_eq!(round(0), 0x0000);
        assert_eq!(round(1), 0x0000);
        assert_eq!(round(-1), 0x8000);
        assert_eq!(round(tiny / 2), 0x0000);
        assert_eq!(round(tiny / 2 + 1), 0x0001);
        assert_eq!(round(-tiny / 2 - 1), 0x8001);
        assert_eq!(round(tiny + tiny / 2), 0x0002);
        assert_eq!(round(1023 * tiny), 0x03FF);
        assert_eq!(round(1023 * tiny + tiny / 2), 0x0400);
        assert_eq!(round(1024 * tiny), 0x0400);
        assert_eq!(round(2047 * tiny + tiny / 2), 0x0800);
    }

    #[test]
    fn overflow_starts_at_65520() {
        let one = 1i128 << 48;
        assert_eq!(round(65504 * one), 0x7BFF);
        assert_eq!(round(65520 * one - 1), 0x7BFF);
        assert_eq!(round(65520 * one), 0x7C00);
        assert_eq!(round(-65520 * one + 1), 0xFBFF);
        assert_eq!(round(-65520 * one), 0xFC00);
        assert_eq!(round(i128::MAX), 0x7C00);
        assert_eq!(round(i128::MIN), 0xFC00);
        assert_eq!(rne_ratio(131_040, 2).to_bits(), 0x7C00);
        assert_eq!(rne_ratio(131_039, 2).to_bits(), 0x7BFF);
        assert_eq!(rne_ratio(131_040 * 3 - 1, -6).to_bits(), 0xFBFF);
    }

    #[test]
    fn every_finite_number_rounds_to_itself() {
        for bits in 0..0x7C00u16 {
            let fixed = i128::from(crate::fp16::fixed_of_finite(bits));
            assert_eq!(round(fixed << 24), bits);
            assert_eq!(rne_ratio(fixed, 1 << 24).to_bits(), bits);
            assert_eq!(rne_ratio(-fixed << 80, -1 << 104).to_bits(), bits);
        }
    }

    #[test]
    fn scaled_integers_are_ratios() {
        for magnitude in [0, 1, 3, 0x7FF, 0x801, 0x1001, 0x1FFF, (1 << 40) + 1, u64::MAX] {
            for exponent in -63..=40i64 {
                let wide = i128::from(magnitude);
                let expected = rne_ratio(wide << exponent.max(0), 1 << (-exponent).max(0));
                assert_eq!(round_scaled(magnitude, exponent), expected, "{magnitude:#x} * 2^{exponent}");
            }
        }
        assert_eq!(round_scaled(u64::MAX, i64::MIN).to_bits(), 0);
        assert_eq!(round_scaled(1, i64::MAX).to_bits(), 0x7C00);
        assert_eq!(round_scaled(1 << 63, -88).to_bits(), 0x0000); // half of the smallest subnormal, a tie
        assert_eq!(round_scaled((1 << 63) + 1, -88).to_bits(), 0x0001);
    }

    #[test]
    fn ratios_of_extreme_magnitudes() {
        assert_eq!(rne_ratio(0, 7).to_bits(), 0);
        assert_eq!(rne_ratio(0, -7).to_bits(), 0);
        assert_eq!(rne_ratio(1, 0).to_bits(), 0x7E00);
        assert_eq!(rne_ratio(i128::MIN, i128::MIN).to_bits(), 0x3C00);
        assert_eq!(rne_ratio(i128::MAX, i128::MIN).to_bits(), 0xBC00);
        assert_eq!(rne_ratio(i128::MIN, 1).to_bits(), 0xFC00);
        assert_eq!(rne_ratio(1, i128::MIN).to_bits(), 0x8000);
        assert_eq!(rne_ratio(i128::MAX, i128::MAX - 1).to_bits(), 0x3C00);
        // The half-way point of the smallest subnormal, exactly and a hair above, with a small and a large denominator.
        assert_eq!(rne_ratio(1, 1 << 25).to_bits(), 0x0000);
        assert_eq!(rne_ratio(1 << 101, 1 << 126).to_bits(), 0x0000);
        assert_eq!(rne_ratio((1 << 101) + 1, 1 << 126).to_bits(), 0x0001);
        assert_eq!(rne_ratio(1, (1 << 25) - 1).to_bits(), 0x0001);
    }

    #[test]
    fn reciprocal_square_roots() {
        assert_eq!(rne_rsqrt(0).to_bits(), 0x7C00);
        assert_eq!(rne_rsqrt(1).to_bits(), 0x3C00);
        assert_eq!(rne_rsqrt(16).to_bits(), 0x3400);
        assert_eq!(rne_rsqrt(64).to_bits(), 0x3000);
        assert_eq!(rne_rsqrt(256).to_bits(), 0x2C00);
        for n in 1..=70_000u32 {
            // f64 is nearer to the real root than any FP16 half-way point is for these n (checked by the margin).
            let root = 1.0 / f64::from(n).sqrt();
            let got = rne_rsqrt(n);
            let error = (got.to_f64() - root).abs();
            for neighbour in [got.to_bits() - 1, got.to_bits() + 1] {
                let other = (f16::from_bits(neighbour).to_f64() - root).abs();
                assert!(error < other, "n = {n}: {got} vs {neighbour:#06x}");
            }
        }
    }

    #[test]
    fn doubles_are_rounded_once() {
        for (value, expected) in [
            (0.0, 0),
            (5e-324, 0),
            (2f64.powi(-25), 0),
            (2f64.powi(-25) * (1.0 + f64::EPSILON), 1),
            (1.0 + 2f64.powi(-11), 0x3C00),
            (1.0 + 2f64.powi(-11) + f64::EPSILON, 0x3C01),
            (65519.999, 0x7BFF),
            (65520.0, 0x7C00),
            (-65520.0, 0xFC00),
            (-2f64.powi(-26), 0x8000),
            (f64::INFINITY, 0x7C00),
            (-f64::NAN, 0x7E00),
        ] {
            assert_eq!(round_f64(value).to_bits(), expected, "{value:e}");
        }
    }

    #[test]
    fn square_roots_are_rounded_once() {
        for (n, root) in [(0, 0.0), (1, 1.0), (2304, 48.0), (1 << 30, 32768.0)] {
            assert_eq!(rne_sqrt(n).to_f64(), root);
        }
        for n in 1..20_000u32 {
            let found = rne_sqrt(n).to_f64();
            let unit = 2f64.powi(found.log2().floor() as i32 - 10);
            assert!((found - f64::from(n).sqrt()).abs() <= 0.500_001 * unit, "{n}");
        }
    }
}
