//! Sum of two FP16 values, before rounding: the larger one stays, the smaller one is shifted into place.

use super::fp16_packer::{EXPONENT_BITS, MAGNITUDE_BITS};
use super::prelude::*;

/// Cycles from operands to the input of [`super::fp16_packer`].
pub(crate) const LATENCY: u32 = 2;
/// Bits below the significand: guard, round, and one for all lost bits.
const EXTRA_BITS: u32 = 3;

/// Operands are recoded ([`super::operand_recoder`]). Everything moves on while `advance_i` is set.
#[block(m, "fp16_adder", "Adds two FP16 values with the precision that exact rounding needs.")]
pub fn fp16_adder() -> Block {
    let advance = m.input(1, "all stages advance");
    let a = m.input(FP16_BITS, "recoded FP16 value");
    let b = m.input(FP16_BITS, "recoded FP16 value");
    let stage = |name: &str, value: &Bits| m.hold(name, value, advance);

    /// Stage 1: order by magnitude. Recoding keeps infinities above all finite values.
    let swap = m.wire(a.low(FP16_BITS - 1).lt(b.low(FP16_BITS - 1)));
    let large = m.wire("larger", mux(swap, b, a));
    let small = m.wire("lesser", mux(swap, a, b));
    m.unused(small.msb(), "the sum has the sign of the larger one");
    let exponent_of = |value: &Bits| {
        let field = value.slice(10, 5);
        cat!(field.high(4), field.bit(0) | field.is_zero())
    };
    let significand_of = |value: &Bits| cat!(value.slice(10, 5).any(), value.low(10));
    let (large_exponent, small_exponent) = (exponent_of(&large), exponent_of(&small));
    let distance = m.wire(large_exponent - small_exponent);
    let special = |value: &Bits| value.slice(10, 5).all();
    let nan = |value: &Bits| special(value) & value.low(10).is_zero();
    let differs = m.wire(a.msb() ^ b.msb());
    let either = special(&a) | special(&b);
    let opposite = all!(special(&a), special(&b), differs);
    let no_number = m.wire(any!(nan(&a), nan(&b), opposite));
    // Of an infinity and a finite value the infinity is the larger one; a NaN of recoded fraction 0 never counts.
    let significand = stage("significand_q", &significand_of(&large));
    let smaller = stage("smaller_q", &significand_of(&small));
    let exponent = stage("exponent_q", &large_exponent);
    let distance = stage("distance_q", &distance);
    let subtract = stage("subtract_q", &differs);
    let sign = stage("sign_q", &large.msb());
    let kind = stage("kind_q", &cat!(either & !no_number, no_number));

    // Stage 2: align and add. All bits shifted out are kept as one.
    let bits = SIGNIFICAND_BITS + EXTRA_BITS;
    let wide = cat!(smaller, zeros(EXTRA_BITS));
    let moved = m.wire(wide.shr(distance));
    let lost_mask = m.wire(!repeat(bits, lit(1, 1)).shl(distance));
    let lost = (wide & lost_mask).any();
    let aligned = m.wire(cat!(moved.high(bits - 1), moved.bit(0) | lost));
    let inverted = aligned.zext(bits + 1) ^ repeat(bits + 1, subtract);
    let sum = cat!(significand, zeros(EXTRA_BITS)).zext(bits + 1) + inverted + subtract.zext(bits + 1);
    let sum = m.wire(sum);
    // The sum's uppermost bit is one above the significand's.
    let exponent = exponent.zext(EXPONENT_BITS) - lit(14, EXPONENT_BITS);
    let none = m.wire(sum.is_zero());
    m.output(
        magnitude = cat!(stage("sum_q", &sum), zeros(MAGNITUDE_BITS - bits - 1)),
        "magnitude of the sum",
    );
    m.output(exponent = stage("exponent_sum_q", &exponent), "exponent of its uppermost bit");
    // Values that cancel give +0; two zeros of one sign keep it.
    m.output(sign = stage("sign_sum_q", &(sign & !(none & subtract))), "sign of the sum");
    m.output(nan = stage("nan_q", &kind.bit(0)), "the sum is NaN");
    m.output(infinite = stage("infinite_q", &kind.bit(1)), "the sum is infinite");
}
