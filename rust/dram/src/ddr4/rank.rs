//! The rank: pins in, data out, once per DRAM clock.
//!
//! A RD takes its data from the array in its own clock, a WR stores them as they arrive; for legal commands this makes
//! no difference. The behaviour after a violation is defined as follows, so that a faulty controller gives the same
//! wrong result every time:
//!
//! - undefined pins, and ACT of a row that does not exist, are taken as deselect;
//! - a command that is only too early (or too late) is carried out as if it were in time;
//! - ACT of an open bank replaces the open row; RD of a closed bank reads ones, WR of a closed bank writes nothing;
//! - REF leaves open rows open;
//! - where two bursts of one direction overlap on the bus, the later command has the bus;
//! - if data that are due do not come, those two words keep their value; data that are not due are ignored.

use ndp_config::DramConfig;

use super::activity::{Activity, Meter};
use super::pins::BANK_GROUP_PINS_MAX;
use super::statistics::Accountant;
use super::storage::{BURST_WORDS, RowHandle, Storage};
use super::{Command, CommandPins, Location, Statistics};
use crate::DramError;
use crate::rules::{Checker, RuleSet};

/// Data of a RD of a closed bank: a data bus without a driver is pulled up.
const UNDRIVEN: u64 = u64::MAX;
const BURST_CYCLES: usize = DramConfig::T_BL as usize;

#[derive(Clone, Copy, Debug, Default)]
struct Bank {
    row: Option<u32>,
    /// Memory of the open row, once it is known to have any.
    memory: Option<RowHandle>,
    accessed: bool,
}

/// Two words that a WR waits for.
#[derive(Clone, Copy, Debug)]
struct WriteBeat {
    issued: u64,
    command: Command,
    /// `None` if the bank was closed.
    location: Option<Location>,
    beat: usize,
}

/// A DDR4 rank with a data bus of 64 bits.
#[derive(Clone, Debug)]
pub struct Rank {
    config: DramConfig,
    cycle: u64,
    /// Clock from which nothing happens unless a command or data come.
    busy_until: u64,
    checker: Checker<Command>,
    storage: Storage,
    /// `bank_group * BANKS_PER_GROUP + bank`.
    banks: [Bank; (BANK_GROUP_PINS_MAX + 1) as usize * DramConfig::BANKS_PER_GROUP as usize],
    /// Data that the rank drives in future clocks: clock `c` at index `c % len`, `len` a power of two beyond the
    /// latencies.
    reads: Box<[Option<[u64; 2]>]>,
    /// Data that the controller has to drive, likewise.
    writes: Box<[Option<WriteBeat>]>,
    accountant: Accountant,
    meter: Meter,
    trace: Option<Vec<(u64, Command)>>,
}

ndp_config::getters!(Rank {
    /// Number of clocks so far.
    cycle: u64,
    config: &DramConfig,
});

crate::rules::checked!(Rank, Command);

impl Rank {
    /// A rank with all banks closed, before its first clock; unwritten memory reads as zeros.
    pub fn new(config: &DramConfig) -> Self {
        Self::with_storage(config, Storage::zeros())
    }

    /// As [`Rank::new`], with contents such as [`Storage::pattern`].
    pub fn with_storage(config: &DramConfig, storage: Storage) -> Self {
        // tCL is the larger latency (tCWL is at most tCL).
        let clocks = (config.t_cl() as usize + BURST_CYCLES).next_power_of_two();
        Self {
            config: config.clone(),
            cycle: 0,
            busy_until: 0,
            checker: Checker::new(RuleSet::ddr4(config)),
            storage,
            banks: Default::default(),
            reads: vec![None; clocks].into(),
            writes: vec![None; clocks].into(),
            accountant: Accountant::new(config),
            meter: Meter::new(config),
            trace: None,
        }
    }

