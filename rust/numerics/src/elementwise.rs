//! IEEE 754 addition, subtraction, multiplication, division and maximum, and ReLU, by exact integers and one rounding.
//!
//! [`exp`](mod@crate::exp) has a file of its own.

use half::f16;

use crate::fp16::{self, CANONICAL_NAN, NEG_ZERO, POS_INF, POS_ZERO};
use crate::rounding::{SUM_LSB, round_fixed, round_scaled};
use crate::special_flags::SpecialFlags;

const SIGN: u16 = 0x8000;

/// An operation of two operands.
pub type OfTwo = fn(f16, f16) -> f16;

/// The operations of two operands, by their mnemonics.
pub const OF_TWO: [(&str, OfTwo); 5] = [("add", add), ("sub", sub), ("mul", mul), ("div", div), ("max", max)];

/// IEEE 754, RNE. `-0 + -0 = -0`, any other exact zero is +0; `Inf - Inf` and NaN operands give canonical NaN.
pub fn add(a: f16, b: f16) -> f16 {
    match (fp16::to_fixed(a), fp16::to_fixed(b)) {
        (Some(fixed_a), Some(fixed_b)) => {
            let both_negative = fp16::is_sign_negative(a) && fp16::is_sign_negative(b);
            match fixed_a + fixed_b {
                0 if both_negative => NEG_ZERO,
                sum => round_fixed(i128::from(sum) << (SUM_LSB - fp16::FIXED_LSB), SpecialFlags::default()),
            }
        }
        _ if fp16::is_nan(a) || fp16::is_nan(b) => CANONICAL_NAN,
        (Some(_), None) => b,
        (None, Some(_)) => a,
        (None, None) if a.to_bits() == b.to_bits() => a,
        (None, None) => CANONICAL_NAN,
    }
}

/// IEEE 754, RNE. A zero's sign is the XOR of the signs; `Inf x 0` and NaN operands give canonical NaN.
pub fn mul(a: f16, b: f16) -> f16 {
    if let (Some(fixed_a), Some(fixed_b)) = (fp16::to_fixed(a), fp16::to_fixed(b)) {
        return match i128::from(fixed_a) * i128::from(fixed_b) {
            0 => f16::from_bits((a.to_bits() ^ b.to_bits()) & SIGN),
            product => round_fixed(product, SpecialFlags::default()),
        };
    }
    round_fixed(0, SpecialFlags::of_product(a, b))
}

/// `add(a, -b)`, RNE. `a - a = +0` for finite `a`, and `-0 - +0 = -0`.
pub fn sub(a: f16, b: f16) -> f16 {
    add(a, f16::from_bits(b.to_bits() ^ SIGN))
}

/// IEEE 754, RNE. `x / 0` and `x / Inf` have the XOR of the signs; `0 / 0`, `Inf / Inf` and NaN operands give canonical
/// NaN.
pub fn div(a: f16, b: f16) -> f16 {
    let sign = (a.to_bits() ^ b.to_bits()) & SIGN;
    match (fp16::to_fixed(a), fp16::to_fixed(b)) {
        (Some(0), Some(0)) => CANONICAL_NAN,
        (Some(_), Some(0)) => f16::from_bits(sign | POS_INF.to_bits()),
        (Some(0), Some(_)) => f16::from_bits(sign),
        (Some(_), Some(_)) => f16::from_bits(sign | quotient(a, b).to_bits()),
        _ if fp16::is_nan(a) || fp16::is_nan(b) => CANONICAL_NAN,
        (Some(_), None) => f16::from_bits(sign),
        (None, Some(_)) => f16::from_bits(sign | POS_INF.to_bits()),
        (None, None) => CANONICAL_NAN,
    }
}

/// `RNE16(|a / b|)` of finite numbers that are not zero. The quotient of 11-bit significands has at least 30
/// significant bits with the dividend shifted by 40. A remainder sets the last one, far below every half-way point.
fn quotient(a: f16, b: f16) -> f16 {
    let ((dividend, exponent_a), (divisor, exponent_b)) =
        (fp16::parts_of_finite(a), fp16::parts_of_finite(b));
    let scaled = dividend << 40;
    let sticky = u64::from(!scaled.is_multiple_of(divisor));
    round_scaled((scaled / divisor) | sticky, exponent_a - exponent_b - 40)
}

