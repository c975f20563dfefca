//! Product of two FP16 values, before rounding; or of a wide value and a reciprocal, for softmax.

use super::fp16_packer::{EXPONENT_BITS, MAGNITUDE_BITS, WIDE_FRACTION_BITS};
use super::prelude::*;

/// Cycles from operands to the input of [`super::fp16_packer`].
pub(crate) const LATENCY: u32 = 2;
/// Bits of a reciprocal: 2^15 < r <= 2^16.
pub(crate) const RECIPROCAL_BITS: u32 = 17;

/// FP16 operands are recoded ([`super::operand_recoder`]). With `wide_i` the first operand is a wide value of
/// [`super::fp16_packer`] with exponent field `e`, at least 1, the second one `reciprocal_i`; the uppermost bit of
/// their product has the exponent `e + scale_i`.
#[block(m, "fp16_multiplier", "Multiplies two FP16 values exactly.")]
pub fn fp16_multiplier() -> Block {
    let advance = m.input(1, "the result advances");
    let a = m.input(FP16_BITS, "recoded FP16 value, or a wide one");
    let b = m.input(FP16_BITS, "recoded FP16 value");
    let wide = m.input(1, "multiply a wide value with the reciprocal");
    let reciprocal = m.input(RECIPROCAL_BITS, "reciprocal of the sum, 2^15 < r <= 2^16");
    let scale =
        m.input(EXPONENT_BITS, "value to add to the exponent field of a wide value, two's complement");
    let stage = |name: &str, value: &Bits| m.hold(name, value, advance);

    let exponent_of = |field: &Bits| {
        let lowest = field.bit(0) | field.is_zero();
        cat!(field.high(field.width() - 1), lowest)
    };
    let (a_field, b_field) = (a.slice(10, 5), b.slice(10, 5));
    let (a_special, b_special) = (a_field.all(), b_field.all());
    // The significand of a recoded NaN is 0; an infinity's is not.
    let significand_of = |value: &Bits, field: &Bits, special: &Bits| {
        cat!(field.any() & !special, value.low(SIGNIFICAND_BITS - 1))
    };
    let wide_field = a.high(FP16_BITS - WIDE_FRACTION_BITS);
    let wide_significand = cat!(wide_field.any(), a.low(WIDE_FRACTION_BITS));
    let a_significand = m.wire(significand_of(&a, &a_field, &a_special));
    let b_significand = m.wire(significand_of(&b, &b_field, &b_special));
    let left = m.wire(mux(wide, wide_significand, cat!(a_significand, zeros(2))));
    let right = m.wire(mux(wide, reciprocal, cat!(b_significand, zeros(6))));
    // In two stages: each half of the second operand is multiplied first.
    let (low_bits, high_bits) = (RECIPROCAL_BITS / 2, RECIPROCAL_BITS.div_ceil(2));
    let part = |name: &str, right: Bits| {
        let bits = left.width() + right.width();
        stage(name, &(left.zext(bits) * right.zext(bits)))
    };
    let (upper, lower) = (part("upper_q", right.high(high_bits)), part("lower_q", right.low(low_bits)));
    let product = m.wire(cat!(upper, zeros(low_bits)) + lower.zext(MAGNITUDE_BITS));
    let a_exponent = exponent_of(&a_field).zext(EXPONENT_BITS);
    let b_exponent = exponent_of(&b_field).zext(EXPONENT_BITS);
    let narrow_exponent = a_exponent + b_exponent - lit(29, EXPONENT_BITS);
    let wide_exponent = exponent_of(&wide_field).zext(EXPONENT_BITS) + scale;
    let exponent = m.wire(mux(wide, wide_exponent, narrow_exponent));
    let special = m.wire((a_special | b_special) & !wide);
    /// Infinity times zero, and whatever a NaN meets, has a zero among the significands.
    let vanishes = m.wire(!(a_significand.any() & b_significand.any()));
    let twice = |name: &str, value: &Bits| stage(&format!("{name}1_q"), &stage(&format!("{name}0_q"), value));
    m.output(magnitude = stage("product_q", &product), "product of the significands");
    m.output(exponent = twice("exponent", &exponent), "exponent of its uppermost bit");
    m.output(sign = twice("sign", &((a.msb() ^ b.msb()) & !wide)), "sign of the product");
    m.output(nan = twice("nan", &(special & vanishes)), "the product is NaN");
    m.output(infinite = twice("infinite", &(special & !vanishes)), "the product is infinite");
}
