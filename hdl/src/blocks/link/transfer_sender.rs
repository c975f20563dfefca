//! Sends a range of DRAM over the link: reads bursts ahead by requests to the ranks, restores their order, and hands
//! them to the link as one message. Beats wait in a queue for each rank, with places reserved before a burst is
//! requested: responses are always taken. A message that cannot continue ends between two flits, so the link is never
//! left within one.

use super::prelude::*;
use super::transfer_walker::transfer_walker;

/// Beats that wait in, or are on their way to, one rank's queue. With those in the link they last for a refresh.
const QUEUED_BEATS: u32 = 16;
const PLACE_BITS: u32 = log2(QUEUED_BEATS) + 1;

/// Cycles without progress while `runs`; returns whether there were too many.
pub(super) fn patience(m: &ModuleBuilder, config: &LinkConfig, clear: &Bits, runs: &Bits) -> Bits {
    let bits = log2(config.transfer_cycles());
    let time = m.reg("time_q", bits).reset(0);
    time.count(runs, clear);
    let late = m.reg("late_q", 1).reset(0);
    late.next((time.all() | late) & !clear);
    late.q()
}

/// At most one beat per cycle.
#[block(m, "transfer_sender_g{}_a{}_b{}_t{}", config.gemv().ranks(), config.dram().burst_bits(),
    config.link().flit_beats(), config.link().transfer_cycles(),
    "Reads a range of DRAM and sends it as one message.")]
pub fn transfer_sender(config: &DesignConfig) -> Block {
    let (ranks, link) = (config.gemv().ranks(), config.link());
    let start = m.input(1, "take a command; only while `busy_o` is not set");
    let Message { address, beats, ranks: chosen, node, slot } = Message::inputs(&m, config);
    let passed = m.input(1, "the request is taken");
    let tx_ready = m.input(1, "the link takes the beat");
    let fault = m.input(1, "the link is faulty");

    let held = |name: &str, value: &Bits| m.hold(name, value, start);
    let (node, slot) = (held("node_q", &node), held("slot_q", &slot));
    let stops = m.forward(1);
    let flushes = m.reg(1).reset(0);

    /// Requests go round the ranks as long as there are places for the bursts.
    let asks = m.reg(TRANSFER_BITS).reset(0);
    asks.next(mux(start, beats, asks - passed.zext(TRANSFER_BITS)).gated(!stops));
    let walker = transfer_walker(config)?;
    let walk = |name: &str, step: Bits| {
        transfer_walker::In { start, address, ranks: chosen, step }.part(&m, name, &walker)
    };
    let places_at = walk("requests", passed);
    let (rank, burst) = (places_at.rank.q(), places_at.burst.q());

    /// Beats leave in the same order.
    let left = m.reg(TRANSFER_BITS).reset(0);
    let takes = m.forward(1);
    let order = walk("order", *takes);
    order.burst.ignore("only the order of the ranks matters here");
    let next = order.rank.q();
    let (mut free, mut empty, mut valids, mut words) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for g in 0..ranks {
        let push = m.input(
            format!("beat{g}_valid_i"),
            1,
            format!("rank {g}: a burst arrives; its place is reserved"),
        );
        let data = m.input(format!("beat{g}_data_i"), BEAT_BITS, format!("rank {g}: the burst"));
        let pop = m.wire(format!("pop{g}"), (*takes & next.bit(g)) | flushes);
        let queue = sram_fifo::In { push, data, pop };
        let queue = queue.part(&m, format!("queue{g}"), &sram_fifo(BEAT_BITS, QUEUED_BEATS)?);
        queue.ready.ignore("a place is reserved before the burst is requested");
        queue.count.ignore("places are counted from the request on");
        let valid = queue.valid.q();
        let places = m.reg(format!("places{g}_q"), PLACE_BITS).reset(QUEUED_BEATS.into());
        let (freed, used) = (pop & valid, passed & rank.bit(g));
        places.next(places + freed.zext(PLACE_BITS) - used.zext(PLACE_BITS));
        free.push(places.any());
        empty.push(places.msb());
        valids.push(valid);
        words.push(queue.data.q());
    }
    let free = m.wire(cat(free.into_iter().rev()));
    let wants = m.wire(asks.any() & (rank & free).any());
    let valids = m.wire(cat(valids.into_iter().rev()));
    let valid = m.wire(left.any() & (next & valids).any());
    takes.drive(valid & tx_ready);
    let last = m.wire(left.eq_lit(1));
    left.next(mux(start, beats, left - takes.zext(TRANSFER_BITS)).gated(!stops));

    // The place in the flit. The first flit of a message is marked.
    let index_bits = log2(link.flit_beats());
    let index = m.reg(index_bits).reset(0);
    let ends = m.wire(last | index.all());
    index.next(mux(takes, index.plus_one().gated(!ends), index));
    let begins = m.reg(1).reset(0);
    begins.set_clear(start, *takes & ends);

    /// A message that cannot go on: the link is faulty, or nothing has moved for too long.
    let runs = m.wire(left.any());
    let late = patience(&m, link, &any!(start, takes), &runs);
    let between = m.wire(mux(takes, ends, index.is_zero()));
    let over = m.wire(*takes & last);
    stops.drive(all!(runs, between, !over, fault | late));
    let returned = m.wire(cat(empty).all());
    flushes.set_clear(stops, returned);

    let busy = m.output(busy = any!(runs, flushes), "a message is being sent");
    m.assume("started_when_idle", !(start & busy), "a command comes only while not busy");
    m.output(req_valid = wants, "request to read a burst");
    m.output(req_rank = rank, "its rank, one-hot");
    m.output(req_addr = burst, "the burst of the rank");
    m.output(tx_valid = valid, "a beat for the link");
    m.output(tx_data = one_hot_mux(next, &words), "the beat");
    m.output(tx_last = last, "the beat is the last of its message");
    m.output(tx_dest = node, "destination DIMM of the message");
    m.output(tx_label = cat!(slot, begins), "slot, and in bit 0 that the message begins with this flit");
    m.output(slot, "slot of the message being sent");
    m.output(sends = takes, "a beat leaves");
    m.output(done = over, "the last beat leaves");
    m.output(fails = stops, "the message ends too early");
    m.output(faulty = fault, "the failure is due to a link fault; otherwise to a timeout");
}