/// The larger number; `-0 < +0`; canonical NaN if either is NaN (IEEE 754-2019 `maximum`).
pub fn max(a: f16, b: f16) -> f16 {
    if fp16::is_nan(a) || fp16::is_nan(b) {
        return CANONICAL_NAN;
    }
    // Integers ordered as the numbers: -0 is -1, +0 is 0.
    let key = |x: f16| {
        let magnitude = i32::from(x.to_bits() & !SIGN);
        if fp16::is_sign_negative(x) { -1 - magnitude } else { magnitude }
    };
    if key(a) < key(b) { b } else { a }
}

/// NaN -> canonical NaN; negative numbers, -Inf and -0 -> +0; otherwise `a`.
pub fn relu(a: f16) -> f16 {
    if fp16::is_nan(a) {
        CANONICAL_NAN
    } else if fp16::is_sign_negative(a) {
        POS_ZERO
    } else {
        a
    }
}

/// `a` if its magnitude is greater than the threshold's, else +0; a NaN becomes +0.
pub fn above(a: f16, threshold: f16) -> f16 {
    let [magnitude, limit] = [a, threshold].map(|value| value.to_bits() & !SIGN);
    if magnitude > limit && !fp16::is_nan(a) { a } else { POS_ZERO }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_larger_magnitudes_are_above_a_threshold() {
        for bits in 0..=u16::MAX {
            for threshold in [0, 1, 0x3BFF, 0x3C00, 0x7BFF, 0x7C00] {
                let magnitude = f32::from(f16::from_bits(bits)).abs();
                let is_above = magnitude > f32::from(f16::from_bits(threshold));
                let found = above(f16::from_bits(bits), f16::from_bits(threshold)).to_bits();
                assert_eq!(found, if is_above { bits } else { 0 }, "{bits:#06x} {threshold:#06x}");
            }
        }
    }

    #[test]
    fn relu_of_every_bit_pattern() {
        for bits in 0..=u16::MAX {
            let expected = match bits {
                0..=0x7C00 => bits,
                0x7C01..=0x7FFF | 0xFC01.. => 0x7E00,
                _ => 0,
            };
            assert_eq!(relu(f16::from_bits(bits)).to_bits(), expected, "{bits:#06x}");
        }
    }

    #[test]
    fn signs_of_zeros() {
        let op = |f: fn(f16, f16) -> f16, a, b| f(f16::from_bits(a), f16::from_bits(b)).to_bits();
        assert_eq!(op(add, 0x8000, 0x8000), 0x8000);
        assert_eq!(op(add, 0x8000, 0x0000), 0x0000);
        assert_eq!(op(add, 0x3C00, 0xBC00), 0x0000);
        assert_eq!(op(mul, 0x8000, 0x3C00), 0x8000);
        assert_eq!(op(mul, 0x8000, 0xBC00), 0x0000);
        assert_eq!(op(mul, 0x8001, 0x0001), 0x8000); // rounds to zero, keeps its sign
        assert_eq!(op(sub, 0x8000, 0x0000), 0x8000);
        assert_eq!(op(sub, 0x8000, 0x8000), 0x0000);
        assert_eq!(op(sub, 0x3C00, 0x3C00), 0x0000);
        assert_eq!(op(div, 0x8000, 0x3C00), 0x8000);
        assert_eq!(op(div, 0x8001, 0x7BFF), 0x8000); // rounds to zero, keeps its sign
        assert_eq!(op(div, 0x3C00, 0xFC00), 0x8000);
        assert_eq!(op(max, 0x8000, 0x0000), 0x0000);
        assert_eq!(op(max, 0x0000, 0x8000), 0x0000);
        assert_eq!(op(max, 0x8000, 0x8000), 0x8000);
    }

    #[test]
    fn division_by_zero_and_by_infinity() {
        let quotient = |a, b| div(f16::from_bits(a), f16::from_bits(b)).to_bits();
        for (a, b, expected) in [
            (0x3C00, 0x0000, 0x7C00),
            (0x3C00, 0x8000, 0xFC00),
            (0xFC00, 0x0000, 0xFC00),
            (0x0000, 0x8000, 0x7E00),
            (0x7C00, 0xFC00, 0x7E00),
            (0x7C00, 0xBC00, 0xFC00),
            (0x7C01, 0x0000, 0x7E00),
            (0x7BFF, 0x0001, 0x7C00),
        ] {
            assert_eq!(quotient(a, b), expected, "{a:#06x} / {b:#06x}");
        }
    }
}
