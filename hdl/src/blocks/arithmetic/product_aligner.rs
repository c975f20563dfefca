//! Shifts a product of two significands to its place in the accumulator, and complements it if it is negative.
//!
//! Each [`super::multiplier_unit`] has one, and brings exponent and sign of a product in the cycle in which the product
//! leaves its lane. A negative product comes out as its ones' complement: the accumulator adds the missing one as a
//! carry. The product of a special operand means nothing here; the unit raises a flag instead.

use super::prelude::*;

/// Bits of an exponent sum that the fine shift uses; the last bit is the coarse shift.
pub(crate) const FINE_SHIFT_BITS: u32 = EXPONENT_SUM_BITS - 1;

/// A value with its bit 0 at bit `offset` of the accumulator.
struct Placed {
    value: Bits,
    offset: u32,
}

impl Placed {
    /// Bits `[low +: width]` of the accumulator, `fill` where the value does not reach.
    fn bits(&self, low: u32, width: u32, fill: &Bits) -> Bits {
        let (first, end) = (self.offset.max(low), (self.offset + self.value.width()).min(low + width));
        if first >= end {
            return repeat(width, fill);
        }
        let mut parts = Vec::new();
        if end < low + width {
            parts.push(repeat(low + width - end, fill));
        }
        parts.push(self.value.slice(first - self.offset, end - first));
        if first > low {
            parts.push(repeat(first - low, fill));
        }
        cat(parts)
    }
}

/// The aligner for products of `serial_steps` and 11 bits, and an accumulator of `acc_segments` digits. Combinational.
/// Outputs `digit<k>_o`, least significant first: `product_i * 2^(11 - serial_steps) * 2^(exp_i - 50)` as a multiple of
/// 2^-48, all bits inverted if `negative_i`.
#[block(m, "product_aligner_s{}_k{}_d{}", config.serial_steps(), config.acc_segments(), config.digit_bits(),
    "Shifts a product to its place in the accumulator.")]
pub fn product_aligner(config: &GemvConfig) -> Block {
    let (steps, segments, digit_bits) = (config.serial_steps(), config.acc_segments(), config.digit_bits());
    let product = m.input(SIGNIFICAND_BITS + steps, "product of the significands");
    let exp =
        m.input(EXPONENT_SUM_BITS, "sum of the effective exponents; at least 2 unless the product is zero");
    let negative = m.input(1, "sign of the product");

    // The product of exponent sum e stands at 2^(e - 50). It is complemented before it is shifted, with the sign filled
    // in on both sides: that takes far fewer gates than complementing the aligned value. The smallest sum is 2, at the
    // accumulator's end; below it nothing is kept. In two parts, so that simulation needs no more than 64 bits.
    let padded = match SIGNIFICAND_BITS - steps {
        0 => product,
        cut => cat!(product, zeros(cut)),
    };
    let mut fine = m.wire("product_signed", padded ^ repeat(padded.width(), negative));
    for level in 0..FINE_SHIFT_BITS {
        let fill = repeat(1 << level, negative);
        let (moved, kept) = (cat!(fine, fill), cat!(fill, fine));
        fine = m.wire(format!("shifted{level}"), mux(exp.bit(level), moved, kept));
    }
    let far = m.wire(exp.msb());
    let near = Placed { value: fine.high(fine.width() - 2), offset: 0 };
    let away = Placed { value: fine, offset: (1 << FINE_SHIFT_BITS) - 2 };
    for k in 0..segments {
        let part = |value: &Placed| value.bits(k * digit_bits, digit_bits, &negative);
        m.output(
            format!("digit{k}_o"),
            mux(far, part(&away), part(&near)),
            format!("digit {k} of the aligned product"),
        );
    }
}
