//! A quantised weight: a small integer times an FP16 scale, rounded once to FP16.
//!
//! Below 2^-14 the product is a multiple of the least subnormal number, so it is exact; only larger ones are rounded.
//! No product is smaller than its scale, so nothing moves up: a normal scale's leading one stays or moves by up to
//! seven bits.

use super::prelude::*;

/// Bits of a number. INT4 numbers come with their sign extended.
pub(super) const NUMBER_BITS: u32 = 8;
const FRACTION_BITS: u32 = SIGNIFICAND_BITS - 1;
const EXPONENT_BITS: u32 = 5;

bundle! {
    pub(crate) struct Scale {
        sign: 1, "sign of the scale";
        significand: SIGNIFICAND_BITS, "significand of the scale";
        exponent: EXPONENT_BITS, "one cycle later: exponent field of the scale minus one, or 0 if it is subnormal";
        special: 1, "one cycle later: the scale is infinite or NaN";
        nan: 1, "one cycle later: the scale is NaN";
    }
}

impl Scale {
    /// Decodes a scale; registers hold the decoded scale for the next cycle.
    pub(crate) fn new(m: &ModuleBuilder, name: &str, scale: &Bits, step: &Bits) -> Self {
        let field = scale.slice(FRACTION_BITS, EXPONENT_BITS);
        let normal = m.wire(format!("{name}_normal"), field.any());
        let keep = |what: &str, value: &Bits| m.hold(format!("{name}_{what}_q"), value, step);
        let fraction = scale.low(FRACTION_BITS);
        Self {
            sign: scale.msb(),
            significand: m.wire(format!("{name}_significand"), cat!(normal, fraction)),
            exponent: keep("exponent", &field.minus_one().gated(normal)),
            special: keep("special", &field.all()),
            nan: keep("nan", &(field.all() & fraction.any())),
        }
    }
}

#[block(m, "weight_scaler", "Multiplies a number by an FP16 scale and rounds to nearest even.")]
pub fn weight_scaler() -> Block {
    let bits = NUMBER_BITS;
    m.share_code();
    m.replicated();
    let step = m.input(1, "take a number");
    let number = m.input(bits, "the number, two's complement");
    let scale = Scale::inputs(&m, ());
    let Scale { significand, exponent, special, nan, .. } = scale;

    // First cycle: the product of the magnitudes. The most negative number has a magnitude of its own.
    let negative = number.msb();
    let flipped = mux(negative, !number, number);
    let magnitude = m.wire(flipped + negative.zext(bits));
    let wide = bits + SIGNIFICAND_BITS;
    let product = m.hold(magnitude.zext(wide) * significand.zext(wide), step);
    let sign = m.hold(negative ^ scale.sign, step);

    // Second cycle: moves the leading one to its place, at most `bits - 1` bits lower: 2^(bits - 1) is the largest
    // magnitude.
    m.unused(product.msb(), "the magnitude has one value with its uppermost bit, a power of two");
    let leading = each(bits, |by| {
        let above = product.slice(SIGNIFICAND_BITS + by, wide - SIGNIFICAND_BITS - by);
        let none_above = above.is_zero();
        if by == 0 { none_above } else { none_above & product.bit(FRACTION_BITS + by) }
    });
    let at = m.wire(cat(leading.iter().rev().cloned()));
    let cut = |by: u32| {
        let kept = product.slice(by, SIGNIFICAND_BITS);
        let half = if by == 0 { zeros(1) } else { product.bit(by - 1) };
        let rest = if by < 2 { zeros(1) } else { product.low(by - 1).any() };
        let up = half & (rest | kept.bit(0));
        cat!(lit(by.into(), EXPONENT_BITS), up, kept)
    };
    let chosen = m.wire(one_hot_mux(at, each(bits, cut)));
    let (kept, up) = (chosen.low(SIGNIFICAND_BITS), chosen.bit(SIGNIFICAND_BITS));
    let by = chosen.high(EXPONENT_BITS);
    let some = m.wire(product.any());
    // The significand's leading one adds the one that the exponent field lacks.
    let field = (exponent.zext(EXPONENT_BITS + 1) + by.zext(EXPONENT_BITS + 1)).gated(some);
    let sum = m.wire(cat!(field, zeros(FRACTION_BITS)) + kept.zext(FP16_BITS) + up.zext(FP16_BITS));
    let over = sum.msb() | sum.slice(FRACTION_BITS, EXPONENT_BITS).all();
    let infinite = m.wire(any!(over, special));
    /// Infinity times zero is NaN.
    let is_nan = m.wire(nan | (special & !some));
    let finite = cat!(sign, sum.low(FP16_BITS - 1));
    let other = cat!(sign & !is_nan, lit(31, EXPONENT_BITS), is_nan, zeros(FRACTION_BITS - 1));
    m.output(weight = mux(infinite, other, finite), "FP16 weight, one cycle later");
}
