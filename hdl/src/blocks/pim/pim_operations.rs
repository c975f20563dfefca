//! The computing side of a PIM controller: buffer loads, runs of MACs on a row, results; one operation after the other.
//!
//! A run needs its row open in every bank. The missing commands follow from the open rows, so a run resumes by itself
//! after a refresh. Groups are opened one by one, as tFAW allows, or all at once if the memory can. The last operation
//! on its row is marked, and the rows are closed while its result is on the way. As in [`super::pim_requests`], the
//! rows' needs are compared in one clock and requested in the next, and not requested when out of date.

use super::pim_requests::{at, lowest};
use super::prelude::*;

const KIND: u32 = 2;
pub(super) const LOAD: u128 = 0;
pub(super) const RUN: u128 = 1;
/// The rounded sums of all banks.
pub(super) const RESULTS: u128 = 2;
/// The exact sum of a bank.
pub(super) const SUM: u128 = 3;

packed! {
    /// An operation, which has its row above its bank.
    struct Operation(bank_bits: u32) {
        bank: bank_bits,
        slot: SLOT,
        column: COLUMN,
        count: COLUMN,
        first: 1,
        last: 1,
        take: 1,
        kind: KIND,
    }
}

/// Bits of a bank, and of a row.
fn place_bits(config: &HbmConfig) -> (u32, u32) {
    (bits_for(config.banks() - 1), log2(config.rows()))
}

pub(super) fn operation_bits(config: &HbmConfig) -> u32 {
    let (bank, row) = place_bits(config);
    Operation::bits(bank) + row
}

/// MACs that must be left while the host opens rows ahead, so that the window is free again for the next run: its ACTs
/// at tRRD, and tFAW, less the time from the last MAC to the next activation.
fn quiet_macs(c: &HbmConfig) -> u32 {
    let busy = c.t_faw() + c.bank_groups() * c.t_rrd_s();
    busy.saturating_sub(c.t_rtp() + c.t_rp()).div_ceil(c.t_ccd_l())
}

