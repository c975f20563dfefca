//! The scheduler of a channel: two queues, one for reads and writes, one for the multipliers, on two command buses.
//!
//! One row and one column command per clock. The multipliers' queue goes first on both, since it rarely needs the data
//! bus. Reads keep their order, with rows opened ahead (LibraPIM, section 4.3), so that both run at full rate in a
//! sliced memory. Without slicing, rows are open for one of the two: the multipliers give them up at the end of a row
//! if a read waits, and get them when none waits.
//!
//! Reads whose columns the multipliers share (FFN offload) are in the queue of reads. Their MACs are in the other one,
//! each waiting for its column; a buffer slot is refilled once it was used.
//!
//! A command that the memory refuses is an error.

use crate::host::pins::{Channel, Pins};
pub use crate::host::queues::{Access, Operation, Place};
use crate::host::queues::{Accesses, Need, ROWS_AHEAD};
use crate::host::scheduler::Given;
use crate::host::timing::{Timing, User};
use ndp_config::{HbmCommandBuses, HbmCommandSet, HbmConfig, HbmRefresh};
use ndp_dram::CommandSet;
use ndp_dram::hbm::{Column, HbmCommand, HbmKind};
use ndp_files::{Error, Result, fault};
use std::collections::VecDeque;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Returned {
    Read(Place, Column),
    /// From [`Operation::Results`].
    Results(Column),
    /// From [`Operation::Results`] or [`Operation::Sum`] of a product.
    OfProduct(Column),
}

/// Origin of a column that arrives.
#[derive(Clone, Copy, Debug)]
enum Source {
    Read(Place),
    Results { product: bool },
}

#[derive(Clone, Copy, Debug)]
struct OnBus {
    clock: u64,
    what: Source,
}

/// A channel and its scheduler.
pub struct Controller {
    pub(crate) config: HbmConfig,
    channel: u32,
    pub(crate) pins: Channel,
    pub(crate) clock: u64,
    timing: Timing,
    /// New keys and values, written before anything is read.
    pub(crate) urgent: Accesses,
    pub(crate) host: Accesses,
    pub(crate) operations: VecDeque<Operation>,
    /// Operations of a product. They go first, but only between parts of other work.
    pub(crate) product: VecDeque<Operation>,
    pub(crate) in_product: bool,
    /// By buffer slot: a shared column is in it or on its way, and not taken.
    shared: Vec<bool>,
    pub(crate) wanted: Option<u32>,
    /// For a channel with a scheduler: requests given, requests to be done before computing, and places being read.
    pub(crate) requested: u64,
    pub(crate) requests_before: u64,
    pub(crate) asked: VecDeque<Place>,
    /// Sums asked for and not returned; for each column being written, whether it is a product's input.
    pub(crate) awaited: usize,
    pub(crate) inputs: VecDeque<bool>,
    pub(crate) scheduler_is_idle: bool,
    /// Whether rows of an unsliced memory belong to the multipliers.
    turn_of_pim: bool,
    /// Reads with data in flight.
    reading: VecDeque<OnBus>,
    writing: VecDeque<(u64, [u64; 2])>,
    half: Option<[u64; 2]>,
    pub(crate) returned: VecDeque<Returned>,
    next_refresh: u64,
    /// With single-bank refreshes: the next bank, and whether to refresh until none is owed.
    bank_to_refresh: u32,
    refreshing: bool,
    /// Clock of the next command, if commands come one at a time.
    next_command: u64,
    pub(crate) given: Given,
    /// By bus: this clock's command is for a product's inputs.
    input_given: [bool; 2],
}

ndp_config::getters!(Controller {
    /// Number of the next clock.
    clock: u64,
    /// Commands of the last clock.
    given: Given,
});

