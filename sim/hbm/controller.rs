//! The Verilated controller, with a channel at its pins and a host at its queues.
//!
//! The channel is the device model, perhaps with the Verilated channel in lockstep. Any refusal ends the run: the
//! controller has to know every rule. Requests and operations are offered in order, with optional stalls; read data are
//! collected by kind, in order.

use super::channel::{PimChannel, RESET_CLOCKS};
use super::lockstep::Lockstep;
use crate::ffi::{InputPort, Model, OpenOptions, OutputPort, Rtl, WaveOptions, rtl};
use ndp_config::HbmConfig;
use ndp_dram::DramError;
use ndp_dram::hbm::{Column, HbmCommand, PseudoChannel, decode_column, decode_row};
use ndp_files::{Result, fault};
use ndp_numerics::SplitMix64;
use std::collections::VecDeque;

/// Operations and accesses that a scheduler of [`ndp_librapim::host`] requests.
pub use ndp_librapim::host::scheduler::{Stripe as Request, Transfer as Access, Work as Operation};

/// Cycles of waves begin [`super::RESET_CLOCKS`] before the first clock.
#[derive(Clone, Debug, Default)]
pub struct ControlledWaves {
    pub controller: Option<WaveOptions>,
    pub channel: Option<WaveOptions>,
}

#[derive(Debug)]
enum Device {
    Model(Box<PseudoChannel>),
    Both(Box<Lockstep>),
}

#[derive(Debug)]
pub struct Controlled {
    config: HbmConfig,
    model: Model,
    device: Device,
    pub requests: VecDeque<Request>,
    pub operations: VecDeque<Operation>,
    /// Columns to write, in the order of the requests.
    pub writes: VecDeque<Column>,
    /// Columns to load, in the order of the operations.
    pub loads: VecDeque<Column>,
    /// Columns read by requests, results, sums.
    pub read: [Vec<Column>; 3],
    /// Clocks in 256 that offer nothing new: requests, operations, columns to write, columns to load.
    pub stalls: [u64; 4],
    /// Requests whose commands were all given.
    pub requests_done: u64,
    /// Whether the data bus was used in the last clock.
    pub bus_used: bool,
    /// Commands since the trace was set, with their clocks.
    pub trace: Option<Vec<(u64, HbmCommand)>>,
    /// Answers (row, column) to refused commands, for memories that lack commands. `None` makes a refusal an error.
    pub refusals: Option<Vec<[u8; 2]>>,
    offered: [bool; 4],
    random: SplitMix64,
    clock: u64,
    last_progress: u64,
    ports: Ports,
}

#[derive(Debug)]
struct Ports {
    valid: [InputPort; 4],
    data: [InputPort; 4],
    ready: [OutputPort; 4],
    row: OutputPort,
    column: OutputPort,
    driven: [OutputPort; 2],
    arriving: [InputPort; 2],
    status: [InputPort; 2],
    read: [OutputPort; 3],
    reports: [InputPort; 3],
    refused: OutputPort,
    reported: OutputPort,
    done: OutputPort,
    idle: OutputPort,
}

/// Packs (value, bits) from bit 0.
fn packed(fields: &[(u32, u32)]) -> u64 {
    let place =
        |(word, low): (u64, u32), &(value, bits): &(u32, u32)| (word | u64::from(value) << low, low + bits);
    fields.iter().fold((0, 0), place).0
}

fn bits_of(count: u32) -> u32 {
    (count - 1).checked_ilog2().map_or(1, |log| log + 1)
}

impl Controlled {
    pub const BLOCK: &'static str = "pim_controller";

    /// All banks are cut at `boundary` (0: joined). With `channel` the Verilated channel runs in lockstep. `seed` is
    /// for the registers' first contents and for stalls.
    pub fn open(
        config: &HbmConfig,
        boundary: u16,
        channel: bool,
        seed: u64,
        waves: ControlledWaves,
    ) -> Result<Self> {
        let channel = channel.then(|| rtl(config, PimChannel::BLOCK)).transpose()?;
        Self::of_rtl(&rtl(config, Self::BLOCK)?, channel.as_ref(), config, boundary, seed, waves)
    }

