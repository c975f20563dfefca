//! Which commands a rank gets in a slot (docs/timing.md, "Commands of a slot").

use super::slots::Slots;
use ndp_config::DramConfig;
use std::cmp::max;

/// Entries that are considered together.
pub(super) const ENTRIES: usize = 4;
/// Most bank groups; a rank may have two.
const GROUPS: usize = 4;
/// The two bank groups of a row pair, which differ in bit 0.
const HALVES: usize = 2;
/// Row pairs with four bank groups.
const PAIRS: usize = GROUPS / HALVES * DramConfig::BANKS_PER_GROUP as usize;
const BANKS: usize = HALVES * PAIRS;

/// Index of a half's bank of a row pair.
fn index(half: usize, pair: u8) -> usize {
    half * PAIRS + usize::from(pair)
}

/// Bursts to read or write: of a segment, or the one of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Entry {
    /// Next burst of the row pair; bit 0 selects the bank group.
    pub burst: u8,
    /// Row pair: the other bit of the bank group, if any, and above it the bank.
    pub bank: u8,
    /// Bits of the bank group in `bank`, 0 or 1.
    pub upper_bits: u8,
    pub row: u32,
    /// Bursts after the next one.
    pub left: u8,
    pub write: bool,
    /// A request, not a segment.
    pub request: bool,
    pub tag: u16,
}

impl Entry {
    pub fn at(upper_bits: u8, address: u32, left: u8, write: bool, request: bool, tag: u16) -> Self {
        let bank = (address >> 8) as u8 & ((4 << upper_bits) - 1);
        let row = address >> (10 + upper_bits);
        Self { burst: address as u8, bank, upper_bits, row, left, write, request, tag }
    }

    fn half(&self) -> usize {
        usize::from(self.burst & 1)
    }

    pub fn bank_of(&self, half: usize) -> (u8, u8) {
        ((self.bank & self.upper_bits) << 1 | half as u8, self.bank >> self.upper_bits)
    }

    fn group(&self, half: usize) -> usize {
        self.bank_of(half).0.into()
    }