impl Controller {
    /// Takes a channel, and cuts its banks if the memory can be sliced. Fails as [`Self::step`].
    pub fn new(config: &HbmConfig, channel: u32, pins: Channel) -> Result<Self> {
        let mut controller = Self {
            config: config.clone(),
            channel,
            pins,
            clock: 0,
            timing: Timing::new(config),
            urgent: Accesses::default(),
            host: Accesses::default(),
            operations: VecDeque::new(),
            product: VecDeque::new(),
            in_product: false,
            shared: vec![false; config.buffer_slots() as usize],
            wanted: None,
            requested: 0,
            requests_before: 0,
            asked: VecDeque::new(),
            awaited: 0,
            inputs: VecDeque::new(),
            scheduler_is_idle: true,
            turn_of_pim: false,
            reading: VecDeque::new(),
            writing: VecDeque::new(),
            half: None,
            returned: VecDeque::new(),
            next_refresh: config.refresh_interval().into(),
            bank_to_refresh: 0,
            refreshing: false,
            next_command: 0,
            given: Given::default(),
            input_given: [false; 2],
        };
        if config.slicing() && controller.pins.scheduler().is_none() {
            // Channels that share command buses cut their banks in turn.
            let [before, after] = match config.command_buses() {
                HbmCommandBuses::Own => [0, 0],
                HbmCommandBuses::Shared if channel.is_multiple_of(2) => [0, config.banks()],
                HbmCommandBuses::Shared => [config.banks(), 0],
            };
            for _ in 0..before {
                controller.exchange(None, None)?;
            }
            for bank in 0..config.banks() {
                while !controller.timing.can_slice(controller.clock, bank) {
                    controller.exchange(None, None)?;
                }
                let (bank_group, bank) = controller.names(bank);
                let boundary = config.weight_subarrays() as u16;
                controller.exchange(Some(HbmCommand::Slice { bank_group, bank, boundary }), None)?;
            }
            controller.timing.sliced(controller.clock - 1);
            for _ in 0..after {
                controller.exchange(None, None)?;
            }
        }
        Ok(controller)
    }

    pub fn pins(&self) -> &dyn Pins {
        &*self.pins
    }

    pub fn into_pins(self) -> Channel {
        self.pins
    }

    /// Adds a read, or a write in the order of reads.
    pub fn access(&mut self, access: Access) {
        self.host.push(access);
    }

    /// Adds a write that precedes all reads.
    pub fn write_first(&mut self, place: Place, data: Column) {
        self.urgent.push(Access::Write(place, data));
    }

    pub fn operate(&mut self, operation: Operation) {
        self.operations.push_back(operation);
    }

    /// Closes the multipliers' rows after their work. A product in progress closes them anyway.
    pub fn close(&mut self) {
        if !self.in_product || !self.operations.is_empty() {
            self.operations.push_back(Operation::Close);
        }
    }

    /// Adds a product of both devices: inputs, reads, operations. The multipliers begin it between two parts of other
    /// work, which continues afterwards.
    pub fn multiply(
        &mut self,
        inputs: impl IntoIterator<Item = (Place, Column)>,
        reads: impl IntoIterator<Item = Access>,
        operations: impl IntoIterator<Item = Operation>,
    ) {
        inputs.into_iter().for_each(|(place, data)| self.urgent.push(Access::Input(place, data)));
        reads.into_iter().for_each(|access| self.host.push(access));
        self.product.extend(operations);
    }

    pub fn take(&mut self) -> Option<Returned> {
        self.returned.pop_front()
    }

    /// Accesses not given yet.
    pub fn accesses(&self) -> usize {
        self.host.queue.len()
    }

    pub fn written(&self) -> bool {
        self.urgent.queue.is_empty()
    }

    /// Whether nothing is pending or in flight.
    pub fn is_idle(&self) -> bool {
        self.written()
            && self.host.queue.is_empty()
            && self.operations.is_empty()
            && self.product.is_empty()
            && self.reading.is_empty()
            && self.asked.is_empty()
            && self.scheduler_is_idle
            && self.writing.is_empty()
    }

    /// Whether the multipliers have no work except a product.
    pub fn operations_done(&self) -> bool {
        self.operations.is_empty()
    }

    pub fn product_done(&self) -> bool {
        self.product.is_empty()
    }

