//! Rounds a magnitude with an exponent to FP16, to nearest even: the last stage of all the activation unit's
//! operations.

use super::prelude::*;

pub(crate) const MAGNITUDE_BITS: u32 = 30;
/// Bits of the exponent of the magnitude's uppermost bit, two's complement.
pub(crate) const EXPONENT_BITS: u32 = 7;
pub(crate) const LATENCY: u32 = 3;
/// Fraction bits of a wide value: softmax keeps its exponentials in 4 exponent and 12 fraction bits.
pub(crate) const WIDE_FRACTION_BITS: u32 = 12;
const FRACTION_BITS: u32 = 10;
const BIAS: u128 = 15;
const MIN_EXPONENT: i32 = -14;

fn signed(value: i32, bits: u32) -> Bits {
    lit((i128::from(value) as u128) & ((1 << bits) - 1), bits)
}

bundle! {
    /// A number to be packed.
    pub(crate) struct Way {
        magnitude: MAGNITUDE_BITS, "magnitude, not necessarily normalised; bit 0 may stand for lost bits";
        exponent: EXPONENT_BITS, "exponent of its uppermost bit, two's complement";
        sign: 1, "sign, used for zeros and infinities as well";
        nan: 1, "the result is NaN";
        infinite: 1, "the result is infinite";
    }
}

/// Everything moves on while `advance_i` is set, `LATENCY` steps from a magnitude to its value. `raw_i` has priority
/// over NaN, that over infinity, that over the magnitude. The result is recoded ([`super::operand_recoder`]).
#[block(m, "fp16_packer", "Normalises and rounds to FP16, to nearest even.")]
pub fn fp16_packer() -> Block {
    let advance = m.input(1, "all stages advance");
    let Way { magnitude, exponent, sign, nan, infinite } = Way::inputs(&m, ());
    let raw = m.input(1, "the uppermost 16 bits of the magnitude are the result, a recoded value");
    let blank = m.input(1, "the result is +0, whatever the other inputs are");
    let wide = m
        .input(1, "round to 12 fraction bits: no sign, 4 exponent bits; constant while values are in flight");
    let stage = |name: &str, value: &Bits| m.hold(name, value, advance);

    // Stage 1: shift the leading one to the top.
    let (normal, moved) = normalised(&m, "", magnitude, 5, Some(raw));
    let top = exponent.sext(EXPONENT_BITS + 1) - moved.zext(EXPONENT_BITS + 1);
    let normal = stage("normal_q", &normal);
    let exponent = stage("exponent_q", &top);
    let sign = stage("sign_q", &sign);
    let kind = stage("kind_q", &cat!(blank, raw, infinite, nan));

    // Stage 2: shift subnormal results down.
    let bits = EXPONENT_BITS + 1;
    let below = m.wire(signed(MIN_EXPONENT, bits) - exponent);
    let subnormal = m.wire(!below.msb() & below.any());
    let far = m.wire(below.slice(5, bits - 6).any());
    let moves = subnormal & !kind.bit(2);
    let amount = m.wire((below.low(5) | repeat(5, far)).gated(moves));
    let moved = m.wire(normal.shr(amount));
    let lost_mask = m.wire(!repeat(MAGNITUDE_BITS, lit(1, 1)).shl(amount));
    let lost = stage("lost_q", &(normal & lost_mask).any());
    // Exponent field less one: the significand's leading one adds the one.
    let biased = exponent + signed(BIAS as i32 - 1, bits);
    let small = subnormal | !normal.msb();
    let field = stage("field_q", &biased.gated(!small));
    let kept = stage("kept_q", &moved);
    let sign = stage("sign1_q", &sign);
    let kind = stage("kind1_q", &kind);

    // Stage 3: round.
    let cut = |fraction_bits: u32| {
        let significand = kept.high(fraction_bits + 1);
        let rest = kept.low(MAGNITUDE_BITS - fraction_bits - 1);
        let sticky = rest.low(rest.width() - 1).any() | lost;
        let up = rest.msb() & (sticky | significand.bit(0));
        (significand, up)
    };
    let sum_bits = FP16_BITS;
    let rounded = |name: &str, fraction_bits: u32| {
        let (significand, up) = cut(fraction_bits);
        let exponent = cat!(field.low(sum_bits - fraction_bits), zeros(fraction_bits));
        m.wire(name, exponent + significand.zext(sum_bits) + up.zext(sum_bits))
    };
    let narrow = rounded("narrow", FRACTION_BITS);
    let wide_value = rounded("wide_value", WIDE_FRACTION_BITS);
    m.unused(narrow.msb(), "the sign is put there");
    // Recoded: infinity has the fraction 0x200, NaN 0.
    let (is_nan, is_infinite, is_raw, is_blank) = (kind.bit(0), kind.bit(1), kind.bit(2), kind.bit(3));
    let too_large = field.ge(lit(2 * BIAS, bits));
    let rounds_over = narrow.slice(FRACTION_BITS, 5).all();
    let infinity = m.wire(any!(is_infinite, too_large, rounds_over));
    let special = cat!(sign & !is_nan, repeat(5, lit(1, 1)), !is_nan, zeros(9));
    let finite = mux(wide, wide_value, cat!(sign, narrow.low(FP16_BITS - 1)));
    let computed = mux(is_nan | (infinity & !wide), special, finite);
    let result = mux(is_raw, kept.high(FP16_BITS), computed).gated(!is_blank);
    m.output(value = stage("value_q", &result), "the recoded FP16 value, or the wide one");
}