    pub fn command(&self) -> ColumnCommand {
        let (bank_group, bank) = self.bank_of(self.half());
        ColumnCommand { write: self.write, bank_group, bank, column_burst: self.burst >> 1 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowCommand {
    /// ACT: bank group, bank, row.
    Activate(u8, u8, u32),
    /// PRE: bank group, bank.
    Precharge(u8, u8),
    /// PRE of all banks.
    PrechargeAll,
    /// REF.
    Refresh,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnCommand {
    pub write: bool,
    pub bank_group: u8,
    pub bank: u8,
    pub column_burst: u8,
}

/// A bank: its row, and the slots from which it may get each command.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Bank {
    row: Option<u32>,
    column: u64,
    pre: u64,
    act: u64,
}

/// Entries, oldest first, and the banks.
#[derive(Clone, Debug, Default)]
pub(super) struct Scheduler {
    entries: [Entry; ENTRIES],
    count: usize,
    banks: [Bank; BANKS],
    /// By bank group: slots from which RD, WR and ACT may come.
    read: [u64; GROUPS],
    write: [u64; GROUPS],
    act: [u64; GROUPS],
    /// Slots after which the fifth-last ACT is outside the window; oldest first.
    recent_acts: [u64; 4],
    /// No entry can ask for a row command before this slot, unless the entries change.
    row_wake: u64,
}

/// Reads of an entry at equal distances.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadRun {
    /// The entry at the first read.
    pub entry: Entry,
    /// Slot of the first read, slots from one to the next.
    pub slot: u64,
    pub step: u64,
    pub count: u64,
}

impl Bank {
    fn close(&mut self, slot: u64, slots: &Slots) {
        self.row = None;
        self.act = max(self.act, slot + slots.pre_to_act);
    }
}

impl Scheduler {
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub fn is_full(&self) -> bool {
        self.count == ENTRIES
    }

    /// Whether both have the same future from slot `slot`.
    pub fn is_symmetric(&self, other: &Self, slot: u64) -> bool {
        let times = |times: [u64; GROUPS]| times.map(|from| max(from, slot));
        let bank = |bank: &Bank| {
            let [column, pre, act] = [bank.column, bank.pre, bank.act].map(|from| max(from, slot));
            Bank { row: bank.row, column, pre, act }
        };
        self.entries[..self.count] == other.entries[..other.count]
            && self.banks.iter().map(bank).eq(other.banks.iter().map(bank))
            && times(self.read) == times(other.read)
            && times(self.write) == times(other.write)
            && times(self.act) == times(other.act)
            && times(self.recent_acts) == times(other.recent_acts)
    }

    pub fn has_segments_only(&self) -> bool {
        !self.entries[..self.count].iter().any(|entry| entry.request)
    }

    pub fn quiet_from(&self) -> u64 {
        self.banks.iter().map(|bank| bank.pre).max().unwrap_or(0)
    }

    /// Bursts that the oldest entry has left.
    pub fn head_bursts(&self) -> u64 {
        if self.count == 0 { 0 } else { u64::from(self.entries[0].left) + 1 }
    }

    pub fn close_all(&mut self, slot: u64, slots: &Slots) {
        self.banks.iter_mut().for_each(|bank| bank.close(slot, slots));
        self.row_wake = 0;
    }

    /// Adds an entry, in the slot after this one.
    #[inline]
    pub fn push(&mut self, entry: Entry) {
        let passed_over = self.has_bank(entry.bank);
        self.entries[self.count] = entry;
        self.count += 1;
        // An entry that is passed over, or has its rows open, asks for nothing. Only the entry itself or a refresh
        // closes a row of its bank.
        let open = |half: usize| self.banks[index(half, entry.bank)].row == Some(entry.row);
        if !passed_over && !(open(entry.half()) && (entry.left == 0 || open(1 - entry.half()))) {
            self.row_wake = 0;
        }
    }

    #[inline]
    fn has_bank(&self, bank: u8) -> bool {
        self.entries[..self.count].iter().any(|entry| entry.bank == bank)
    }

    /// Decides the commands of a slot and applies them. Returns the entry, as it was, whose burst is read or written,
    /// and the row command.
    #[inline]
    pub fn decide(&mut self, slot: u64, slots: &Slots) -> (Option<Entry>, Option<RowCommand>) {
        // The column command depends on the banks as they are before the row command.
        let column = (self.count > 0 && self.column_from() <= slot).then(|| self.entries[0]);
        let row = if slot >= self.row_wake { self.row(slot) } else { None };
        if let Some(entry) = column {
            self.issue_column(slot, slots, entry);
        }
        if let Some((command, at)) = row {
            self.row_wake = 0;
            match command {
                RowCommand::Activate(group, _, row) => self.issue_act(slot, slots, at, group.into(), row),
                _ => self.banks[at].close(slot, slots),
            }
        }
        (column, row.map(|(command, _)| command))
    }

    /// The slot from which the oldest entry may be read or written, as things are now.
    #[inline]
    fn column_from(&self) -> u64 {
        let head = &self.entries[0];
        let (half, group) = (head.half(), head.group(head.half()));
        let bank = &self.banks[index(half, head.bank)];
        let free = if head.write { self.write[group] } else { self.read[group] };
        if bank.row == Some(head.row) { max(bank.column, free) } else { u64::MAX }
    }

    /// The first slot in which a command can come, as things are now.
    #[inline]
    pub fn next(&mut self) -> u64 {
        if self.count == 0 {
            return u64::MAX;
        }
        if self.row_wake == 0 {
            // No row command is allowed in slot 0.
            self.row(0);
        }
        self.column_from().min(self.row_wake)
    }

    /// The row command of the oldest entry that wants one and gets it; else sets when to look again.
    fn row(&mut self, slot: u64) -> Option<(RowCommand, usize)> {
        let (mut wake, mut older) = (u64::MAX, 0u32);
        for entry in &self.entries[..self.count] {
            let bit = 1 << entry.bank;
            if older & bit != 0 {
                continue;
            }
            older |= bit;
            for half in 0..HALVES {
                let bank = &self.banks[index(half, entry.bank)];
                if bank.row == Some(entry.row) || half != entry.half() && entry.left == 0 {
                    continue;
                }
                let (group, number) = entry.bank_of(half);
                let from = match bank.row {
                    Some(_) => bank.pre,
                    None => max(max(bank.act, self.act[usize::from(group)]), self.recent_acts[0]),
                };
                if from <= slot {
                    let command = match bank.row {
                        Some(_) => RowCommand::Precharge(group, number),
                        None => RowCommand::Activate(group, number, entry.row),
                    };
                    return Some((command, index(half, entry.bank)));
                }
                wake = wake.min(from);
            }
        }
        self.row_wake = wake;
        None
    }

    fn issue_column(&mut self, slot: u64, slots: &Slots, entry: Entry) {
        let group = entry.group(entry.half());
        for of in 0..GROUPS {
            let distance = usize::from(of != group);
            let (read, write) = if entry.write {
                (slots.write_to_read[distance], slots.column[distance])
            } else {
                (slots.column[distance], slots.read_to_write)
            };
            self.read[of] = max(self.read[of], slot + read);
            self.write[of] = max(self.write[of], slot + write);
        }
        let to_pre = if entry.write { slots.write_to_pre } else { slots.read_to_pre };
        let bank = &mut self.banks[index(entry.half(), entry.bank)];
        bank.pre = max(bank.pre, slot + to_pre);
        if entry.left == 0 {
            self.entries.copy_within(1.., 0);
            self.count -= 1;
            // No other entry was passed over because of it.
            if self.has_bank(entry.bank) {
                self.row_wake = 0;
            }
        } else {
            let head = &mut self.entries[0];
            head.burst = head.burst.wrapping_add(1);
            head.left -= 1;
            // A bank of the other half may not be needed any more; one that could be closed later is never needed
            // earlier.
        }
    }

    /// Reads on in the oldest entry, except its last burst, from slot `from` to before `end`. Only if both its rows are
    /// open and its bursts follow each other at the same distance.
    #[inline]
    pub fn read_on(&mut self, slots: &Slots, from: u64, end: u64) -> Option<ReadRun> {
        let entry = self.entries[0];
        if self.count == 0 || entry.write || entry.left == 0 {
            return None;
        }
        let half = entry.half();
        let (at, other) = (index(half, entry.bank), index(1 - half, entry.bank));
        let (group, other_group) = (entry.group(half), entry.group(1 - half));
        if self.banks[at].row != Some(entry.row) || self.banks[other].row != Some(entry.row) {
            return None;
        }
        let step = slots.column[1];
        let slot = max(max(self.banks[at].column, self.read[group]), from);
        let second = max(max(self.banks[other].column, self.read[other_group]), slot + step);
        if slot >= end || second != slot + step || 2 * step < slots.column[0] {
            return None;
        }
        let left = u64::from(entry.left);
        let count = if slot + step * (left - 1) < end { left } else { (end - slot).div_ceil(step) };
        let last = slot + (count - 1) * step;
        let last_half = half ^ (count as usize - 1) & 1;
        for (of, slot) in [(last_half, last), (1 - last_half, last.wrapping_sub(step))] {
            if of == last_half || count > 1 {
                let bank = &mut self.banks[index(of, entry.bank)];
                bank.pre = max(bank.pre, slot + slots.read_to_pre);
                let of = entry.group(of);
                for (group, from) in self.read.iter_mut().enumerate() {
                    *from = max(*from, slot + slots.column[usize::from(group != of)]);
                }
            }
        }
        let turn = last + slots.read_to_write;
        self.write.iter_mut().for_each(|from| *from = max(*from, turn));
        let head = &mut self.entries[0];
        head.burst = head.burst.wrapping_add(count as u8);
        head.left -= count as u8;
        Some(ReadRun { entry, slot, step, count })
    }

    fn issue_act(&mut self, slot: u64, slots: &Slots, at: usize, group: usize, row: u32) {
        let bank = &mut self.banks[at];
        bank.row = Some(row);
        bank.column = max(bank.column, slot + slots.act_to_column);
        bank.pre = max(bank.pre, slot + slots.act_to_pre);
        bank.act = max(bank.act, slot + slots.act_to_act);
        for (of, from) in self.act.iter_mut().enumerate() {
            *from = max(*from, slot + slots.act[usize::from(of != group)]);
        }
        self.recent_acts.rotate_left(1);
        self.recent_acts[3] = slot + slots.four_acts;
    }
}
