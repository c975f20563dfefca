//! Common definitions of a DIMM-link: the header's fields, markers, the place of every payload bit, the ring of words.
//!
//! A flit is `flit_words` words, one per cycle. Counted from bit 0 of its first word: header, payload, padding, and the
//! CRC in the uppermost bits of the last word. Lane `l` carries bits `25 l .. 25 l + 24` of each word, the lowest bit
//! first. One word of markers lies between frames of `frame_flits` flits. docs/dimm-link.md has the tables.

use super::prelude::*;

pub(super) const SEQ: u32 = LinkConfig::SEQUENCE_BITS;
pub(super) const ROUND: u32 = 4;
pub(super) const NODE: u32 = LinkConfig::NODE_BITS;
pub(super) const BEAT: u32 = 3;
pub(super) const KIND: u32 = 2;
/// Bits of the label, which the link carries and does not look at.
pub(super) const LABEL: u32 = LinkConfig::LABEL_BITS;
/// Bits that the transmitter keeps beside each flit's payload: destination, source, last beat, end of message, label.
pub(super) const TAG: u32 = 2 * NODE + BEAT + 1 + LABEL;

/// No payload.
pub(super) const IDLE: u128 = 0;
/// A flit with payload.
pub(super) const DATA: u128 = 1;
/// A side after reset, before it has received anything from the other side.
pub(super) const INIT: u128 = 2;
pub(super) const ANSWER: u128 = 3;

bundle! {
    /// A beat that a link takes or gives.
    pub(crate) struct LinkBeat {
        valid: 1, "a beat is offered";
        data: BEAT_BITS, "the beat";
        last: 1, "the beat is the last of its message";
        dest: NODE, "the message's destination, the same for all of its beats";
        source: NODE, "the message's source, the same for all of its beats";
        label: LABEL, "label of the flit, the same for all of its beats";
    }
}

packed! {
    /// The fields of a header; the rest of it is zero.
    pub(super) struct Header {
        kind: KIND,
        fault: 1,
        nack: 1,
        nack_round: ROUND,
        round: ROUND,
        sequence: SEQ,
        ack: SEQ,
        limit: SEQ,
        tag: TAG,
    }
}

packed! {
    /// The parts of a tag.
    pub(super) struct Tag {
        dest: NODE,
        source: NODE,
        last_beat: BEAT,
        end: 1,
        label: LABEL,
    }
}

pub(super) fn name(config: &LinkConfig) -> String {
    format!(
        "l{}_b{}_f{}_t{}_r{}",
        config.lanes(),
        config.flit_beats(),
        config.frame_flits(),
        config.replay_flits(),
        config.receive_flits()
    )
}

/// The marker of a lane: 22 bits that differ from themselves at every shift, and the lane's number.
pub(super) fn marker(lane: u32) -> u128 {
    0b11_1110_0110_1010_0001_0111 << 3 | u128::from(lane)
}

pub(super) fn markers(config: &LinkConfig) -> Bits {
    cat((0..config.lanes()).rev().map(|lane| lit(marker(lane), LinkConfig::LANE_BITS)))
}

/// Place of payload bit 0 in a flit.
const PAYLOAD: u32 = LinkConfig::HEADER_BITS;

/// The beat of word `w`'s first payload bit; the first one for word 0.
pub(super) fn beat_of_word(config: &LinkConfig, w: u32) -> u32 {
    let bit = (w * config.word_bits()).saturating_sub(PAYLOAD);
    (bit / BEAT_BITS).min(config.flit_beats() - 1)
}

/// Payload bits of word `w`, and the place of the first one in its beat.
pub(super) fn payload_of_word(config: &LinkConfig, w: u32) -> (u32, u32) {
    let start = (w * config.word_bits()).max(PAYLOAD);
    let end = ((w + 1) * config.word_bits()).min(PAYLOAD + config.payload_bits());
    let offset = (start - PAYLOAD).saturating_sub(beat_of_word(config, w) * BEAT_BITS);
    (end.saturating_sub(start), offset)
}

/// The word that completes beat `b`, and the number of bits of that word after the beat.
pub(super) fn end_of_beat(config: &LinkConfig, b: u32) -> (u32, u32) {
    let end = PAYLOAD + (b + 1) * BEAT_BITS;
    let word = (end - 1) / config.word_bits();
    (word, (word + 1) * config.word_bits() - end)
}

#[block(m, "link_ring_{}x{}", config.frame_flits(), config.flit_words(),
    "Tracks the place of a word in its frame, one-hot.")]
pub fn link_ring(config: &LinkConfig) -> Block {
    let (words, flits) = (config.flit_words(), config.frame_flits());
    let run = m.input(1, "stay in step; otherwise no place is set");
    let begin = m.input(1, "the next word is a marker");
    let mark = m.reg(1).reset(0);
    let at = m.reg(words).reset(0);
    let flit_bits = log2(flits);
    let flit = m.reg(flit_bits).reset(0);
    let ends = at.msb();
    let last = m.wire(ends & flit.all());
    flit.next(mux_count(&flit.q(), &ends, &mark.q()));
    mark.next((begin | last) & run);
    let first = any!(mark, ends & !last);
    at.next(cat!(at.low(words - 1), first).gated(run));
    m.output(mark, "markers");
    m.output(at, "word of the flit, one-hot");
}

fn mux_count(value: &Bits, step: &Bits, clear: &Bits) -> Bits {
    let stepped = mux(step, value.plus_one(), value);
    mux(clear, zeros(value.width()), stepped)
}

/// `value` one to `count` cycles later, cleared by reset.
pub(super) fn delayed(m: &ModuleBuilder, name: &str, value: &Bits, count: u32) -> Vec<Bits> {
    let mut stages = vec![*value];
    for k in 1..=count {
        stages.push(m.flag(format!("{name}{k}_q"), stages[k as usize - 1]));
    }
    stages
}
