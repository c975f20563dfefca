//! One DRAM rank as the core sees it: [`super::rank_controller`] with FIFOs between the two clocks.
//!
//! The module's own clock is the core's, the domain `dram` the DRAM's. Segments are reads of up to 16 consecutive
//! bursts within a row pair (256 bursts, an open row in each of two bank groups): their beats come back in order.
//! Requests are single bursts to be read or written: their responses also come back in order. The streams are
//! independent: beats that are not taken stop only segments, and responses that are not taken stop only requests.
//! [`super::rank_timing`] has the rounding of times, `docs/rank-port.md` the bounds.

use super::prelude::*;
use super::rank_controller::rank_controller;

const SEGMENTS: u32 = 8;
/// Requests that can wait, not counting those in the controller.
const REQUESTS: u32 = 16;
/// Bursts that can wait to be written: the requests' bursts and, for a stream of writes at full rate, bursts of issued
/// writes that are not on the data bus yet.
const WRITES: u32 = 32;
/// Responses that can be due or waiting: at full rate one per slot, for as long as a place is kept. That is the way
/// through the queue (5 slots), tCL and the burst (7), the FIFO (4) and its pointer's way back (2), 18 slots, and the
/// rest for the core.
pub const RESPONSES: u32 = 32;

impl RankPorts {
    /// Ports of a rank with the queues of `core`.
    pub fn new(core: &CoreConfig, segment_tag_bits: u32, request_tag_bits: u32) -> Self {
        Self { segment_tag_bits, request_tag_bits, beats: core.read_fifo_beats(), responses: RESPONSES }
    }
}

bundle! {
    /// Pins of the rank, driven by registers on the DRAM's clock.
    pub(crate) struct Pins(dram: &DramConfig) {
        cs_n: 1, "chip select, active low";
        act_n: 1, "ACT, active low";
        bg: dram.bank_groups().trailing_zeros(), "bank group";
        ba: 2, "bank";
        a: ADDRESS_PINS, "address pins; without ACT RAS_n, CAS_n and WE_n are A16, A15 and A14";
        dq: BUS_BITS, "data bus, two transfers; the earlier one in the lower half";
        dq_oe: 1, "the data bus is driven";
    }
}

#[block(m)]
pub fn rank_port(dram: &DramConfig, ports: &RankPorts) -> Block {
    let controller = rank_controller(dram, ports)?;
    let name = controller.name().replace("rank_controller", "rank_port");
    let m = ModuleBuilder::new(name, "Controller of a DRAM rank with FIFOs to the core's clock.");
    m.share_code();
    m.replicated();
    let (core, clock) = (m.own_domain(), m.clock_domain("dram"));
    let address_bits = dram.burst_bits();
    let (seg_tag_bits, req_tag_bits) = (ports.segment_tag_bits, ports.request_tag_bits);

    let seg_valid = m.input(1, "a segment is offered");
    let seg = [
        m.input(seg_tag = seg_tag_bits, "tag of its beats"),
        m.input(
            seg_length = LENGTH_BITS,
            "its bursts minus one; a segment stays within a block of 256 bursts",
        ),
        m.input(seg_address = address_bits, "its first burst"),
    ];
    let req_valid = m.input(1, "a request is offered");
    let req_write = m.input(1, "write, otherwise read");
    let req = [
        m.input(req_tag = req_tag_bits, "tag of its response"),
        m.input(req_address = address_bits, "its burst"),
    ];
    let req_data = m.input(BURST_BITS, "burst to write");
    let beat_ready = m.input(1, "the beat is taken");
    let rsp_ready = m.input(1, "the response is taken");
    let dq = m.input(BUS_BITS, "data bus, two transfers; on the DRAM's clock");

    let inward = |name: &str, width: u32, depth: u32, storage: Storage| {
        let fifo = async_fifo::Out::from(m.instance(name, &async_fifo(width, depth, storage)?));
        fifo.pass_domain("write", &core).pass_domain("read", &clock);
        fifo.taken.ignore("nothing is reserved here");
        Ok::<_, HdlError>(fifo)
    };
    let (segment, request) = (cat(seg), cat!(req_write, cat(req)));
    let segments = inward("segments", segment.width(), SEGMENTS, Storage::FlipFlops)?;
    let requests = inward("requests", request.width(), REQUESTS, Storage::FlipFlops)?;
    let writes = inward("writes", BURST_BITS, WRITES, Storage::Sram)?;
    let rank = rank_controller::Out::from(m.instance("rank", &controller));
    rank.in_domain(&clock);
    // A request is in both of its FIFOs or in none.
    let room = m.wire(requests.ready & writes.ready);
    let push = m.wire(pushes = req_valid & room);
    segments.connect(async_fifo::In { data: segment, pop: rank.seg_pop.q(), push: seg_valid });
    requests.connect(async_fifo::In { data: request, pop: rank.req_pop.q(), push });
    writes.connect(async_fifo::In { data: req_data, pop: rank.wdata_pop.q(), push: push & req_write });
    writes.valid.ignore("a burst comes with its request, long before it is due on the data bus");

    let (segment, request) = (segments.data.q(), requests.data.q());
    let outward = |name: &str, data: Bits, depth: u32, push: Bits, pop: Bits| {
        let module = async_fifo(data.width(), depth, Storage::Sram)?;
        let fifo = async_fifo::In { data, pop, push }.part(&m, name, &module);
        fifo.pass_domain("write", &clock).pass_domain("read", &core);
        fifo.ready.ignore("a place was reserved before the command was issued");
        Ok::<_, HdlError>(fifo)
    };
    let (data, tag) = (rank.data.q(), rank.tag.q());
    let beat = cat!(rank.last, tag.low(seg_tag_bits), data);
    let beats = outward("beats", beat, ports.beats, rank.beat_push.q(), beat_ready)?;
    let response = cat!(rank.write, tag.low(req_tag_bits), data);
    let responses = outward("responses", response, ports.responses, rank.rsp_push.q(), rsp_ready)?;
    rank.connect(rank_controller::In {
        seg: SegmentOffer {
            valid: segments.valid.q(),
            address: segment.low(address_bits),
            length: segment.slice(address_bits, LENGTH_BITS),
            tag: segment.high(seg_tag_bits),
        },
        req: RequestOffer {
            valid: requests.valid.q(),
            write: request.msb(),
            address: request.low(address_bits),
            tag: request.slice(address_bits, req_tag_bits),
        },
        beat_taken: beats.taken.q(),
        rsp_taken: responses.taken.q(),
        wdata: writes.data.q(),
        dq,
    });

    m.output(seg_ready = segments.ready, "the segment is taken");
    m.output(req_ready = room, "the request is taken");
    let beat = beats.data.q();
    m.output(beat_valid = beats.valid, "a beat of a segment is offered");
    m.output(beat_data = beat.low(BURST_BITS), "the beat");
    m.output(beat_tag = beat.slice(BURST_BITS, seg_tag_bits), "tag of its segment");
    m.output(beat_last = beat.msb(), "the burst is the last one of its segment");
    let response = responses.data.q();
    m.output(rsp_valid = responses.valid, "a response is offered");
    m.output(rsp_data = response.low(BURST_BITS), "the burst, if it was read");
    m.output(rsp_tag = response.slice(BURST_BITS, req_tag_bits), "tag of its request");
    m.output(rsp_write = response.msb(), "the request was a write");
    Pins::outputs(&m, dram, Pins::of(*rank, ""));
    m.finish()
}
