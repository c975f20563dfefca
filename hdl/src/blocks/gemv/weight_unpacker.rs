//! Turns beats of quantised weights into FP16 weights, two places of 32 in a cycle.
//!
//! [`super::fill_sequencer`] decides the kind of a beat: scales, which stay here, or numbers, whole (INT8) or a half
//! (INT4). The scaled weights come out a cycle later, together with the controls of their place.

use super::fill_sequencer::{Placed, PlacedNext};
use super::prelude::*;

#[block(m, "weight_unpacker_p{}", config.beats_per_stripe(), "Converts quantised weights of a rank to FP16.")]
pub fn weight_unpacker(config: &GemvConfig) -> Block {
    let weight_format = m.input(NUMBER_FORMAT_BITS, NUMBER_FORMAT_DOC);
    let quantised = m.wire(weight_format.any());
    let int4 = weight_format.bit(1);
    let beat = m.input(BEAT_BITS, "scales or numbers");
    let scales = m.input(1, "keep the beat as the scales of 32 places");
    let place = m.input(1, "take two places of the beat, or none of it with `clear_i`");
    let half = m.input(1, "half with the places; 0 in INT8");
    let scale_pair =
        m.input(log2(SCALED_PLACES / 2), "number of the two places among the pairs of the scales");
    let placed = Placed::inputs(&m, config);
    let next = PlacedNext::inputs(&m, ());

    let step = m.wire(place & quantised);
    let kept = m.hold("scales_q", beat, scales);
    let numbers = m.wire(mux(half, beat.high(BEAT_BITS / 2), beat.low(BEAT_BITS / 2)));
    let pairs = each(SCALED_PLACES / 2, |pair| kept.slice(pair * 2 * FP16_BITS, 2 * FP16_BITS));
    let at = one_hot(&scale_pair, SCALED_PLACES / 2);
    let pair_scales = m.wire(one_hot_mux(m.wire("at", at), &pairs));
    let scaled = |name: &str, nibbles: Bits, bytes: Bits, scale: Bits| -> Result<Bits, HdlError> {
        let numbers = each(BEAT_ELEMS, |e| {
            let nibble = nibbles.slice(4 * e, 4);
            mux(int4, cat!(repeat(4, nibble.msb()), nibble), bytes.slice(8 * e, 8))
        });
        let numbers = cat(numbers.into_iter().rev());
        Ok(place_scaler::In { step, numbers, scale }.part(&m, name, &place_scaler()?).weights.q())
    };
    let place_bits = 4 * BEAT_ELEMS;
    let first = scaled("first", numbers.low(place_bits), numbers, pair_scales.low(FP16_BITS))?;
    let second =
        scaled("second", numbers.high(place_bits), beat.high(BEAT_BITS / 2), pair_scales.high(FP16_BITS))?;
    m.output(first, "FP16 weights of the first place");
    m.output(second, "FP16 weights of the second place");
    let place = m.flag(step);
    m.output(place, "the weights go to the tiles");
    Placed::outputs(&m, config, placed.held(&m, "", step));
    PlacedNext::outputs(&m, (), next.held(&m, "", step));
}
