//! One DRAM rank as the core sees it: [`super::rank_controller`] behind FIFOs that take everything from one clock to
//! the other.
//!
//! The module's own clock is the core's, the domain `dram` the DRAM's. Segments are reads of up to 16 consecutive
//! bursts within a row pair (256 bursts, an open row in each of two bank groups): their beats come back in order. Requests are
//! single bursts to be read or written: their responses come back in order too. Nothing that goes in waits for anything
//! that does not come out of the same stream: a stream of beats that nobody takes stops segments only, responses that
//! nobody takes stop requests only.
//!
//! **Rounding of times**: see [`super::rank_timing`]. **Bounds**: see `docs/rank-port.md`.

use super::rank_controller::{rank_controller, source_ports};
use super::rank_intake::RankPorts;
use super::rank_timing::{BURST_BITS, BUS_BITS, LENGTH_BITS};
use crate::blocks::common::async_fifo::{Storage, async_fifo};
use crate::blocks::common::encoding::bits_for;
use ndp_config::{CoreConfig, DramConfig};
use ndp_hdl_language::prelude::*;

/// Segments that can wait.
const SEGMENTS: u32 = 8;
/// Requests that can wait, not counting those that have entered the controller.
const REQUESTS: u32 = 16;
/// Bursts that can wait to be written: the requests' and, for a stream of writes at full rate, those of writes that
/// have been issued but are not on the data bus yet.
const WRITES: u32 = 32;
/// Responses that can be due or waiting: at full rate one per slot, for as long as a place is kept. That is the way
/// through the queue (5 slots), tCL and the burst (7), the FIFO (4) and its pointer's way back (2), 18 slots, and as
/// much again for the core.
pub const RESPONSES: u32 = 32;

impl RankPorts {
    /// Ports of a rank with the queues of `core`.
    pub fn new(core: &CoreConfig, segment_tag_bits: u32, request_tag_bits: u32) -> Self {
        Self { segment_tag_bits, request_tag_bits, beats: core.read_fifo_beats(), responses: RESPONSES }
    }
}

