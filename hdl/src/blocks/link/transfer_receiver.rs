//! Receives a message from the link into a range of DRAM. Source and label of each flit identify its message. Flits of
//! the expected message are written, in the order in which they come; others are dropped and counted. While no message
//! is expected, flits stay in the link.

use super::prelude::*;
use super::transfer_sender::patience;
use super::transfer_walker::transfer_walker;

/// Bits of the count of writes on their way: more than all queues hold.
const PENDING_BITS: u32 = 10;

/// At most one beat per cycle; its data bypass the receiver.
#[block(m, "transfer_receiver_g{}_a{}_t{}", config.gemv().ranks(), config.dram().burst_bits(),
    config.link().transfer_cycles(),
    "Receives a message into a range of DRAM.")]
pub fn transfer_receiver(config: &DesignConfig) -> Block {
    let (ranks, link) = (config.gemv().ranks(), config.link());
    let start = m.input(1, "take a command; only while `busy_o` is not set");
    let Message { address, beats, ranks: chosen, node, slot } = Message::inputs(&m, config);
    let own = m.input(NODE, "number of this DIMM; stable");
    let passed = m.input(1, "the request is taken");
    let written = m.input(ranks, "ranks that have written a burst");
    let fault = m.input(1, "the link or its other side is faulty");
    let rx_valid = m.input(1, "link: a beat is offered");
    let rx_last = m.input(1, "link: the beat is the last of its message");
    let rx_flit_last = m.input(1, "link: the beat is the last of its flit");
    let rx_dest = m.input(NODE, "link: destination of the message");
    let rx_source = m.input(NODE, "link: source of the message");
    let rx_label = m.input(LinkConfig::LABEL_BITS, "link: label of its flit");

    let held = |name: &str, value: &Bits| m.hold(name, value, start);
    let (node, slot) = (held("node_q", &node), held("slot_q", &slot));
    let (first, all, set) = (held("first_q", &address), held("all_q", &beats), held("set_q", &chosen));
    let active = m.reg(1).reset(0);
    let began = m.reg(1).reset(0);
    let left = m.reg(TRANSFER_BITS).reset(0);

    /// Owner of the flit. A message that begins again replaces its earlier beats: its sender was reset.
    let for_us = m.wire(rx_dest.eq(own));
    let expected = m.wire(all!(active, for_us, rx_source.eq(node), rx_label.high(SLOT_BITS).eq(slot)));
    let flit_begins = m.reg(1).reset(1);
    let begins = m.wire(all!(rx_valid, expected, rx_label.bit(0), flit_begins));
    let again = m.wire(begins & began);
    let suits = m.wire(expected & (rx_label.bit(0) | began));
    let room = m.wire(left.any());
    let wants = m.wire(all!(rx_valid, suits, room, !again));
    let foreign = m.wire(rx_valid & (!for_us | (active & !suits)));
    let surplus = m.wire(all!(rx_valid, suits, !room, !again));
    let takes = m.wire(any!(passed, foreign, surplus));
    flit_begins.next(mux(takes, rx_flit_last, flit_begins));
    began.next(any!(passed, began) & !any_of([start, again]));
    let fewer = left - passed.zext(TRANSFER_BITS);
    left.next(mux(start, beats, mux(again, all, fewer)));
    let walker = transfer_walker::In {
        start: start | again,
        address: mux(start, address, first),
        ranks: mux(start, chosen, set),
        step: passed,
    }
    .part(&m, "places", &transfer_walker(config)?);

    let ends = m.wire(all!(any!(passed, surplus), rx_last));
    let complete = m.wire(all!(passed, ends, left.eq_lit(1)));
    let late = patience(&m, link, &any!(start, passed), &active.q());
    let gives_up = m.wire(all!(active, !rx_valid, fault | late));
    active.next(any!(start, active & !any_of([ends, gives_up])));
    let pending = m.reg(PENDING_BITS).reset(0);
    let back = (0..ranks).fold(zeros(PENDING_BITS), |sum, g| sum + written.bit(g).zext(PENDING_BITS));
    pending.next(pending + passed.zext(PENDING_BITS) - back);

    let busy = m.output(busy = any!(active, pending.any()), "a message is expected or being received");
    m.assume("started_when_idle", !(start & busy), "a command comes only while not busy");
    m.output(rx_ready = takes, "link: the beat is taken");
    m.output(req_valid = wants, "request to write the beat");
    m.output(req_rank = walker.rank, "its rank, one-hot");
    m.output(req_addr = walker.burst, "the burst of the rank");
    m.output(node, "DIMM that sends the message");
    m.output(slot, "slot of the message");
    m.output(drops = foreign & rx_flit_last, "a flit is dropped, because no `receive` waits for it");
    m.output(done = complete, "the message is complete");
    m.output(
        fails = any!(ends & !complete, gives_up),
        "the message is incomplete, and the unit stops waiting",
    );
    m.output(gives_up, "the failure is due to missing data; otherwise to a wrong length");
    m.output(faulty = fault, "data are missing due to a link fault; otherwise to a timeout");
}
