//! Chooses the next entry of a rank controller: a segment of the core's reads or a single request.
//!
//! An entry waits until a place for its response is reserved, so the controller never has to stop. If both sources can
//! enter, they take turns: up to [`TURN_REQUESTS`] requests, then [`TURN_SEGMENTS`] segments. Turns of several avoid
//! bus turnarounds and closed rows with each request. The choice takes three clocks, within the slot: used places, sum
//! with the new ones (both ahead), comparison, choice.

use super::prelude::*;

/// Requests that may go before a waiting segment.
pub const TURN_REQUESTS: u32 = 16;
/// Segments that may go before a waiting request.
pub const TURN_SEGMENTS: u32 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RankPorts {
    pub segment_tag_bits: u32,
    pub request_tag_bits: u32,
    /// Places for beats of segments, a power of two.
    pub beats: u32,
    /// Places for responses, a power of two.
    pub responses: u32,
}

impl RankPorts {
    /// Bits of an entry's tag: a segment's or a request's.
    pub(super) fn tag_bits(&self) -> u32 {
        self.segment_tag_bits.max(self.request_tag_bits)
    }

    pub(super) fn name(&self, dram: &DramConfig) -> String {
        let Self { segment_tag_bits, request_tag_bits, beats, responses } = self;
        let groups = match dram.bank_groups() {
            2 => String::new(),
            more => format!("g{more}"),
        };
        format!("r{}{groups}_s{segment_tag_bits}_q{request_tag_bits}_b{beats}_a{responses}", dram.row_bits())
    }
}

bundle! {
    /// A segment, with the bits of addresses and tags.
    pub(super) struct SegmentOffer(bits: &[u32; 2]) {
        valid: 1, "a segment is offered";
        address: bits[0], "its first burst";
        length: LENGTH_BITS, "its bursts minus one";
        tag: bits[1], "its tag";
    }
}

bundle! {
    /// A single request.
    pub(super) struct RequestOffer(bits: &[u32; 2]) {
        valid: 1, "a request is offered";
        write: 1, "the request is a write";
        address: bits[0], "its burst";
        tag: bits[1], "its tag";
    }
}

#[block(m, "rank_intake_{}", ports.name(dram),
    "Reserves places for the returned data and chooses the next entry.")]
pub fn rank_intake(dram: &DramConfig, ports: &RankPorts) -> Block {
    let layout = EntryLayout::new(dram, ports.tag_bits());
    let seg = SegmentOffer::inputs_as(&m, "seg_", "", &[dram.burst_bits(), ports.segment_tag_bits]);
    let req = RequestOffer::inputs_as(&m, "req_", "", &[dram.burst_bits(), ports.request_tag_bits]);
    let take = m.input(1, "the entry is taken; only in the last phase");
    let doc = "words that have left the FIFO, modulo twice its depth";
    let beat_taken = m.input(bits_for(ports.beats), doc);
    let rsp_taken = m.input(bits_for(ports.responses), doc);

    let ring = phase_ring::In {}.part(&m, "ring", &phase_ring(SLOT)?).phase.q();
    m.unused(ring.bit(2), "the used places are counted in every phase");
    let [compare, choose, add] = [0, 1, 3].map(|phase| ring.bit(phase));

    /// Places: reserved so far less taken so far, modulo twice the depth, and with the new ones.
    let staged = m.reg(1).reset(0);
    let chooses = m.wire(choose & !staged);
    let fits = |name: &str, depth: u32, taken: Bits, valid: &Bits, more: &Bits, chosen: &Bits| {
        let bits = bits_for(depth);
        let reserved = m.reg(format!("{name}_reserved_q"), bits).reset(0).enable(chosen);
        reserved.next(reserved + more.zext(bits) + lit(1, bits));
        let used = m.delay(format!("{name}_used_q"), reserved - taken);
        let before = m.ghost(format!("{name}_before_q"), bits).reset(0).next(taken);
        let kept = reserved - before;
        m.assume(
            format!("{name}_taken_was_there"),
            kept.ge(taken - before),
            "only entries with a place are taken, and none is put back",
        );
        m.assert(
            format!("{name}_has_places"),
            lit(depth.into(), bits).ge(reserved - taken),
            "no more places are reserved than there are",
        );
        let wide = bits + 1;
        let sum = m.hold(format!("{name}_sum_q"), used.zext(wide) + more.zext(wide), add);
        let seen = m.reg(format!("{name}_seen_q"), 1).reset(0).enable(add).next(valid);
        let offered = m.ghost(format!("{name}_offered_q"), 1).reset(0).next(valid);
        m.assert(
            format!("{name}_seen_in_time"),
            !compare | seen.eq(offered),
            "an entry offered when a slot ends can enter in the next one",
        );
        let fits = m.reg(format!("{name}_fits_q"), 1).reset(0).enable(compare);
        fits.next(seen & sum.lt(lit(depth.into(), wide)));
        fits.q()
    };
    let (segment, request) = (m.forward("segment", 1), m.forward("request", 1));
    let segment_fits = fits("beat", ports.beats, beat_taken, &seg.valid, &seg.length, &segment);
    let request_fits = fits("rsp", ports.responses, rsp_taken, &req.valid, &zeros(1), &request);

    // Whose turn it is, and how many of it have gone. The requests' turn begins with the first one and ends early if a
    // segment can go and no request can; the segments' turn waits for all of its segments.
    let run_bits = bits_for(TURN_REQUESTS - 1);
    let run = m.reg(run_bits).reset(0);
    let segments_turn = m.reg(1).reset(0);
    let segment_first = m.wire(segment_fits & (segments_turn | !request_fits));
    segment.drive(chooses & segment_first);
    request.drive(chooses & request_fits & !segment_first);
    let of_turn = m.wire(mux(segments_turn, segment, request));
    let ends_early = m.wire(all!(!segments_turn, segment, run.any()));
    let last =
        mux(segments_turn, run.eq_lit((TURN_SEGMENTS - 1).into()), run.eq_lit((TURN_REQUESTS - 1).into()));
    let ends = m.wire(of_turn & last);
    segments_turn.next(segments_turn ^ (ends | ends_early));
    let counted = mux(of_turn, run.plus_one(), run).gated(!ends);
    // The segment that ends the requests' turn is the first one of its own.
    run.next(mux(ends_early, lit(1, run_bits), counted));
    let amid = m.ghost(1).reset(0).next(all!(!segments_turn, segment, run.any()));
    let begun = segments_turn & run.eq_lit(1);
    m.assert("turn_begins", !amid | begun, "a segment taken during the requests' turn starts its own turn");

    let entry = m.reg(Entry::bits(layout)).enable(chooses);
    let tags = |tag: &Bits| tag.zext(ports.tag_bits());
    let from_segment = layout.entry(&seg.address, seg.length, zeros(1), zeros(1), tags(&seg.tag));
    let from_request = layout.entry(&req.address, zeros(LENGTH_BITS), req.write, lit(1, 1), tags(&req.tag));
    entry.next(mux(segment_first, from_segment.pack(), from_request.pack()));
    let arrives = any!(segment, request);
    staged.set_clear(arrives, take);

    m.assume_held("seg", seg.valid, segment, &[&seg.address, &seg.length, &seg.tag]);
    m.assume_held("req", req.valid, request, &[&req.address, &req.write, &req.tag]);
    m.output(seg_pop = segment, "the segment is taken");
    m.output(req_pop = request, "the request is taken");
    m.output(valid = staged, "an entry is offered");
    m.output(entry, "the entry");
}
