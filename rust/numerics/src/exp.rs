//! The exponential of FP16 numbers: `exp(a) = 2^k (1 + fraction)` with the fraction from 64 parabolas.
//!
//! `log2_of_exp` is the exponent to base 2 in units of 2^-24, `power_of_two` the power, [`exp()`] its rounding.
//! [`crate::softmax()`] uses it too; [`crate::exp_q30()`] is the sampler's own.

use half::f16;

use crate::fp16::{self, CANONICAL_NAN, POS_INF, POS_ZERO};
use crate::rounding::round_scaled;

/// `round(log2(e) * 2^25)`.
const LOG2_E_Q25: u64 = 48_408_813;

/// Units of exponents to base 2, and of the power of their fraction, are 2^-`FRACTION_BITS`.
pub const FRACTION_BITS: u32 = 24;

/// The fraction's leading bits select one of 2^`INDEX_BITS` parabolas.
const INDEX_BITS: u32 = 6;
const INTERVALS: usize = 1 << INDEX_BITS;
/// Offset in the interval: the fraction's other bits.
const OFFSET_BITS: u32 = FRACTION_BITS - INDEX_BITS;
/// Leading bits of the offset for the quadratic coefficient.
const SQUARE_BITS: u32 = 11;

/// `C0, C1, C2` of each interval in units of 2^-24: the parabola through the power at both ends and the middle.
pub(crate) static PARABOLAS: [[u64; 3]; INTERVALS] = parabolas();

/// Fraction bits of the table's powers.
const WORK_BITS: u32 = 62;

/// `2^(j / 128)` in units of 2^-62, at index `j`, 0..=128: products of the roots `2^(1/2), 2^(1/4), ...`.
///
/// A floor errs by less than one unit, a root halves its operand's error, and the (at most seven) factors multiply to
/// less than two, so each power is too low by less than 32 units.
const fn powers() -> [u128; 2 * INTERVALS + 1] {
    let mut table = [1u128 << WORK_BITS; 2 * INTERVALS + 1];
    table[2 * INTERVALS] = 2 << WORK_BITS;
    let mut root = 2u128 << WORK_BITS;
    let mut bit = INTERVALS;
    while bit > 0 {
        root = (root << WORK_BITS).isqrt();
        let mut j = 0;
        while j < 2 * INTERVALS {
            if j & bit != 0 {
                table[j] = (table[j] * root) >> WORK_BITS;
            }
            j += 1;
        }
        bit /= 2;
    }
    table
}

/// A coefficient is at most eight powers, so off by 2^-54 at most. No tie is nearer than 2^-34 (0.0018 units of 2^-24,
/// about 2^-33.1; a test encloses each coefficient).
const fn parabolas() -> [[u64; 3]; INTERVALS] {
    let power = powers();
    let mut table = [[0; 3]; INTERVALS];
    let mut i = 0;
    while i < INTERVALS {
        let (start, middle, end) = (power[2 * i], power[2 * i + 1], power[2 * i + 2]);
        // Differences are positive: the power rises, and ever faster.
        table[i] = [
            to_unit(start),
            to_unit(4 * middle - 3 * start - end),
            to_unit(2 * start + 2 * end - 4 * middle),
        ];
        i += 1;
    }
    table
}

/// From units of 2^-62 to 2^-24, to nearest.
const fn to_unit(value: u128) -> u64 {
    let cut = WORK_BITS - FRACTION_BITS;
    ((value + (1 << (cut - 1))) >> cut) as u64
}

/// `Y(a)`: `log2(exp(a))` in units of 2^-24, towards zero, for finite `a` only. Monotone, below 2^41 in magnitude.
///
/// `I(a) < 2^40` in units of 2^-24, times `L < 2^26` in units of 2^-25.
#[inline]
pub(crate) fn log2_of_exp(a: f16) -> i64 {
    let fixed = fp16::fixed_of_finite(a.to_bits());
    let product = u128::from(fixed.unsigned_abs()) * u128::from(LOG2_E_Q25);
    let magnitude = (product >> (fp16::FIXED_LSB + 25 - FRACTION_BITS)) as i64;
    let sign = fixed >> 63; // all ones if negative: no branch on a coin toss
    (magnitude ^ sign) - sign
}

/// `2^(y / 2^24)` as `(r, k)`: `r * 2^(k - 24)` with `2^24 <= r < 2^25`. Shifts are floors. `r` is less than 4.8 units
/// from the real power, a relative error below 2^-21.
#[inline]
pub(crate) fn power_of_two(y: i64) -> (u64, i64) {
    let fraction = (y & ((1 << FRACTION_BITS) - 1)) as u64;
    let [c0, c1, c2] = PARABOLAS[(fraction >> OFFSET_BITS) as usize];
    let offset = fraction & ((1 << OFFSET_BITS) - 1);
    let slope = c1 + ((c2 * (offset >> (OFFSET_BITS - SQUARE_BITS))) >> SQUARE_BITS);
    (c0 + ((slope * offset) >> OFFSET_BITS), y >> FRACTION_BITS)
}

