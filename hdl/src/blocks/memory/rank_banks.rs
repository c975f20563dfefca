//! State of a rank's banks: which row is open, and which commands the timing rules allow next. Commands change the
//! state at the end of a slot's last phase. In the next phase, the state of the entries' banks is looked up into
//! registers.

use super::prelude::*;

/// Bits of a bank's state besides its row, from bit 0: open, RD and WR allowed, PRE allowed, ACT allowed.
pub(super) const FLAGS: u32 = 4;

#[block(m, "rank_banks_{name}", "Tracks the open rows of a rank and when its banks may be used.")]
pub(super) fn rank_banks(dram: &DramConfig, name: &str) -> Block {
    let (slots, banks) = (Slots::new(dram), dram.banks());
    let act = m.input(banks, "ACT of these banks; in the last phase");
    let pre = m.input(banks, "PRE of these banks; in the last phase");
    let rd = m.input(banks, "RD of these banks; in the last phase");
    let wr = m.input(banks, "WR of these banks; in the last phase");
    if slots.read_to_pre == 1 {
        m.unused(rd, "PRE is allowed in the slot after a RD anyway");
    }
    let row = m.input(dram.row_bits(), "row that is opened");
    let ring = phase_ring::In {}.part(&m, "ring", &phase_ring(SLOT)?).phase.q();
    m.unused(ring.low(SLOT - 1), "the state changes in the last phase");
    let step = ring.msb();

    let mut states = Vec::new();
    let mut bars = Vec::new();
    for bank in 0..banks {
        let [act, pre, rd, wr] = [act, pre, rd, wr].map(|command| command.bit(bank));
        let open = m.reg(format!("open{bank}_q"), 1).reset(0);
        open.set_clear(act, pre);
        let open_row = m.hold(format!("row{bank}_q"), row, act);
        let bar =
            |what: &str, loads: &[(Bits, u32)]| countdown(&m, &format!("{what}_bar{bank}"), &step, loads);
        let column = bar("column", &[(act, slots.act_to_column)]);
        let precharge = [(act, slots.act_to_pre), (rd, slots.read_to_pre), (wr, slots.write_to_pre)];
        let precharge = bar("pre", &precharge);
        let activate = bar("act", &[(act, slots.act_to_act), (pre, slots.pre_to_act)]);
        states.push(cat!(open_row, !activate, !precharge, !column, open));
        bars.push(precharge);
    }
    for i in 0..ENTRIES {
        let bits = EntryLayout::new(dram, 0).bank;
        let select = decoded(&m.input(format!("bank{i}_i"), bits, format!("bank of entry {i}")));
        for group in 0..HALVES {
            let own = states.iter().skip(group * pairs(dram)).zip(&select);
            let state: Vec<Bits> = own.map(|(state, select)| state.gated(select)).collect();
            let state = m.delay(format!("state{i}_{group}_q"), any_of(&state));
            let doc = format!("open, column, PRE, ACT allowed, row of entry {i}'s bank in group {group}");
            m.output(format!("state{i}_{group}_o"), state, doc);
        }
    }
    m.output(quiet = m.delay("quiet_q", !any_of(&bars)), "PRE is allowed for every bank");
}
