//! One end of a DIMM-link: transmitter, receiver, session and counters. Every DIMM has one, and a bridge one per port.

use super::link_receiver::link_receiver;
use super::link_session::link_session;
use super::link_transmitter::link_transmitter;
use super::prelude::*;

#[block(m, "link_controller_{}", name(config), "One end of a DIMM-link.")]
pub fn link_controller(config: &LinkConfig) -> Block {
    let tx = LinkBeat::inputs_as(&m, "tx_", "", ());
    let rx_ready = m.input(1, "the received beat is taken");
    let lanes = m.input(config.word_bits(), "25 bits of each lane, lane 0 lowest, first bit lowest");
    let retrain = m.input(1, "clear a fault, restart the search for markers, and resume");
    let discard = m.input(1, "during a fault, take new flits and drop them; otherwise they wait");
    let number = m.input(counter = NUMBER, "counter to be read");

    let receiver = link_receiver::Out::from(m.instance("receiver", &link_receiver(config)?));
    let session = link_session::Out::from(m.instance("session", &link_session(config)?));
    let transmitter = link_transmitter::Out::from(m.instance("transmitter", &link_transmitter(config)?));
    let (up, good) = (session.up.q(), receiver.good.q());
    receiver.connect(link_receiver::In {
        lanes,
        restart: session.restart.q(),
        up,
        syncs: session.syncs.q(),
        rx_ready,
    });
    session.connect(link_session::In {
        good,
        kind: receiver.kind.q(),
        peer_fault: receiver.peer_fault.q(),
        busy: transmitter.busy.q(),
        advances: transmitter.advances.q(),
        retrain,
    });
    let (peer_ack, peer_nack) = (receiver.peer_ack.q(), receiver.peer_nack.q());
    let (peer_nack_round, peer_limit) = (receiver.peer_nack_round.q(), receiver.peer_limit.q());
    stays_until_heard(&m, &good, &cat!(peer_ack, peer_nack, peer_nack_round, peer_limit));
    transmitter.connect(link_transmitter::In {
        tx,
        up,
        answers: session.answers.q(),
        fault: session.fault.q(),
        discard,
        expected: receiver.expected.q(),
        nack: receiver.nack.q(),
        nack_round: receiver.nack_round.q(),
        limit: receiver.limit.q(),
        heard: session.heard.q(),
        peer_ack,
        peer_nack,
        peer_nack_round,
        peer_limit,
        resync: session.resync.q(),
    });
    let (rx, aligned) = (receiver.rx.q(), receiver.aligned.q());
    let events = Events {
        sends: transmitter.sends.q(),
        repeats: transmitter.repeats.q(),
        accepts: receiver.accepts.q(),
        bad: receiver.bad.q(),
        refuses: receiver.refuses.q(),
        asked: transmitter.asked.q(),
        expires: transmitter.expires.q(),
        empty: transmitter.empty.q(),
        starves: transmitter.starves.q(),
        full: all!(tx.valid, !transmitter.tx_ready),
        waits: all!(rx.valid, !rx_ready),
        discards: transmitter.discards.q(),
        unaligned: !aligned,
        arrives: transmitter.arrives.q(),
    };
    let monitor = link_monitor::In { counter: number, times: transmitter.times.q(), events };
    let monitor = monitor.part(&m, "monitor", &link_monitor()?);

    m.output(tx_ready = transmitter.tx_ready, "the beat is taken");
    LinkBeat::outputs_as(&m, "rx_", "", (), rx);
    m.output(rx_flit_last = receiver.rx_flit_last, "the beat is the last of its flit");
    m.output(tx_holds = transmitter.holds, "beats were taken and are not acknowledged yet");
    m.output(lanes = transmitter.lanes, "25 bits of each lane, lane 0 lowest, first bit lowest");
    m.output(up, "flits can be exchanged");
    m.output(aligned, "lanes are in step");
    m.output(locked = receiver.locked, "lanes whose markers are found");
    m.output(fault = session.fault, "the link is faulty: nothing new is sent until `retrain_i`");
    m.output(
        cause = session.cause,
        "cause of the last fault: bit 0 no flit received, bit 1 no flit acknowledged",
    );
    m.output(peer_fault = session.peer_fault, "the other side's last flit reported a fault");
    m.output(peer_restart = session.peer_restart, "the other side was reset while the link was up");
    m.output(counter = monitor.counter, "value of the counter selected one cycle ago");
}

/// The receiver changes its fields for the other side's transmitter only after an intact flit.
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
