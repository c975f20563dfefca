//! The host's access to the DIMM: ordinary reads and writes pass through to the ranks; the upper half of the address
//! space belongs to the core itself (docs/isa.md, "Addresses that the host sees").
//!
//! It shares the ranks' request ports with the core's stores and with transfers: among those whose rank has room, the
//! one whose last turn is the longest ago goes first. Responses carry the request's tag; they come in order from one
//! rank, and take turns among ranks.

use super::prelude::*;
use crate::blocks::link::transfer_unit::{CONTROL_BITS, TransferRequest};

pub(crate) const HOST_TAG_BITS: u32 = 8;
/// Bits of a request's tag at the ranks: the host's tag, whether a store made it, and with a link whether a transfer
/// made it.
pub(crate) fn request_tag_bits(config: &DesignConfig) -> u32 {
    HOST_TAG_BITS + 1 + u32::from(config.core().link())
}
pub(crate) const REGISTER_BITS: u32 = 8;
const BURST_INSTRUCTIONS: u32 = BEAT_BITS / INSTRUCTION_BITS;
pub(crate) const LINK_REGISTER: u128 = 2;
/// Bits of the count of stores on their way: more than all queues hold.
const PENDING_BITS: u32 = 10;

bundle! {
    /// Request of the host.
    pub(crate) struct HostRequest(config: &DesignConfig) {
        write: 1, "write, otherwise read";
        addr: config.dimm_burst_bits() + 1, "burst; the uppermost bit selects the core";
        tag: HOST_TAG_BITS, "tag of the response";
        data: BEAT_BITS, "burst to write";
    }
}

bundle! {
    /// Request to a rank.
    pub(crate) struct RankRequest(config: &DesignConfig) {
        write: 1, "the request is a write";
        addr: config.dram().burst_bits(), "the request's burst in the rank";
        tag: request_tag_bits(config), "tag of the request; the bits above the host's tag mark requests of a store and of a transfer";
        data: BEAT_BITS, "burst to write";
    }
}

bundle! {
    /// Response of a rank.
    pub(crate) struct RankResponse(config: &DesignConfig) {
        valid: 1, "a response is offered";
        write: 1, "the response belongs to a write";
        tag: request_tag_bits(config), "tag of its request";
        data: BEAT_BITS, "the burst, if it was read";
    }
}

/// A request is passed on in the cycle after it was taken.
#[block(m, "host_port_g{}_a{}{}", config.gemv().ranks(), config.dimm_burst_bits(), link_suffix(config),
    "Passes the host's requests to the ranks and to the core.")]