    /// Error of a channel without progress.
    pub(crate) fn stuck(&self) -> Error {
        fault!(
            "channel {} makes no progress at clock {}: {} reads, {} writes and {} operations wait, first {:?} and {:?}",
            self.channel,
            self.clock,
            self.host.queue.len(),
            self.urgent.queue.len(),
            self.operations.len() + self.product.len(),
            self.host.queue.front(),
            self.next_operation()
        )
    }

    /// One clock. Fails as [`Pins::clock`], or if the memory answers a command with an error.
    pub fn step(&mut self) -> Result<()> {
        self.step_on([true; 2])
    }

    /// One clock; `buses` says whether row and column bus are this channel's.
    pub fn step_on(&mut self, buses: [bool; 2]) -> Result<()> {
        if self.pins.scheduler().is_some() {
            return self.step_scheduled();
        }
        self.forget_waits();
        self.input_given = [false; 2];
        let one_at_a_time = self.config.command_set() == HbmCommandSet::Aim;
        if one_at_a_time && self.clock < self.next_command {
            return self.exchange(None, None);
        }
        let due = self.refresh_is_due();
        let row = match (due, self.config.refresh()) {
            _ if !buses[0] => None,
            (false, _) => self.row_command(),
            (true, HbmRefresh::All) => self.towards_refresh(),
            (true, HbmRefresh::Bank) => self.towards_bank_refresh(),
        };
        // During single-bank refreshes the other banks are used.
        let stops = due && self.config.refresh() == HbmRefresh::All || one_at_a_time && row.is_some();
        let column = if stops || !buses[1] { None } else { self.column_command() };
        if row.is_some() || column.is_some() {
            self.next_command = self.clock + u64::from(self.config.t_cmd());
        }
        self.exchange(row, column)
    }

    fn names(&self, bank: u32) -> (u8, u8) {
        let per_group = self.config.banks_per_group();
        ((bank / per_group) as u8, (bank % per_group) as u8)
    }

    fn forget_waits(&mut self) {
        loop {
            self.change_work();
            match self.next_operation() {
                Some(Operation::NotBefore(clock)) if clock <= self.clock => {}
                Some(Operation::Break) => {}
                Some(Operation::Row(row)) => {
                    self.wanted = Some(row);
                    // Reads get their turn between two rows.
                    if !self.config.slicing() && !self.host_is_done() {
                        self.turn_of_pim = false;
                    }
                }
                Some(Operation::Close) => {
                    self.wanted = None;
                }
                _ => break,
            }
            self.pop_operation();
        }
        if self.config.slicing() {
            self.turn_of_pim = true;
        } else if self.operations.is_empty() && self.wanted.is_none() {
            self.turn_of_pim = false;
        } else if self.host_is_done() {
            self.turn_of_pim = true;
        }
    }

    /// Begins or ends a product, if other work allows it now.
    fn change_work(&mut self) {
        if self.product.is_empty() {
            self.in_product = false;
        } else if !self.in_product {
            self.in_product = self.is_between();
        }
    }

    /// Whether a product may come in between other work now.
    pub(crate) fn is_between(&self) -> bool {
        let next = self.operations.front();
        next.is_none_or(|operation| matches!(operation, Operation::Break | Operation::NotBefore(_)))
    }

    pub(crate) fn next_operation(&self) -> Option<Operation> {
        if self.in_product { self.product.front().copied() } else { self.operations.front().copied() }
    }

    pub(crate) fn pop_operation(&mut self) {
        let queue = if self.in_product { &mut self.product } else { &mut self.operations };
        queue.pop_front();
    }

    fn host_is_done(&self) -> bool {
        self.host.queue.is_empty() && self.urgent.queue.is_empty()
    }

    fn towards_refresh(&mut self) -> Option<HbmCommand> {
        let now = self.clock;
        if self.timing.can_refresh(now) {
            self.timing.refresh(now);
            self.next_refresh += u64::from(self.config.t_refi());
            return Some(HbmCommand::Refresh);
        }
        if self.timing.any_open() && self.timing.can_precharge_all(now) {
            self.timing.precharge_all(now);
            return Some(HbmCommand::PrechargeAll);
        }
        None
    }

