//! Input of a rank's energy: commands by bank, the time in which banks are open, and the bits on the data bus.
//!
//! - **Active**: at least one bank is open. A bank is open from the clock of its ACT to the clock before PRE or PREA,
//!   or before the precharge of RDA or WRA begins.
//! - **Ones** are transferred bits that are 1. On a pseudo open drain bus (JESD79-4, POD12) only a 0 draws current
//!   through the termination.
//! - **Toggles** are changes of a data pin. An idle bus is high: a burst without another one in the clock before starts
//!   from ones, and the pins return to ones after the last burst. Masks, strobes and command pins are not counted.

use ndp_config::DramConfig;
use serde::Serialize;

use super::Command;
use crate::counts;
use crate::open_time::OpenTime;

counts! {
    /// Commands of a bank.
    #[derive(Copy)]
    pub struct BankCounts {
        /// ACT.
        activates: u64,
        /// RD and RDA.
        reads: u64,
        /// WR and WRA.
        writes: u64,
    }
}

counts! {
    /// Bits on the data bus in one direction.
    #[derive(Copy)]
    pub struct BusBits {
        /// Transferred bits.
        bits: u64,
        /// Transferred bits that are 1.
        ones: u64,
        toggles: u64,
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Activity {
    pub cycles: u64,
    /// Clocks in which at least one bank is open.
    pub active_cycles: u64,
    /// REF.
    pub refreshes: u64,
    /// By bank: `bank_group * 4 + bank`.
    pub banks: Vec<BankCounts>,
    pub read_bus: BusBits,
    pub write_bus: BusBits,
}

#[derive(Clone, Copy, Debug)]
struct LastTransfer {
    cycle: u64,
    word: u64,
    write: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Meter {
    activity: Activity,
    /// A bit for each bank.
    open: OpenTime,
    last: Option<LastTransfer>,
}

impl BusBits {
    fn add(&mut self, before: u64, words: [u64; 2]) {
        self.bits += 128;
        self.ones += u64::from(words[0].count_ones() + words[1].count_ones());
        self.toggles += u64::from((before ^ words[0]).count_ones() + (words[0] ^ words[1]).count_ones());
    }
}

impl Meter {
    pub fn new(config: &DramConfig) -> Self {
        let banks = vec![BankCounts::default(); config.banks() as usize];
        let activity = Activity { banks, ..Activity::default() };
        Self { activity, open: OpenTime::default(), last: None }
    }

    /// Counts of the clocks before `cycle`.
    pub fn activity(&self, cycle: u64) -> Activity {
        let mut meter = self.clone();
        meter.return_to_ones(cycle);
        Activity { cycles: cycle, active_cycles: self.open.active_cycles(cycle), ..meter.activity }
    }

    /// `precharge_start`: for RDA and WRA of an open bank, the clock in which the precharge begins.
    pub fn command(&mut self, cycle: u64, command: &Command, precharge_start: Option<u64>) {
        self.open.close_before(cycle + 1);
        let bank = command.bank().map(|(group, bank)| {
            usize::from(group) * DramConfig::BANKS_PER_GROUP as usize + usize::from(bank)
        });
        match (command, bank) {
            (Command::Activate { .. }, Some(bank)) => {
                self.activity.banks[bank].activates += 1;
                self.open.set(cycle, self.open.open() | 1 << bank);
                // A precharge that was to come is replaced, which is a violation.
                self.open.keep(1 << bank);
            }
            (Command::Read { .. }, Some(bank)) => self.activity.banks[bank].reads += 1,
            (Command::Write { .. }, Some(bank)) => self.activity.banks[bank].writes += 1,
            (Command::Precharge { .. }, Some(bank)) => {
                self.open.set(cycle, self.open.open() & !(1 << bank));
            }
            (Command::PrechargeAll, _) => self.open.set(cycle, 0),
            (Command::Refresh, _) => self.activity.refreshes += 1,
            _ => {}
        }
        if let (Some(start), Some(bank)) = (precharge_start, bank) {
            self.open.close_at(start, 1 << bank);
        }
    }

    /// Two transfers in a clock.
    #[inline]
    pub fn transfer(&mut self, cycle: u64, words: [u64; 2], write: bool) {
        self.return_to_ones(cycle);
        let before = self.last.map_or(u64::MAX, |last| last.word);
        let bus = if write { &mut self.activity.write_bus } else { &mut self.activity.read_bus };
        bus.add(before, words);
        self.last = Some(LastTransfer { cycle, word: words[1], write });
    }

    /// The bus returns to ones if nothing was transferred in the clock before this one.
    fn return_to_ones(&mut self, cycle: u64) {
        let Some(last) = self.last.take_if(|last| last.cycle + 1 < cycle) else { return };
        let bus = if last.write { &mut self.activity.write_bus } else { &mut self.activity.read_bus };
        bus.toggles += u64::from(last.word.count_zeros());
    }
}
