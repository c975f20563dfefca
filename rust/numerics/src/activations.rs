//! SiLU, GELU and its form with tanh, correctly rounded.
//!
//! Computed in double precision and rounded once. A test proves this right for every FP16 number by enclosures of all
//! 65,536 results: none is so near to a half-way point that a double's last bits matter.

use half::f16;

use crate::fp16::{CANONICAL_NAN, is_nan};
use crate::rounding::round_f64;

const SIGN: u16 = 0x8000;

/// `a / (1 + e^-a)`, rounded once; `+Inf -> +Inf`, `-Inf -> -0`, zeros stay, NaN is canonical.
pub fn silu(a: f16) -> f16 {
    rounded(a, |x| x / (1.0 + libm::exp(-x)))
}

/// `a * (1 + erf(a / sqrt(2))) / 2`, rounded once; `+Inf -> +Inf`, `-Inf -> -0`, zeros stay, NaN is canonical.
pub fn gelu(a: f16) -> f16 {
    rounded(a, |x| 0.5 * x * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2))
}

/// `a * (1 + tanh(sqrt(2 / pi) * (a + 0.044715 a^3))) / 2`, rounded once; special values as [`gelu`].
pub fn gelu_tanh(a: f16) -> f16 {
    // (1 + tanh(u)) / 2 = 1 / (1 + e^-2u)
    let root = std::f64::consts::FRAC_2_SQRT_PI * std::f64::consts::FRAC_1_SQRT_2;
    rounded(a, |x| x / (1.0 + libm::exp(-2.0 * root * (x + 0.044_715 * x * x * x))))
}

/// The result has the sign of the argument.
fn rounded(a: f16, function: impl Fn(f64) -> f64) -> f16 {
    match a.to_bits() {
        _ if is_nan(a) => CANONICAL_NAN,
        0x7C00 => a,
        0xFC00 => f16::from_bits(SIGN),
        bits => f16::from_bits(bits & SIGN | round_f64(function(a.to_f64()).abs()).to_bits()),
    }
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
        for (a, expected) in [
            (0x8000, 0x8000),
            (0x3C00, 0x3ABB), // 0.841192
            (0xBC00, 0xB115), // -0.158808
            (0x7BFF, 0x7BFF),
            (0xFBFF, 0x8000),
            (0xFC00, 0x8000),
            (0x7E01, 0x7E00),
        ] {
            assert_eq!(of(gelu_tanh, a), expected, "gelu_tanh({a:#06x})");
        }
    }
}
