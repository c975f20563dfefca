//! Receives a message from the link into a range of DRAM.
//!
//! Each flit says by source and label which message it belongs to. Those of the message that is waited for are written, in the order
//! in which they come; others are dropped and counted. While nothing is waited for, flits stay in the link.

use super::link_frame::NODE;
use super::transfer_message::{SLOT_BITS, TRANSFER_BITS};
use super::transfer_sender::patience;
use super::transfer_walker::transfer_walker;
use ndp_config::{DesignConfig, LinkConfig};
use ndp_hdl_language::{Bits, HdlError, Module, ModuleBuilder, any_of, cat, mux, zeros};
use std::rc::Rc;

/// Bits of the count of writes on their way: more than all queues hold.
const PENDING_BITS: u32 = 10;

/// The receiver. A beat per cycle at most; its data go past it.
///
/// # Errors
/// [`HdlError`] if the description breaks a rule of the language.
pub fn transfer_receiver(config: &DesignConfig) -> Result<Rc<Module>, HdlError> {
    let (ranks, addr_bits, link) = (config.gemv().ranks(), config.dram().burst_bits(), config.link());
    let m = ModuleBuilder::new(
        format!("transfer_receiver_g{ranks}_a{addr_bits}_t{}", link.transfer_cycles()),
        "Takes a message into a range of DRAM.",
    );
    let start = m.input("start_i", 1, "take a command; only while `busy_o` is not set");
    let address = m.input("address_i", addr_bits, "first burst in every rank");
    let beats = m.input("beats_i", TRANSFER_BITS, "bursts of all ranks together, at least one");
    let chosen = m.input("ranks_i", ranks, "ranks that take part, at least one");
    let node = m.input("node_i", NODE, "DIMM that the message comes from");
    let slot = m.input("slot_i", SLOT_BITS, "what the message is known by");
    let own = m.input("own_i", NODE, "number of this DIMM; stable");
    let passed = m.input("passed_i", 1, "the request is taken");
    let written = m.input("written_i", ranks, "ranks that have written a burst");
    let fault = m.input("fault_i", 1, "the link or its other side is faulty");
    let valid = m.input("rx_valid_i", 1, "link: a beat is offered");
    let end = m.input("rx_last_i", 1, "link: it is the last of its message");
    let flit_end = m.input("rx_flit_last_i", 1, "link: it is the last of its flit");
    let dest = m.input("rx_dest_i", NODE, "link: its destination");
    let source = m.input("rx_source_i", NODE, "link: its source");
    let label = m.input("rx_label_i", LinkConfig::LABEL_BITS, "link: label of its flit");

    let held = |name: &str, value: &Bits| m.hold(name, value, &start);
    let (node, slot) = (held("node_q", &node), held("slot_q", &slot));
    let (first, all, set) = (held("first_q", &address), held("all_q", &beats), held("set_q", &chosen));
    let active = m.reg("active_q", 1).reset(0);
    let began = m.reg("began_q", 1).reset(0);
    let left = m.reg("left_q", TRANSFER_BITS).reset(0);

    // Whose flit it is. A message that begins anew replaces what has come of it: its sender was reset.
    let for_us = m.wire("for_us", dest.eq(&own));
    let expected = m.wire(
        "expected",
        cat([active.q(), for_us.clone(), source.eq(&node), label.high(SLOT_BITS).eq(&slot)]).all(),
    );
    let flit_begins = m.reg("flit_begins_q", 1).reset(1);
    let begins =
        m.wire("begins", cat([valid.clone(), expected.clone(), label.bit(0), flit_begins.q()]).all());
    let again = m.wire("again", &begins & began.q());
    let suits = m.wire("suits", &expected & (label.bit(0) | began.q()));
    let room = m.wire("room", left.any());
    let wants = m.wire("wants", cat([valid.clone(), suits.clone(), room.clone(), !&again]).all());
    let foreign = m.wire("foreign", &valid & (!&for_us | (active.q() & !&suits)));
    let surplus = m.wire("surplus", cat([valid.clone(), suits.clone(), !&room, !&again]).all());
    let takes = m.wire("takes", any_of(&[passed.clone(), foreign.clone(), surplus.clone()]));
    flit_begins.next(mux(&takes, &flit_end, &flit_begins));
    began.next(any_of(&[passed.clone(), began.q()]) & !any_of(&[start.clone(), again.clone()]));
    let fewer = left.q() - passed.zext(TRANSFER_BITS);
    left.next(mux(&start, &beats, &mux(&again, &all, &fewer)));
    let walker = m
        .instance("places", &transfer_walker(config)?)
        .input("start_i", &start | &again)
        .input("address_i", mux(&start, &address, &first))
        .input("ranks_i", mux(&start, &chosen, &set))
        .input("step_i", &passed);

    let ends = m.wire("ends", cat([any_of(&[passed.clone(), surplus]), end]).all());
    let complete = m.wire("complete", cat([passed.clone(), ends.clone(), left.eq_lit(1)]).all());
    let late = patience(&m, link, &any_of(&[start.clone(), passed.clone()]), &active.q());
    let gives_up = m.wire("gives_up", cat([active.q(), !&valid, &fault | &late]).all());
    active.next(any_of(&[start.clone(), active.q() & !any_of(&[ends.clone(), gives_up.clone()])]));
    let pending = m.reg("pending_q", PENDING_BITS).reset(0);
    let back = (0..ranks).fold(zeros(PENDING_BITS), |sum, g| sum + written.bit(g).zext(PENDING_BITS));
    pending.next(pending.q() + passed.zext(PENDING_BITS) - back);

    let busy = m.output("busy_o", any_of(&[active.q(), pending.any()]), "a message is waited for or in work");
    m.assume("started_when_idle", !(&start & &busy), "a command is given only while not busy");
    m.output("rx_ready_o", takes, "link: the beat is taken");
    m.output("req_valid_o", wants, "the beat is to be written");
    m.output("req_rank_o", walker.output("rank_o"), "its rank, one-hot");
    m.output("req_addr_o", walker.output("burst_o"), "the burst of the rank");
    m.output("node_o", &node, "DIMM that it comes from");
    m.output("slot_o", &slot, "slot of the message");
    m.output("drops_o", &foreign & &flit_end, "a flit is dropped that no `receive` waits for");
    m.output("done_o", &complete, "the message is complete");
    m.output(
        "fails_o",
        any_of(&[&ends & !&complete, gives_up.clone()]),
        "it is not, and is not waited for any more",
    );
    m.output("gives_up_o", gives_up, "because nothing comes, otherwise because of its length");
    m.output("faulty_o", fault, "nothing comes because of the link, otherwise for too long");
    m.finish()
}
