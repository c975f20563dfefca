//! Sticky flags of an accumulator: NaN and the infinities among its products.

use crate::fp16::{self, CANONICAL_NAN, NEG_INF, POS_INF};
use half::f16;

/// Special values seen. Sticky: nothing clears them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SpecialFlags {
    /// A NaN operand, or an infinity times a zero.
    pub nan: bool,
    /// A product that is +Inf.
    pub pos_inf: bool,
    /// A product that is -Inf.
    pub neg_inf: bool,
}

impl SpecialFlags {
    /// Logical OR.
    pub fn merge(self, other: Self) -> Self {
        Self {
            nan: self.nan | other.nan,
            pos_inf: self.pos_inf | other.pos_inf,
            neg_inf: self.neg_inf | other.neg_inf,
        }
    }

    /// NaN, an infinity, or `None` if the sum decides.
    pub fn result(self) -> Option<f16> {
        match self {
            Self { nan: true, .. } => Some(CANONICAL_NAN),
            Self { pos_inf: true, neg_inf: true, .. } => Some(CANONICAL_NAN),
            Self { pos_inf: true, .. } => Some(POS_INF),
            Self { neg_inf: true, .. } => Some(NEG_INF),
            _ => None,
        }
    }

    /// Flags of `w * x`; all clear if both are finite.
    pub fn of_product(w: f16, x: f16) -> Self {
        let mut flags = Self::default();
        if fp16::is_nan(w) || fp16::is_nan(x) {
            flags.nan = true;
        } else if fp16::is_infinite(w) || fp16::is_infinite(x) {
            if fp16::is_zero(w) || fp16::is_zero(x) {
                flags.nan = true;
            } else if fp16::is_sign_negative(w) != fp16::is_sign_negative(x) {
                flags.neg_inf = true;
            } else {
                flags.pos_inf = true;
            }
        }
        flags
    }
}
