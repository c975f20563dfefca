//! One end of a DIMM-link: transmitter, receiver, session and counters. Every DIMM has one, and a bridge one per port.

use super::link_frame::{LABEL, NODE, name};
use super::link_monitor::{EVENTS, NUMBER, link_monitor};
use super::link_receiver::link_receiver;
use super::link_session::link_session;
use super::link_transmitter::link_transmitter;
use ndp_config::{BEAT_BITS, LinkConfig};
use ndp_hdl_language::prelude::*;
use std::collections::BTreeMap;

/// The controller.
///
/// # Errors
/// [`HdlError`] if the description breaks a rule of the language.
#[block(m, "link_controller_{}", name(config), "One end of a DIMM-link.")]
pub fn link_controller(config: &LinkConfig) -> Block {
    let tx_valid = m.input(1, "a beat is offered");
    let tx_data = m.input(BEAT_BITS, "the beat");
    let tx_last = m.input(1, "it is the last of its message");
    let tx_dest = m.input(NODE, "the message's destination, the same for all of its beats");
    let tx_source = m.input(NODE, "its source, the same");
    let tx_label = m.input(LABEL, "label of the flit, the same for all of its beats");
    let rx_ready = m.input(1, "the received beat is taken");
    let lanes = m.input(config.word_bits(), "25 bits of each lane, lane 0 lowest, first bit lowest");
    let retrain = m.input(1, "forget a fault, search the markers anew, go on");
    let discard = m.input(1, "during a fault take new flits and drop them, rather than not take them");
    let number = m.input("counter_i", NUMBER, "counter to be read");

    let forward = |name: &str, width| m.forward(name, width);
    let (up, syncs, restart) = (forward("up", 1), forward("syncs", 1), forward("restart", 1));
    let rx = link_receiver::In { lanes, restart: *restart, up: *up, syncs: *syncs, rx_ready }.part(
        &m,
        "receiver",
        &link_receiver(config)?,
    );
    let (busy, advances) = (forward("busy", 1), forward("advances", 1));
    let good = rx.good.q();
    let session = link_session::In {
        good,
        kind: rx.kind.q(),
        peer_fault: rx.peer_fault.q(),
        busy: *busy,
        advances: *advances,
        retrain,
    }
    .part(&m, "session", &link_session(config)?);
    up.drive(session.up);
    syncs.drive(session.syncs);
    restart.drive(session.restart);
    let fault = session.fault.q();
    let tx = m
        .instance("transmitter", &link_transmitter(config)?)
        .input("tx_valid_i", tx_valid)
        .input("tx_data_i", tx_data)
        .input("tx_last_i", tx_last)
        .input("tx_dest_i", tx_dest)
        .input("tx_source_i", tx_source)
        .input("tx_label_i", tx_label)
        .input("up_i", up)
        .input("answers_i", session.answers)
        .input("fault_i", fault)
        .input("discard_i", discard)
        .input("resync_i", session.resync)
        .input("heard_i", session.heard);
    for port in ["expected", "nack", "nack_round", "limit"] {
        tx.connect_input(format!("{port}_i"), rx.output(&format!("{port}_o")));
    }
    let mut said = Vec::new();
    for port in ["peer_ack", "peer_nack", "peer_nack_round", "peer_limit"] {
        said.push(rx.output(&format!("{port}_o")));
        tx.connect_input(format!("{port}_i"), said[said.len() - 1]);
    }
    stays_until_heard(&m, &good, &cat(said));
    busy.drive(tx.output("busy_o"));
    advances.drive(tx.output("advances_o"));
    let tx_ready = tx.output("tx_ready_o");
    let rx_valid = rx.rx_valid.q();
    let aligned = rx.aligned.q();

    let mut events: BTreeMap<&str, Bits> = BTreeMap::new();
    for name in ["sends", "repeats", "asked", "expires", "empty", "starves", "discards", "arrives"] {
        events.insert(name, tx.output(&format!("{name}_o")));
    }
    for name in ["accepts", "bad", "refuses"] {
        events.insert(name, rx.output(&format!("{name}_o")));
    }
    events.insert("full", all!(tx_valid, !tx_ready));
    events.insert("waits", all!(rx_valid, !rx_ready));
    events.insert("unaligned", !aligned);
    let monitor = m.instance(&link_monitor()?).input("counter_i", number);
    let monitor = monitor.input("times_i", tx.output("times_o"));
    for (port, _) in EVENTS {
        if let Some(event) = events.remove(port.trim_end_matches("_i")) {
            monitor.connect_input(port, event);
        }
    }

    m.output(tx_ready, "the beat is taken");
    m.output(rx_valid, "a received beat is offered");
    m.output("rx_data_o", rx.rx_data, "the beat");
    m.output("rx_last_o", rx.rx_last, "it is the last of its message");
    m.output("rx_flit_last_o", rx.rx_flit_last, "it is the last of its flit");
    m.output("rx_dest_o", rx.rx_dest, "the message's destination");
    m.output("rx_source_o", rx.rx_source, "its source");
    m.output("rx_label_o", rx.rx_label, "label of the flit");
    m.output("tx_holds_o", tx.output("holds_o"), "beats are taken and not acknowledged");
    m.output("lanes_o", tx.output("lanes_o"), "25 bits of each lane, lane 0 lowest, first bit lowest");
    m.output(up, "flits can be exchanged");
    m.output(aligned, "lanes are in step");
    m.output("locked_o", rx.locked, "lanes whose markers are found");
    m.output(fault, "the link is faulty: nothing new is sent until `retrain_i`");
    m.output("cause_o", session.cause, "of the last fault: bit 0 nothing heard, bit 1 nothing acknowledged");
    m.output("peer_fault_o", session.peer_fault, "the other side said last that it is faulty");
    m.output("peer_restart_o", session.peer_restart, "the other side was reset while the link was up");
    m.output("counter_o", monitor.output("counter_o"), "the counter that was asked for in the cycle before");
}

/// What the receiver tells the transmitter of the other side changes only behind a flit that is intact.
fn stays_until_heard(m: &ModuleBuilder, good: &Bits, said: &Bits) {
    let checked = m.ghost("checked_q", 1).reset(0).next(lit(1, 1));
    let heard = m.ghost("heard_q", 1).reset(0).next(good);
    let before = m.ghost("said_before_q", said.width()).next(said);
    m.assert(
        "says_what_was_intact",
        any!(heard, said.eq(before), !checked),
        "what a header says to the transmitter stays until the next intact flit",
    );
}