    /// Whether refresh needs the row bus. Multipliers need all banks: while they have work, single-bank refreshes are
    /// postponed until there is one per bank, then all are sent.
    fn refresh_is_due(&mut self) -> bool {
        let owed = self.clock >= self.next_refresh;
        if self.config.refresh() == HbmRefresh::All {
            return owed;
        }
        let round = u64::from(self.config.refresh_interval() * (self.config.banks() - 1));
        let computes = self.next_operation().is_some() || self.wanted.is_some();
        self.refreshing = owed && (self.refreshing || !computes || self.clock >= self.next_refresh + round);
        self.refreshing
    }

    /// REFB of the next bank, or the command that closes it.
    fn towards_bank_refresh(&mut self) -> Option<HbmCommand> {
        let (now, bank) = (self.clock, self.bank_to_refresh);
        let (bank_group, of_group) = self.names(bank);
        if self.timing.can_refresh_bank(now, bank) {
            self.timing.refresh_bank(now, bank);
            self.next_refresh += u64::from(self.config.refresh_interval());
            self.bank_to_refresh = (bank + 1) % self.config.banks();
            return Some(HbmCommand::RefreshBank { bank_group, bank: of_group });
        }
        if self.timing.pim_open(bank).is_some_and(|(_, user)| user == User::Pim) {
            if !self.timing.can_precharge_pim(now) {
                return None;
            }
            self.timing.precharge_pim(now);
            return Some(HbmCommand::PimPrecharge);
        }
        let open = (0..2).find(|&partition| self.timing.open(bank, partition).is_some())?;
        if !self.timing.can_precharge(now, bank, open) {
            return None;
        }
        self.timing.precharge(now, bank, open);
        Some(HbmCommand::Precharge { bank_group, bank: of_group, partition: open as u8 })
    }

    fn row_command(&mut self) -> Option<HbmCommand> {
        let host_may = self.config.slicing() || !self.turn_of_pim;
        // Four rows, one per bank group, open soon; the rows of all banks take four times as long.
        if host_may && let Some(command) = self.host_row(self.config.bank_groups() as usize) {
            return Some(command);
        }
        let pim = if self.turn_of_pim { self.pim_row() } else { None };
        pim.or_else(|| if host_may { self.host_row(ROWS_AHEAD) } else { None })
    }

    /// Command towards the wanted row, or none, in all banks.
    fn pim_row(&mut self) -> Option<HbmCommand> {
        let now = self.clock;
        let banks = self.config.banks();
        let wanted = self.wanted.map(|row| (row, User::Pim));
        // New keys and values need closed rows in the multipliers' partition.
        let wanted = if self.written() { wanted } else { None };
        let open = |bank| self.timing.pim_open(bank);
        let foreign = |bank: u32| {
            open(bank).is_some_and(|row| Some(row) != wanted && (wanted.is_some() || row.1 == User::Pim))
        };
        if (0..banks).any(foreign) {
            if self.timing.can_precharge_pim(now) {
                self.timing.precharge_pim(now);
                return Some(HbmCommand::PimPrecharge);
            }
            return None;
        }
        let (row, _) = wanted?;
        if (0..banks).all(|bank| open(bank).is_some()) {
            return None;
        }
        if self.config.all_bank_activate() && self.timing.can_activate_all(now) {
            self.timing.activate_all(now, row);
            return Some(HbmCommand::PimActivateAll { row });
        }
        for group in 0..self.config.bank_groups() {
            if open(group * self.config.banks_per_group()).is_none()
                && self.timing.can_activate_group(now, group)
            {
                self.timing.activate_group(now, group, row);
                return Some(HbmCommand::PimActivate { bank_group: group as u8, row });
            }
        }
        None
    }

