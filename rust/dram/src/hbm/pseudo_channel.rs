//! The channel: two command words and the data bus in, data and answers out, once per clock.
//!
//! The row command of a clock comes before its column command. A RD takes its data from the array in its own clock, a
//! WR stores them as they arrive, and MAC adds in its own clock; in a legal stream this makes no difference. The rest
//! is defined so that a faulty controller gives the same result every time: refused commands change nothing; data that
//! are not due are ignored; if data that are due do not come, those words keep their value.

use ndp_config::Result;
use ndp_config::{HbmCommandBuses, HbmConfig};

use crate::DramError;
use crate::hbm::activity::{HbmActivity, Meter};
use crate::hbm::answer::Answer;
use crate::hbm::buses::SharedBuses;
use crate::hbm::command::{HbmCommand, HbmKind, decode_column, decode_row};
use crate::hbm::partitions::Partitions;
use crate::hbm::pim::PimUnits;
use crate::hbm::statistics::{Accountant, HbmStatistics, Traffic};
use crate::hbm::storage::{Column, HbmStorage};
use crate::rules::{Checker, CommandSet, Rule, RuleSet};

const BURST_CLOCKS: usize = HbmConfig::T_BL as usize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HbmPlace {
    /// Bank of the channel: `bank_group * banks_per_group + bank`.
    pub bank: usize,
    pub row: u32,
    pub column: u8,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HbmOutputs {
    /// The data bus: two transfers of 64 bits, the first in `[0]`.
    pub read: Option<[u64; 2]>,
    /// Answer to the row command of this clock.
    pub row_status: Answer,
    /// Answer to the column command of this clock.
    pub column_status: Answer,
}

#[derive(Clone, Copy, Debug)]
enum Destination {
    Array(HbmPlace),
    Buffer(u8),
}

#[derive(Clone, Copy, Debug)]
struct ReadBeat {
    words: [u64; 2],
    traffic: Traffic,
}

/// Two words that a WR or GBW waits for.
#[derive(Clone, Copy, Debug)]
struct WriteBeat {
    issued: u64,
    command: HbmCommand,
    destination: Destination,
    beat: usize,
}

#[derive(Clone, Debug)]
pub struct PseudoChannel {
    config: HbmConfig,
    cycle: u64,
    checker: Checker<HbmCommand>,
    storage: HbmStorage,
    pim: PimUnits,
    /// Data that are driven in future clocks: clock `c` at index `c % len`, `len` a power of two beyond the latencies.
    reads: Box<[Option<ReadBeat>]>,
    /// Data that are due, likewise.
    writes: Box<[Option<WriteBeat>]>,
    accountant: Accountant,
    meter: Meter,
    /// Buses shared with another pseudo channel.
    buses: Option<SharedBuses>,
}

ndp_config::getters!(PseudoChannel {
    /// Number of clocks so far.
    cycle: u64,
    config: &HbmConfig,
    /// Global buffer and sums. Includes the column of a pending RDG, but not of a pending GBW.
    pim: &PimUnits,
    storage: &HbmStorage,
});

crate::rules::checked!(PseudoChannel, HbmCommand);

impl PseudoChannel {
    /// A channel with all banks joined and closed, before its first clock; unwritten memory reads as zeros.
    pub fn new(config: &HbmConfig) -> Result<Self> {
        Self::with_storage(config, HbmStorage::zeros())
    }

    /// As [`PseudoChannel::new`], with contents such as [`HbmStorage::pattern`].
    pub fn with_storage(config: &HbmConfig, storage: HbmStorage) -> Result<Self> {
        // tCL is the larger latency (tCWL is at most tCL).
        let clocks = (config.t_cl() as usize + BURST_CLOCKS).next_power_of_two();
        Ok(Self {
            config: config.clone(),
            cycle: 0,
            checker: Checker::new(RuleSet::hbm2(config)),
            storage,
            pim: PimUnits::new(config)?,
            reads: vec![None; clocks].into(),
            writes: vec![None; clocks].into(),
            accountant: Accountant::new(config),
            meter: Meter::new(config),
            buses: None,
        })
    }

    /// The channels of a memory. Where pairs share command buses, all must get a clock before any gets the next one; of
    /// two words in one clock the first one has the bus. A copy shares the buses of its original.
    pub fn all(config: &HbmConfig) -> Result<Vec<Self>> {
        let mut all = (0..config.channels()).map(|_| Self::new(config)).collect::<Result<Vec<_>>>()?;
        if config.command_buses() == HbmCommandBuses::Shared {
            for pair in all.chunks_exact_mut(2) {
                for (channel, buses) in pair.iter_mut().zip(SharedBuses::pair()) {
                    channel.buses = Some(buses);
                }
            }
        }
        Ok(all)
    }

    /// One clock. `row` and `column` are the words on the command buses; the controller drives `write` on the data bus.
    ///
    /// The data of a RD (RDG, RES, SUM) in clock `t` are driven in `t + tCL` and the clock after it. The data of a WR
    /// (GBW) are due in `t + tCWL` and the clock after it: words 0 and 1 of the column first.
    pub fn clock(&mut self, row: u32, column: u32, write: Option<[u64; 2]>) -> HbmOutputs {
        let cycle = self.cycle;
        self.cycle += 1;
        let row_status = self.take(cycle, (0, row), decode_row(row));
        let column_status = self.take(cycle, (1, column), decode_column(column));
        let slot = self.slot(cycle);
        let read = self.reads[slot].take();
        let due = self.writes[slot].take();
        match (due, write) {
            (Some(WriteBeat { destination, beat, .. }), Some(words)) => match destination {
                Destination::Array(HbmPlace { bank, row, column }) => {
                    self.storage.write_beat(bank, row, column, beat, words);
                }
                Destination::Buffer(slot) => self.pim.set_buffer_beat(slot, beat, words),
            },
            (Some(WriteBeat { issued, command, .. }), None) => {
                self.checker.write_data_missing(cycle, issued, command);
            }
            (None, Some(_)) => self.checker.write_data_unexpected(cycle),
            (None, None) => {}
        }
        let writing = due.map(|beat| match beat.destination {
            Destination::Array(_) => Traffic::Write,
            Destination::Buffer(_) => Traffic::Buffer,
        });
        self.accountant.clock(cycle, read.map(|beat| beat.traffic).or(writing));
        HbmOutputs { read: read.map(|beat| beat.words), row_status, column_status }
    }

    pub fn partitions(&self) -> &Partitions {
        self.checker.state()
    }

    pub fn statistics(&self) -> HbmStatistics {
        self.accountant.statistics()
    }

    pub fn activity(&self) -> HbmActivity {
        self.meter.activity(self.cycle)
    }

    /// Backdoor: sets a column. An earlier RD still gets the old contents.
    pub fn write_column(&mut self, place: HbmPlace, column: &Column) {
        self.storage.write(place.bank, place.row, place.column, column);
    }

    /// Backdoor: a column, without data on their way to the array.
    pub fn read_column(&self, place: HbmPlace) -> Column {
        self.storage.read(place.bank, place.row, place.column)
    }

    fn take(
        &mut self,
        cycle: u64,
        (bus, word): (usize, u32),
        decoded: Result<HbmCommand, DramError>,
    ) -> Answer {
        if word != 0 && self.buses.as_ref().is_some_and(|buses| !buses.take(cycle, bus)) {
            self.checker.refuse(cycle, decoded.unwrap_or(HbmCommand::DESELECT), Rule::BusTaken);
            self.accountant.refused();
            return Answer::of(Rule::BusTaken);
        }
        let command = match decoded.and_then(|command| self.fits(command)) {
            Ok(command) => command,
            Err(error) => {
                self.checker.undefined(cycle, error);
                self.accountant.refused();
                return Answer::of(Rule::Undefined(error));
            }
        };
        // Before RDA or WRA closes the row.
        let place = self.open_place(&command);
        match self.checker.admit(cycle, command) {
            Ok(()) => {
                let activates = matches!(
                    command.kind(),
                    Some(HbmKind::Activate | HbmKind::PimActivate | HbmKind::PimActivateAll)
                );
                if let Some(buses) = self.buses.as_ref().filter(|_| activates) {
                    buses.activated(cycle);
                }
                self.execute(cycle, command, place);
                Answer::OK
            }
            Err(rule) => {
                self.accountant.refused();
                Answer::of(rule)
            }
        }
    }

    /// `command`, if the device has its bank, row and slot.
    fn fits(&self, command: HbmCommand) -> Result<HbmCommand, DramError> {
        let c = &self.config;
        let group = match command {
            HbmCommand::PimActivate { bank_group, .. } => Some(bank_group),
            _ => command.bank().map(|(group, _)| group),
        };
        let limits = [
            ("bank group", group, c.bank_groups()),
            ("bank", command.bank().map(|(_, bank)| bank), c.banks_per_group()),
            ("slot", command.slot(), c.buffer_slots()),
        ];
        for (pins, value, count) in limits {
            let value = value.map_or(0, u32::from);
            if value >= count {
                return Err(DramError::Width { pins, value, max: count - 1 });
            }
        }
        match command.row() {
            Some(row) if row >= c.rows() => Err(DramError::Row { row, rows: c.rows() }),
            _ => Ok(command),
        }
    }

    /// The column that RD, RDG or WR addresses; `None` for other commands and without an open row.
    fn open_place(&self, command: &HbmCommand) -> Option<HbmPlace> {
        let (HbmCommand::Read { bank_group, bank, partition, column, .. }
        | HbmCommand::ReadToBuffer { bank_group, bank, partition, column, .. }
        | HbmCommand::Write { bank_group, bank, partition, column, .. }) = *command
        else {
            return None;
        };
        let bank = self.partitions().bank_index(bank_group, bank);
        let (row, _) = self.partitions().open_row(bank, partition)?;
        Some(HbmPlace { bank, row, column })
    }

    /// Carries out an admitted command; `place` comes from [`PseudoChannel::open_place`], which finds one for every
    /// admitted RD, RDG and WR.
    fn execute(&mut self, cycle: u64, command: HbmCommand, place: Option<HbmPlace>) {
        match (command, place) {
            (HbmCommand::Read { .. }, Some(place)) => {
                self.drive(cycle, self.read_column(place), Traffic::Read);
            }
            (HbmCommand::ReadToBuffer { slot, .. }, Some(place)) => {
                let column = self.read_column(place);
                // Invisible before the column has arrived: until then MAC is refused.
                self.pim.set_buffer(slot, column);
                self.drive(cycle, column, Traffic::Read);
            }
            (HbmCommand::Write { .. }, Some(place)) => {
                self.expect(cycle, command, Destination::Array(place));
            }
            (HbmCommand::BufferWrite { slot }, _) => self.expect(cycle, command, Destination::Buffer(slot)),
            (HbmCommand::Mac { column, slot, first }, _) => self.mac(column, slot, first),
            (HbmCommand::ReadResults, _) => self.drive(cycle, self.pim.results(), Traffic::Result),
            (HbmCommand::ReadSum { bank_group, bank }, _) => {
                let bank = self.partitions().bank_index(bank_group, bank);
                self.drive(cycle, self.pim.sum_column(bank), Traffic::Result);
            }
            _ => {}
        }
        let start = if command.auto_precharge() { self.checker.last_precharge(&command) } else { None };
        self.accountant.command(cycle, &command, self.checker.state(), start);
        self.meter.command(cycle, &command, self.checker.state(), start);
    }

    fn mac(&mut self, column: u8, slot: u8, first: bool) {
        let state = self.checker.state();
        for bank in 0..state.banks() {
            if let Some((row, _)) = state.open_row(bank, state.pim_partition(bank)) {
                self.pim.mac(bank, &self.storage.read(bank, row, column), slot, first);
            }
        }
    }

    fn drive(&mut self, cycle: u64, column: Column, traffic: Traffic) {
        for (beat, pair) in column.chunks_exact(2).enumerate() {
            let slot = self.slot(cycle + u64::from(self.config.t_cl()) + beat as u64);
            self.reads[slot] = Some(ReadBeat { words: [pair[0], pair[1]], traffic });
        }
    }

    fn expect(&mut self, cycle: u64, command: HbmCommand, destination: Destination) {
        for beat in 0..BURST_CLOCKS {
            let slot = self.slot(cycle + u64::from(self.config.t_cwl()) + beat as u64);
            self.writes[slot] = Some(WriteBeat { issued: cycle, command, destination, beat });
        }
    }

    fn slot(&self, cycle: u64) -> usize {
        cycle as usize & (self.reads.len() - 1)
    }
}
