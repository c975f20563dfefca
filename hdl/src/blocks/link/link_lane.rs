//! One lane of a link's receiver: finds the boundary of words and the markers, and delays the lane until all are in step.
//!
//! The SerDes gives 25 bits per cycle and knows no boundary. The lane tries the 25 places one after the other: at each it waits
//! for the marker a frame long. Three markers a frame apart lock it, four missing ones in a row let go of it.

use crate::blocks::common::encoding::{bits_for, log2};
use ndp_config::LinkConfig;
use ndp_hdl_language::{Bits, HdlError, Module, ModuleBuilder, any_of, cat, lit, mux, one_hot_mux, zeros};
use std::rc::Rc;

const BITS: u32 = LinkConfig::LANE_BITS;
/// Cycles beyond a frame that the lane stays at a place: what is on its way when the place changes.
const MARGIN: u32 = 4;

/// A lane. `align_i` may come in a cycle in which `near_o` is set on all lanes.
///
/// # Errors
/// [`HdlError`] if the description breaks a rule of the language.
pub fn link_lane(config: &LinkConfig) -> Result<Rc<Module>, HdlError> {
    let frame = config.frame_words();
    let m = ModuleBuilder::new(
        format!("link_lane_{frame}"),
        "Finds a lane's words and markers, and delays the lane.",
    );
    m.share_code();
    m.replicated();
    let lane = m.input("lane_i", BITS, "bits of the lane, the lowest first");
    let marker = m.input("marker_i", BITS, "the lane's marker");
    let restart = m.input("restart_i", 1, "search anew");
    let align =
        m.input("align_i", 1, "the marker that came last goes out in two cycles, then what follows it");

    // The word at the place that is tried.
    let now = m.delay("now_q", &lane);
    let before = m.delay("before_q", now.clone());
    let slides = m.forward("slides", 1);
    let place = m.reg("place_q", BITS).reset(1).enable(&*slides);
    place.next(cat([place.low(BITS - 1), place.msb()]));
    let window = cat([now.clone(), before.clone()]);
    let candidates: Vec<Bits> = (0..BITS).map(|k| window.slice(k, BITS)).collect();
    let cut = m.delay("cut_q", one_hot_mux(&place.q(), &candidates));
    let hit = m.flag("hit_q", cut.eq(&marker));
    let word = m.delay("word_q", cut.clone());

    // Searching, one marker found, two found, locked. `pos` counts from the last marker.
    let found = m.reg("found_q", 1).reset(0);
    let again = m.reg("again_q", 1).reset(0);
    let locked = m.reg("locked_q", 1).reset(0);
    let misses = m.reg("misses_q", 2).reset(0);
    let pos_bits = bits_for(frame + MARGIN);
    let pos = m.reg("pos_q", pos_bits).reset(0);
    let due = m.flag("due_q", cat([pos.eq_lit((frame - 1).into()), found.q(), !&restart]).all());
    let finds = m.wire("finds", &hit & !found.q());
    let missed = m.wire("missed", &due & !&hit);
    let lost = any_of(&[&missed & !locked.q(), &missed & misses.all(), restart.clone()]);
    let lost = m.wire("lost", lost);
    let gives_up = !found.q() & pos.eq_lit((frame + MARGIN).into());
    slides.drive(&gives_up & !&finds);
    found.next(any_of(&[finds.clone(), found.q()]) & !&lost);
    let confirmed = m.wire("confirmed", &due & &hit);
    again.next(any_of(&[confirmed.clone(), again.q()]) & !&lost);
    locked.next(any_of(&[&confirmed & again.q(), locked.q()]) & !&lost);
    let counted = mux(&missed, &misses.plus_one(), &mux(&confirmed, &zeros(2), &misses));
    misses.next(counted.gated(&(locked.q() & !&lost)));
    let restarts = m.wire("restarts", &*slides | &lost);
    let next_pos = mux(&any_of(&[finds, due.clone()]), &lit(1, pos_bits), &pos.plus_one());
    pos.next(next_pos.gated(&!&restarts));

    // The words of late lanes are still to come when the first marker is there.
    let depth_bits = log2(LinkConfig::DESKEW_WORDS);
    let mark = m.wire("mark", &due & locked.q());
    let age = m.reg("age_q", depth_bits).reset(LinkConfig::DESKEW_WORDS as u128 - 1);
    let aged = mux(&age.all(), &age, &age.plus_one());
    age.next(mux(&mark, &lit(1, depth_bits), &aged));
    let age_now = m.wire("age_now", age.gated(&!&mark));
    let write = m.reg("write_q", depth_bits).reset(0);
    write.next(write.plus_one());
    let words = m.memory("words", BITS, LinkConfig::DESKEW_WORDS);
    words.write(&lit(1, 1), &write, &word);
    let read = m.reg("read_q", depth_bits).reset(0);
    read.next(mux(&align, &(write.q() - &age_now), &read.plus_one()));
    let out = m.delay("out_q", words.read(&read));

    let told = m.ghost("told_q", 1).reset(0);
    told.next(&restart);
    m.assert(
        "searches",
        !(told.q() & locked.q()),
        "told to search anew, it relies on no markers that it found",
    );
    m.output("locked_o", &locked, "the lane's markers are found");
    m.output("mark_o", &mark, "a marker is due in this cycle");
    m.output("near_o", &locked.q() & !age_now.all(), "the last marker is still held");
    m.output("word_o", &out, "the delayed word");
    m.finish()
}
