//! The core's end of a DIMM-link: what executes `send` and `receive`, the link's controller, and what the host reads of them
//! (docs/isa.md, "Transfers").
//!
//! Sender and receiver work side by side and share one request per cycle to the ranks, taking turns. They know nothing of
//! what the core computes.

use super::link_controller::link_controller;
use super::link_frame::NODE;
use super::link_frame::name;
use super::link_monitor::{COUNTER, NUMBER};
use super::transfer_message::{COUNT_BITS, SLOT_BITS, TRANSFER_BITS};
use super::transfer_receiver::transfer_receiver;
use super::transfer_sender::{patience, transfer_sender};
use ndp_config::{BEAT_BITS, DesignConfig};
use ndp_hdl_language::prelude::*;

/// Bits of a number of requests in a row.
const RUN_BITS: u32 = 4;
/// Bits of what the host can tell the link: look for the markers anew and go on; forget failures.
pub(crate) const CONTROL_BITS: u32 = 2;

/// The unit.
///
/// # Errors
/// [`HdlError`] if the description breaks a rule of the language.
#[block(m, "transfer_unit_g{}_a{}_{}", config.gemv().ranks(), config.dram().burst_bits(), name(config.link()),
    "Moves ranges of DRAM over a DIMM-link.")]
pub fn transfer_unit(config: &DesignConfig) -> Block {
    let (ranks, addr_bits, link_config) = (config.gemv().ranks(), config.dram().burst_bits(), config.link());
    let start_send = m.input(1, "start a send");
    let start_receive = m.input(1, "start a receive");
    let address = m.input(addr_bits, "first burst in every rank");
    let count = m.input(COUNT_BITS, "bursts in every rank");
    let chosen = m.input("ranks_i", ranks, "ranks that take part");
    let node = m.input(NODE, "the other DIMM");
    let slot = m.input(SLOT_BITS, "what the message is known by");
    let own = m.input(NODE, "number of this DIMM; stable");
    let control = m.input(CONTROL_BITS, "of the host: bit 0 retrain, bit 1 forget failures");
    let number = m.input("counter_i", NUMBER, "counter of the link to be read");
    let passed = m.input(1, "the request is taken");
    let responses: Vec<[Bits; 3]> = (0..ranks)
        .map(|g| {
            let of = |what: &str| format!("rank {g}: {what}");
            [
                m.input(
                    format!("rsp{g}_valid_i"),
                    1,
                    of("a response to one of the unit's requests; it is taken"),
                ),
                m.input(format!("rsp{g}_write_i"), 1, of("it is a write's")),
                m.input(format!("rsp{g}_data_i"), BEAT_BITS, of("the burst, if it was read")),
            ]
        })
        .collect();
    let lanes = m.input(link_config.word_bits(), "25 bits of each lane, lane 0 lowest, first bit lowest");

    // Bursts of all ranks together, in the cycle after the instruction's start.
    let sends = m.flag("starts_send_q", start_send);
    let receives = m.flag("starts_receive_q", start_receive);
    let starts = m.wire(start_send | start_receive);
    let held = |name: &str, value: &Bits| m.hold(name, value, starts);
    let each = (0..ranks).map(|g| count.gated(chosen.bit(g)).zext(TRANSFER_BITS));
    let beats = held("beats_q", &each.fold(zeros(TRANSFER_BITS), |sum, one| sum + one));
    let command = [
        ("address_i", held("address_q", &address)),
        ("beats_i", beats),
        ("ranks_i", held("ranks_q", &chosen)),
        ("node_i", held("node_q", &node)),
        ("slot_i", held("slot_q", &slot)),
    ];

    // The link.
    let link = m
        .instance(&link_controller(link_config)?)
        .input("lanes_i", lanes)
        .input("tx_source_i", own)
        .input("retrain_i", control.bit(0))
        .input("discard_i", lit(0, 1))
        .input("counter_i", number);
    let (fault, peer_fault) = (link.output("fault_o"), link.output("peer_fault_o"));
    let rx_data = link.output("rx_data_o");

    // One request per cycle; up to so many go for one side before the other, so that not each of them needs another row.
    let (sent, got) = (m.forward("send_passed", 1), m.forward("receive_passed", 1));
    let sender = m.instance(&transfer_sender(config)?).input("start_i", sends);
    let sender =
        sender.input("passed_i", sent).input("fault_i", fault).input("tx_ready_i", link.output("tx_ready_o"));
    let receiver = m
        .instance(&transfer_receiver(config)?)
        .input("start_i", receives)
        .input("passed_i", got)
        .input("own_i", own)
        .input("fault_i", fault | peer_fault);
    let with_command = |instance: &InstanceBuilder| {
        command.iter().for_each(|(port, value)| instance.connect_input(*port, value));
    };
    let (mut written, mut sender_inputs) = (Vec::new(), Vec::new());
    for (g, [valid, write, data]) in responses.iter().enumerate() {
        written.push(valid & write);
        sender_inputs.push((format!("beat{g}_valid_i"), valid & !write));
        sender_inputs.push((format!("beat{g}_data_i"), *data));
    }
    sender_inputs.into_iter().for_each(|(port, value)| sender.connect_input(port, value));
    receiver.connect_input("written_i", cat(written.into_iter().rev()));
    for port in ["valid", "last", "flit_last", "dest", "source", "label"] {
        receiver.connect_input(format!("rx_{port}_i"), link.output(&format!("rx_{port}_o")));
    }
    let sent_to = sender.output("tx_dest_o");
    link.connect_input("tx_dest_i", sent_to);
    for port in ["valid", "data", "last", "label"] {
        link.connect_input(format!("tx_{port}_i"), sender.output(&format!("tx_{port}_o")));
    }
    link.connect_input("rx_ready_i", receiver.output("rx_ready_o"));
    let (send_wants, receive_wants) = (sender.output("req_valid_o"), receiver.output("req_valid_o"));
    let turn = m.reg(1).reset(0);
    let sends_now = m.wire(send_wants & (turn | !receive_wants));
    let run = m.reg(RUN_BITS).reset(0);
    let ends = m.wire("run_ends", run.all());
    turn.next(mux(passed, sends_now ^ ends, turn));
    let other = m.wire("run_changes", ends | (sends_now ^ turn));
    run.next(mux(passed, run.plus_one().gated(!other), run));
    sent.drive(passed & sends_now);
    got.drive(passed & !sends_now);
    let choose = |port: &str| mux(sends_now, sender.output(port), receiver.output(port));

    // What the host reads: see docs/isa.md.
    let control_forget = control.bit(1);
    let counter = |name: &str, step: &Bits| m.counter(name, COUNTER, step);
    let send_fails = m.flag(sender.output("fails_o"));
    let send_faulty = m.flag(sender.output("faulty_o"));
    let receive_fails = m.flag(receiver.output("fails_o"));
    let receive_faulty = m.flag(receiver.output("faulty_o"));
    let gives_up = m.flag(receiver.output("gives_up_o"));
    let drops = m.flag(receiver.output("drops_o"));
    // What the other side does not take is not waited for without an end.
    let holds = link.output("tx_holds_o");
    let sends_beat = sender.output("sends_o");
    let untaken = patience(&m, link_config, &any!(sends_beat, !holds), &holds);
    let causes = [
        send_fails & send_faulty,
        send_fails & !send_faulty,
        all!(receive_fails, gives_up, receive_faulty),
        all!(receive_fails, gives_up, !receive_faulty),
        receive_fails & !gives_up,
        drops,
        m.flag("restarts_q", link.output("peer_restart_o")),
        untaken,
    ];
    let failures = m.reg(causes.len() as u32).reset(0);
    let events = m.wire(cat(causes.into_iter().rev()));
    failures.next(events | failures.gated(!control_forget));
    let failed = m.wire(send_fails | receive_fails);
    let known = m.reg(1).reset(0);
    let fresh = m.wire(failed & (!known | control_forget));
    known.set_clear(failed, control_forget);
    let which = [
        cat!(zeros(4), sent_to, sender.output("slot_o")),
        cat!(lit(1, 4), receiver.output("node_o"), receiver.output("slot_o")),
    ];
    let first = m.reg(which[0].width()).reset(0).enable(fresh).next(mux(send_fails, which[0], which[1]));
    let (send_busy, receive_busy) = (sender.output("busy_o"), receiver.output("busy_o"));
    let send_busy = m.wire(send_busy | sends);
    let receive_busy = m.wire(receive_busy | receives);
    let flags = [
        lit(1, 1),
        link.output("up_o"),
        fault,
        peer_fault,
        link.output("cause_o"),
        link.output("aligned_o"),
        holds,
        send_busy,
        receive_busy,
        zeros(6),
        link.output("locked_o"),
    ];
    let word = |bits: Bits| bits.zext(COUNTER);
    let words = [
        word(cat(flags.into_iter().rev())),
        word(failures.q()),
        cat!(known, zeros(COUNTER - 1 - first.width()), first),
        counter("sends_q", &sender.output("done_o")),
        counter("receives_q", &receiver.output("done_o")),
        counter("sends_failed_q", &send_fails),
        counter("receives_failed_q", &receive_fails),
        counter("beats_sent_q", &sends_beat),
        counter("beats_received_q", &got),
        counter("dropped_q", &drops),
    ];
    let status = cat(words.into_iter().rev());
    with_command(&sender);
    with_command(&receiver);

    m.output(send_busy, "a send is in work");
    m.output(receive_busy, "a receive is in work");
    m.output("holds_o", all!(holds, !fault, !untaken), "beats are on their way over a link that works");
    m.output("req_valid_o", send_wants | receive_wants, "a request is offered");
    m.output("req_write_o", !sends_now, "it is a write");
    m.output("req_rank_o", choose("req_rank_o"), "its rank, one-hot");
    m.output("req_addr_o", choose("req_addr_o"), "its burst of the rank");
    m.output("req_data_o", rx_data, "burst to write");
    m.output("status_o", status.zext(BEAT_BITS), "status, 32-bit words");
    m.output("counter_o", link.output("counter_o"), "the counter that was asked for in the cycle before");
    m.output("lanes_o", link.output("lanes_o"), "25 bits of each lane, lane 0 lowest, first bit lowest");
}
