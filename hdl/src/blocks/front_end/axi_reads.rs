//! Reads of an AXI4 manager: requests the lines of its bursts, and returns beats in the order of the bursts, whatever
//! order the lines come in.
//!
//! One request covers all beats of a burst that follow each other in a line. A place is reserved first, so lines that
//! come are always taken. One beat per cycle; RVALID and all with it come from registers.

use super::prelude::*;

/// Bits that count all bursts, or all beats, that can be in flight.
const COUNT_BITS: u32 = 16;

#[block(m, "axi_reads_{}", shape.name(), "Bursts of reads, a line at a time, in order.")]
pub fn axi_reads(shape: &AxiShape) -> Block {
    let (byte_bits, slot_bits, slots) = (shape.byte_bits(), shape.slot_bits(), shape.outstanding);
    let advances = m.forward(1);
    let burst = bursts(&m, shape, "ar", &advances)?;
    let taken = m.input("s_axi_rready", 1, "the beat is taken");
    let req_ready = m.input(1, "the line is requested");
    let rsp_valid = m.input(1, "a line has arrived");
    let rsp_slot = m.input(slot_bits, "place of the line");
    let rsp_data = m.input(shape.line_bits, "the line");

    /// A place for each line: taken at its first beat, given away after its last one.
    let closed = m.reg(slot_bits + 1).reset(0);
    let fetched = m.reg(slot_bits + 1).reset(0);
    let in_use = closed - fetched;
    let free = m.wire(!in_use.msb());
    m.assert("places", !in_use.msb() | in_use.low(slot_bits).is_zero(), "no more lines than places");
    let fresh = m.reg(1).reset(1).enable(advances).next(burst.line_ends);
    let legal = m.wire(burst.resp.is_zero());
    let asks = m.wire(all!(burst.active, free, fresh, legal));
    m.assert("asks_no_more", !asks | burst.resp.eq_lit(0), "a refused burst requests no line");
    advances.drive(all!(burst.active, free, any!(!asks, req_ready)));
    let closes = m.wire(*advances & burst.line_ends);
    closed.next(closed + closes.zext(slot_bits + 1));
    let here = closed.low(slot_bits);

    /// Beats of the line, and where it begins.
    let count = m.reg(byte_bits).enable(advances);
    let beats = m.wire(count.gated(!fresh));
    count.next(beats.plus_one());
    let lanes = shape.line_bits / shape.data_bits;
    let mut facts = vec![burst.id, burst.resp, burst.last, beats];
    if lanes > 1 {
        let first = m.reg(byte_bits).enable(advances);
        let first_byte = m.wire(mux(fresh, burst.byte, first));
        first.next(first_byte);
        facts.extend([burst.step, burst.moves, first_byte]);
    } else {
        for part in [&burst.byte, &burst.step, &burst.moves] {
            m.unused(part, "a beat is a line");
        }
    }
    let widths: Vec<u32> = facts.iter().map(Bits::width).collect();

    /// Lines that are available. A line that nobody requests is available at once.
    let done = m.reg(slots).reset(0);
    let arrived = place(&rsp_slot, slots).gated(rsp_valid);
    let refused = place(&here, slots).gated(m.wire("refused", closes & !legal));
    let oldest = place(&fetched.low(slot_bits), slots);
    let fetch = m.forward(1);
    done.next((done | arrived | refused) & !oldest.gated(fetch));
    let is_done = m.wire((done & oldest).any());
    let line_done = m.forward(1);
    let line_valid = m.reg(1).reset(0);
    let some = closed.ne(fetched);
    fetch.drive(all!(some, is_done, any!(!line_valid, line_done)));
    line_valid.set_clear(fetch, line_done);
    fetched.next(fetched + fetch.zext(slot_bits + 1));
    let storage = |name: &str, waddr: Bits, we: Bits, wdata: Bits| -> Result<_, HdlError> {
        let (raddr, module) = (fetched.low(slot_bits), sram(slots, wdata.width(), 1)?);
        Ok(sram::In { raddr, re: *fetch, waddr, we, wdata }.part(&m, name, &module))
    };
    let lines = storage("lines", rsp_slot, rsp_valid, rsp_data)?;
    let notes = storage("notes", here, closes, cat(facts))?;
    let (data, note) = (lines.rdata.q(), notes.rdata.q());
    let mut low = note.width();
    let mut fields = widths.into_iter().map(|width| {
        low -= width;
        note.slice(low, width)
    });
    let mut field = || fields.next().unwrap_or_else(|| zeros(1));
    let (id, resp, last_line, beats) = (field(), field(), field(), field());

    /// Beats out of the line.
    let valid = m.reg(1).reset(0);
    let emits = m.wire(line_valid & any!(!valid, taken));
    let within = m.reg(1).reset(0).enable(emits);
    let left = m.reg("left_beats_q", byte_bits).enable(emits);
    let left_now = m.wire(mux(within, left, beats));
    let last_beat = m.wire(left_now.is_zero());
    left.next(left_now.minus_one());
    within.next(!last_beat);
    line_done.drive(emits & last_beat);
    valid.set_clear(emits, taken);
    let chosen = if lanes > 1 {
        let (step, moves, first_byte) = (field(), field(), field());
        let at = m.reg(byte_bits).enable(emits);
        let at_now = m.wire(mux(within, at, first_byte));
        at.next(next_byte(&at_now, &step, &moves));
        let parts = each(lanes, |i| data.slice(i * shape.data_bits, shape.data_bits));
        one_hot_mux(one_hot(&at_now.high(log2(lanes)), lanes), &parts)
    } else {
        data
    };
    let out = |name: &str, value: Bits| m.hold(format!("{name}_q"), value, emits);
    let r_data = out("data", chosen.gated(resp.is_zero()));
    let (r_id, r_resp, r_last) =
        (out("id_out", id), out("resp_out", resp), out("last_out", last_line & last_beat));

    // Assumptions and assertions.
    let asked = m.ghost(slots).reset(0);
    let asking = place(&here, slots).gated(asks & req_ready);
    asked.next((asked | asking) & !arrived);
    m.assume("asked", (!asked & arrived).is_zero(), "a line comes once, and only if it was requested");
    m.assert_held("req", asks, req_ready, &[&burst.line, &here]);
    m.assert_held("r", valid, taken, &[&r_id, &r_resp, &r_last, &r_data]);
    let can_offer = m.ghost(1).reset(0).next(line_valid & !valid);
    m.assert("offers", !can_offer | valid, "a valid beat is offered, even if nobody waits for it");
    // Bursts and beats that were taken and have not gone out.
    let goes = valid & taken;
    let (bursts, beats) = (m.ghost("bursts_q", COUNT_BITS).reset(0), m.ghost("beats_q", COUNT_BITS).reset(0));
    bursts.next(bursts + burst.comes.zext(COUNT_BITS) - (goes & r_last).zext(COUNT_BITS));
    let more = (burst.comes_len.zext(COUNT_BITS) + lit(1, COUNT_BITS)).gated(burst.comes);
    beats.next(beats + more - goes.zext(COUNT_BITS));
    m.assert("owed", !valid | (bursts.any() & beats.any()), "a beat belongs to a burst that was taken");
    let newest = bursts.eq_lit(1).eq(beats.eq_lit(1)) | !r_last;
    m.assert("newest", !valid | newest, "the last beat of the last burst is the last one");
    m.cover("several_beats", goes & !r_last, "a beat that is not the last goes out");

    m.output(req_valid = asks, "a line is requested");
    m.output(req_line = burst.line, "its number");
    m.output(req_slot = here, "place of the line");
    m.output("s_axi_rvalid", valid, "a beat is offered");
    m.output("s_axi_rid", r_id, "ID of the burst");
    m.output("s_axi_rdata", r_data, "bytes of the beat; 0 with an error");
    m.output("s_axi_rresp", r_resp, "0 OKAY, 2 SLVERR, 3 DECERR");
    m.output("s_axi_rlast", r_last, "it is the last of its burst");
}
