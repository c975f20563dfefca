//! IEEE 754 half precision, twice: by LLVM's APFloat and by the double precision of the machine that runs the test.
//! APFloat (`rustc_apfloat`, maintained by the Rust project) has one implementation for all formats; the crates of
//! Berkeley SoftFloat need CMake, or x86. Double precision is an order of magnitude faster, as a test of all 2^32 pairs
//! needs; a test compares both.

use half::f16;
use rustc_apfloat::{Float, ieee::Half};

use crate::{CANONICAL_NAN, is_nan};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    Add,
    Sub,
    Mul,
    Div,
    /// NaN if either is NaN, and `-0 < +0` (`maximum` of IEEE 754-2019).
    Max,
}

pub const OPERATIONS: [Operation; 5] =
    [Operation::Add, Operation::Sub, Operation::Mul, Operation::Div, Operation::Max];

impl Operation {
    /// The result for two bit patterns, rounded to nearest even, every NaN made canonical.
    pub fn result(self, a: u16, b: u16) -> u16 {
        let [x, y] = [a, b].map(|bits| Half::from_bits(u128::from(bits)));
        let result = match self {
            Self::Add => (x + y).value,
            Self::Sub => (x - y).value,
            Self::Mul => (x * y).value,
            Self::Div => (x / y).value,
            Self::Max => x.maximum(y),
        };
        let bits = result.to_bits() as u16;
        if is_nan(bits) { CANONICAL_NAN } else { bits }
    }

    /// As [`Self::result`], by operations in double precision that are exact or cannot mislead the rounding after them:
    /// sums of multiples of 2^-24 below 2^16 have at most 41 significant bits, products 22. A quotient of numbers of 11
    /// bits is a half-way point of FP16 (12 bits) or at least 2^-23 of it away, and its double at most 2^-53.
    #[inline]
    pub fn result_by_f64(self, a: u16, b: u16) -> u16 {
        let [x, y] = [a, b].map(|bits| f16::from_bits(bits).to_f64());
        match self {
            Self::Add => rounded(x + y),
            Self::Sub => rounded(x - y),
            Self::Mul => rounded(x * y),
            Self::Div => rounded(x / y),
            Self::Max if is_nan(a) || is_nan(b) => CANONICAL_NAN,
            // Equal in value: the same bits, or zeros; +0 counts as the larger zero (AND of the signs).
            Self::Max if x == y => a & b,
            Self::Max => {
                if x < y {
                    b
                } else {
                    a
                }
            }
        }
    }
}

/// A double rounded to FP16, to nearest even: adding and subtracting 1.5 * 2^52 units of FP16's last place rounds to
/// that place.
#[inline]
pub fn rounded(x: f64) -> u16 {
    let (sign, magnitude) = (u16::from(x.is_sign_negative()) << 15, x.abs());
    if x.is_nan() {
        return CANONICAL_NAN;
    }
    if magnitude >= 65520.0 {
        return sign | 0x7C00;
    }
    // Exponent of the leading bit, as subnormals have it; 2^(exponent - 10) is the last place.
    let exponent = ((magnitude.to_bits() >> 52) as i64 - 1023).max(-14);
    let power = |e: i64| f64::from_bits(((e + 1023) as u64) << 52);
    let large = 1.5 * power(exponent - 10 + 52);
    let units = ((magnitude + large) - large) * power(10 - exponent);
    // 1024..=2048 units carry into the exponent field, which is one higher than `exponent + 14` for normal numbers.
    sign | ((((exponent + 14) as u16) << 10) + units as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pairs::{corners, pairs};
    use crate::rational::{nearest, value};
    use num_traits::Zero;

    #[test]
    fn agrees_with_exact_rationals() {
        let finite: Vec<u16> =
            corners().into_iter().filter(|bits| bits & 0x7C00 != 0x7C00).step_by(3).collect();
        for &a in &finite {
            for &b in &finite {
                let (x, y) = (value(a), value(b));
                let mut exact = vec![
                    (Operation::Add, &x + &y),
                    (Operation::Sub, &x - &y),
                    (Operation::Mul, &x * &y),
                    (Operation::Max, x.clone().max(y.clone())),
                ];
                if !y.is_zero() {
                    exact.push((Operation::Div, x / y));
                }
                // A rational has no sign of zero.
                for (operation, exact) in exact.into_iter().filter(|(_, exact)| !exact.is_zero()) {
                    assert_eq!(operation.result(a, b), nearest(&exact), "{operation:?}({a:#06x}, {b:#06x})");
                }
            }
        }
    }

    #[test]
    fn both_agree() {
        let mut random = crate::Random::new(4);
        let others = (0..500_000).map(|_| (random.next_u16(), random.next_u16()));
        for (a, b) in pairs().into_iter().chain(others) {
            for operation in OPERATIONS {
                let [apfloat, f64] = [operation.result(a, b), operation.result_by_f64(a, b)];
                assert_eq!(apfloat, f64, "{operation:?}({a:#06x}, {b:#06x})");
            }
        }
    }

    #[test]
    fn doubles_round_at_every_half_way_point() {
        for bits in 0..0x7BFFu16 {
            let [low, high] = [bits, bits + 1].map(|b| f16::from_bits(b).to_f64());
            let middle = (low + high) / 2.0;
            assert_eq!(rounded(low), bits);
            assert_eq!(rounded(middle), bits + (bits & 1));
            assert_eq!(rounded(middle.next_down()), bits);
            assert_eq!(rounded(-middle.next_up()), 0x8000 | (bits + 1));
        }
        assert_eq!((rounded(65520f64.next_down()), rounded(-65520.0)), (0x7BFF, 0xFC00));
        assert_eq!((rounded(-0.0), rounded(-1e-300)), (0x8000, 0x8000));
    }

    #[test]
    fn special_values() {
        for (operation, a, b, expected) in [
            (Operation::Add, 0x7C00, 0xFC00, 0x7E00),
            (Operation::Sub, 0x8000, 0x8000, 0x0000),
            (Operation::Sub, 0x8000, 0x0000, 0x8000),
            (Operation::Mul, 0x7C00, 0x8000, 0x7E00),
            (Operation::Div, 0x3C00, 0x8000, 0xFC00),
            (Operation::Div, 0x0000, 0x0000, 0x7E00),
            (Operation::Max, 0x8000, 0x0000, 0x0000),
            (Operation::Max, 0xFC00, 0xFE01, 0x7E00),
        ] {
            assert_eq!(operation.result(a, b), expected, "{operation:?}({a:#06x}, {b:#06x})");
        }
    }
}
