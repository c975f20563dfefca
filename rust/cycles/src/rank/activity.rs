//! Use of a rank: its commands by bank, and the time in which banks are open.
//!
//! Commands are decided some clocks before they are on the pins, reads a whole segment ahead. They are counted when
//! they are on the pins.

use super::scheduler::{Entry, RowCommand};
use super::slots::SLOT;
use ndp_config::DramConfig;
use serde::Serialize;
use std::collections::VecDeque;

/// Commands that wait to be counted before they are gone through.
const WAITING: usize = 128;

/// Commands of a bank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BankCounts {
    pub activates: u64,
    pub reads: u64,
    pub writes: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RankActivity {
    /// Clocks of the DRAM since reset.
    pub cycles: u64,
    /// Clocks with an open bank: from the clock of an ACT to the clock before the PRE.
    pub active_cycles: u64,
    /// PRE of one bank.
    pub precharges: u64,
    /// PRE of all banks.
    pub precharges_all: u64,
    /// REF.
    pub refreshes: u64,
    /// By bank: `bank_group * 4 + bank`.
    pub banks: Vec<BankCounts>,
}

impl RankActivity {
    fn add(&mut self, other: &Self) {
        self.active_cycles += other.active_cycles;
        self.precharges += other.precharges;
        self.precharges_all += other.precharges_all;
        self.refreshes += other.refreshes;
        for (bank, other) in self.banks.iter_mut().zip(&other.banks) {
            bank.activates += other.activates;
            bank.reads += other.reads;
            bank.writes += other.writes;
        }
    }

    /// Sums over all banks.
    pub fn all_banks(&self) -> BankCounts {
        let mut sum = BankCounts::default();
        for bank in &self.banks {
            sum.activates += bank.activates;
            sum.reads += bank.reads;
            sum.writes += bank.writes;
        }
        sum
    }
}

/// RD or WR at equal distances, alternating between two banks.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Columns {
    clock: u64,
    step: u64,
    count: u64,
    write: bool,
    banks: [usize; 2],
}

#[derive(Clone, Debug, Default)]
pub(super) struct Meter {
    counted: RankActivity,
    /// As `counted` and `decided`, up to [`Meter::begin`].
    before: RankActivity,
    decided_before: u64,
    /// Open banks, one bit each, and the clock since which there are some.
    open: u32,
    active_since: u64,
    /// Commands not counted yet, each kind in the order of clocks.
    rows: VecDeque<(u64, RowCommand)>,
    columns: VecDeque<Columns>,
    /// RD and WR, counted or not.
    decided: u64,
}

fn number((group, bank): (u8, u8)) -> usize {
    usize::from(group) * DramConfig::BANKS_PER_GROUP as usize + usize::from(bank)
}

impl Meter {
    pub fn new(dram: &DramConfig) -> Self {
        let banks = vec![BankCounts::default(); dram.banks() as usize];
        Self {
            counted: RankActivity { banks: banks.clone(), ..RankActivity::default() },
            before: RankActivity { banks, ..RankActivity::default() },
            ..Self::default()
        }
    }

    pub fn decided(&self) -> u64 {
        self.decided_before + self.decided
    }

    /// Restarts the counts from clock `clock`; every slot that begins before it has been decided.
    pub fn begin(&mut self, clock: u64) {
        self.count(clock);
        if self.open != 0 {
            self.counted.active_cycles += clock - self.active_since;
            self.active_since = clock;
        }
        self.before.add(&self.counted);
        self.counted = RankActivity {
            banks: vec![BankCounts::default(); self.counted.banks.len()],
            ..RankActivity::default()
        };
        self.decided_before += std::mem::take(&mut self.decided);
    }

    /// Whether both have restarted their counts and have the same future.
    pub fn is_symmetric(&self, other: &Self) -> bool {
        (self.open, &self.rows, &self.columns) == (other.open, &other.rows, &other.columns)
    }

    /// Adds the counts of `other` since both restarted.
    pub fn follow(&mut self, other: &Self) {
        let (before, decided_before) = (std::mem::take(&mut self.before), self.decided_before);
        *self = Self { before, decided_before, ..other.clone() };
    }

    /// Use before clock `until`; every slot that begins before it has been decided.
    pub fn activity(&self, until: u64) -> RankActivity {
        let mut meter = self.clone();
        meter.count(until);
        if meter.open != 0 {
            meter.counted.active_cycles += until - meter.active_since;
        }
        meter.counted.add(&meter.before);
        RankActivity { cycles: until, ..meter.counted }
    }

    /// Adds a row command that is on the pins in `clock`, decided in `slot`.
    #[inline]
    pub fn row(&mut self, slot: u64, clock: u64, command: RowCommand) {
        self.rows.push_back((clock, command));
        self.tidy(slot);
    }

    /// Adds column commands of an entry, the first one on the pins in `clock`, decided in `slot`.
    #[inline]
    pub fn columns(&mut self, slot: u64, (clock, step, count): (u64, u64, u64), entry: &Entry) {
        let half = usize::from(entry.burst & 1);
        let banks = [number(entry.bank_of(half)), number(entry.bank_of(1 - half))];
        self.decided += count;
        self.columns.push_back(Columns { clock, step, count, write: entry.write, banks });
        self.tidy(slot);
    }

    #[inline]
    fn tidy(&mut self, slot: u64) {
        if self.rows.len() + self.columns.len() >= WAITING {
            // Later decisions reach the pins later.
            self.count(slot * SLOT);
        }
    }

    /// Counts the commands on the pins before a clock.
    fn count(&mut self, until: u64) {
        while let Some(columns) = self.columns.front_mut().filter(|columns| columns.clock < until) {
            let Columns { clock, step, count, write, banks } = *columns;
            // Mostly all are past, and no division is needed.
            let all = clock + step * (count - 1) < until;
            let past = if all { count } else { (until - clock).div_ceil(step) };
            for (bank, past) in banks.into_iter().zip([past.div_ceil(2), past / 2]) {
                let bank = &mut self.counted.banks[bank];
                *(if write { &mut bank.writes } else { &mut bank.reads }) += past;
            }
            if past == count {
                self.columns.pop_front();
                continue;
            }
            (columns.clock, columns.count) = (clock + past * step, count - past);
            if past % 2 == 1 {
                columns.banks.reverse();
            }
        }
        while let Some((clock, command)) = self.rows.front().copied().filter(|(clock, _)| *clock < until) {
            self.rows.pop_front();
            match command {
                RowCommand::Activate(group, bank, _) => {
                    let bank = number((group, bank));
                    self.counted.banks[bank].activates += 1;
                    if self.open == 0 {
                        self.active_since = clock;
                    }
                    self.open |= 1 << bank;
                }
                RowCommand::Precharge(group, bank) => {
                    self.counted.precharges += 1;
                    self.close(clock, 1 << number((group, bank)));
                }
                RowCommand::PrechargeAll => {
                    self.counted.precharges_all += 1;
                    self.close(clock, u32::MAX);
                }
                RowCommand::Refresh => self.counted.refreshes += 1,
            }
        }
    }

    fn close(&mut self, clock: u64, banks: u32) {
        if self.open != 0 && self.open & !banks == 0 {
            self.counted.active_cycles += clock - self.active_since;
        }
        self.open &= !banks;
    }
}
