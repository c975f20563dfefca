//! SiLU and GELU of FP16 numbers, correctly rounded, by enclosure in rationals.

use num_bigint::BigInt;
use num_rational::BigRational;
use num_traits::{One, Signed, Zero};
use std::sync::LazyLock;

use crate::exponential::enclosure;
use crate::rational::{nearest, value};
use crate::{CANONICAL_NAN, is_nan};

/// Fraction bits of the ends.
const BITS: u32 = 160;

/// Lower and upper bound of a number.
type Ends = (BigRational, BigRational);

/// `a / (1 + e^-a)` rounded to nearest even, for every bit pattern; NaN is canonical.
pub fn silu(bits: u16) -> u16 {
    // Above 18 the divisor is 1 to 2^-25; below -24 the result is less than 2^-29.
    rounded(bits, (-24, 18), |a| {
        let (low, high) = enclosure(&-a);
        let over_one_and = |end: BigRational| {
            let (numerator, denominator) = end.into_raw();
            BigRational::new_raw(a.numer() * &denominator, a.denom() * (denominator + numerator))
        };
        (over_one_and(high), over_one_and(low))
    })
}

/// `a * (1 + erf(a / sqrt(2))) / 2` rounded to nearest even, for every bit pattern; NaN is canonical.
pub fn gelu(bits: u16) -> u16 {
    // Above 6 the factor is 1 to 2^-29; below -6 the result is less than 2^-26.
    rounded(bits, (-6, 6), |a| {
        let (low, high) = beyond_half(&a.abs());
        let times_half_and = |end: &BigRational| {
            let beyond = if a.is_negative() { -end.numer() } else { end.numer().clone() };
            BigRational::new_raw(a.numer() * (end.denom() + beyond * 2), a.denom() * end.denom() * 2)
        };
        (times_half_and(&low), times_half_and(&high))
    })
}

/// Rounds a function with the sign of its argument: 0 below `least`, the argument above `most`, `enclosed` in between.
fn rounded(bits: u16, (least, most): (i64, i64), enclosed: impl Fn(&BigRational) -> Ends) -> u16 {
    let sign = bits & 0x8000;
    match bits {
        _ if is_nan(bits) => return CANONICAL_NAN,
        0x7C00 => return bits,
        0xFC00 => return sign,
        _ => {}
    }
    let a = value(bits);
    let limit = |n| BigRational::from_integer(BigInt::from(n));
    if a.is_zero() || a < limit(least) {
        return sign;
    }
    if a > limit(most) {
        return bits;
    }
    let (low, high) = enclosed(&a);
    let [low, high] = [low, high].map(|end| nearest(&end.abs()));
    assert_eq!(low, high, "the enclosure at {bits:#06x} is too wide");
    sign | low
}

/// The normal distribution between 0 and `a`, for `0 <= a <= 6`: its density at `a` times the sum of
/// `a^(2k+1) / (1 * 3 * ... * (2k+1))`, whose terms more than halve once `2k > 2 a^2`.
fn beyond_half(a: &BigRational) -> Ends {
    let unit: BigInt = BigInt::one() << BITS;
    let square = a * a;
    let (mut low, mut high) = (BigInt::zero(), BigInt::zero());
    let mut term_low = (a * &unit).floor().to_integer();
    let mut term_high = (a * &unit).ceil().to_integer();
    for k in 1..=200u32 {
        low += &term_low;
        high += &term_high;
        let divisor = square.denom() * (2 * k + 1);
        term_low = term_low * square.numer() / &divisor;
        term_high = term_high * square.numer() / &divisor + 1;
        if term_low.is_zero() && k >= 40 {
            break;
        }
    }
    high += 2 * term_high;
    let (density_low, density_high) = density(&square);
    let times = |density: BigRational, sum: BigInt| {
        BigRational::new_raw(density.numer() * sum, density.denom() * &unit)
    };
    (times(density_low, low), times(density_high, high))
}

/// Bounds of the root of 2 pi, in units of `2^-BITS`.
static ROOTS: LazyLock<[BigInt; 2]> = LazyLock::new(|| {
    // pi to fifty decimals; the upper bound is one more in the last place.
    let digits = b"314159265358979323846264338327950288419716939937510";
    let pi = BigInt::parse_bytes(digits, 10).unwrap_or_default();
    let ten = BigInt::from(10).pow(digits.len() as u32 - 1);
    let root = |pi: BigInt| -> BigInt {
        let square: BigInt = (pi * 2) << (2 * BITS);
        (square / &ten).sqrt()
    };
    [root(pi.clone()), root(pi + 1) + 1]
});

/// `e^(-square / 2) / sqrt(2 pi)`.
fn density(square: &BigRational) -> Ends {
    let [root_low, root_high] = &*ROOTS;
    let (low, high) = enclosure(&(-square / BigInt::from(2)));
    let over =
        |end: BigRational, root: &BigInt| BigRational::new_raw(end.numer() << BITS, end.denom() * root);
    (over(low, root_high), over(high, root_low))
}

#[cfg(test)]
mod tests {
    use super::*;
    use num_traits::ToPrimitive;

    #[test]
    fn the_distribution_has_its_known_values() {
        for (a, expected) in
            [(1, 0.341_344_746_068_542_9), (2, 0.477_249_868_051_820_8), (6, 0.5 - 9.865_876e-10)]
        {
            let (low, high) = beyond_half(&BigRational::from_integer(BigInt::from(a)));
            assert!(low < high && (&high - &low).to_f64().unwrap() < 1e-40, "{a}");
            assert!((low.to_f64().unwrap() - expected).abs() < 1e-14, "{a}");
        }
    }

    #[test]
    fn known_values() {
        for (a, expected) in [(0x3C00, 0x39D9), (0xBC00, 0xB44E), (0x7BFF, 0x7BFF), (0xFBFF, 0x8000)] {
            assert_eq!(silu(a), expected, "{a:#06x}");
        }
        for (a, expected) in [(0x3C00, 0x3ABB), (0xBC00, 0xB114), (0x8000, 0x8000), (0xFC00, 0x8000)] {
            assert_eq!(gelu(a), expected, "{a:#06x}");
        }
    }
}