    /// For Verilog that differs from the generator's, such as mutants.
    pub fn of_rtl(
        controller: &Rtl,
        channel: Option<&Rtl>,
        config: &HbmConfig,
        boundary: u16,
        seed: u64,
        waves: ControlledWaves,
    ) -> Result<Self> {
        let random_contents = Some(seed as u32);
        let options = OpenOptions { random_contents, waves: waves.controller, ..OpenOptions::default() };
        let mut model = Model::open(controller, &options)?;
        if config.slicing() {
            let port = model.input("boundary_i")?;
            model.set(port, boundary.into());
        }
        model.reset(RESET_CLOCKS);
        let names = ["request", "operation", "write", "load"];
        let input = |suffix: &str| -> Result<Vec<InputPort>> {
            names.iter().map(|name| model.input(&format!("{name}{suffix}"))).collect()
        };
        let four = |ports: Vec<InputPort>| [ports[0], ports[1], ports[2], ports[3]];
        let valid = four(input("_valid_i")?);
        let data = [
            model.input("request_i")?,
            model.input("operation_i")?,
            model.input_of_width("write_data_i", 256)?,
            model.input_of_width("load_data_i", 256)?,
        ];
        let ready = [
            model.output("request_ready_o")?,
            model.output("operation_ready_o")?,
            model.output("write_ready_o")?,
            model.output("load_ready_o")?,
        ];
        let ports = Ports {
            valid,
            data,
            ready,
            row: model.output_of_width("row_o", 32)?,
            column: model.output_of_width("column_o", 32)?,
            driven: [model.output("data_valid_o")?, model.output_of_width("data_o", 128)?],
            arriving: [model.input("data_valid_i")?, model.input_of_width("data_i", 128)?],
            status: [model.input("row_status_i")?, model.input("column_status_i")?],
            read: [
                model.output("read_valid_o")?,
                model.output_of_width("read_o", 256)?,
                model.output("read_kind_o")?,
            ],
            reports: [
                model.input("refresh_late_i")?,
                model.input("write_missing_i")?,
                model.input("write_unexpected_i")?,
            ],
            refused: model.output("refused_o")?,
            reported: model.output("reported_o")?,
            done: model.output("request_done_o")?,
            idle: model.output("idle_o")?,
        };
        let device = if let Some(channel) = channel {
            let options = OpenOptions { waves: waves.channel, ..OpenOptions::default() };
            Device::Both(Box::new(Lockstep::of_rtl(channel, config, &options)?))
        } else {
            Device::Model(Box::new(PseudoChannel::new(config)?))
        };
        Ok(Self {
            config: config.clone(),
            model,
            device,
            requests: VecDeque::new(),
            operations: VecDeque::new(),
            writes: VecDeque::new(),
            loads: VecDeque::new(),
            read: Default::default(),
            stalls: [0; 4],
            requests_done: 0,
            bus_used: false,
            trace: None,
            refusals: None,
            offered: [false; 4],
            random: SplitMix64::new(seed),
            clock: 0,
            last_progress: 0,
            ports,
        })
    }

    pub fn clock(&self) -> u64 {
        self.clock
    }

    pub fn device(&self) -> &PseudoChannel {
        match &self.device {
            Device::Model(model) => model,
            Device::Both(both) => &both.device,
        }
    }

    /// The device model, for changes of its contents.
    ///
    /// # Panics
    /// With the Verilated channel, whose contents would differ.
    pub fn device_mut(&mut self) -> &mut PseudoChannel {
        match &mut self.device {
            Device::Model(model) => model,
            Device::Both(_) => panic!("the Verilated channel has no way in but its pins"),
        }
    }

