//! Recodes FP16 operands on their way into the buffers, and masks them beyond the end of a row.
//!
//! Zero, subnormal and normal values stay. An infinity gets the fraction 0x200, a NaN the fraction 0, both keep
//! exponent 31. With the hidden bit of exponent 31 taken as 0, the significand product of special operands is then zero
//! exactly when the result is NaN, which saves the multiplier unit every other test.

use super::prelude::*;

/// A beat of 32 values; those with index above `last_i` come out as +0 when `cut_i` is set, all when `clear_i` is.
/// Combinational.
#[block(m, "operand_recoder_{BEAT_ELEMS}", "Recodes and masks one beat of FP16 operands.")]
pub fn operand_recoder() -> Block {
    let data = m.input(BEAT_BITS, "FP16 values, element e in bits 16e+15..16e");
    let clear = m.input(1, "replace all elements with +0");
    let cut = m.input(1, "replace the elements after `last_i` with +0");
    let last = m.input(log2(BEAT_ELEMS), "index of the last element of the row in this beat");
    let elements = each(BEAT_ELEMS, |e| {
        let value = data.slice(e * FP16_BITS, FP16_BITS);
        // Element 0 of a beat is never beyond the row's end.
        let blank = match e {
            0 => clear,
            _ => clear | (cut & last.lt(lit(e.into(), last.width()))),
        };
        let keep = m.wire(format!("keep{e}"), !blank);
        let special = m.wire(format!("special{e}"), value.slice(10, 5).all());
        let infinite = m.wire(format!("infinite{e}"), value.low(10).is_zero());
        let fraction = mux(special, cat!(infinite, zeros(9)), value.low(10));
        cat!(value.high(6), fraction).gated(keep)
    });
    m.output(data = cat(elements.into_iter().rev()), "recoded values");
}

pub(crate) fn recoded(value: &Bits) -> Bits {
    let (special, infinite) = (value.slice(10, 5).all(), value.low(10).is_zero());
    cat!(value.high(6), mux(special, cat!(infinite, zeros(9)), value.low(10)))
}

/// Inverse of [`recoded`]; NaNs become the canonical one.
pub(crate) fn restored(value: &Bits) -> Bits {
    let special = value.slice(10, 5).all();
    let nan = value.low(10).is_zero();
    let sign = value.msb() & !(special & nan);
    cat!(sign, value.slice(10, 5), mux(special, cat!(nan, zeros(9)), value.low(10)))
}
