//! Rounds an exact sum to FP16 once: to nearest, ties to even.
//!
//! The sum arrives as digits, least significant first. Its negative is formed digit by digit beside it, so that the
//! magnitude is complete with the last digit, without a wide carry chain. Then: find the leading one, shift, round,
//! pack. The sum's least significant bit weighs 2^-48 and FP16's smallest step is 2^-24, so bit 24 is the lowest that
//! can be kept; a leading one at bit 64 or above is at least 2^16 and overflows.

use super::prelude::*;

/// Position of FP16's smallest step (2^-24) in the sum.
const SMALLEST_STEP: u32 = (-24 - ACC_LSB_EXPONENT) as u32;
/// Largest shift beyond it: a leading one at 2^15 keeps its bits down to 2^5.
const MAX_SHIFT: u32 = 29;
/// Lowest position of a leading one that is too large: 2^16.
const OVERFLOW: u32 = (16 - ACC_LSB_EXPONENT) as u32;
const NAN: u128 = 0x7e00;
const INFINITY: u128 = 0x7c00;

/// One result every `acc_segments` cycles; latency four cycles from the last digit. NaN seen, or both infinities:
/// `0x7E00`; one infinity: that; an exact zero: `+0`.
pub fn fp16_rounder(config: &GemvConfig) -> Block {
    rounder(config.acc_bits(), config.acc_segments())
}

/// The rounder for sums of `acc_bits` bits in `segments` digits, which divide it. With one digit a result every cycle.
#[block(m, "fp16_rounder_w{acc_bits}_d{}", (acc_bits / segments),
    "Rounds an exact sum to FP16, to nearest even.")]
pub fn rounder(acc_bits: u32, segments: u32) -> Block {
    let digit_bits = acc_bits / segments;
    let Strobes { valid, first, last } = Strobes::inputs(&m, ());
    let digit = m.input(digit_bits, "digit of the sum");
    let flags = m.input(FLAG_BITS, "NaN, +Inf, -Inf seen; valid with the last digit");

    /// Stage 1: collect the sum and its negative; each digit enters at the top and moves down.
    let borrow = m.reg("negative_carry_q", 1).enable(valid);
    let carry_in = first | borrow;
    let wide = digit_bits + 1;
    let negative_sum = m.wire((!digit).zext(wide) + carry_in.zext(wide));
    borrow.next(negative_sum.msb());
    let collect = |name: &str, value: &Bits| {
        let mut below: Vec<Bits> = Vec::new();
        let mut from = *value;
        for k in (0..segments).rev() {
            from = m.hold(format!("{name}{k}_q"), from, valid);
            below.push(from);
        }
        m.wire(name, cat(below))
    };
    let positive = collect("positive", &digit);
    let negative = collect("negative", &negative_sum.low(digit_bits));
    let complete = m.flag(valid & last);
    let final_flags = m.hold("flags_q", flags, valid);

    /// Stage 2: magnitude.
    let is_negative = m.wire(positive.msb());
    let magnitude_valid = m.flag(complete);
    let magnitude = m.hold(mux(is_negative, negative.low(OVERFLOW), positive.low(OVERFLOW)), complete);
    let above = acc_bits - OVERFLOW;
    let too_large = m.hold(mux(is_negative, negative.high(above), positive.high(above)).any(), complete);
    let sign = m.hold(is_negative, complete);
    let magnitude_flags = m.hold(final_flags, complete);

    /// Stage 3: how far to shift. A leading one at bit p keeps bits p..p-10, but none below the smallest step.
    let shift_valid = m.flag(magnitude_valid);
    let lowest = SMALLEST_STEP + SIGNIFICAND_BITS - 1;
    let leading = each(MAX_SHIFT + 1, |shift| {
        let higher = lowest + shift + 1;
        let none_above =
            if higher < OVERFLOW { magnitude.high(OVERFLOW - higher).is_zero() } else { lit(1, 1) };
        let here = if shift == 0 { lit(1, 1) } else { magnitude.bit(lowest + shift) };
        m.wire(format!("leading{shift}"), here & none_above)
    });
    let amount = number_of(MAX_SHIFT + 1, |shift| leading[shift as usize]);
    m.unused(leading[0], "a shift of zero sets no bit of the amount");
    let shift = m.hold(amount, magnitude_valid);
    let value = m.hold(magnitude, magnitude_valid);
    let value_special = m.hold(cat!(sign, too_large, magnitude_flags), magnitude_valid);

    /// Stage 4: shift; what falls below the guard bit is only tested for zero.
    let rounded_valid = m.flag("kept_valid_q", shift_valid);
    let guard_at = SMALLEST_STEP - 1;
    let movable = value.high(OVERFLOW - guard_at);
    let moved = m.wire(movable.shr(shift));
    let kept_bits = SIGNIFICAND_BITS + 1;
    m.unused(
        moved.high(moved.width() - kept_bits),
        "the leading one has arrived at bit 11, above it are zeros",
    );
    let lost_mask = m.wire(!repeat(MAX_SHIFT, lit(1, 1)).shl(shift));
    let lost = (movable.low(MAX_SHIFT) & lost_mask).any() | value.low(guard_at).any();
    let kept = m.hold(moved.low(kept_bits), shift_valid);
    let sticky = m.hold(lost, shift_valid);
    let exponent = m.hold(shift, shift_valid);
    let special = m.hold(value_special, shift_valid);

    // Stage 5: round and pack. The significand with its hidden bit is added to the exponent less one, so a carry out of
    // the fraction raises the exponent, up to infinity.
    let guard = kept.bit(0);
    let significand = kept.high(SIGNIFICAND_BITS);
    let up = m.wire(guard & (sticky | significand.bit(0)));
    let below_sign = FP16_BITS - 1;
    let exponent_field = cat!(exponent, zeros(10)).zext(below_sign);
    let encoded = m.wire(exponent_field + significand.zext(below_sign) + up.zext(below_sign));
    let (plus, minus) = (special.bit(1), special.bit(2));
    let nan = m.wire(special.bit(0) | (plus & minus));
    let infinite = m.wire(plus | minus);
    let overflow = special.bit(3);
    let result_sign = mux(infinite, minus, special.bit(4));
    let is_infinity = infinite | overflow;
    let finite = mux(is_infinity, lit(INFINITY, below_sign), encoded);
    let result = mux(nan, lit(NAN, FP16_BITS), cat!(result_sign, finite));
    let out = m.hold("data_q", result, rounded_valid);
    m.output(valid = m.flag("valid_q", rounded_valid), "a result is valid, for one cycle");
    m.output(data = out, "FP16 result");
}