    fn pack_request(&self, r: Request) -> u64 {
        let c = &self.config;
        let group = c.bank_groups().trailing_zeros();
        let rows = c.rows().trailing_zeros();
        let (slot, kind) = match r.transfer {
            Access::Read => (0, 0),
            Access::Write => (0, 1),
            Access::Copy { slot } => (slot, 2),
            Access::Share { slot } => (slot, 3),
        };
        packed(&[
            (r.position, group + 5),
            (r.columns - 1, group + 5),
            (r.row, rows),
            (r.bank, bits_of(c.banks_per_group())),
            (slot, 5),
            (kind, 2),
        ])
    }

    fn pack_operation(&self, operation: Operation) -> u64 {
        let none = [false; 3];
        let (bank, row, slot, column, columns, flags, kind) = match operation {
            Operation::Load { slot, columns } => (0, 0, slot, 0, columns, none, 0),
            Operation::Run { row, column, slot, columns, first, last, take } => {
                (0, row, slot, column, columns, [first, last, take], 1)
            }
            Operation::Results => (0, 0, 0, 0, 1, none, 2),
            Operation::Sum { bank } => (bank, 0, 0, 0, 1, none, 3),
        };
        let [first, last, take] = flags;
        let rows = self.config.rows().trailing_zeros();
        packed(&[
            (bank, bits_of(self.config.banks())),
            (row, rows),
            (slot, 5),
            (column, 5),
            (columns - 1, 5),
            (first.into(), 1),
            (last.into(), 1),
            (take.into(), 1),
            (kind, 2),
        ])
    }

    /// # Errors
    /// A refused command; a difference between the channel's two sides.
    pub fn step(&mut self) -> Result<()> {
        let (row, column) = (self.model.get(self.ports.row) as u32, self.model.get(self.ports.column) as u32);
        let [drives, driven] = self.ports.driven;
        let write = (self.model.get(drives) != 0).then(|| self.model.get_longs(driven));
        let violations = self.device().violation_count();
        let (status, read, reports) = match &mut self.device {
            Device::Model(model) => {
                let out = model.clock(row, column, write);
                ([out.row_status.code(), out.column_status.code()], out.read, [false; 3])
            }
            Device::Both(both) => {
                let out = both.clock(row, column, write)?;
                (out.status, out.read, out.reports)
            }
        };
        self.bus_used = read.is_some() || write.is_some();
        let clock = self.clock;
        self.clock += 1;
        let refused = self.device().violation_count() != violations;
        if let Some(refusals) = self.refusals.as_mut().filter(|_| refused) {
            refusals.push(status);
        } else if refused {
            let name =
                |word: Result<HbmCommand, DramError>| word.map_or("nothing known".into(), |c| c.to_string());
            let commands = format!("{} / {}", name(decode_row(row)), name(decode_column(column)));
            let reason = self.device().violations().last().map(ToString::to_string).unwrap_or_default();
            return Err(fault!("clock {clock}: the channel answers {status:?} to {commands}: {reason}"));
        }
        // Refreshes come in any case, and rows opened and closed for nothing are no progress.
        if column != 0 {
            self.last_progress = clock;
        }
        if let Some(trace) = &mut self.trace {
            let both = [decode_row(row), decode_column(column)];
            trace.extend(both.into_iter().flatten().filter(|c| *c != HbmCommand::Nop).map(|c| (clock, c)));
        }
        let model = &mut self.model;
        model.set(self.ports.arriving[0], read.is_some().into());
        model.set_longs(self.ports.arriving[1], &read.unwrap_or_default());
        for (port, status) in self.ports.status.into_iter().zip(status) {
            model.set(port, status.into());
        }
        for (port, report) in self.ports.reports.into_iter().zip(reports) {
            model.set(port, report.into());
        }
        let waiting = [self.requests.len(), self.operations.len(), self.writes.len(), self.loads.len()];
        let mut offered = [false; 4];
        for (k, offer) in offered.iter_mut().enumerate() {
            let stalled = self.stalls[k] > 0 && self.random.next_u64() % 256 < self.stalls[k];
            // Offers stay until they are taken.
            *offer = (!stalled || self.offered[k]) && waiting[k] > 0;
            self.model.set(self.ports.valid[k], (*offer).into());
        }
        if let Some(request) = self.requests.front() {
            let word = self.pack_request(*request);
            self.model.set(self.ports.data[0], word);
        }
        if let Some(operation) = self.operations.front() {
            let word = self.pack_operation(*operation);
            self.model.set(self.ports.data[1], word);
        }
        for (k, columns) in [(2, &self.writes), (3, &self.loads)] {
            let Some(column) = columns.front() else { continue };
            self.model.set_longs(self.ports.data[k], column);
        }
        self.model.eval();
        let taken: [bool; 4] =
            std::array::from_fn(|k| offered[k] && self.model.get(self.ports.ready[k]) != 0);
        self.offered = std::array::from_fn(|k| offered[k] && !taken[k]);
        if taken[0] {
            self.requests.pop_front();
        }
        if taken[1] {
            self.operations.pop_front();
        }
        if taken[2] {
            self.writes.pop_front();
        }
        if taken[3] {
            self.loads.pop_front();
        }
        if self.model.get(self.ports.read[0]) != 0 {
            let column = self.model.get_longs(self.ports.read[1]);
            let kind = self.model.get(self.ports.read[2]) as usize;
            self.read[kind.min(2)].push(column);
            self.last_progress = clock;
        }
        self.requests_done += self.model.get(self.ports.done);
        self.model.tick();
        Ok(())
    }

