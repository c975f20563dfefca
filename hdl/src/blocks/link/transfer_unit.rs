//! The core's end of a DIMM-link: executes `send` and `receive`, has the link's controller, and the host's registers
//! for both (docs/isa.md, "Transfers"). Sender and receiver work side by side and share one request per cycle to the
//! ranks, taking turns. They are independent of the core's products.

use super::link_controller::link_controller;
use super::prelude::*;
use super::transfer_receiver::transfer_receiver;
use super::transfer_sender::{patience, transfer_sender};

/// Bits of a number of requests in a row.
const RUN_BITS: u32 = 4;
/// Bits of the host's controls: search for the markers again and continue; clear failures.
pub(crate) const CONTROL_BITS: u32 = 2;

bundle! {
    /// Fields of a send or receive beside the first burst.
    pub(crate) struct Transfer(config: &GemvConfig) {
        count: COUNT_BITS, "bursts in every rank";
        ranks: config.ranks(), "ranks" => "ranks that take part";
        node: NODE, "the other DIMM";
        slot: SLOT_BITS, "slot that identifies its message" => "slot that identifies the message";
    }
}

bundle! {
    /// A request to a rank.
    pub(crate) struct TransferRequest(config: &DesignConfig) {
        valid: 1, "a request is offered";
        write: 1, "the request is a write";
        rank: config.gemv().ranks(), "its rank, one-hot";
        addr: config.dram().burst_bits(), "the request's burst in the rank";
        data: BEAT_BITS, "burst to write";
    }
}

#[block(m, "transfer_unit_g{}_a{}_{}", config.gemv().ranks(), config.dram().burst_bits(), name(config.link()),
    "Moves ranges of DRAM over a DIMM-link.")]
