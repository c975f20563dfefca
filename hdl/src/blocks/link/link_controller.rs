//! One end of a DIMM-link: transmitter, receiver, session and counters. Every DIMM has one, and a bridge one per port.

use super::link_receiver::link_receiver;
use super::link_session::link_session;
use super::link_transmitter::link_transmitter;
use super::prelude::*;

/// The controller.
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
    let number = m.input(counter = NUMBER, "counter to be read");

    let forward = |name: &str, width| m.forward(name, width);
    let (up, syncs, restart) = (forward("up", 1), forward("syncs", 1), forward("restart", 1));
    let rx = link_receiver::In { lanes, restart: *restart, up: *up, syncs: *syncs, rx_ready };
    let rx = rx.part(&m, "receiver", &link_receiver(config)?);
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
    let (answers, resync, heard) = (session.answers.q(), session.resync.q(), session.heard.q());
    let (expected, nack, nack_round) = (rx.expected.q(), rx.nack.q(), rx.nack_round.q());
    let limit = rx.limit.q();
    let (peer_ack, peer_nack) = (rx.peer_ack.q(), rx.peer_nack.q());
    let (peer_nack_round, peer_limit) = (rx.peer_nack_round.q(), rx.peer_limit.q());
    let said = cat!(peer_ack, peer_nack, peer_nack_round, peer_limit);
    let tx = link_transmitter::In {
        tx_valid,
        tx_data,
        tx_last,
        tx_dest,
        tx_source,
        tx_label,
        up: *up,
        answers,
        fault,
        discard,
        expected,
        nack,
        nack_round,
        limit,
        heard,
        peer_ack,
        peer_nack,
        peer_nack_round,
        peer_limit,
        resync,
    }
    .part(&m, "transmitter", &link_transmitter(config)?);
    stays_until_heard(&m, &good, &said);
    busy.drive(tx.busy);
    advances.drive(tx.advances);
    let tx_ready = tx.tx_ready.q();
    let rx_valid = rx.rx_valid.q();
    let aligned = rx.aligned.q();

    let (sends, repeats, asked, expires) = (tx.sends.q(), tx.repeats.q(), tx.asked.q(), tx.expires.q());
    let (empty, starves, discards, arrives) = (tx.empty.q(), tx.starves.q(), tx.discards.q(), tx.arrives.q());
    let events = Events {
        sends,
        repeats,
        accepts: rx.accepts.q(),
        bad: rx.bad.q(),
        refuses: rx.refuses.q(),
        asked,
        expires,
        empty,
        starves,
        full: all!(tx_valid, !tx_ready),
        waits: all!(rx_valid, !rx_ready),
        discards,
        unaligned: !aligned,
        arrives,
    };
    let monitor = link_monitor::In { counter: number, times: tx.times.q(), events };
    let monitor = monitor.part(&m, "monitor", &link_monitor()?);

    m.output(tx_ready, "the beat is taken");
    m.output(rx_valid, "a received beat is offered");
    m.output(rx_data = rx.rx_data, "the beat");
    m.output(rx_last = rx.rx_last, "it is the last of its message");
    m.output(rx_flit_last = rx.rx_flit_last, "it is the last of its flit");
    m.output(rx_dest = rx.rx_dest, "the message's destination");
    m.output(rx_source = rx.rx_source, "its source");
    m.output(rx_label = rx.rx_label, "label of the flit");
    m.output(tx_holds = tx.holds, "beats are taken and not acknowledged");
    m.output(lanes = tx.lanes, "25 bits of each lane, lane 0 lowest, first bit lowest");
    m.output(up, "flits can be exchanged");
    m.output(aligned, "lanes are in step");
    m.output(locked = rx.locked, "lanes whose markers are found");
    m.output(fault, "the link is faulty: nothing new is sent until `retrain_i`");
    m.output(cause = session.cause, "of the last fault: bit 0 nothing heard, bit 1 nothing acknowledged");
    m.output(peer_fault = session.peer_fault, "the other side said last that it is faulty");
    m.output(peer_restart = session.peer_restart, "the other side was reset while the link was up");
    m.output(counter = monitor.counter, "the counter that was asked for in the cycle before");
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