    pub fn is_idle(&self) -> bool {
        self.requests.is_empty() && self.operations.is_empty() && self.model.get(self.ports.idle) != 0
    }

    /// Steps until idle, and a little longer for the bus. Returns the clock in which it became idle.
    ///
    /// # Errors
    /// Errors of [`Controlled::step`]; no progress for a long time.
    pub fn drain(&mut self) -> Result<u64> {
        self.last_progress = self.clock;
        self.step()?;
        while !self.is_idle() {
            self.step()?;
            let quiet = self.clock - self.last_progress;
            if quiet > 20 * u64::from(self.config.t_rfc()) {
                let left = self.requests.len() + self.operations.len();
                return Err(fault!(
                    "clock {}: nothing has been done for {quiet} clocks, {left} requests and operations are left",
                    self.clock
                ));
            }
        }
        let end = self.clock;
        for _ in 0..u64::from(self.config.t_cl() + self.config.t_cwl()) + 8 {
            self.step()?;
        }
        Ok(end)
    }

    /// Resets both sides at any moment and drops all work; the cells keep their contents.
    pub fn reset(&mut self) -> Result<()> {
        match &mut self.device {
            Device::Model(model) => {
                **model = PseudoChannel::with_storage(&self.config, model.storage().clone())?;
            }
            Device::Both(both) => both.reset(2)?,
        }
        let inputs = self.ports.valid.into_iter().chain([self.ports.arriving[0]]).chain(self.ports.status);
        for port in inputs.chain(self.ports.reports) {
            self.model.set(port, 0);
        }
        self.model.reset(2);
        self.requests.clear();
        self.operations.clear();
        self.writes.clear();
        self.loads.clear();
        self.read = Default::default();
        self.requests_done = 0;
        self.offered = [false; 4];
        Ok(())
    }

    pub fn close_waves(&mut self) -> Result<()> {
        self.model.close_waves()?;
        match &mut self.device {
            Device::Model(_) => Ok(()),
            Device::Both(both) => both.rtl.model.close_waves(),
        }
    }

    /// First refused row and column command that the controller saw; 0 for none.
    pub fn refused(&self) -> u64 {
        self.model.get(self.ports.refused)
    }

    /// Kinds of reports that the controller saw, a bit each; 0 for none.
    pub fn reported(&self) -> u64 {
        self.model.get(self.ports.reported)
    }
}
