//! One bit-serial significand multiplier.
//!
//! Each [`super::multiplier_unit`] has eight, decodes the operands that they load and collects their products. The
//! weight's significand is consumed one bit per cycle from the low half of the product register, which the product
//! fills from above (the classic shift-add multiplier, one register for both). Exponents and signs bypass the lanes in
//! the unit's delay line.

use super::prelude::*;

/// A lane for weights of `steps` significand bits in a window of `window` cycles (`window >= steps`).
///
/// Product `sig_w * sig_x`: [11 + steps bits], complete `window` cycles after `load_i`, when the next load comes, if
/// the lane moves in all of them. The first step is part of the load (it adds to zero, so it needs no adder).
#[block(m, "serial_lane_s{steps}{}", if steps == window { String::new() } else { format!("_p{window}") },
    "Bit-serial multiplier of two significands.")]
pub fn serial_lane(steps: u32, window: u32) -> Block {
    let load = m.input(1, "take new operands; the old product is read in the same cycle");
    let moves =
        m.input(r#move = 1, "compute the next step; set with every load, and while the product is in use");
    let sig_w = m.input(steps, "significand of the weight");
    let sig_x = m.input(SIGNIFICAND_BITS, "significand of the activation");

    let multiplicand = m.hold(sig_x, load);
    /// Upper part: the running sum. Lower part, `window` bits: the rest of the weight, then the product's low end.
    let product = m.reg(SIGNIFICAND_BITS + window).enable(moves);
    let running = product.high(SIGNIFICAND_BITS);
    let addend = multiplicand.gated(product.bit(0));
    let sum = m.wire(running.zext(SIGNIFICAND_BITS + 1) + addend.zext(SIGNIFICAND_BITS + 1));
    let stepped = cat!(sum, product.slice(1, window - 1));
    let first_sum = sig_x.gated(sig_w.bit(0));
    let loaded = cat!(zeros(1), first_sum, sig_w.slice(1, steps - 1).zext(window - 1));
    product.next(mux(load, loaded, stepped));

    if window > steps {
        m.unused(
            product.high(window - steps),
            "the steps beyond the weight's bits add nothing, so these stay zero",
        );
    }
    m.output(product = product.low(SIGNIFICAND_BITS + steps), "product of the significands");
}