    /// Opens the first `rows` rows of the next accesses, most urgent first.
    fn host_row(&mut self, rows: usize) -> Option<HbmCommand> {
        let now = self.clock;
        // Later reads wait while new keys and values are written.
        let needs = if self.written() { &self.host.needs } else { &self.urgent.needs };
        for (place, need) in needs.iter().take(rows).enumerate() {
            let partition = self.timing.partition_of(need.row);
            let open = self.timing.open(need.bank, partition);
            let earlier =
                |other: &Need| other.bank == need.bank && self.timing.partition_of(other.row) == partition;
            let computes = self.config.slicing() && self.wanted.is_some();
            let in_use = || {
                needs.iter().take(place).any(earlier)
                    || computes && open.is_some_and(|open| open.1 == User::Pim)
            };
            let may = match open {
                Some(open) => {
                    open != (need.row, User::Host) && self.timing.can_precharge(now, need.bank, partition)
                }
                None => self.timing.can_activate(now, need.bank, partition),
            };
            if !may || in_use() {
                continue;
            }
            let Need { bank, row, product, .. } = *need;
            self.input_given[0] = product;
            let (bank_group, of_group) = self.names(bank);
            let half = partition as u8;
            return Some(if open.is_some() {
                self.timing.precharge(now, bank, partition);
                HbmCommand::Precharge { bank_group, bank: of_group, partition: half }
            } else {
                self.timing.activate(now, bank, partition, row);
                HbmCommand::Activate { bank_group, bank: of_group, partition: half, row }
            });
        }
        None
    }

    fn column_command(&mut self) -> Option<HbmCommand> {
        let now = self.clock;
        let mut hold = false;
        match self.next_operation() {
            Some(Operation::Load { slot, data }) => {
                if self.timing.can_load(now) {
                    self.timing.load(now, slot);
                    self.pop_operation();
                    self.expect_write(&data);
                    return Some(HbmCommand::BufferWrite { slot });
                }
                // Otherwise each read would delay it again.
                hold = true;
            }
            Some(Operation::Mac { column, slot, first, take })
                if (!take || self.shared[usize::from(slot)])
                    && self.wanted.is_some_and(|row| self.timing.can_mac(now, row, slot)) =>
            {
                self.timing.mac(now);
                self.pop_operation();
                self.shared[usize::from(slot)] &= !take;
                return Some(HbmCommand::Mac { column, slot, first });
            }
            Some(Operation::Results) if self.timing.can_result(now) => {
                self.result();
                return Some(HbmCommand::ReadResults);
            }
            Some(Operation::Sum(bank)) if self.timing.can_result(now) => {
                self.result();
                let (bank_group, bank) = self.names(bank);
                return Some(HbmCommand::ReadSum { bank_group, bank });
            }
            _ => {}
        }
        if hold { None } else { self.host_column() }
    }

    fn host_column(&mut self) -> Option<HbmCommand> {
        let now = self.clock;
        let queue = if self.written() { &mut self.host } else { &mut self.urgent };
        let access = *queue.queue.front()?;
        let place = access.place();
        let Place { bank, row, column } = place;
        let partition = self.timing.partition_of(row) as u8;
        let possible = match access {
            Access::Read(_) => self.timing.can_read(now, bank, row),
            // Other work may use the slot before the product begins.
            Access::Share(_, slot) => {
                self.in_product && !self.shared[usize::from(slot)] && self.timing.can_read(now, bank, row)
            }
            Access::Write(..) | Access::Input(..) => self.timing.can_write(now, bank, row),
        };
        if !possible {
            return None;
        }
        queue.pop();
        self.input_given[1] = matches!(access, Access::Input(..));
        let (bank_group, bank_of_group) = self.names(bank);
        let (column, auto_precharge) = (column as u8, false);
        let on_bus = OnBus { clock: self.arrival(), what: Source::Read(place) };
        Some(match access {
            Access::Write(_, data) | Access::Input(_, data) => {
                self.timing.write(now, bank, row);
                self.expect_write(&data);
                HbmCommand::Write { bank_group, bank: bank_of_group, partition, column, auto_precharge }
            }
            Access::Read(_) => {
                self.timing.read(now, bank, row);
                self.reading.push_back(on_bus);
                HbmCommand::Read { bank_group, bank: bank_of_group, partition, column, auto_precharge }
            }
            Access::Share(_, slot) => {
                self.timing.read_to_buffer(now, bank, row, slot);
                self.shared[usize::from(slot)] = true;
                self.reading.push_back(on_bus);
                HbmCommand::ReadToBuffer { bank_group, bank: bank_of_group, partition, column, slot }
            }
        })
    }

