//! exp of FP16 numbers, correctly rounded, by enclosure in integers. Both ends of an interval around `exp(a)` are
//! rounded; where they agree, that is the result, since rounding is monotone. The interval is 2^-100 wide relative to
//! its ends; the search reports ends that do not agree.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{One, Signed, Zero};

use crate::rational::{nearest, value};
use crate::{CANONICAL_NAN, is_nan};

/// Fraction bits of the ends.
const BITS: u32 = 160;

const LARGEST: u32 = 24;

/// Terms of the series: `24^TERMS / TERMS!` is far below 2^-BITS.
const TERMS: u32 = 160;

/// `low <= exp(a) <= high` for a rational `0 <= a <= 24`: the series, each term rounded down in one sum and up in the
/// other. Its tail is at most the last term, since terms more than halve after `2 a` of them.
fn enclosure_of_positive(a: &BigRational) -> (BigRational, BigRational) {
    let unit = BigInt::one() << BITS;
    let (mut term_low, mut term_high) = (unit.clone(), unit.clone());
    let (mut low, mut high) = (unit.clone(), unit.clone());
    for k in 1..=TERMS {
        let divisor = a.denom() * k;
        term_low = term_low * a.numer() / &divisor;
        term_high = term_high * a.numer() / &divisor + 1;
        low += &term_low;
        high += &term_high;
        if term_low.is_zero() && k >= 2 * LARGEST {
            break;
        }
    }
    high += term_high;
    // Not reduced, which would take longer than all the rest.
    (BigRational::new_raw(low, unit.clone()), BigRational::new_raw(high, unit))
}

/// `low <= exp(a) <= high` for a rational `|a| <= 24`, with a relative width of at most 2^-100.
///
/// # Panics
/// If `|a| > 24`.
pub fn enclosure(a: &BigRational) -> (BigRational, BigRational) {
    assert!(a.abs() <= BigRational::from_integer(BigInt::from(LARGEST)), "{a}");
    let (low, high) = enclosure_of_positive(&a.abs());
    let reciprocal = |end: BigRational| {
        let (numerator, denominator) = end.into_raw();
        BigRational::new_raw(denominator, numerator)
    };
    if a.is_negative() { (reciprocal(high), reciprocal(low)) } else { (low, high) }
}

/// `exp(a)` rounded to nearest even, for every bit pattern; NaN is canonical.
pub fn exp(bits: u16) -> u16 {
    match bits {
        _ if is_nan(bits) => return CANONICAL_NAN,
        0x7C00 => return 0x7C00,
        0xFC00 => return 0x0000,
        _ => {}
    }
    let a = value(bits);
    if a.is_zero() {
        return 0x3C00;
    }
    // exp is monotone and `value(0x4A00)` is 12: exp(12) > 65520, and exp(-18) < 2^-25.
    let (most, least) =
        (BigRational::from_integer(BigInt::from(12)), BigRational::from_integer(BigInt::from(-18)));
    let (low, high) = enclosure(&a.clamp(least, most));
    let (low, high) = (nearest(&low), nearest(&high));
    assert_eq!(low, high, "the enclosure of exp({bits:#06x}) is too wide");
    low
}

/// [`exp`] of all 65 536 bit patterns, by index.
pub fn exp_of_all() -> Vec<u16> {
    (0..=u16::MAX).map(exp).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use num_traits::ToPrimitive;

    #[test]
    fn enclosures_are_narrow_and_around_the_exponential() {
        for real in [-24.0f64, -1.0, -0.001, 0.5, 1.0, 11.0, 24.0] {
            let (low, high) = enclosure(&BigRational::from_float(real).unwrap());
            assert!(low < high);
            assert!((&high - &low) / &low < BigRational::new(BigInt::one(), BigInt::one() << 100));
            assert!((low.to_f64().unwrap() / real.exp() - 1.0).abs() < 1e-14, "{real}");
        }
    }

    #[test]
    fn the_ends_beyond_which_nothing_changes() {
        let (low, _) = enclosure(&BigRational::from_integer(BigInt::from(12)));
        assert!(low > BigRational::from_integer(BigInt::from(65520)));
        let (_, high) = enclosure(&BigRational::from_integer(BigInt::from(-18)));
        assert!(high < BigRational::new(BigInt::one(), BigInt::from(1 << 25)));
    }

    #[test]
    fn known_values() {
        let cases =
            [(0x0000, 0x3C00), (0x8000, 0x3C00), (0x3C00, 0x4170), (0xBC00, 0x35E3), (0x7BFF, 0x7C00)];
        for (a, expected) in
            [&cases[..], &[(0xFBFF, 0), (0x7C00, 0x7C00), (0xFC00, 0), (0xFC01, 0x7E00)]].concat()
        {
            assert_eq!(exp(a), expected, "{a:#06x}");
        }
    }
}
