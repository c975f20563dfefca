//! The decisions of a rank's scheduler, from its ports: the entry of a slot's row command, and the pins.
//!
//! Entries are served in order, but each may close and open rows ahead of its turn, the oldest entry first, in row
//! pairs that no older entry uses. Here a decision is one expression; the scheduler takes four phases for it.
//! `rank_timing` decides when tRRD and tFAW allow ACT: a pending ACT has to come when none came for long.

use super::rank::{PORTS, config};
use ndp_hdl::blocks::common::phase_ring::phase_ring;
use ndp_hdl::blocks::memory::rank_scheduler::rank_scheduler;
use ndp_hdl_language::{Bits, Direction, HdlError, Module, ModuleBuilder, any_of, cat, lit, mux, zeros};
use std::rc::Rc;

/// Clocks of a slot; the state changes in the last one.
const SLOT: u32 = 4;
const ENTRIES: usize = 4;
const HALVES: usize = 2;
/// Fields of an entry from the lowest bit: next burst with the half in bit 0, row pair, row, bursts less one.
const BURST: u32 = 8;
const LEFT: u32 = 4;
/// Address pins: only A15 is PRE, with A10 for all banks; only A14 is REF.
const PINS: u32 = 18;
const PRE: u128 = 1 << 15;
const ALL_BANKS: u128 = 1 << 10;
const REF: u128 = 1 << 14;
/// Slots after which no ACT is too early.
const LONG: u128 = 15;

