//! The numbers that blocks exchange: FP16, recoded FP16, exact sums.
//!
//! **Recoded FP16**: [`super::operand_recoder`] rewrites infinities and NaNs so that the multiplier can tell them by
//! its product. **Digits**: an exact sum travels as `acc_segments` digits of `digit_bits`, least significant first, one
//! per cycle, two's complement, with three sticky flags ([`FLAG_BITS`]) that are valid with the last digit.

use super::prelude::*;

pub const FP16_BITS: u32 = 16;
/// Including the hidden bit.
pub const SIGNIFICAND_BITS: u32 = 11;
/// Bits of the sum of two effective exponents (2..=60; 63 marks a special operand).
pub const EXPONENT_SUM_BITS: u32 = 6;
/// Weight of the accumulator's least significant bit: 2^-48.
pub const ACC_LSB_EXPONENT: i32 = -48;
/// Sticky flags of a sum, from bit 0: NaN seen, +Inf seen, -Inf seen.
pub const FLAG_BITS: u32 = 3;

bundle! {
    /// Strobes beside streams of digits.
    pub(crate) struct Strobes {
        valid: 1, "digits are valid";
        first: 1, "the digits are the least significant ones";
        last: 1, "the digits are the most significant ones";
    }
}

bundle! {
    /// A digit of a kept sum.
    pub(crate) struct KeptDigit(config: &GemvConfig) {
        digit: config.digit_bits(), "digit";
        carry: 1, "carry to add to it";
        flags: FLAG_BITS, "flags of the sum";
    }
}
