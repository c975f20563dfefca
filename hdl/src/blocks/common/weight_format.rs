//! Formats of weights as signals: FP16, or numbers of 8 or 4 bits with an FP16 scale for each 32.
//!
//! A place is 32 weights of a row. FP16 weights have a burst for each place. Quantised weights have for every 32 places
//! of a row on a rank one burst with their scales, then bursts of numbers, two (8 bits) or four (4 bits) places each.
//! If rows share scales, a burst of scales comes before every 16 (8 bits) or 8 (4 bits) bursts of numbers, wherever rows
//! end.

use super::prelude::*;

/// Bits of the format of numbers, and whether rows share scales.
pub(crate) const FORMAT_BITS: u32 = NUMBER_FORMAT_BITS + 1;
pub(crate) const NUMBER_FORMAT_BITS: u32 = 2;
/// Places that share a burst of scales.
pub(crate) const SCALED_PLACES: u32 = 32;
pub(crate) const NUMBER_FORMAT_DOC: &str = "format of the weights: 0 FP16, 1 INT8, 2 INT4";
pub(crate) const FORMAT_DOC: &str = "format of the weights: 0 FP16, 1 INT8, 2 INT4; bit 2: rows share scales";

pub(crate) fn is_quantised(config: &GemvConfig) -> bool {
    config.weight_formats().len() > 1
}

#[derive(Clone)]
pub(crate) struct Format {
    pub quantised: Bits,
    pub int4: Bits,
    pub shared: Bits,
}

impl Format {
    pub fn of(m: &ModuleBuilder, format: Bits) -> Self {
        let numbers = format.low(NUMBER_FORMAT_BITS);
        Self { quantised: m.wire("quantised", numbers.any()), int4: format.bit(1), shared: format.bit(2) }
    }
}

/// `ceil(value / 2^by)`, in as many bits as the value has.
pub(crate) fn ceiling(value: &Bits, by: u32) -> Bits {
    let bits = value.width();
    if by == 0 {
        return *value;
    }
    if by >= bits {
        return value.any().zext(bits);
    }
    value.high(bits - by).zext(bits) + value.low(by).any().zext(bits)
}

/// Bursts of these places of a row, counted from its first one, in a bit more than their number has; without scales if
/// rows share them.
pub(crate) fn bursts_of(m: &ModuleBuilder, name: &str, places: &Bits, format: Option<&Format>) -> Bits {
    let bits = places.width() + 1;
    let Some(Format { quantised, int4, shared }) = format else { return places.zext(bits) };
    let places = m.wire(format!("{name}_places"), places.zext(bits));
    let numbers = mux(int4, ceiling(&places, 2), ceiling(&places, 1));
    let packed = ceiling(&places, log2(SCALED_PLACES)).gated(!shared) + numbers;
    m.wire(name, mux(quantised, packed, places))
}
