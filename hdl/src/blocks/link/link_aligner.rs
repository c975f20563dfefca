//! Brings all lanes of a link's receiver into step and follows the frame.

use super::link_lane::link_lane;
use super::prelude::*;

/// Lanes may differ by up to `DESKEW_WORDS - 2` words of 25 bits.
#[block(m, "link_aligner_l{}_{}", config.lanes(), config.frame_words(),
    "Brings the lanes into step and follows the frame.")]
pub fn link_aligner(config: &LinkConfig) -> Block {
    let lanes = config.lanes();
    let bits = m.input(lanes = config.word_bits(), "bits of all lanes");
    let restart = m.input(1, "restart the search");
    let align = m.forward(1);
    let lane = link_lane(config)?;
    let (mut words, mut locked, mut marks, mut near) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for l in 0..lanes {
        let instance = link_lane::In {
            lane: bits.slice(l * LinkConfig::LANE_BITS, LinkConfig::LANE_BITS),
            marker: lit(marker(l), LinkConfig::LANE_BITS),
            restart,
            align: *align,
        }
        .part(&m, format!("lane{l}"), &lane);
        words.push(instance.word.q());
        locked.push(instance.locked.q());
        marks.push(instance.mark.q());
        near.push(instance.near.q());
    }
    let locked = m.wire(cat(locked.into_iter().rev()));
    let aligned = m.reg(1).reset(0);
    align.drive(all!(cat(near).all(), any_of(&marks), !aligned));
    aligned.next(all!(any!(align, aligned), locked.all(), !restart));
    /// The lanes' words are valid two cycles after `align`.
    let begin = m.flag(align);
    let ring = link_ring::In { run: *aligned, begin }.part(&m, "ring", &link_ring(config)?);
    ring.mark.ignore("markers need no treatment: no place of a flit is set");
    m.output(word = cat(words.into_iter().rev()), "word of the link");
    m.output(at = ring.at, "its place in a flit, one-hot; 0 for markers and while not aligned");
    m.output(aligned, "lanes are in step");
    m.output(locked, "lanes whose markers are found");

    let told = m.ghost(1).reset(0).next(restart);
    m.assert("searches", !(told & aligned), "told to restart the search, it relies on no lane");
    m.assert(
        "lanes_search",
        !(told & locked.any()),
        "each lane does the same: it discards all markers found so far",
    );
}