pub fn transfer_unit(config: &DesignConfig) -> Block {
    let (ranks, addr_bits, link_config) = (config.gemv().ranks(), config.dram().burst_bits(), config.link());
    let start_send = m.input(1, "start a `send` instruction");
    let start_receive = m.input(1, "start a `receive` instruction");
    let address = m.input(addr_bits, "first burst in every rank");
    let Transfer { count, ranks: chosen, node, slot } = Transfer::inputs(&m, config.gemv());
    let own = m.input(NODE, "number of this DIMM; stable");
    let control = m.input(CONTROL_BITS, "from the host: bit 0 retrain, bit 1 clear failures");
    let number = m.input(counter = NUMBER, "counter of the link to be read");
    let passed = m.input(1, "the request is taken");
    let (mut rsp_valid, mut rsp_write, mut rsp_data) = (Vec::new(), Vec::new(), Vec::new());
    for g in 0..ranks {
        let doc = format!("rank {g}: a response to one of the unit's requests; it is taken");
        rsp_valid.push(m.input(format!("rsp{g}_valid_i"), 1, doc));
        rsp_write.push(m.input(
            format!("rsp{g}_write_i"),
            1,
            format!("rank {g}: the response belongs to a write"),
        ));
        let doc = format!("rank {g}: the burst, if it was read");
        rsp_data.push(m.input(format!("rsp{g}_data_i"), BEAT_BITS, doc));
    }
    let lanes = m.input(link_config.word_bits(), "25 bits of each lane, lane 0 lowest, first bit lowest");

    /// Bursts of all ranks together, in the cycle after the instruction's start.
    let sends = m.flag("starts_send_q", start_send);
    let receives = m.flag("starts_receive_q", start_receive);
    let starts = m.wire(start_send | start_receive);
    let each = (0..ranks).map(|g| count.gated(chosen.bit(g)).zext(TRANSFER_BITS));
    let beats = each.fold(zeros(TRANSFER_BITS), |sum, one| sum + one);
    let message = Message { address, beats, ranks: chosen, node, slot }.held(&m, "", starts);

    let link = link_controller::Out::from(m.instance("link", &link_controller(link_config)?));
    let sender = transfer_sender::Out::from(m.instance("sender", &transfer_sender(config)?));
    let receiver = transfer_receiver::Out::from(m.instance("receiver", &transfer_receiver(config)?));
    let sent_to = sender.tx_dest.q();
    link.connect(link_controller::In {
        tx: LinkBeat {
            valid: sender.tx_valid.q(),
            data: sender.tx_data.q(),
            last: sender.tx_last.q(),
            dest: sent_to,
            source: own,
            label: sender.tx_label.q(),
        },
        rx_ready: receiver.rx_ready.q(),
        lanes,
        retrain: control.bit(0),
        discard: lit(0, 1),
        counter: number,
    });
    let (fault, peer_fault, rx) = (link.fault.q(), link.peer_fault.q(), link.rx.q());

    // One request per cycle; up to 16 go for one side before the other, so that not each of them needs another row.
    let (send_wants, receive_wants) = (sender.req_valid.q(), receiver.req_valid.q());
    let turn = m.reg(1).reset(0);
    let sends_now = m.wire(send_wants & (turn | !receive_wants));
    let run = m.reg(RUN_BITS).reset(0);
    let ends = m.wire("run_ends", run.all());
    turn.next(mux(passed, sends_now ^ ends, turn));
    let other = m.wire("run_changes", ends | (sends_now ^ turn));
    run.next(mux(passed, run.plus_one().gated(!other), run));
    let got = m.wire("receive_passed", passed & !sends_now);
    sender.connect(transfer_sender::In {
        start: sends,
        message,
        passed: m.wire(send_passed = passed & sends_now),
        beat_valid: rsp_valid.iter().zip(&rsp_write).map(|(valid, write)| valid & !write).collect(),
        beat_data: rsp_data,
        fault,
        tx_ready: link.tx_ready.q(),
    });
    receiver.connect(transfer_receiver::In {
        start: receives,
        message,
        own,
        passed: got,
        written: cat(rsp_valid.iter().zip(&rsp_write).rev().map(|(valid, write)| valid & write)),
        fault: fault | peer_fault,
        rx_valid: rx.valid,
        rx_last: rx.last,
        rx_flit_last: link.rx_flit_last.q(),
        rx_dest: rx.dest,
        rx_source: rx.source,
        rx_label: rx.label,
    });

    // The host's registers: see docs/isa.md.
    let control_forget = control.bit(1);
    let counter = |name: &str, step: &Bits| m.counter(name, COUNTER, step);
    let send_fails = m.flag(sender.fails);
    let send_faulty = m.flag(sender.faulty);
    let receive_fails = m.flag(receiver.fails);
    let receive_faulty = m.flag(receiver.faulty);
    let gives_up = m.flag(receiver.gives_up);
    let drops = m.flag(receiver.drops);
    // Waiting for the other side to take beats is bounded.
    let holds = link.tx_holds.q();
    let sends_beat = sender.sends.q();
    let untaken = patience(&m, link_config, &any!(sends_beat, !holds), &holds);
    let causes = [
        send_fails & send_faulty,
        send_fails & !send_faulty,
        all!(receive_fails, gives_up, receive_faulty),
        all!(receive_fails, gives_up, !receive_faulty),
        receive_fails & !gives_up,
        drops,
        m.flag("restarts_q", link.peer_restart),
        untaken,
    ];
    let failures = m.reg(causes.len() as u32).reset(0);
    let events = m.wire(cat(causes.into_iter().rev()));
    failures.next(events | failures.gated(!control_forget));
    let failed = m.wire(send_fails | receive_fails);
    let known = m.reg(1).reset(0);
    let fresh = m.wire(failed & (!known | control_forget));
    known.set_clear(failed, control_forget);
    let which = [cat!(zeros(4), sent_to, sender.slot), cat!(lit(1, 4), receiver.node, receiver.slot)];
    let first = m.reg(which[0].width()).reset(0).enable(fresh).next(mux(send_fails, which[0], which[1]));
    let (send_busy, receive_busy) = (sender.busy.q(), receiver.busy.q());
    let send_busy = m.wire(send_busy | sends);
    let receive_busy = m.wire(receive_busy | receives);
    let flags = [
        lit(1, 1),
        link.up.q(),
        fault,
        peer_fault,
        link.cause.q(),
        link.aligned.q(),
        holds,
        send_busy,
        receive_busy,
        zeros(6),
        link.locked.q(),
    ];
    let word = |bits: Bits| bits.zext(COUNTER);
    let words = [
        word(cat(flags.into_iter().rev())),
        word(failures.q()),
        cat!(known, zeros(COUNTER - 1 - first.width()), first),
        counter("sends_q", &sender.done.q()),
        counter("receives_q", &receiver.done.q()),
        counter("sends_failed_q", &send_fails),
        counter("receives_failed_q", &receive_fails),
        counter("beats_sent_q", &sends_beat),
        counter("beats_received_q", &got),
        counter("dropped_q", &drops),
    ];
    let status = cat(words.into_iter().rev());

    m.output(send_busy, "a send is running");
    m.output(receive_busy, "a receive is running");
    m.output(holds = all!(holds, !fault, !untaken), "beats are in flight on a working link");
    let request = TransferRequest {
        valid: send_wants | receive_wants,
        write: !sends_now,
        rank: mux(sends_now, sender.req_rank, receiver.req_rank),
        addr: mux(sends_now, sender.req_addr, receiver.req_addr),
        data: rx.data,
    };
    TransferRequest::outputs_as(&m, "req_", "", config, request);
    m.output(status = status.zext(BEAT_BITS), "status, 32-bit words");
    m.output(counter = link.counter, "value of the counter selected one cycle ago");
    m.output(lanes = link.lanes, "25 bits of each lane, lane 0 lowest, first bit lowest");
}
