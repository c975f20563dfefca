//! Writes of an AXI4 manager: gathers the beats of a burst that follow each other in a line, and answers a burst when
//! all its lines are written.
//!
//! A line with all strobes is one write. A line of DRAM with some strobes is read, merged and written; a line of a
//! register is refused. Answers come in the order of the bursts, whatever the order of the lines' answers. One beat per
//! cycle while strobes are complete.

use super::prelude::*;

const WAITING: u32 = 2;
const COUNT_BITS: u32 = 8;

#[block(m, "axi_writes_{}", shape.name(), "Bursts of writes, a line at a time, answered in order.")]
pub fn axi_writes(shape: &AxiShape) -> Block {
    let (slot_bits, slots, bytes) = (shape.slot_bits(), shape.outstanding, shape.data_bytes());
    let advances = m.forward(1);
    let burst = bursts(&m, shape, "aw", &advances)?;
    let valid = m.input("s_axi_wvalid", 1, "a beat is offered");
    let data = m.input("s_axi_wdata", shape.data_bits, "bytes of the beat");
    let strobes = m.input("s_axi_wstrb", bytes, "bytes of the beat to write, one bit each");
    let last = m.input("s_axi_wlast", 1, "it is the last of its burst");
    let taken = m.input("s_axi_bready", 1, "the answer is taken");
    let req_ready = m.input(1, "the request is taken");
    let written_valid = m.input(1, "a line was written");
    let written_slot = m.input(slot_bits, "place of the line");
    let read_valid = m.input(1, "the line to be merged has arrived");
    let read_data = m.input(shape.line_bits, "the line");
    let beats = fifo_of(&m, "beats", WAITING, valid, cat!(last, strobes, data), advances)?;
    let w_ready = m.output("s_axi_wready", beats.ready, "the beat is taken; from registers");
    m.assume_held("w", valid, w_ready, &[&data, &strobes, &last]);
    let (waits, head) = (beats.valid.q(), beats.data.q());
    let (w_data, w_strobes, w_last) =
        (head.low(shape.data_bits), head.slice(shape.data_bits, bytes), head.msb());

    /// A line in the making, or complete and on its way out.
    let goes = m.forward(1);
    let complete = m.reg(1).reset(0);
    advances.drive(all!(burst.active, waits, any!(!complete, goes)));
    let ends = m.wire("ends_line", *advances & burst.line_ends);
    complete.set_clear(ends, goes);
    let fresh = m.reg(1).reset(1).enable(advances).next(burst.line_ends);
    let lanes = shape.line_bits / shape.data_bits;
    let lane = match log2(lanes) {
        0 => {
            m.unused(burst.byte, "a beat is a line");
            lit(1, 1)
        }
        bits => one_hot(&burst.byte.high(bits), lanes),
    };
    for part in [&burst.step, &burst.moves] {
        m.unused(part, "bytes go where their lane is");
    }
    let comes = m.wire(cat((0..lanes).rev().map(|i| w_strobes.gated(lane.bit(i)))).gated(advances));
    let mask = m.reg(shape.line_bytes());
    let before = mask.gated(!(*advances & fresh));
    mask.next(before | comes | repeat(shape.line_bytes(), read_valid));
    let old = m.wire(!mask & repeat(shape.line_bytes(), read_valid));
    let line = m.reg(shape.line_bits);
    line.next(cat((0..shape.line_bytes()).rev().map(|byte| {
        let of = |line: &Bits| line.slice(8 * byte, 8);
        let new = w_data.slice(8 * (byte % bytes), 8);
        mux(comes.bit(byte), new, mux(old.bit(byte), of(&read_data), of(&line)))
    })));
    let held = |name: &str, value: &Bits| m.hold(format!("line_{name}_q"), value, advances);
    let (number, id, is_last) =
        (held("number", &burst.line), held("id", &burst.id), held("last", &burst.last));
    let resp = held("resp", &burst.resp);
    /// WLAST where the burst does not end, or not where it ends.
    let early = m.reg("line_odd_q", 1).reset(0).enable(advances);
    early.next(w_last.ne(burst.last) | early.gated(!fresh));

    /// Whether the line is written, merged or refused.
    let refused = m.wire(resp.any());
    let (all, none) = (m.wire("all", mask.all()), m.wire("none", mask.is_zero()));
    let partial = m.wire(!(all | none | refused));
    let broken = m.wire(partial & number.msb());
    let skips = m.wire(any!(refused, none, broken));
    let merges = m.wire(partial & !number.msb());
    let asked = m.reg(1).reset(0);
    let opened = m.reg(slot_bits + 1).reset(0);
    let answered = m.reg(slot_bits + 1).reset(0);
    let in_use = opened - answered;
    let free = m.wire(!in_use.msb());
    m.assert("places", !in_use.msb() | in_use.low(slot_bits).is_zero(), "no more lines than places");
    let ready_to_go = m.wire(complete & free);
    let asks = m.wire(all!(ready_to_go, !skips, !asked));
    goes.drive(ready_to_go & mux(skips, lit(1, 1), req_ready & !merges));
    asked.set_clear(all!(asks, merges, req_ready), read_valid);
    let failed = m.reg(1).reset(0).enable(goes);
    let fails = m.wire(any!(failed, broken, early));
    failed.next(fails & !is_last);
    let opens = m.wire(*goes & any!(!skips, is_last));
    opened.next(opened + opens.zext(slot_bits + 1));
    let here = opened.low(slot_bits);

    /// Answers, in the order of lines; the answer to the last line answers the burst.
    let done = m.reg(slots).reset(0);
    let arrived = place(&written_slot, slots).gated(written_valid);
    let oldest_slot = answered.low(slot_bits);
    let oldest = place(&oldest_slot, slots);
    let passes = m.forward(1);
    let nothing = place(&here, slots).gated(m.wire("nothing", opens & skips));
    done.next((done | arrived | nothing) & !oldest.gated(passes));
    let notes = m.memory(1 + RESP_BITS + shape.id_bits, slots);
    let line_resp = mux(refused, resp, lit(SLVERR, RESP_BITS).gated(fails));
    notes.write(opens, here, cat!(is_last, line_resp, id));
    let note = m.wire(notes.read(oldest_slot));
    let some = all!(opened.ne(answered), (done & oldest).any());
    let b_valid = m.reg(1).reset(0);
    let room = any!(!note.msb(), !b_valid, taken);
    passes.drive(some & room);
    answered.next(answered + passes.zext(slot_bits + 1));
    let answers = m.wire(*passes & note.msb());
    b_valid.set_clear(answers, taken);
    let b = m.hold(note.low(RESP_BITS + shape.id_bits), answers);

    // Assumptions and assertions.
    let open = m.ghost(slots).reset(0);
    let opening = place(&here, slots).gated(opens & !skips);
    open.next((open | opening) & !arrived);
    m.assume("open", (!open & arrived).is_zero(), "a line is written once, and only if that was requested");
    m.assume("read", !read_valid | asked, "a line to be merged comes only if it was requested");
    m.assert_held("req", asks, req_ready, &[&number, &line, &mask]);
    m.assert_held("b", b_valid, taken, &[&b]);
    let (addresses, ends) =
        (m.ghost("addresses_q", COUNT_BITS).reset(0), m.ghost("ends_q", COUNT_BITS).reset(0));
    let answer_goes = (b_valid & taken).zext(COUNT_BITS);
    addresses.next(addresses + burst.comes.zext(COUNT_BITS) - answer_goes);
    let ends_burst = (*advances & burst.last).zext(COUNT_BITS);
    ends.next(ends + ends_burst - answer_goes);
    m.assert(
        "owed",
        !b_valid | (addresses.any() & ends.any()),
        "an answer belongs to a burst whose address and beats were taken",
    );
    m.cover("merged", asked & read_valid, "a line is merged");

    m.output(req_valid = asks, "a request is offered");
    m.output(req_write = !merges, "the request is a write; otherwise it reads the line to be merged");
    m.output(req_line = number, "number of its line");
    m.output(req_slot = here, "place of the line");
    m.output(req_data = line, "the line");
    m.output("s_axi_bvalid", b_valid, "an answer is offered");
    m.output("s_axi_bid", b.low(shape.id_bits), "ID of its burst");
    m.output("s_axi_bresp", b.high(RESP_BITS), "0 OKAY, 2 SLVERR, 3 DECERR");
}
