//! One multiplier of a computing bank: the product of two FP16 values, in its place above 2^-48.
//!
//! A [`super::pim_mac`] has sixteen. A bank takes a column every two clocks, so the product is formed in one step,
//! unlike in `serial_lane`; operands and places are the same. The product of exponent sum `e` stands at `2^(e - 50)`.
//! As in `multiplier_unit` the lower bits of `e` shift it; the uppermost one selects one of two ranges, which are
//! summed separately: near ones from 2^-48 upward, far ones from 2^-18 upward.

use super::prelude::*;

/// Place of a far product's bit 0 in the accumulator.
pub(super) const FAR: u32 = (1 << FINE_SHIFT_BITS) - 2;
/// Bits of a shifted product with its sign: 22, and up to 31 places.
pub(super) const TERM: u32 = 2 * SIGNIFICAND_BITS + (1 << FINE_SHIFT_BITS);

/// Operands with `load_i`, the shifted product after the clock with `place_i`, which is the next one.
#[block(m, "pim_lane", "Multiplies two FP16 values and puts the product into its place.")]
pub fn pim_lane() -> Block {
    m.share_code();
    let load = m.input(1, "take the operands");
    let place = m.input(1, "put the product into its place");
    let w = m.input(FP16_BITS, "recoded weight");
    let x = m.input(FP16_BITS, "recoded activation");
    let (w, x) = (decode(&m, "w", &w), decode(&m, "x", &x));
    let keep = |name: &str, enable: &Bits, value: Bits| m.hold(name, value, enable);
    let bits = 2 * SIGNIFICAND_BITS;
    let product = keep("product_q", &load, w.significand.zext(bits) * x.significand.zext(bits));
    let exp = w.exp.zext(EXPONENT_SUM_BITS) + x.exp.zext(EXPONENT_SUM_BITS);
    let exp = keep("exp_q", &load, exp);
    let negative = keep("negative_q", &load, w.sign ^ x.sign);
    let special = keep("special_q", &load, w.special | x.special);

    /// Complemented only: the tree adds the ones that are missing, which takes no carry chain here.
    let moved = m.wire(product.zext(TERM).shl(exp.low(FINE_SHIFT_BITS)));
    let term = keep("term_q", &place, moved ^ repeat(TERM, negative));
    let nonzero = m.wire(product.any());
    let infinite = m.wire(special & nonzero);
    let flags = cat!(infinite & negative, infinite & !negative, special & !nonzero);
    debug_assert_eq!(flags.width(), FLAG_BITS);
    m.output(term, "product in its range, complemented if it is negative; the least sum of exponents is 2");
    m.output(negative = keep("term_negative_q", &place, negative), "the product is negative: add one");
    m.output(far = keep("far_q", &place, exp.msb()), "the product lies in the far range");
    m.output(flags = keep("flags_q", &place, flags), "the product is NaN, +Inf, -Inf");
}