/// `exp(a)`, correctly rounded (RNE) for every `a`: NaN -> canonical NaN, +Inf -> +Inf, -Inf -> +0.
///
/// A test encloses all 63 488 finite inputs: rounding the fixed-point power is right for each.
pub fn exp(a: f16) -> f16 {
    if fp16::is_nan(a) {
        CANONICAL_NAN
    } else if fp16::is_infinite(a) {
        if fp16::is_sign_negative(a) { POS_ZERO } else { POS_INF }
    } else {
        let (r, k) = power_of_two(log2_of_exp(a));
        round_scaled(r, k - i64::from(FRACTION_BITS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use num_bigint::BigInt;

    #[test]
    fn coefficients_are_the_nearest_integers() {
        // floor(2^100 * 2^(j/128)) by seven square roots of 2^(j + 12800): the root of a floor has the same floor as
        // the root. The power is less than one unit above.
        let power = |j: usize| (0..7).fold(BigInt::from(1) << (12800 + j), |power, _| power.sqrt());
        let floor: Vec<BigInt> = (0..=128).map(power).collect();
        let round = |value: BigInt| -> BigInt { (value + (BigInt::from(1) << 75)) >> 76 };
        for (i, c) in PARABOLAS.iter().enumerate() {
            let [g0, g1, g2] = [2 * i, 2 * i + 1, 2 * i + 2].map(|j| &floor[j]);
            // From the lowest to the highest possible value.
            let ends = [
                (g0.clone(), g0 + 1),
                (4 * g1 - 3 * (g0 + 1) - (g2 + 1), 4 * (g1 + 1) - 3 * g0 - g2),
                (2 * g0 + 2 * g2 - 4 * (g1 + 1), 2 * (g0 + 1) + 2 * (g2 + 1) - 4 * g1),
            ];
            for (c, (low, high)) in c.iter().zip(ends) {
                assert_eq!((round(low), round(high)), (BigInt::from(*c), BigInt::from(*c)), "interval {i}");
            }
        }
        let real = std::f64::consts::LOG2_E * 2f64.powi(25);
        assert!((LOG2_E_Q25 as f64 - real).abs() < 0.5 - 1e-6);
    }

    /// Too low by the parabola (0.341), three rounded coefficients (0.5 each), the offset bits that the square misses
    /// (`C2 * 2^-11`, 0.956), and two floors; too high by the first two.
    const LOW: f64 = -(0.341 + 1.5 + 0.956 + 2.0);
    const HIGH: f64 = 0.341 + 1.5;

    /// Largest distances of `power_of_two` below and above the real power, in units of `r`.
    fn distances(fractions: impl Iterator<Item = i64>) -> (f64, f64) {
        let mut worst = (0f64, 0f64);
        for y in fractions {
            let (r, k) = power_of_two(y);
            assert_eq!(k, 0);
            assert!((1 << FRACTION_BITS..2 << FRACTION_BITS).contains(&r), "{y}");
            let error = r as f64 - 2f64.powi(24) * (y as f64 / 2f64.powi(24)).exp2();
            worst = (worst.0.min(error), worst.1.max(error));
        }
        worst
    }

    #[test]
    fn the_power_is_within_its_bound() {
        let (low, high) = distances((0..1 << FRACTION_BITS).step_by(61));
        println!("2^f: {low:.3} to {high:.3} units of 2^-24");
        assert!(low > LOW && high < HIGH, "{low} {high}");
        assert!(low < -1.0, "the comparison compares nothing: {low}");
        // Ends of every interval, where pieces meet.
        let ends =
            (0..64i64).flat_map(|i| [i << 18, (i << 18) + 1, (i << 18 | 0x3FFFF) - 1, i << 18 | 0x3FFFF]);
        let (low, high) = distances(ends);
        assert!(low > LOW && high < HIGH, "{low} {high}");
    }

    #[test]
    #[ignore = "seconds; run by `make exhaustive`"]
    fn the_power_of_every_fraction_is_within_its_bound() {
        let (low, high) = distances(0..1 << FRACTION_BITS);
        println!("2^f, all 2^24 fractions: {low:.3} to {high:.3} units of 2^-24");
        assert!(low > LOW && high < HIGH, "{low} {high}");
    }

    #[test]
    fn exponents_to_base_two() {
        let y = |bits| log2_of_exp(f16::from_bits(bits));
        assert_eq!((y(0x0000), y(0x8000)), (0, 0));
        assert_eq!(y(0x3C00), 48_408_813 / 2);
        assert_eq!(y(0xBC00), -(48_408_813 / 2)); // towards zero
        assert_eq!(y(0x0001), 1); // 2^-24 log2(e) 2^24 = 1.44
        assert_eq!(y(0x7BFF), (65504 * 48_408_813) / 2);
        for bits in 0..0x7BFF {
            assert!(y(bits) <= y(bits + 1) && y(bits) == -y(bits | 0x8000));
        }
    }
}