    /// One clock of the DRAM. The controller drives `write` on the data bus in this clock (two transfers, the first in
    /// `[0]`); the rank drives the result.
    ///
    /// The data of a RD in clock `t` are driven in `t + tCL .. t + tCL + 3`. The data of a WR are due in
    /// `t + tCWL .. t + tCWL + 3`: words 0 and 1 of the burst in the first of them, 6 and 7 in the last.
    #[inline]
    pub fn clock(&mut self, pins: &CommandPins, write: Option<[u64; 2]>) -> Option<[u64; 2]> {
        let cycle = self.cycle;
        self.cycle += 1;
        if pins.cs_n && write.is_none() && cycle >= self.busy_until {
            return None;
        }
        self.busy_clock(cycle, pins, write)
    }

    /// The controller was reset and does not drive data any more: words of a WR that are due become undefined (here:
    /// inverted), without a violation. Open rows, timers, contents and statistics stay.
    pub fn lose_writes(&mut self) {
        for due in self.writes.iter_mut() {
            if let Some(WriteBeat { location: Some(location), beat, .. }) = due.take() {
                let burst = self.storage.read(location);
                self.storage.write_beat(location, beat, [!burst[2 * beat], !burst[2 * beat + 1]]);
            }
        }
    }

    pub fn statistics(&self) -> Statistics {
        self.accountant.statistics(self.cycle)
    }

    pub fn activity(&self) -> Activity {
        self.meter.activity(self.cycle)
    }

    /// Starts to record commands (off by default); drops earlier records.
    pub fn record_commands(&mut self) {
        self.trace = Some(Vec::new());
    }

    /// Ends the recording and returns its commands.
    pub fn take_commands(&mut self) -> Vec<(u64, Command)> {
        self.trace.take().unwrap_or_default()
    }

    /// The recorded commands with their clocks, without deselects.
    pub fn trace(&self) -> &[(u64, Command)] {
        self.trace.as_deref().unwrap_or_default()
    }

    /// # Panics
    /// If the rank has no such burst.
    pub fn address_of(&self, burst: u64) -> Location {
        let bursts = self.config.bursts();
        assert!(burst < bursts, "burst = {burst} must be below {bursts}");
        Location::of_burst(&self.config, burst)
    }

    /// Backdoor: the contents of burst `burst`, without data on their way to the array.
    ///
    /// # Panics
    /// If the rank has no such burst.
    pub fn read_burst(&self, burst: u64) -> [u64; BURST_WORDS] {
        self.storage.read(self.address_of(burst))
    }

    /// Backdoor: sets the contents of burst `burst`. An earlier RD still gets the old contents.
    ///
    /// # Panics
    /// If the rank has no such burst.
    pub fn write_burst(&mut self, burst: u64, words: &[u64; BURST_WORDS]) {
        let location = self.address_of(burst);
        self.storage.write(location, words);
    }

    pub fn allocated_rows(&self) -> usize {
        self.storage.allocated_rows()
    }

    #[inline(never)]
    fn busy_clock(&mut self, cycle: u64, pins: &CommandPins, write: Option<[u64; 2]>) -> Option<[u64; 2]> {
        if !pins.cs_n {
            match self.decode(pins) {
                Ok(command) => self.execute(cycle, command),
                Err(error) => {
                    self.checker.undefined(cycle, error);
                    self.accountant.undefined();
                }
            }
        }
        let slot = self.slot(cycle);
        let read = self.reads[slot].take();
        // Most slots are empty: testing first saves copying one.
        let due = if self.writes[slot].is_some() { self.writes[slot].take() } else { None };
        match (due, write) {
            (Some(WriteBeat { location: Some(location), beat, .. }), Some(words)) => {
                self.storage.write_beat(location, beat, words);
            }
            (Some(WriteBeat { issued, command, .. }), None) => {
                self.checker.write_data_missing(cycle, issued, command);
            }
            (None, Some(_)) => self.checker.write_data_unexpected(cycle),
            (Some(WriteBeat { location: None, .. }), Some(_)) | (None, None) => {}
        }
        self.accountant.clock(cycle, read.is_some(), due.is_some());
        if let Some(words) = read.or(write.filter(|_| due.is_some())) {
            self.meter.transfer(cycle, words, read.is_none());
        }
        read
    }

