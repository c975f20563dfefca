//! One lane of a link's receiver: finds the boundary of words and the markers, and delays the lane until all are in
//! step. The SerDes gives 25 bits per cycle without a boundary. The lane tries the 25 places in turn, waiting at each
//! for the marker a frame long. Three markers a frame apart lock it, four missing ones in a row unlock it.

use super::prelude::*;

const BITS: u32 = LinkConfig::LANE_BITS;
/// Cycles beyond a frame that the lane stays at a place: the words in flight when the place changes.
const MARGIN: u32 = 4;

/// `align_i` may come in a cycle in which `near_o` is set on all lanes.
#[block(m, "link_lane_{}", config.frame_words(), "Finds a lane's words and markers, and delays the lane.")]
pub fn link_lane(config: &LinkConfig) -> Block {
    let frame = config.frame_words();
    m.share_code();
    m.replicated();
    let lane = m.input(BITS, "bits of the lane, the lowest first");
    let marker = m.input(BITS, "the lane's marker");
    let restart = m.input(1, "restart the search");
    let align = m.input(1, "in two cycles, put out the last marker, then the words after it");

    /// The word at the place that is tried.
    let now = m.delay(lane);
    let before = m.delay(now);
    let slides = m.forward(1);
    let place = m.reg(BITS).reset(1).enable(slides);
    place.next(cat!(place.low(BITS - 1), place.msb()));
    let window = cat!(now, before);
    let candidates = each(BITS, |k| window.slice(k, BITS));
    let cut = m.delay(one_hot_mux(place, &candidates));
    let hit = m.flag(cut.eq(marker));
    let word = m.delay(cut);

    /// Searching, one marker found, two found, locked. `pos` counts from the last marker.
    let found = m.reg(1).reset(0);
    let again = m.reg(1).reset(0);
    let locked = m.reg(1).reset(0);
    let misses = m.reg(2).reset(0);
    let pos_bits = bits_for(frame + MARGIN);
    let pos = m.reg(pos_bits).reset(0);
    let due = m.flag(all!(pos.eq_lit((frame - 1).into()), found, !restart));
    let finds = m.wire(hit & !found);
    let missed = m.wire(due & !hit);
    let lost = m.wire(any!(missed & !locked, missed & misses.all(), restart));
    let gives_up = !found & pos.eq_lit((frame + MARGIN).into());
    slides.drive(gives_up & !finds);
    found.next(any!(finds, found) & !lost);
    let confirmed = m.wire(due & hit);
    again.next(any!(confirmed, again) & !lost);
    locked.next(any!(confirmed & again, locked) & !lost);
    let counted = mux(missed, misses.plus_one(), mux(confirmed, zeros(2), misses));
    misses.next(counted.gated(locked & !lost));
    let restarts = m.wire(*slides | lost);
    let next_pos = mux(any!(finds, due), lit(1, pos_bits), pos.plus_one());
    pos.next(next_pos.gated(!restarts));

    // The words of late lanes are still to come at the first marker.
    let depth_bits = log2(LinkConfig::DESKEW_WORDS);
    let mark = m.wire(due & locked);
    let age = m.reg(depth_bits).reset(LinkConfig::DESKEW_WORDS as u128 - 1);
    let aged = mux(age.all(), age, age.plus_one());
    age.next(mux(mark, lit(1, depth_bits), aged));
    let age_now = m.wire(age.gated(!mark));
    let write = m.reg(depth_bits).reset(0);
    write.next(write.plus_one());
    let words = m.memory(BITS, LinkConfig::DESKEW_WORDS);
    words.write(lit(1, 1), write, word);
    let read = m.reg(depth_bits).reset(0);
    read.next(mux(align, write - age_now, read.plus_one()));
    let out = m.delay(words.read(read));

    let told = m.ghost(1).reset(0).next(restart);
    m.assert(
        "searches",
        !(told & locked),
        "told to restart the search, it discards all markers found so far",
    );
    m.output(locked, "the lane's markers are found");
    m.output(mark, "a marker is due in this cycle");
    m.output(near = locked & !age_now.all(), "the last marker is still held");
    m.output(word = out, "the delayed word");
}
