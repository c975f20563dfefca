//! IEEE 754 half precision by LLVM's APFloat, in its port to Rust (`rustc_apfloat`, maintained by the Rust project).
//!
//! APFloat computes any format with one implementation that is proven daily by constant folding. Berkeley SoftFloat
//! would do as well; its crates ask for CMake, or for x86.

use rustc_apfloat::{Float, ieee::Half};

use crate::{CANONICAL_NAN, is_nan};

/// A two-operand operation of the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Operation {
    /// `a + b`.
    Add,
    /// `a - b`.
    Sub,
    /// `a * b`.
    Mul,
    /// `a / b`.
    Div,
    /// The larger one: NaN if either is NaN, and `-0 < +0` (`maximum` of IEEE 754-2019).
    Max,
}

/// All of them.
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
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pairs::corners;
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
                // The sign of a zero is not a rational's to tell.
                for (operation, exact) in exact.into_iter().filter(|(_, exact)| !exact.is_zero()) {
                    assert_eq!(operation.result(a, b), nearest(&exact), "{operation:?}({a:#06x}, {b:#06x})");
                }
            }
        }
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