    fn decode(&self, pins: &CommandPins) -> Result<Command, DramError> {
        let (value, max) = (u32::from(pins.bank_group), self.config.bank_groups() - 1);
        if value > max {
            return Err(DramError::Width { pins: "bank group", value, max });
        }
        let command = pins.decode()?;
        let rows = 1 << self.config.row_bits();
        match command {
            Command::Activate { row, .. } if row >= rows => Err(DramError::Row { row, rows }),
            _ => Ok(command),
        }
    }

    fn execute(&mut self, cycle: u64, command: Command) {
        self.checker.command(cycle, command);
        if let Some(trace) = &mut self.trace {
            trace.push((cycle, command));
        }
        let mut row_hit = false;
        match command {
            Command::Deselect | Command::Refresh => {}
            Command::Activate { bank_group, bank, row } => {
                let location = Location { bank_group, bank, row, column_burst: 0 };
                let memory = self.storage.find(location);
                *self.bank(bank_group, bank) = Bank { row: Some(row), memory, accessed: false };
            }
            Command::Read { bank_group, bank, column_burst, auto_precharge } => {
                let location = self.open_location(bank_group, bank, column_burst);
                row_hit = self.access(bank_group, bank, auto_precharge);
                self.schedule_read(cycle, location);
            }
            Command::Write { bank_group, bank, column_burst, auto_precharge } => {
                let location = self.open_location(bank_group, bank, column_burst);
                row_hit = self.access(bank_group, bank, auto_precharge);
                self.schedule_write(cycle, command, location);
            }
            Command::Precharge { bank_group, bank } => *self.bank(bank_group, bank) = Bank::default(),
            Command::PrechargeAll => self.banks = Default::default(),
        }
        let precharge_start = match command.bank() {
            Some((bank_group, bank)) if command.auto_precharge() => {
                self.checker.precharge_cycle(bank_group, bank)
            }
            _ => None,
        };
        self.accountant.command(cycle, &command, row_hit, precharge_start);
        self.meter.command(cycle, &command, precharge_start);
        self.busy_until = self.accountant.busy_until();
    }

    /// The burst that RD or WR addresses, with the memory of its row if it has any; `None` if the bank is closed.
    fn open_location(
        &mut self,
        bank_group: u8,
        bank: u8,
        column_burst: u8,
    ) -> Option<(Location, Option<RowHandle>)> {
        let Bank { row, memory, .. } = *self.bank(bank_group, bank);
        let location = Location { bank_group, bank, row: row?, column_burst };
        let memory = memory.or_else(|| self.storage.find(location));
        self.bank(bank_group, bank).memory = memory;
        Some((location, memory))
    }

    /// Marks the row as accessed, and closes it for RDA and WRA. Returns whether it had been accessed before.
    fn access(&mut self, bank_group: u8, bank: u8, auto_precharge: bool) -> bool {
        let bank = self.bank(bank_group, bank);
        let row_hit = bank.accessed;
        bank.accessed = bank.row.is_some();
        if auto_precharge {
            *bank = Bank::default();
        }
        row_hit
    }

    fn schedule_read(&mut self, cycle: u64, location: Option<(Location, Option<RowHandle>)>) {
        let words = match location {
            Some((location, memory)) => self.storage.read_row(memory, location),
            None => [UNDRIVEN; BURST_WORDS],
        };
        for (beat, pair) in words.chunks_exact(2).enumerate() {
            let slot = self.slot(cycle + u64::from(self.config.t_cl()) + beat as u64);
            self.reads[slot] = Some([pair[0], pair[1]]);
        }
    }

    fn schedule_write(
        &mut self,
        cycle: u64,
        command: Command,
        location: Option<(Location, Option<RowHandle>)>,
    ) {
        let location = location.map(|(location, _)| location);
        for beat in 0..BURST_CYCLES {
            let slot = self.slot(cycle + u64::from(self.config.t_cwl()) + beat as u64);
            self.writes[slot] = Some(WriteBeat { issued: cycle, command, location, beat });
        }
    }

    fn slot(&self, cycle: u64) -> usize {
        cycle as usize & (self.reads.len() - 1)
    }

    fn bank(&mut self, bank_group: u8, bank: u8) -> &mut Bank {
        &mut self.banks[usize::from(bank_group) * DramConfig::BANKS_PER_GROUP as usize + usize::from(bank)]
    }
}
