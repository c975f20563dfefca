//! Turns beats of quantised weights into FP16 weights: two places of 32 in a cycle (INT4), or one (INT8).
//!
//! [`super::fill_sequencer`] decides the kind of a beat: scales, which stay here, or numbers, which are taken in
//! halves, one in a cycle. The scaled weights come out a cycle later, together with the controls of their place.

use super::fill_sequencer::{Placed, PlacedNext};
use super::prelude::*;

#[block(m, "weight_unpacker_p{}", config.beats_per_stripe(), "Converts quantised weights of a rank to FP16.")]
pub fn weight_unpacker(config: &GemvConfig) -> Block {
    let weight_format = m.input(FORMAT_BITS, FORMAT_DOC);
    let Format { quantised, int4 } = Format::of(&m, weight_format);
    let beat = m.input(BEAT_BITS, "scales or numbers");
    let scales = m.input(1, "keep the beat as the scales of 32 places");
    let place = m.input(1, "take a half of the beat, or none of it with `clear_i`");
    let half = m.input(1, "half to take");
    let group = m.input(log2(SCALED_PLACES), "number of the first place among the places of the scales");
    let placed = Placed::inputs(&m, config);
    let next = PlacedNext::inputs(&m, ());

    let step = m.wire(place & quantised);
    let kept = m.hold("scales_q", beat, scales);
    let numbers = m.wire(mux(half, beat.high(BEAT_BITS / 2), beat.low(BEAT_BITS / 2)));
    // Places by pairs; the first one of a pair comes with or without the second one.
    let pairs = each(SCALED_PLACES / 2, |pair| kept.slice(pair * 2 * FP16_BITS, 2 * FP16_BITS));
    let at = one_hot(&group.high(group.width() - 1), SCALED_PLACES / 2);
    let pair = m.wire("scale_pair", one_hot_mux(m.wire("at", at), &pairs));
    let first_scale = mux(group.bit(0), pair.high(FP16_BITS), pair.low(FP16_BITS));
    let nibble = |e: u32| numbers.slice(4 * e, 4);
    let first =
        each(BEAT_ELEMS, |e| mux(int4, cat!(repeat(4, nibble(e).msb()), nibble(e)), numbers.slice(8 * e, 8)));
    let scaled = |name: &str, bits: u32, numbers: Bits, scale: Bits| -> Result<Bits, HdlError> {
        Ok(place_scaler::In { step, numbers, scale }.part(&m, name, &place_scaler(bits)?).weights.q())
    };
    let first = scaled("first", 8, cat(first.into_iter().rev()), first_scale)?;
    let second = scaled("second", 4, numbers.high(4 * BEAT_ELEMS), pair.high(FP16_BITS))?;
    m.output(first, "FP16 weights of the first place");
    m.output(second, "FP16 weights of the second place");
    let place = m.flag(step);
    m.output(place, "the weights go to the tiles");
    Placed::outputs(&m, config, placed.held(&m, "", step));
    PlacedNext::outputs(&m, (), next.held(&m, "", step));
}