pub fn host_port(config: &DesignConfig) -> Block {
    let ranks = config.gemv().ranks();
    let rank_log2 = log2(ranks);
    let (burst_bits, dimm_bits) = (config.dram().burst_bits(), config.dimm_burst_bits());
    let queue_bits = bits_for(config.core().queue_entries());
    let host_valid = m.input(1, "a request is offered");
    let host = HostRequest::inputs_as(&m, "host_", "", config);
    let response_ready = m.input(1, "the response is taken");
    let store_start = m.input(1, "a store begins");
    let store_rows = m.input(1, "the store is an append: vectors become rows, one stripe each");
    let store_waves = m.input(1, "the store is an export: one stripe to each rank in turn, row after row");
    let store_row = m.input(config.gemv().row_bits(), "row of the first vector");
    let store_batch = m.input(config.gemv().batch_bits(), "vectors");
    let store_address = m.input(
        dimm_bits,
        "first burst of the store; for an append or export the matrix's first burst in every rank",
    );
    let store_valid = m.input(1, "store: a beat is offered");
    let store_data = m.input(BEAT_BITS, "store: the beat");
    let queue_count = m.input(queue_bits, "instructions that wait in the queue");
    let register_data = m.input(BEAT_BITS, "register, one cycle after `register_re_o`");
    let (mut req_ready, mut responses) = (Vec::new(), Vec::new());
    for g in 0..ranks {
        let about = format!("rank {g}: ");
        req_ready.push(m.input(format!("req{g}_ready_i"), 1, format!("{about}the request is taken")));
        responses.push(RankResponse::inputs_as(&m, format!("rsp{g}_"), about, config));
    }
    let link = config.core().link();
    let transfer = link.then(|| TransferRequest::inputs_as(&m, "transfer_", "transfer: ", config));

    /// The current request.
    let pending = m.reg(1).reset(0);
    let passed = m.forward(1);
    let take = m.wire(host_valid & !pending);
    pending.set_clear(take, passed);
    let HostRequest { write, addr, tag, data } = host.held(&m, "", take);
    let for_core = m.wire(pending & addr.msb());
    let for_rank = m.wire(pending & !addr.msb());

    /// Stores: consecutive bursts. An append goes to the rows of its vectors in turn, beat by beat; row r of one stripe lies in
    /// rank r mod ranks, behind the r div ranks that lie there before it. An export fills such rows one after the other.
    let store_addr = m.reg(dimm_bits);
    let store_passed = m.forward(1);
    let kept = |name: &str, value: &Bits| m.hold(name, value, store_start);
    let appends = kept("appends_q", &store_rows);
    let exports = kept("exports_q", &store_waves);
    let first_row = kept("first_row_q", &store_row);
    let batch = kept("store_batch_q", &store_batch);
    let beat_bits = log2(config.gemv().beats_per_stripe());
    let (beat, last_beat) = match beat_bits {
        0 => (zeros(1), lit(1, 1)),
        bits => {
            let beat = m.reg("store_beat_q", bits);
            beat.count(store_passed, store_start);
            (beat.q(), m.wire("store_last_beat", beat.all()))
        }
    };
    // An export has more rows than there are vectors.
    let stripes_bits = config.gemv().slice_addr_bits() + rank_log2;
    let vector = m.reg("store_vector_q", stripes_bits.max(batch.width()));
    let last_vector = m.wire("store_last_vector", vector.plus_one().eq(batch.zext(vector.width())));
    let next_vector = vector.plus_one().gated(exports | !last_vector);
    let vector_done = m.wire("store_vector_done", *store_passed & (!exports | last_beat));
    vector.next(mux(vector_done, next_vector, vector).gated(!store_start));
    let moves = all!(store_passed, !exports, !appends | last_vector);
    let moves = m.wire("store_moves", moves);
    let onward = mux(moves, store_addr.plus_one(), store_addr);
    store_addr.next(mux(store_start, store_address, onward));
    let row = m.wire("store_row", first_row + vector.zext(first_row.width()));
    let before = match beat_bits {
        0 => row.high(row.width() - rank_log2),
        _ => cat!(row.high(row.width() - rank_log2), beat.gated(exports)),
    };
    let before = m.fit(before, burst_bits, "addresses count modulo the rank");
    let row_burst = m.wire(store_addr.low(burst_bits) + before);

    // One request per cycle goes to the ranks, chosen among requests whose rank has room: a rank's ready depends only
    // on its own contents.
    let split = |address: &Bits| match rank_log2 {
        0 => (lit(1, 1), address.low(burst_bits)),
        bits => (one_hot(&address.low(bits), ranks), address.slice(bits, burst_bits)),
    };
    let ((host_at, host_burst), (store_at, store_burst)) = (split(&addr), split(&store_addr));
    let in_rows = m.wire(appends | exports);
    let row_at = if rank_log2 == 0 { lit(1, 1) } else { one_hot(&row.low(rank_log2), ranks) };
    let store_at = mux(in_rows, row_at, store_at);
    let store_burst = mux(in_rows, row_burst, store_burst);
    let readies = cat(req_ready.iter().rev());
    let mut sources = vec![("host", for_rank, host_at), ("store", store_valid, store_at)];
    if let Some(transfer) = transfer {
        sources.push(("transfer", transfer.valid, transfer.rank));
    }
    let can: Vec<Bits> = sources
        .iter()
        .map(|(name, valid, at)| m.wire(format!("{name}_can"), valid & (readies & at).any()))
        .collect();
    let turns = matrix_arbiter(&m, "turn", &can);
    let (host_goes, store_goes) = (turns[0], turns[1]);
    let transfer_goes = turns.get(2).cloned().unwrap_or_else(|| zeros(1));
    let to: Vec<Bits> = sources.iter().zip(&turns).map(|((_, _, at), goes)| at.gated(goes)).collect();
    let to = m.wire(any_of(&to));
    store_passed.drive(store_goes);
    let mut request = RankRequest {
        write: mux(host_goes, write, lit(1, 1)),
        addr: mux(host_goes, host_burst, store_burst),
        tag: cat!(store_goes, tag),
        data: mux(host_goes, data, store_data),
    };
    if let Some(transfer) = transfer {
        request = RankRequest {
            write: mux(transfer_goes, transfer.write, request.write),
            addr: mux(transfer_goes, transfer.addr, request.addr),
            tag: cat!(transfer_goes, request.tag),
            data: mux(transfer_goes, transfer.data, request.data),
        };
    }
    let request = request.map(|name, value| m.wire(format!("request_{name}"), value));

    // The core's registers: instructions are unpacked one per cycle; a register comes back in the next cycle.
    let register = addr.low(REGISTER_BITS);
    let is_queue = m.wire(register.is_zero());
    let unread_bits = dimm_bits - REGISTER_BITS;
    let outside = m.wire(addr.slice(REGISTER_BITS, unread_bits).any());
    let answered = m.forward(1);
    let answer = m.reg(1).reset(0);
    let reads_register = m.wire(all!(for_core, !write, !answer));
    let unpacking = m.reg(BURST_INSTRUCTIONS).reset(0);
    let writes_queue = m.wire(all!(for_core, write, !answer, is_queue, !outside));
    /// While a burst is being unpacked, the queue's count does not say all.
    let settled = m.wire(!unpacking.any());
    let limit = config.core().queue_entries() - BURST_INSTRUCTIONS;
    let full = m.wire(lit(limit.into(), queue_bits).lt(queue_count));
    let queues = m.wire(all!(writes_queue, settled, !full));
    let overflow = m.wire(all!(writes_queue, settled, full));
    let shifted = cat!(zeros(1), unpacking.high(BURST_INSTRUCTIONS - 1));
    unpacking.next(mux(queues, repeat(BURST_INSTRUCTIONS, lit(1, 1)), shifted));
    let packed = m.reg(BEAT_BITS);
    let rest = cat!(zeros(INSTRUCTION_BITS), packed.high(BEAT_BITS - INSTRUCTION_BITS));
    packed.next(mux(queues, data, rest));
    let ignored = all!(for_core, write, !answer, !writes_queue);
    let done = m.wire(any!(reads_register, queues, overflow, ignored));
    answer.set_clear(done, answered);
    let blank = m.reg(1);
    blank.next(mux(reads_register, outside, blank));
    let answer_data = register_data.gated(!(blank | write));
    passed.drive(any!(host_goes, answered));

    /// Responses: acknowledged stores are counted, the rest goes to the host.
    let response = m.reg("response_valid_q", 1).reset(0);
    let room = m.wire(!response | response_ready);
    let (mut offers, mut acknowledged, mut words) = (Vec::new(), Vec::new(), Vec::new());
    for (g, RankResponse { valid, write, tag, data }) in responses.iter().enumerate() {
        acknowledged.push(m.wire(format!("stored{g}"), valid & tag.bit(HOST_TAG_BITS)));
        let others = tag.high(tag.width() - HOST_TAG_BITS);
        offers.push(m.wire(format!("offered{g}"), all!(valid, others.is_zero(), room)));
        words.push(cat!(write, tag.low(HOST_TAG_BITS), data));
    }
    offers.push(answer & room);
    words.push(cat!(write, tag, answer_data));
    let chosen = matrix_arbiter(&m, "answer", &offers);
    for (g, RankResponse { valid, tag, .. }) in responses.iter().enumerate() {
        let mut taken = vec![acknowledged[g], chosen[g]];
        if transfer.is_some() {
            let moved = m.wire(format!("moved{g}"), valid & tag.msb());
            let doc = format!("rank {g}: a response to a transfer's request");
            m.output(format!("transfer{g}_valid_o"), moved, doc);
            taken.push(moved);
        }
        m.output(format!("rsp{g}_ready_o"), any_of(&taken), format!("rank {g}: the response is taken"));
    }
    answered.drive(chosen[offers.len() - 1]);
    let comes = m.wire(any_of(&offers));
    response.set_clear(comes, response_ready);
    let word = m.hold("response_q", one_hot_mux(cat(chosen.into_iter().rev()), &words), comes);

    let stores = m.reg(PENDING_BITS).reset(0);
    let back = acknowledged.iter().fold(zeros(PENDING_BITS), |sum, one| sum + one.zext(PENDING_BITS));
    stores.next(stores + store_passed.zext(PENDING_BITS) - back);

    for (g, at) in (0..ranks).map(|g| (g, to.bit(g))) {
        m.output(format!("req{g}_valid_o"), at, format!("rank {g}: a request is offered"));
    }
    RankRequest::outputs_as(&m, "req_", "", config, request);
    m.output(host_ready = !pending, "the request is taken");
    m.output(response_valid = response, "a response is offered");
    m.output(response_write = word.msb(), "the response belongs to a write");
    m.output(response_tag = word.slice(BEAT_BITS, HOST_TAG_BITS), "tag of its request");
    m.output(response_data = word.low(BEAT_BITS), "the burst, if it was read");
    m.output(store_ready = store_passed, "store: the beat is taken");
    m.output(stores_pending = stores.any(), "not all stores are written yet");
    m.output(queue_push = unpacking.bit(0), "append `queue_data_o` to the queue");
    m.output(queue_data = packed.low(INSTRUCTION_BITS), "the instruction");
    m.output(overflow, "instructions were lost");
    m.output(unpacking, "instructions on their way to the queue, the next one in bit 0");
    if transfer.is_some() {
        m.output(transfer_ready = transfer_goes, "transfer: the request is taken");
        let control = all!(ignored, register.eq_lit(LINK_REGISTER), !outside);
        let control = data.low(CONTROL_BITS).gated(m.wire("control", control));
        m.output(control, "for the link: bit 0 retrain, bit 1 clear failures");
    }
    m.output(register_re = reads_register, "read a register");
    m.output(register, "its number");
}