    fn result(&mut self) {
        self.timing.result(self.clock);
        self.pop_operation();
        let what = Source::Results { product: self.in_product };
        self.reading.push_back(OnBus { clock: self.arrival(), what });
    }

    fn arrival(&self) -> u64 {
        self.clock + u64::from(self.config.t_cl())
    }

    fn expect_write(&mut self, data: &Column) {
        let first = self.clock + u64::from(self.config.t_cwl());
        self.writing.push_back((first, [data[0], data[1]]));
        self.writing.push_back((first + 1, [data[2], data[3]]));
    }

    fn exchange(&mut self, row: Option<HbmCommand>, column: Option<HbmCommand>) -> Result<()> {
        let due = self.writing.front().is_some_and(|(clock, _)| *clock == self.clock);
        let write = if due { self.writing.pop_front().map(|(_, words)| words) } else { None };
        let words = [row, column].map(|command| command.map_or(0, |command| command.encode()));
        let out = self.pins.clock(words[0], words[1], write)?;
        for (command, status) in [(row, out.row_status), (column, out.column_status)] {
            if !status.is_ok() {
                let command = format!("{command:?}");
                let (channel, clock, status) = (self.channel, self.clock, status.code());
                return Err(fault!(
                    "channel {channel}, clock {clock}: the memory refused {command} with status {status}"
                ));
            }
        }
        if let Some(words) = out.read {
            self.arrive(words);
        }
        let product = self.of_product([row, column]);
        let product = std::array::from_fn(|bus| product[bus] || self.input_given[bus]);
        self.given = Given { row, column, data: out.read.is_some() || write.is_some(), product };
        self.clock += 1;
        Ok(())
    }

    /// Whether each command of a clock is for the multipliers' part of a product.
    pub(crate) fn of_product(&self, given: [Option<HbmCommand>; 2]) -> [bool; 2] {
        given.map(|command| self.in_product && command.is_some_and(|command| is_of_multipliers(&command)))
    }

    /// Takes half of the column that was requested first.
    fn arrive(&mut self, words: [u64; 2]) {
        match self.half.take() {
            None => self.half = Some(words),
            Some(first) => {
                let column = [first[0], first[1], words[0], words[1]];
                if let Some(read) = self.reading.pop_front() {
                    debug_assert_eq!(read.clock + 1, self.clock);
                    self.returned.push_back(match read.what {
                        Source::Read(place) => Returned::Read(place, column),
                        Source::Results { product: false } => Returned::Results(column),
                        Source::Results { product: true } => Returned::OfProduct(column),
                    });
                }
            }
        }
    }
}

/// One clock of two channels on shared command buses. They alternate in going first; the other may use the free buses,
/// except the row bus in the clock after an activation.
pub fn step_pair(pair: &mut [Controller]) -> Result<()> {
    let activates = |controller: &Controller| {
        let row = controller.given.row.and_then(|command| command.kind());
        matches!(row, Some(HbmKind::Activate | HbmKind::PimActivate | HbmKind::PimActivateAll))
    };
    let activated: Vec<bool> = pair.iter().map(activates).collect();
    let first = (pair[0].clock % 2) as usize;
    let mut free = [true; 2];
    for at in [first, 1 - first] {
        let other_activates = activated[1 - at];
        pair[at].step_on([free[0] && !other_activates, free[1]])?;
        let Given { row, column, .. } = pair[at].given;
        free = [row.is_none(), column.is_none()];
    }
    Ok(())
}

pub(crate) fn is_of_multipliers(command: &HbmCommand) -> bool {
    matches!(
        command,
        HbmCommand::PimActivate { .. }
            | HbmCommand::PimActivateAll { .. }
            | HbmCommand::PimPrecharge
            | HbmCommand::BufferWrite { .. }
            | HbmCommand::Mac { .. }
            | HbmCommand::ReadResults
            | HbmCommand::ReadSum { .. }
    )
}
