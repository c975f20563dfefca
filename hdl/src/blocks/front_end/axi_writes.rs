//! Writes of an AXI4 manager: gathers the beats of a burst that follow each other in a line, and answers a burst when all its lines are written.
//!
//! A line with all strobes is one write. One of DRAM with some is read, merged and written; one of a register is refused. Answers come in the
//! order of the bursts, whatever order those of the lines come in. One beat per cycle while strobes are complete.

use super::axi_bursts::{AxiShape, RESP_BITS, SLVERR, bursts, place};
use crate::blocks::common::encoding::{log2, one_hot};
use crate::blocks::common::fifo::fifo;
use ndp_hdl_language::{Bits, HdlError, Module, ModuleBuilder, any_of, cat, lit, mux, repeat};
use std::rc::Rc;

/// Beats that wait.
const WAITING: u32 = 2;
/// Bits that count all bursts under way.
const COUNT_BITS: u32 = 8;

/// The channels AW, W and B.
///
/// # Errors
/// [`HdlError`] if the description breaks a rule of the language.
pub fn axi_writes(shape: &AxiShape) -> Result<Rc<Module>, HdlError> {
    let (slot_bits, slots, bytes) = (shape.slot_bits(), shape.outstanding, shape.data_bytes());
    let m = ModuleBuilder::new(
        format!("axi_writes_{}", shape.name()),
        "Bursts of writes, a line at a time, answered in order.",
    );
    let advances = m.forward("advances", 1);
    let burst = bursts(&m, shape, "aw", &advances)?;
    let valid = m.input("s_axi_wvalid", 1, "a beat is offered");
    let data = m.input("s_axi_wdata", shape.data_bits, "its bytes");
    let strobes = m.input("s_axi_wstrb", bytes, "the bytes of it that are written");
    let last = m.input("s_axi_wlast", 1, "it is the last of its burst");
    let taken = m.input("s_axi_bready", 1, "the answer is taken");
    let req_ready = m.input("req_ready_i", 1, "the request is taken");
    let written = m.input("written_valid_i", 1, "a line was written");
    let written_slot = m.input("written_slot_i", slot_bits, "its place");
    let read = m.input("read_valid_i", 1, "the line to be merged has come");
    let read_data = m.input("read_data_i", shape.line_bits, "the line");
    let widths = [1, bytes, shape.data_bits];
    let beats = m
        .instance("beats", &fifo(widths.iter().sum(), WAITING)?)
        .input("push_i", &valid)
        .input("data_i", cat([last.clone(), strobes.clone(), data.clone()]))
        .input("pop_i", &*advances);
    let w_ready = m.output("s_axi_wready", beats.output("ready_o"), "the beat is taken; from registers");
    m.assume_held("w", &valid, &w_ready, &[&data, &strobes, &last]);
    let (waits, head) = (beats.output("valid_o"), beats.output("data_o"));
    let (w_data, w_strobes, w_last) =
        (head.low(shape.data_bits), head.slice(shape.data_bits, bytes), head.msb());

    // A line in the making, or complete and on its way out.
    let goes = m.forward("goes", 1);
    let complete = m.reg("complete_q", 1).reset(0);
    advances.drive(cat([burst.active.clone(), waits, any_of(&[!complete.q(), goes.q()])]).all());
    let ends = m.wire("ends_line", &*advances & &burst.line_ends);
    complete.next(any_of(&[ends, complete.q() & !&*goes]));
    let fresh = m.reg("fresh_q", 1).reset(1).enable(&*advances);
    fresh.next(&burst.line_ends);
    let lanes = shape.line_bits / shape.data_bits;
    let lane = match log2(lanes) {
        0 => {
            m.unused(&burst.byte, "a beat is a line");
            lit(1, 1)
        }
        bits => one_hot(&burst.byte.high(bits), lanes),
    };
    for part in [&burst.step, &burst.moves] {
        m.unused(part, "bytes go where their lane is");
    }
    let comes =
        m.wire("comes", cat((0..lanes).rev().map(|i| w_strobes.gated(&lane.bit(i)))).gated(&advances));
    let mask = m.reg("mask_q", shape.line_bytes());
    let before = mask.gated(&!(&*advances & fresh.q()));
    mask.next(before | &comes | repeat(shape.line_bytes(), &read));
    let old = m.wire("old", !mask.q() & repeat(shape.line_bytes(), &read));
    let line = m.reg("line_q", shape.line_bits);
    line.next(cat((0..shape.line_bytes()).rev().map(|byte| {
        let of = |line: &Bits| line.slice(8 * byte, 8);
        let new = w_data.slice(8 * (byte % bytes), 8);
        mux(&comes.bit(byte), &new, &mux(&old.bit(byte), &of(&read_data), &of(&line)))
    })));
    let held = |name: &str, value: &Bits| m.hold(format!("line_{name}_q"), value, &*advances);
    let (number, id, is_last) =
        (held("number", &burst.line), held("id", &burst.id), held("last", &burst.last));
    let resp = held("resp", &burst.resp);
    // WLAST where the burst does not end, or not where it ends.
    let early = m.reg("line_odd_q", 1).reset(0).enable(&*advances);
    early.next(w_last.ne(&burst.last) | early.gated(&!fresh.q()));

    // What becomes of it.
    let refused = m.wire("refused", resp.any());
    let (all, none) = (m.wire("all", mask.all()), m.wire("none", mask.is_zero()));
    let partial = m.wire("partial", !(&all | &none | &refused));
    let broken = m.wire("broken", &partial & number.msb());
    let skips = m.wire("skips", any_of(&[refused.clone(), none, broken.clone()]));
    let merges = m.wire("merges", &partial & !number.msb());
    let asked = m.reg("asked_q", 1).reset(0);
    let opened = m.reg("opened_q", slot_bits + 1).reset(0);
    let answered = m.reg("answered_q", slot_bits + 1).reset(0);
    let in_use = opened.q() - answered.q();
    let free = m.wire("free", !in_use.msb());
    m.assert("places", !in_use.msb() | in_use.low(slot_bits).is_zero(), "no more lines than places");
    let ready_to_go = m.wire("ready_to_go", complete.q() & &free);
    let asks = m.wire("asks", cat([ready_to_go.clone(), !&skips, !asked.q()]).all());
    goes.drive(&ready_to_go & mux(&skips, &lit(1, 1), &(&req_ready & !&merges)));
    asked.next(any_of(&[cat([asks.clone(), merges.clone(), req_ready.clone()]).all(), asked.q() & !&read]));
    let failed = m.reg("failed_q", 1).reset(0).enable(&*goes);
    let fails = m.wire("fails", any_of(&[failed.q(), broken, early.q()]));
    failed.next(&fails & !&is_last);
    let opens = m.wire("opens", &*goes & any_of(&[!&skips, is_last.clone()]));
    opened.next(opened.q() + opens.zext(slot_bits + 1));
    let here = opened.low(slot_bits);

    // Answers, in the order of lines; that of the last line is the burst's.
    let done = m.reg("done_q", slots).reset(0);
    let arrived = place(&written_slot, slots).gated(&written);
    let oldest_slot = answered.low(slot_bits);
    let oldest = place(&oldest_slot, slots);
    let passes = m.forward("passes", 1);
    let nothing = place(&here, slots).gated(&m.wire("nothing", &opens & &skips));
    done.next((done.q() | &arrived | nothing) & !oldest.gated(&passes));
    let notes = m.memory("notes", 1 + RESP_BITS + shape.id_bits, slots);
    let line_resp = mux(&refused, &resp, &lit(SLVERR, RESP_BITS).gated(&fails));
    notes.write(&opens, &here, &cat([is_last, line_resp, id]));
    let note = m.wire("note", notes.read(&oldest_slot));
    let some = cat([opened.ne(&answered.q()), (done.q() & &oldest).any()]).all();
    let b_valid = m.reg("b_valid_q", 1).reset(0);
    let room = any_of(&[!note.msb(), !b_valid.q(), taken.clone()]);
    passes.drive(some & room);
    answered.next(answered.q() + passes.zext(slot_bits + 1));
    let answers = m.wire("answers", &*passes & note.msb());
    b_valid.next(any_of(&[answers.clone(), b_valid.q() & !&taken]));
    let b = m.hold("b_q", note.low(RESP_BITS + shape.id_bits), &answers);

    // What surroundings keep, and what is kept.
    let open = m.ghost("open_q", slots).reset(0);
    let opening = place(&here, slots).gated(&(&opens & !&skips));
    open.next((open.q() | opening) & !&arrived);
    m.assume(
        "open",
        (!open.q() & arrived).is_zero(),
        "a line is written once, and only if that was asked for",
    );
    m.assume("read", !&read | asked.q(), "a line to be merged comes only if it was asked for");
    m.assert_held("req", &asks, &req_ready, &[&number, &line, &mask]);
    m.assert_held("b", &b_valid, &taken, &[&b]);
    let (addresses, ends) =
        (m.ghost("addresses_q", COUNT_BITS).reset(0), m.ghost("ends_q", COUNT_BITS).reset(0));
    let answer_goes = (b_valid.q() & &taken).zext(COUNT_BITS);
    addresses.next(addresses.q() + burst.comes.zext(COUNT_BITS) - &answer_goes);
    let ends_burst = (&*advances & &burst.last).zext(COUNT_BITS);
    ends.next(ends.q() + ends_burst - answer_goes);
    m.assert(
        "owed",
        !b_valid.q() | (addresses.any() & ends.any()),
        "an answer belongs to a burst whose address and beats were taken",
    );
    m.cover("merged", &asked.q() & &read, "a line is merged");

    m.output("req_valid_o", &asks, "a request is offered");
    m.output("req_write_o", !merges, "it is a write; otherwise the line to be merged is wanted");
    m.output("req_line_o", &number, "number of its line");
    m.output("req_slot_o", &here, "its place");
    m.output("req_data_o", &line, "the line");
    m.output("s_axi_bvalid", &b_valid, "an answer is offered");
    m.output("s_axi_bid", b.low(shape.id_bits), "ID of its burst");
    m.output("s_axi_bresp", b.high(RESP_BITS), "0 OKAY, 2 SLVERR, 3 DECERR");
    m.finish()
}