/// The rank.
///
/// # Errors
/// [`HdlError`] if the description breaks a rule of the language.
#[block(m)]
pub fn rank_port(dram: &DramConfig, ports: &RankPorts) -> Block {
    let controller = rank_controller(dram, ports)?;
    let name = controller.title().replace("rank_controller", "rank_port");
    let m = ModuleBuilder::new(name, "A DRAM rank's controller behind FIFOs to the core's clock.");
    m.share_code();
    m.replicated();
    let (core, clock) = (m.own_domain(), m.clock_domain("dram"));
    let (address_bits, seg_tag, req_tag) =
        (dram.burst_bits(), ports.segment_tag_bits, ports.request_tag_bits);

    let seg_valid = m.input(1, "a segment is offered");
    let seg = [
        m.input("seg_tag_i", seg_tag, "tag of its beats"),
        m.input("seg_length_i", LENGTH_BITS, "its bursts less one; it must not leave its 256 bursts"),
        m.input("seg_address_i", address_bits, "its first burst"),
    ];
    let req_valid = m.input(1, "a request is offered");
    let req_write = m.input(1, "write, otherwise read");
    let req = [
        m.input("req_tag_i", req_tag, "tag of its response"),
        m.input("req_address_i", address_bits, "its burst"),
    ];
    let req_data = m.input(BURST_BITS, "burst to write");
    let beat_ready = m.input(1, "the beat is taken");
    let rsp_ready = m.input(1, "the response is taken");
    let dq = m.input(BUS_BITS, "data bus, two transfers; on the DRAM's clock");

    let inward = |name: &str, width: u32, depth: u32, storage: Storage| {
        let fifo = async_fifo(width, depth, storage)?;
        let fifo = m.instance(name, &fifo).pass_domain("write", &core).pass_domain("read", &clock);
        Ok::<_, HdlError>(fifo.ignore("taken_o", "nothing is reserved here"))
    };
    let width = |parts: &[Bits]| parts.iter().map(Bits::width).sum::<u32>();
    let (pop_seg, pop_req) = (m.forward("pop_seg", 1), m.forward("pop_req", 1));
    let segments = inward("segments", width(&seg), SEGMENTS, Storage::FlipFlops)?
        .input("push_i", seg_valid)
        .input("data_i", cat(seg))
        .input("pop_i", pop_seg);
    // A request is in both of its FIFOs or in none.
    let requests = inward("requests", width(&req) + 1, REQUESTS, Storage::FlipFlops)?;
    let writes = inward("writes", BURST_BITS, WRITES, Storage::Sram)?;
    let room = m.wire(requests.output("ready_o") & writes.output("ready_o"));
    let pushes = m.wire(req_valid & room);
    let pop_write = m.forward(1);
    let requests =
        requests.input("push_i", pushes).input("data_i", cat!(req_write, cat(req))).input("pop_i", pop_req);
    let writes = writes
        .input("push_i", pushes & req_write)
        .input("data_i", req_data)
        .input("pop_i", pop_write)
        .ignore("valid_o", "a burst comes with its request, long before it is due on the data bus");

    let (segment, request) = (segments.output("data_o"), requests.output("data_o"));
    let (beat_taken, rsp_taken) = (
        m.forward("beat_taken", taken_bits(ports.beats)),
        m.forward("rsp_taken", taken_bits(ports.responses)),
    );
    let mut inputs = vec![
        ("seg_valid_i", segments.output("valid_o")),
        ("seg_address_i", segment.low(address_bits)),
        ("seg_length_i", segment.slice(address_bits, LENGTH_BITS)),
        ("seg_tag_i", segment.high(seg_tag)),
        ("req_valid_i", requests.output("valid_o")),
        ("req_write_i", request.msb()),
        ("req_address_i", request.low(address_bits)),
        ("req_tag_i", request.slice(address_bits, req_tag)),
        ("beat_taken_i", beat_taken.q()),
        ("rsp_taken_i", rsp_taken.q()),
    ];
    debug_assert_eq!(inputs.len(), source_ports(dram, ports).len());
    inputs.extend([("wdata_i", writes.output("data_o")), ("dq_i", dq)]);
    let mut rank = m.instance("rank", &controller).in_domain(&clock);
    for (port, value) in inputs {
        rank = rank.input(port, value);
    }
    pop_seg.drive(rank.output("seg_pop_o"));
    pop_req.drive(rank.output("req_pop_o"));
    pop_write.drive(rank.output("wdata_pop_o"));

    let (data, tag) = (rank.output("data_o"), rank.output("tag_o"));
    let (last, write) = (rank.output("last_o"), rank.output("write_o"));
    let outward = |name: &str, word: Bits, depth: u32, push: &str, taken: &Wire, ready: &Bits| {
        let fifo = async_fifo(word.width(), depth, Storage::Sram)?;
        let fifo = m.instance(name, &fifo).pass_domain("write", &clock).pass_domain("read", &core);
        let fifo = fifo.input("push_i", rank.output(push)).input("data_i", word).input("pop_i", ready);
        taken.drive(fifo.output("taken_o"));
        Ok::<_, HdlError>(fifo.ignore("ready_o", "a place was reserved before the command was issued"))
    };
    let beat = cat!(last, tag.low(seg_tag), data);
    let beats = outward("beats", beat, ports.beats, "beat_push_o", &beat_taken, &beat_ready)?;
    let response = cat!(write, tag.low(req_tag), data);
    let responses = outward("responses", response, ports.responses, "rsp_push_o", &rsp_taken, &rsp_ready)?;

    m.output("seg_ready_o", segments.output("ready_o"), "the segment is taken");
    m.output("req_ready_o", room, "the request is taken");
    let beat = beats.output("data_o");
    m.output("beat_valid_o", beats.output("valid_o"), "a beat of a segment is offered");
    m.output("beat_data_o", beat.low(BURST_BITS), "the beat");
    m.output("beat_tag_o", beat.slice(BURST_BITS, seg_tag), "tag of its segment");
    m.output("beat_last_o", beat.msb(), "it is the last one of its segment");
    let response = responses.output("data_o");
    m.output("rsp_valid_o", responses.output("valid_o"), "a response is offered");
    m.output("rsp_data_o", response.low(BURST_BITS), "the burst, if it was read");
    m.output("rsp_tag_o", response.slice(BURST_BITS, req_tag), "tag of its request");
    m.output("rsp_write_o", response.msb(), "it was a write");
    for (port, doc) in PINS {
        m.output(port, rank.output(port), doc);
    }
    m.finish()
}

/// Bits of a count of words taken from a FIFO.
fn taken_bits(depth: u32) -> u32 {
    bits_for(depth)
}

/// The pins of the rank, all from registers on the DRAM's clock.
pub(crate) const PINS: [(&str, &str); 7] = [
    ("cs_n_o", "chip select, active low"),
    ("act_n_o", "ACT, active low"),
    ("bg_o", "bank group"),
    ("ba_o", "bank"),
    ("a_o", "address pins; without ACT RAS_n, CAS_n and WE_n are A16, A15 and A14"),
    ("dq_o", "data bus, two transfers; the earlier one in the lower half"),
    ("dq_oe_o", "the data bus is driven"),
];
