//! One digit-serial significand multiplier: two bits of the weight in each step.
//!
//! Replaces [`super::serial_lane`] if `multiplier` is `digit-serial`. It finishes in half as many steps and then waits,
//! as its turn at the aligner decides when its product leaves.

use super::prelude::*;

const DIGIT_BITS: u32 = 2;

pub(crate) const fn steps(bits: u32) -> u32 {
    bits.div_ceil(DIGIT_BITS)
}

/// A lane for weights of `bits` significand bits, at least 2.
///
/// Product `sig_w * sig_x`: [11 + bits], complete after [`steps`] cycles with `move_i`, including the one with
/// `load_i`. Further steps would change it.
#[block(
    m,
    "digit_serial_lane_s{bits}",
    "Multiplier of two significands, two bits of the weight in each step."
)]
pub fn digit_serial_lane(bits: u32) -> Block {
    let load = m.input(1, "take new operands; the old product is read in the same cycle");
    let moves = m.input(r#move = 1, "the product takes its next step; with every load");
    let sig_w = m.input(bits, "significand of the weight");
    let sig_x = m.input(SIGNIFICAND_BITS, "significand of the activation");

    let multiplicand = m.hold(sig_x, load);
    // Upper part: the running sum, below the multiplicand. Lower part: the rest of the weight, then the product's low
    // end.
    let low_bits = steps(bits) * DIGIT_BITS;
    let sum_bits = SIGNIFICAND_BITS + DIGIT_BITS;
    let product = m.reg(SIGNIFICAND_BITS + low_bits).enable(moves);
    let times = |x: &Bits, digit: &Bits| {
        let twice = cat!(x, zeros(1)).gated(digit.bit(1));
        twice.zext(sum_bits) + x.gated(digit.bit(0)).zext(sum_bits)
    };
    let running = product.high(SIGNIFICAND_BITS).zext(sum_bits);
    let sum = m.wire(running + times(&multiplicand, &product.low(DIGIT_BITS)));
    let first = m.wire(times(&sig_x, &sig_w.low(DIGIT_BITS)));
    let rest_bits = low_bits - DIGIT_BITS;
    // With weights of two bits there is one step.
    let after = |sum: Bits, rest: Option<Bits>| cat([sum].into_iter().chain(rest));
    let rest = (rest_bits > 0).then(|| product.slice(DIGIT_BITS, rest_bits));
    let left = (rest_bits > 0).then(|| sig_w.high(bits - DIGIT_BITS).zext(rest_bits));
    product.next(mux(load, after(first, left), after(sum, rest)));

    if low_bits > bits {
        m.unused(product.msb(), "the last digit has one bit, so this stays zero");
    }
    m.output(product = product.low(SIGNIFICAND_BITS + bits), "product of the significands");
}