/// Entries and states stay for a slot.
pub(super) fn choices() -> Result<Rc<Module>, HdlError> {
    let config = config()?;
    let dram = config.dram();
    let row_bits = dram.row_bits();
    let banks = dram.banks();
    let pair_bits = (banks / HALVES as u32).trailing_zeros();
    let scheduler = rank_scheduler(dram, &PORTS, "short")?;
    let m = ModuleBuilder::new("rank_choices", "A rank's scheduler and what is there to choose from.");
    let ring = m.instance("phases", &phase_ring(SLOT)?).output("phase_o");
    m.unused(ring.low(SLOT - 1), "decisions are known in the last phase");
    let step = ring.msb();
    let begins = m.ghost("begins_q", 1).reset(1);
    begins.next(step);
    let mut instance = m.instance("scheduler", &scheduler);
    let mut inputs = Vec::new();
    for port in scheduler.ports().iter().filter(|port| port.direction == Direction::Input) {
        if scheduler.is_clock_or_reset(&port.name) {
            continue;
        }
        let value = m.input(&port.name, port.width, &port.doc);
        if !["close_i", "refresh_i"].contains(&port.name.as_str()) {
            let before = m.ghost(format!("{}_before_q", port.name), port.width);
            before.next(value);
            let stays = begins.q() | value.eq(before.q());
            m.assume(format!("{}_stays", port.name), stays, "it changes with the slot");
        }
        instance = instance.input(&port.name, value);
        inputs.push((port.name.clone(), value));
    }
    let input = |name: String| -> Bits {
        inputs.iter().find(|(other, _)| *other == name).map_or(zeros(1), |(_, value)| *value)
    };
    let mut outputs = Vec::new();
    for port in scheduler.ports().iter().filter(|port| port.direction == Direction::Output) {
        let value = instance.output(&port.name);
        m.output(&port.name, value, &port.doc);
        outputs.push((port.name.as_str(), value));
    }
    let output = |name: &str| ndp_hdl_language::named(&outputs, name);
    let [block, close, refresh] = ["block_i", "close_i", "refresh_i"].map(|name| input(name.to_owned()));
    m.assume(
        "blocked",
        block | !(close | refresh),
        "no entry has a command while banks are closed or refreshed",
    );
    m.assume("one", !(close & refresh), "one command at a time");

    // Needs of each entry in each half, the oldest first.
    let valid: Vec<Bits> = (0..ENTRIES).map(|i| input(format!("valid{i}_i"))).collect();
    let entries: Vec<Bits> = (0..ENTRIES).map(|i| input(format!("entry{i}_i"))).collect();
    let pair = |i: usize| entries[i].slice(BURST, pair_bits);
    let row = |i: usize| entries[i].slice(BURST + pair_bits, row_bits);
    let (mut closes, mut opens) = (Vec::new(), Vec::new());
    for i in 0..ENTRIES {
        let mine = (0..i).fold(valid[i], |mine, older| mine & !(valid[older] & pair(older).eq(pair(i))));
        let goes_on = entries[i].slice(BURST + pair_bits + row_bits, LEFT).any();
        for half in 0..HALVES {
            // Open, RD and WR allowed, PRE allowed, ACT allowed, row.
            let state = input(format!("state{i}_{half}_i"));
            let begins_here = entries[i].bit(0).eq_lit(half as u128);
            let needs = cat([mine, !&block, begins_here | goes_on]).all();
            let other_row = state.high(row_bits).ne(row(i));
            closes.push(cat([needs, state.bit(0), other_row, state.bit(2)]).all());
            opens.push(cat([needs, !state.bit(0), state.bit(3)]).all());
        }
    }
    // Banks that may get a command: half and row pair.
    let bank = |k: usize| cat([lit((k % HALVES) as u128, 1), pair(k / HALVES)]);
    let [act, pre] = ["act_o", "pre_o"].map(output);
    let is_at = |k: usize, banks: &Bits| banks.shr(bank(k)).bit(0);
    let given: Vec<Bits> =
        (0..opens.len()).map(|k| any_of([opens[k] & is_at(k, &act), closes[k] & is_at(k, &pre)])).collect();
    let all = ndp_hdl_language::repeat(banks, lit(1, 1));
    let of_entry = !&close & any_of([act.any(), pre.any()]);
    let is_single = |value: &Bits| (value & value.minus_one()).is_zero();
    m.assert("in_time", step | !any_of([act.any(), pre.any()]), "banks change in the last phase");
    m.assert("all", !(step & close) | (pre.eq(all) & !act.any()), "a refresh closes all banks");
    m.assert("one_bank", !&of_entry | is_single(&cat([act, pre])), "a row command is for one bank");
    m.assert("needed", !&of_entry | any_of(&given), "a row command is one that an entry needs, and may have");
    let since = m.ghost("since_act_q", 4).reset(LONG).enable(step);
    since.next(mux(act.any(), zeros(4), mux(since.q().all(), since, since.plus_one())));
    let long_ago = since.q().eq_lit(LONG);
    let due: Vec<Bits> =
        closes.iter().zip(&opens).map(|(closes, opens)| any_of([*closes, opens & long_ago])).collect();
    let passed: Vec<Bits> = (1..due.len()).map(|k| any_of(&due[..k]) & given[k]).collect();
    m.assert("oldest", !(of_entry & any_of(&passed)), "the oldest entry goes first");
    m.assert(
        "poll_immediate",
        !(step & !&of_entry & any_of(&due)),
        "a row is closed and opened as soon as it may be",
    );

    // The opened row, and the pins of the next slot.
    let rows: Vec<Bits> =
        (0..opens.len()).map(|k| row(k / HALVES).gated(opens[k] & is_at(k, &act))).collect();
    let opened = any_of(&rows);
    m.assert("row", !act.any() | output("row_o").eq(opened), "the row that is opened is its entry's");
    let kept = |name: &str, value: Bits| {
        let kept = m.ghost(name, value.width()).reset(0).enable(step);
        kept.next(value);
        kept.q()
    };
    let told = kept("told_q", any_of([act, pre.gated(!&close)]));
    let is_act = kept("told_act_q", act.any());
    let address = any_of([
        opened.zext(PINS).gated(act.any()),
        lit(PRE, PINS).gated(pre.any()),
        lit(ALL_BANKS, PINS).gated(close),
        lit(REF, PINS).gated(refresh),
    ]);
    let address = kept("told_address_q", address);
    let any = kept("told_any_q", any_of([act.any(), pre.any(), refresh]));
    m.assert("commands", output("command_o").eq(any), "the pins have a row command if one was chosen");
    m.assert("is_act", !&any | output("act_n_o").eq(!&is_act), "ACT is what opens a row");
    m.assert("address", !&any | output("address_o").eq(address), "address pins of ACT, PRE and REF");
    // With two bank groups a half is a group.
    let named = lit(1, banks).shl(cat([output("group_o"), output("bank_o")]));
    m.assert("named", !told.any() | told.eq(named), "the pins name the bank whose state changes");
    m.finish()
}