/// A request stays until it is granted.
#[block(m, "pim_operations_{}", suffix(config), "Executes the operations of a PIM controller.")]
pub fn pim_operations(config: &HbmConfig) -> Block {
    let c = config;
    let (bank_bits, row_bits) = place_bits(c);
    let (groups, per_group) = (c.bank_groups(), c.banks_per_group());
    let operation_valid = m.input(1, "there is an operation");
    let operation = m.input(
        operation_bits(c),
        "bank, row, slot, column, steps minus one, first, last, take, kind; from bit 0",
    );
    let enable = m.input(1, "the multipliers may use their rows");
    let data_valid = m.input(1, "there are data to load");
    let there = m.input(c.buffer_slots(), "slots whose column is available to a MAC that takes it");
    let given = m.input(1, "any part issued a row command one clock ago");
    let closed = m.input(1, "PPRE is issued");
    let column_go = m.input(1, "the column command is issued");
    let parts = super::pim_bank::paths(c);
    let last_part = parts - 1;
    let (mut open, mut pim, mut rows) = (Vec::new(), Vec::new(), Vec::new());
    for b in 0..c.banks() {
        let opened = m.input(format!("open{b}_i"), 1, "the row buffer with the multipliers is open");
        pim.push(m.input(format!("pim{b}_i"), 1, "the partition was opened for computing"));
        rows.push(m.input(format!("row{b}_i"), row_bits, "last row of the row buffer"));
        open.push(opened);
    }
    debug_assert!(last_part < 2);
    /// The current operation and the next one; the row belongs to the last run.
    let finished = m.forward(1);
    let valid = m.reg(1).reset(0);
    let pop = m.wire(operation_valid & (finished | !valid));
    valid.set_clear(pop, finished);
    let current = m.reg(Operation::bits(bank_bits)).enable(pop);
    current.next(cat!(operation.high(Operation::bits(bank_bits) - bank_bits), operation.low(bank_bits)));
    let next_row = operation.slice(bank_bits, row_bits);
    let next_runs = m.wire(pop & operation.high(KIND).eq_lit(RUN));
    let row = m.hold(next_row, next_runs);
    let other_row = m.wire(next_runs & next_row.ne(row));
    let (row, valid) = (row, valid.q());
    let Operation { bank, slot, column, count, first, last, take, kind } =
        Operation::unpack(bank_bits, current);
    let is = |code: u128, name: &str| m.wire(name, valid & kind.eq_lit(code));
    let [load, run, results, sum] =
        [(LOAD, "load"), (RUN, "run"), (RESULTS, "results"), (SUM, "sum")].map(|(code, name)| is(code, name));

    // Rows: wrongly open ones, and missing groups.
    let fits =
        each(c.banks() as usize, |b| m.wire(format!("fits{b}"), all!(open[b], pim[b], rows[b].eq(row))));
    let wrong = any_of(fits.iter().zip(&open).map(|(fits, open)| open & !fits));
    let of_group = |g: u32| &open[(g * per_group) as usize..((g + 1) * per_group) as usize];
    // Groups that are half open (a PRE closed one bank) are closed first.
    let partial = each(groups, |g| any_of(of_group(g)) & !cat(of_group(g).to_vec()).all());
    let missing = each(groups, |g| !any_of(of_group(g)));
    let all_fit = m.wire(m.flag("all_fit_q", cat(fits).all() & !other_row));
    let to_close = m.flag(wrong | any_of(&partial));
    let missing = m.flag(bus(&missing));
    let known = m.wire(!m.flag("next_q", pop));
    let closing = m.reg(1).reset(0);
    let works = all!(run, enable, known, !given, !closing, !all_fit);
    let starts = m.wire(works);
    let close = m.wire((starts & to_close) | closing);
    let opens = m.wire(starts & !close);
    let all_missing = missing.all();
    let (pact, pacta) =
        if c.all_bank_activate() { (opens & !all_missing, opens & all_missing) } else { (opens, zeros(1)) };
    m.output(pact = pact & missing.any(), "PACT is wanted");
    m.output(pacta, "PACTA is wanted");
    m.output(ppre = close, "PPRE is wanted");
    m.output(row_group = lowest(&missing), "bank group of PACT, one-hot");
    m.output(row, "row to open");

    /// Steps of the operation.
    let step = m.reg(COLUMN).reset(0).enable(column_go);
    let ends = m.wire(!(load | run) | step.eq(count));
    finished.drive(column_go & ends);
    step.next(step.plus_one().gated(!ends));
    let mac_done = m.wire(column_go & run);
    let load_done = m.wire(column_go & load);
    closing.set_clear(all!(finished, run, last), closed);
    // Not before the sum, or the slot, is ready, so that the data bus is not kept free for nothing. A request is
    // granted a clock later at the earliest.
    let sum_left = timer(&m, "sum_left", &mac_done, c.t_mac() - 1);
    let slot_left = timer(&m, "slot_left", &load_done, c.t_cwl() + HbmConfig::T_BL - 1);
    let (slot_now, column_now) = (m.wire("slot_now", slot + step.q().zext(SLOT)), column + step);
    let filled = m.wire(!take | at(&there, &slot_now));
    m.output(waits = run & !filled, "a MAC waits for a column");
    let mac = cat!(run, enable, all_fit, !slot_left.any(), !closing, filled);
    m.output(mac = mac.all(), "MAC is wanted");
    m.output(take, "the MAC takes a column that a read has brought for it");
    m.output(gbw = load & data_valid, "GBW is wanted");
    m.output(res = results & !sum_left.any(), "RES is wanted");
    m.output(sum = sum & !sum_left.any(), "SUM is wanted");
    m.output(column = column_now, "column of MAC");
    m.output(slot = slot_now, "slot of GBW or MAC");
    m.output(flag = first & step.is_zero(), "the sum begins with this MAC");
    m.output(bank, "bank of SUM");
    m.output(finished, "the operation ends with this clock");
    m.output(pop, "the operation is taken");
    m.output(busy = valid, "an operation is in progress");
    m.output(between = step.is_zero() & !closing, "no operation is partly done");
    // The window belongs to the activations of a run, which are near if few MACs are left on the row. An activation of
    // all banks does not use the window, but waits for tRRD.
    let hold = if c.all_bank_activate() {
        opens
    } else {
        let enough = match quiet_macs(c).min(31) {
            0 => lit(1, 1),
            quiet => !last | (count - step).ge(lit(quiet.into(), COLUMN)),
        };
        all!(valid, enable, !cat([run, all_fit, enough]).all())
    };
    m.output(hold, "rows opened ahead would delay the multipliers");
}
