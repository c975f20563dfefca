//! All lanes of a link's receiver: brings them into step and follows the frame.

use super::link_frame::{link_ring, marker};
use super::link_lane::link_lane;
use ndp_config::LinkConfig;
use ndp_hdl_language::{HdlError, Module, ModuleBuilder, any_of, cat, lit};
use std::rc::Rc;

/// The aligner. Lanes may be apart by up to `DESKEW_WORDS - 2` words of 25 bits.
///
/// # Errors
/// [`HdlError`] if the description breaks a rule of the language.
pub fn link_aligner(config: &LinkConfig) -> Result<Rc<Module>, HdlError> {
    let lanes = config.lanes();
    let m = ModuleBuilder::new(
        format!("link_aligner_l{lanes}_{}", config.frame_words()),
        "Brings the lanes into step and follows the frame.",
    );
    let bits = m.input("lanes_i", config.word_bits(), "bits of all lanes");
    let restart = m.input("restart_i", 1, "search anew");
    let align = m.forward("align", 1);
    let lane = link_lane(config)?;
    let (mut words, mut locked, mut marks, mut near) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for l in 0..lanes {
        let instance = m
            .instance(format!("lane{l}"), &lane)
            .input("lane_i", bits.slice(l * LinkConfig::LANE_BITS, LinkConfig::LANE_BITS))
            .input("marker_i", lit(marker(l), LinkConfig::LANE_BITS))
            .input("restart_i", &restart)
            .input("align_i", &align);
        words.push(instance.output("word_o"));
        locked.push(instance.output("locked_o"));
        marks.push(instance.output("mark_o"));
        near.push(instance.output("near_o"));
    }
    let locked = m.wire("locked", cat(locked.into_iter().rev()));
    let aligned = m.reg("aligned_q", 1).reset(0);
    align.drive(cat([cat(near).all(), any_of(&marks), !aligned.q()]).all());
    aligned.next(cat([any_of(&[align.q(), aligned.q()]), locked.all(), !&restart]).all());
    // The lanes' words are there two cycles after `align`.
    let begin = m.flag("begin_q", &align);
    let ring = m.instance("ring", &link_ring(config)?).input("run_i", &aligned).input("begin_i", &begin);
    let ring = ring.ignore("mark_o", "markers need no treatment: no place of a flit is set");
    m.output("word_o", cat(words.into_iter().rev()), "word of the link");
    m.output(
        "at_o",
        ring.output("at_o"),
        "its place in a flit, one-hot; none for markers and while not aligned",
    );
    m.output("aligned_o", &aligned, "lanes are in step");
    m.output("locked_o", &locked, "lanes whose markers are found");

    let told = m.ghost("told_q", 1).reset(0);
    told.next(&restart);
    m.assert("searches", !(told.q() & aligned.q()), "told to search anew, it relies on no lane");
    m.assert(
        "lanes_search",
        !(told.q() & locked.any()),
        "so does each lane: none relies on markers that it found",
    );
    m.finish()
}
