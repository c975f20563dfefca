//! The global buffer of a PIM channel: columns that are broadcast to the multipliers of all banks (LibraPIM, section
//! 4.2). Filled from the data bus, driven by the controller (GBW), or by a bank whose column is on its way to the host
//! (RDG). Half a column that has not come since reset reads as zeros.

use super::prelude::*;

/// `operand_o` is valid one clock after MAC.
#[block(m, "pim_buffer_{}", suffix(config), "Global buffer of a PIM channel.")]
pub fn pim_buffer(config: &HbmConfig) -> Block {
    let slots = config.buffer_slots();
    let slot_bits = bits_for(slots - 1);
    m.share_code();
    let slot = m.input(slot_bits, "slot of the command");
    let rdg = m.input(1, "RDG is carried out: its data will be on the bus");
    let gbw = m.input(1, "GBW is carried out");
    let read = m.input(1, "MAC is carried out");
    let write = m.input(2, "halves of a column to write");
    let write_slot = m.input(slot_bits, "slot to write");
    let data = m.input(COLUMN_BITS / 2, "half a column");

    let (mut filled, mut early) = (Vec::new(), Vec::new());
    for s in 0..slots {
        let here = m.wire(format!("here{s}"), slot.eq_lit(s.into()));
        let [by_bank, by_host] =
            [("rdg", &rdg), ("gbw", &gbw)].map(|(name, go)| m.wire(format!("{name}{s}"), go & here));
        let seen = m.reg(format!("filled{s}_q"), 1).reset(0);
        seen.next(any!(seen, by_bank, by_host));
        filled.push(here & seen);
        // Between RDG and GBW the bus turns around, so the later one is ready later.
        let bank = timer(&m, &format!("by_bank{s}"), &by_bank, config.t_cl() + HbmConfig::T_BL);
        let host = timer(&m, &format!("by_host{s}"), &by_host, config.t_cwl() + HbmConfig::T_BL);
        early.push(here & (bank.any() | host.any()));
    }
    m.output(empty = !any_of(&filled), "the slot has never been filled");
    m.output(early = any_of(&early), "the slot's data have not passed yet");

    let memory = m.memory("columns", COLUMN_BITS, slots);
    memory.write(write, write_slot, cat!(data, data));
    let mut halves = Vec::new();
    for half in 0..2 {
        let come = m.reg(format!("come{half}_q"), slots).reset(0);
        let bits = (0..slots).rev().map(|s| write.bit(half) & write_slot.eq_lit(s.into()));
        come.next(come | cat(bits));
        let of_slot = each(slots, |s| come.bit(s) & slot.eq_lit(s.into()));
        halves.push(any_of(&of_slot));
    }
    let value = m.wire(memory.read(slot));
    let half_bits = COLUMN_BITS / 2;
    let known = cat!(value.high(half_bits).gated(halves[1]), value.low(half_bits).gated(halves[0]));
    let operand = m.hold(known, read);
    let lanes = (0..COLUMN_BITS / FP16_BITS).rev();
    let lanes = lanes.map(|i| m.wire(format!("lane{i}"), operand.slice(i * FP16_BITS, FP16_BITS)));
    m.output(operand = cat(lanes.map(|lane| recoded(&lane))), "column of the last MAC, recoded");
}
