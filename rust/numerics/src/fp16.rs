//! Value of an FP16 bit pattern: special or not, and the exact integer of a finite number.

use half::f16;

/// The only NaN that operations return (quiet, positive, no payload).
pub const CANONICAL_NAN: f16 = f16::from_bits(0x7E00);
/// +Inf.
pub const POS_INF: f16 = f16::from_bits(0x7C00);
/// -Inf.
pub const NEG_INF: f16 = f16::from_bits(0xFC00);
/// +0.
pub const POS_ZERO: f16 = f16::from_bits(0x0000);
/// -0.
pub const NEG_ZERO: f16 = f16::from_bits(0x8000);

/// The hidden bit and ten fraction bits.
pub const SIGNIFICAND_BITS: u32 = 11;
/// [`to_fixed`] is in units of 2^-`FIXED_LSB`.
pub const FIXED_LSB: u32 = 24;

const EXPONENT_MASK: u16 = 0x7C00;
const FRACTION_MASK: u16 = 0x03FF;

/// Whether `a` is neither NaN nor infinite.
#[inline]
pub fn is_finite(a: f16) -> bool {
    a.to_bits() & EXPONENT_MASK != EXPONENT_MASK
}

/// Whether `a` is a NaN (any payload).
#[inline]
pub fn is_nan(a: f16) -> bool {
    a.to_bits() & 0x7FFF > EXPONENT_MASK
}

/// Whether `a` is +Inf or -Inf.
#[inline]
pub fn is_infinite(a: f16) -> bool {
    a.to_bits() & 0x7FFF == EXPONENT_MASK
}

/// Whether `a` is +0 or -0.
#[inline]
pub fn is_zero(a: f16) -> bool {
    a.to_bits() & 0x7FFF == 0
}

/// The sign bit of `a`, even of zeros and NaNs.
#[inline]
pub fn is_sign_negative(a: f16) -> bool {
    a.to_bits() & 0x8000 != 0
}

/// `I(a) = a * 2^24`, exact, |I(a)| < 2^40; `None` for NaN and infinities. Both zeros give 0.
pub fn to_fixed(a: f16) -> Option<i64> {
    is_finite(a).then(|| fixed_of_finite(a.to_bits()))
}

/// [`to_fixed`] without the test: meaningless for exponent field 31. In units of 2^-24 a normal number is
/// `(1024 + fraction) * 2^(exponent - 1)`, a subnormal `fraction`. Branch-free, because the dot product decodes each
/// weight with it.
#[inline]
pub(crate) fn fixed_of_finite(bits: u16) -> i64 {
    let exponent = i64::from((bits & EXPONENT_MASK) >> 10);
    let normal = i64::from(exponent != 0);
    let magnitude = (i64::from(bits & FRACTION_MASK) | (normal << 10)) << (exponent - normal);
    let sign = -i64::from(bits >> 15);
    (magnitude ^ sign) - sign
}

/// `(m, e)` with `|a| = m * 2^e` and `m < 2^11`, hidden bit included; not for exponent field 31.
#[inline]
pub(crate) fn parts_of_finite(a: f16) -> (u64, i64) {
    let exponent = i64::from((a.to_bits() & EXPONENT_MASK) >> 10);
    let normal = i64::from(exponent != 0);
    let significand = u64::from(a.to_bits() & FRACTION_MASK) | (normal as u64) << 10;
    (significand, exponent - normal - i64::from(FIXED_LSB))
}

/// Whether exponent field 31 (NaN or infinity) occurs in `values`.
pub(crate) fn any_special(values: &[f16]) -> bool {
    // An OR without early exit vectorises: adding 1 to the exponent field carries into bit 15 exactly when it is 31.
    let carry = values.iter().fold(0u16, |seen, a| seen | ((a.to_bits() & EXPONENT_MASK) + (1 << 10)));
    carry & 0x8000 != 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_pattern_is_what_half_says() {
        for bits in 0..=u16::MAX {
            let a = f16::from_bits(bits);
            assert_eq!(is_nan(a), a.is_nan());
            assert_eq!(is_infinite(a), a.is_infinite());
            assert_eq!(is_finite(a), a.is_finite());
            assert_eq!(is_zero(a), a.to_f64() == 0.0);
            assert_eq!(any_special(&[POS_ZERO, a]), !is_finite(a));
        }
    }

    #[test]
    fn fixed_point_of_every_finite_pattern_is_exact() {
        for bits in 0..=u16::MAX {
            let a = f16::from_bits(bits);
            match to_fixed(a) {
                Some(fixed) => {
                    assert!(fixed.abs() < 1 << 40);
                    assert_eq!(fixed as f64, a.to_f64() * 16_777_216.0, "{bits:#06x}");
                    let (significand, exponent) = parts_of_finite(a);
                    assert!(significand < 1 << SIGNIFICAND_BITS);
                    assert_eq!(fixed.unsigned_abs(), significand << (exponent + i64::from(FIXED_LSB)));
                }
                None => assert!(!a.is_finite()),
            }
        }
    }
}
