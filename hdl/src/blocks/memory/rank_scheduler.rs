//! Decides the commands of a rank in the next slot: at most one for a column, at most one for a row. The head's next
//! burst is read or written when its row is open and the timing rules allow it. Ahead of that, every entry may close
//! and open the rows it needs, oldest first, in banks that no older entry uses. One phase per step: state of the banks
//! and needs of each entry (registered by [`super::rank_banks`] and here), possible commands, the choice, and the
//! change of state.

use super::prelude::*;
use super::rank_banks::FLAGS;

/// Address pins of the command bus.
pub const ADDRESS_PINS: u32 = 18;
/// A15 high, A16 and A14 low: PRE. A14 high, the others low: REF.
const CAS_N: u32 = 15;
const WE_N: u32 = 14;
/// A10: all banks.
const ALL_BANKS: u32 = 10;

#[block(m, "rank_scheduler_{name}_{}", ports.name(dram),
    "Chooses the column and the row command of each slot.")]
pub fn rank_scheduler(dram: &DramConfig, ports: &RankPorts, name: &str) -> Block {
    let (slots, layout) = (Slots::new(dram), EntryLayout::new(dram, ports.tag_bits()));
    let (groups, pairs) = (dram.bank_groups() as usize, pairs(dram));
    let block = m.input(1, "refresh: no command");
    let close = m.input(1, "PRE of all banks; in the last phase");
    let refresh = m.input(1, "REF; in the last phase");
    let valid = each(ENTRIES, |i| m.input(format!("valid{i}_i"), 1, format!("entry {i} is valid")));
    let entries: Vec<Entry> = each(ENTRIES, |i| {
        let entry =
            Entry::unpack(layout, m.input(format!("entry{i}_i"), Entry::bits(layout), format!("entry {i}")));
        m.unused(entry.burst.high(entry.burst.width() - 1), "the column goes to the pins directly");
        m.unused(cat!(entry.tag, entry.request), "tags are of no interest here");
        if i > 0 {
            m.unused(entry.write, "only the head is read or written");
        }
        entry
    });
    let ring = phase_ring::In {}.part(&m, "ring", &phase_ring(SLOT)?).phase.q();
    m.unused(ring.low(SLOT - 1), "the state changes in the last phase");
    let step = ring.msb();

    // Bars for all banks or for a bank group. `column` and `acts` are driven at the end.
    let head = &entries[0];
    let column = m.forward(1);
    let acts = m.forward(groups as u32);
    let in_half = |half: usize| if half == 0 { !head.half() } else { head.half() };
    // Bit 0 of a bank group is the half; the pair gives the bits above it.
    let in_upper =
        |entry: &Entry, group: usize| entry.upper_group().map(|upper| upper.eq_lit((group / HALVES) as u128));
    let in_group = |group: usize| match in_upper(head, group) {
        Some(upper) => upper & in_half(group % HALVES),
        None => in_half(group),
    };
    let mut column_bar = Vec::new();
    let mut act_bar = Vec::new();
    for group in 0..groups {
        let issued = |write: bool, same: bool| {
            let direction = if write { head.write } else { !head.write };
            let group = if same { in_group(group) } else { !in_group(group) };
            all!(column, direction, group)
        };
        let bars = [false, true].map(|write| {
            let loads = [true, false].into_iter().flat_map(|same| {
                let distance = usize::from(same);
                let turn = if write { slots.read_to_write } else { slots.write_to_read[distance] };
                [(issued(write, same), slots.column_to_column[distance]), (issued(!write, same), turn)]
            });
            let name = format!("{}_bar{group}", if write { "write" } else { "read" });
            countdown(&m, &name, &step, &loads.collect::<Vec<_>>())
        });
        column_bar.push(mux(head.write, bars[1], bars[0]));
        let loads = [
            (acts.bit(group as u32), slots.act_to_other[1]),
            (any_of((0..groups).filter(|g| *g != group).map(|g| acts.bit(g as u32))), slots.act_to_other[0]),
        ];
        act_bar.push(countdown(&m, &format!("act_bar{group}"), &step, &loads));
    }
    if slots.act_to_other == [1, 1] && slots.four_acts <= 4 {
        m.unused(acts, "one row command per slot keeps ACTs far enough apart");
    }
    // The bar of the bank group in which an entry has a half.
    let of_half = |bars: &[Bits], entry: &Entry, half: usize| {
        let of_uppers = bars.iter().enumerate().filter(|(group, _)| group % HALVES == half);
        let gated = of_uppers.map(|(group, bar)| in_upper(entry, group).map_or(*bar, |upper| upper & bar));
        any_of(gated)
    };
    let four_acts = four_acts(&m, &acts.any(), slots.four_acts, &step);

    // Possible commands.
    let mut pres = Vec::new();
    let mut acts_possible = Vec::new();
    let mut head_open = Vec::new();
    for (i, entry) in entries.iter().enumerate() {
        let older = each(i, |j| valid[j] & entries[j].bank.eq(entry.bank));
        let alone = if older.is_empty() { lit(1, 1) } else { !any_of(&older) };
        for group in 0..HALVES {
            let state = m.input(
                format!("state{i}_{group}_i"),
                FLAGS + dram.row_bits(),
                format!("open, column, PRE, ACT allowed, row of entry {i}'s bank in group {group}"),
            );
            let [open, column_free, pre_free, act_free] = [0, 1, 2, 3].map(|bit| state.bit(bit));
            let here = if group == 0 { !entry.half() } else { entry.half() };
            let needs = all!(valid[i], alone, here | entry.left.any());
            let needs = m.delay(format!("needs{i}_{group}_q"), needs);
            let same_row = m.wire(format!("same_row{i}_{group}"), state.high(dram.row_bits()).eq(entry.row));
            let free = m.wire(format!("free{i}_{group}"), needs & !block);
            let pre = all!(free, open, !same_row, pre_free);
            let may_open = !any_of([of_half(&act_bar, entry, group), four_acts]);
            let act = all!(free, !open, act_free, may_open);
            pres.push(m.delay(format!("pre{i}_{group}_q"), pre));
            acts_possible.push(m.delay(format!("act{i}_{group}_q"), act));
            if i == 0 {
                let ready = !of_half(&column_bar, head, group);
                let ready = cat!(in_half(group), open, same_row, column_free, ready);
                head_open.push(ready.all());
            } else {
                m.unused(column_free, "only the head is read or written");
            }
        }
    }
    let goes = all!(valid[0], !block, any_of(&head_open));
    let goes = m.flag("column_q", goes);
    column.drive(goes);

    // Oldest first, bank group 0 first.
    let wanted: Vec<Bits> = pres.iter().zip(&acts_possible).map(|(pre, act)| pre | act).collect();
    let mut chosen_pre = Vec::new();
    let mut chosen_act = Vec::new();
    for k in 0..wanted.len() {
        let first = if k == 0 { lit(1, 1) } else { !any_of(&wanted[..k]) };
        chosen_pre.push(m.delay(format!("chosen_pre{k}_q"), first & pres[k]));
        chosen_act.push(m.delay(format!("chosen_act{k}_q"), first & acts_possible[k]));
    }

    // The change of state, in the last phase.
    let banks: Vec<Vec<Bits>> = entries.iter().map(|entry| decoded(&entry.bank)).collect();
    let of_banks = |chosen: &[Bits]| {
        let bank = |bank: usize| {
            let (group, index) = (bank / pairs, bank % pairs);
            any_of((0..ENTRIES).map(|i| chosen[i * HALVES + group] & banks[i][index]))
        };
        cat((0..2 * pairs).rev().map(bank))
    };
    let everywhere = |bit: &Bits| repeat(dram.banks(), bit);
    let act_banks = m.wire(of_banks(&chosen_act).gated(step));
    let pre_banks = m.wire((of_banks(&chosen_pre) | everywhere(&close)).gated(step));
    let of_group = |chosen: &[Bits], group: usize| {
        let of_entry = |i: usize| {
            let chosen = &chosen[i * HALVES + group % HALVES];
            in_upper(&entries[i], group).map_or(*chosen, |upper| upper & chosen)
        };
        any_of((0..ENTRIES).map(of_entry))
    };
    acts.drive(cat((0..groups).rev().map(|group| of_group(&chosen_act, group))));
    let of_entry = |i: usize| {
        any_of([&chosen_act[i * HALVES..][..HALVES], &chosen_pre[i * HALVES..][..HALVES]].concat())
    };
    let picked = each(ENTRIES, of_entry);
    let pick = |field: &dyn Fn(&Entry) -> Bits| {
        any_of(entries.iter().zip(&picked).map(|(entry, picked)| field(entry).gated(picked)))
    };
    let row = m.wire(pick(&|entry| entry.row));

    // The row command, for the pins two phases later.
    let held = |name: &str, value: Bits| m.hold(name, value, step);
    let act = any_of(&chosen_act);
    let pre = any_of(&chosen_pre);
    let valid_row = m.reg("row_valid_q", 1).reset(0).enable(step).next(any!(act, pre, close, refresh));
    let operation = [(CAS_N, any!(pre, close)), (WE_N, refresh), (ALL_BANKS, close)];
    let pins = (0..ADDRESS_PINS).map(|pin| {
        let row_bit = if pin < row.width() { row.bit(pin) & act } else { zeros(1) };
        let operation = operation.iter().filter(|(at, _)| *at == pin).map(|(_, value)| *value);
        any_of(operation.chain([row_bit]))
    });
    let pins = cat(pins.collect::<Vec<_>>().into_iter().rev());
    let upper_half = |chosen: &[Bits]| any_of(chosen.iter().skip(1).step_by(HALVES).cloned());
    let [half_act, half_pre] = [&chosen_act, &chosen_pre].map(|chosen| upper_half(chosen));

    let half = half_act | half_pre;
    let picked_group = match head.upper_group() {
        Some(_) => cat!(pick(&|entry| entry.upper_group().unwrap_or(zeros(1))), half),
        None => half,
    };

    m.output(column = goes, "the head's next burst is issued; for the last two phases");
    let head_banks = (0..2 * pairs).map(|bank| {
        let (group, index) = (bank / pairs, bank % pairs);
        all!(in_half(group), banks[0][index])
    });
    let head_banks = m.delay(cat(head_banks.collect::<Vec<_>>().into_iter().rev()));
    let reads = m.delay("rd_q", goes & !head.write);
    m.output(rd = head_banks.gated(reads & step), "RD of these banks");
    let writes = m.delay("wr_q", goes & head.write);
    m.output(wr = head_banks.gated(writes & step), "WR of these banks");
    m.output(act = act_banks, "ACT of these banks");
    m.output(pre = pre_banks, "PRE of these banks");
    m.output(row, "row that is opened");
    m.output(command = valid_row, "a row command is issued");
    m.output(act_n = held("act_n_q", !act), "the row command is not ACT");
    m.output(group = held("group_q", picked_group), "bank group of the row command");
    m.output(bank = held("bank_q", pick(&|entry| entry.bank_of_group())), "bank of the row command");
    m.output(address = held("address_q", pins), "address pins of the row command");
}

/// Set while four ACTs lie within the last `window - 1` slots.
fn four_acts(m: &ModuleBuilder, act: &Bits, window: u32, step: &Bits) -> Bits {
    if window <= 4 {
        // One row command per slot cannot break it.
        return zeros(1);
    }
    let recent = m.reg("recent_acts_q", window - 1).reset(0).enable(step);
    recent.next(cat!(recent.low(window - 2), act));
    let bits = bits_for(4);
    let count = m.reg("act_count_q", bits).reset(0).enable(step);
    let leaves = recent.msb();
    let more = mux(act, count.plus_one(), count.minus_one());
    count.next(mux(act ^ leaves, more, count));
    debug_assert_eq!(log2(4), bits - 1);
    count.msb()
}
