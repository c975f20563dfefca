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
    let rx = m
        .instance("receiver", &link_receiver(config)?)
        .input("lanes_i", lanes)
        .input("restart_i", restart)
        .input("up_i", up)
        .input("syncs_i", syncs)
        .input("rx_ready_i", rx_ready);
    let (busy, advances) = (forward("busy", 1), forward("advances", 1));
    let good = rx.output("good_o");
    let session = m
        .instance(&link_session(config)?)
        .input("good_i", good)
        .input("kind_i", rx.output("kind_o"))
        .input("peer_fault_i", rx.output("peer_fault_o"))
        .input("busy_i", busy)
        .input("advances_i", advances)
        .input("retrain_i", retrain);
    up.drive(session.output("up_o"));
    syncs.drive(session.output("syncs_o"));
    restart.drive(session.output("restart_o"));
    let fault = session.output("fault_o");
    let tx = m
        .instance("transmitter", &link_transmitter(config)?)
        .input("tx_valid_i", tx_valid)
        .input("tx_data_i", tx_data)
        .input("tx_last_i", tx_last)
        .input("tx_dest_i", tx_dest)
        .input("tx_source_i", tx_source)
        .input("tx_label_i", tx_label)
        .input("up_i", up)
        .input("answers_i", session.output("answers_o"))
        .input("fault_i", fault)
        .input("discard_i", discard)
        .input("resync_i", session.output("resync_o"))
        .input("heard_i", session.output("heard_o"));
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
    let rx_valid = rx.output("rx_valid_o");
    let aligned = rx.output("aligned_o");

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
    m.output("rx_data_o", rx.output("rx_data_o"), "the beat");
    m.output("rx_last_o", rx.output("rx_last_o"), "it is the last of its message");
    m.output("rx_flit_last_o", rx.output("rx_flit_last_o"), "it is the last of its flit");
    m.output("rx_dest_o", rx.output("rx_dest_o"), "the message's destination");
    m.output("rx_source_o", rx.output("rx_source_o"), "its source");
    m.output("rx_label_o", rx.output("rx_label_o"), "label of the flit");
    m.output("tx_holds_o", tx.output("holds_o"), "beats are taken and not acknowledged");
    m.output("lanes_o", tx.output("lanes_o"), "25 bits of each lane, lane 0 lowest, first bit lowest");
    m.output(up, "flits can be exchanged");
    m.output(aligned, "lanes are in step");
    m.output("locked_o", rx.output("locked_o"), "lanes whose markers are found");
    m.output(fault, "the link is faulty: nothing new is sent until `retrain_i`");
    m.output(
        "cause_o",
        session.output("cause_o"),
        "of the last fault: bit 0 nothing heard, bit 1 nothing acknowledged",
    );
    m.output("peer_fault_o", session.output("peer_fault_o"), "the other side said last that it is faulty");
    m.output(
        "peer_restart_o",
        session.output("peer_restart_o"),
        "the other side was reset while the link was up",
    );
    m.output("counter_o", monitor.output("counter_o"), "the counter that was asked for in the cycle before");
}

/// What the receiver tells the transmitter of the other side changes only behind a flit that is intact.
fn stays_until_heard(m: &ModuleBuilder, good: &Bits, said: &Bits) {
    let checked = m.ghost("checked_q", 1).reset(0);
    checked.next(lit(1, 1));
    let heard = m.ghost("heard_q", 1).reset(0);
    heard.next(good);
    let before = m.ghost("said_before_q", said.width());
    before.next(said);
    m.assert(
        "says_what_was_intact",
        any!(heard, said.eq(before), !checked),
        "what a header says to the transmitter stays until the next intact flit",
    );
}
