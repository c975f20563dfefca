//! The Verilated controller with its channel as a channel of [`ndp_librapim::host`], which sends it requests.

use super::controller::{Controlled, ControlledWaves};
use crate::ffi::Rtl;
use ndp_config::HbmConfig;
use ndp_dram::CommandSet;
use ndp_dram::hbm::{Column, HbmActivity, HbmKind, HbmOutputs, HbmStatistics};
use ndp_files::{Context, Result, fault};
use ndp_librapim::host::scheduler::Given;
use ndp_librapim::host::scheduler::{Stepped, Stripe, Transfer, Work};
use ndp_librapim::host::{Pins, Scheduler};

#[derive(Debug)]
pub struct Hosted {
    system: Controlled,
    requested: u64,
    /// Requested columns and results.
    expected: [u64; 2],
    seen: [u64; 2],
}

impl Hosted {
    /// With `channel` the Verilated channel runs in lockstep with the device model; `config` says where all banks are
    /// cut.
    pub fn open(config: &HbmConfig, channel: bool, waves: ControlledWaves) -> Result<Self> {
        Ok(Self::new(Controlled::open(config, Self::boundary(config), channel, 1, waves)?))
    }

    /// For Verilog of a controller that differs from the generator's, such as a mutant.
    pub fn of_rtl(controller: &Rtl, config: &HbmConfig) -> Result<Self> {
        let (boundary, waves) = (Self::boundary(config), ControlledWaves::default());
        Ok(Self::new(Controlled::of_rtl(controller, None, config, boundary, 1, waves)?))
    }

    fn boundary(config: &HbmConfig) -> u16 {
        if config.slicing() { config.weight_subarrays() as u16 } else { 0 }
    }

    fn new(system: Controlled) -> Self {
        Self { system, requested: 0, expected: [0; 2], seen: [0; 2] }
    }

    pub fn close_waves(&mut self) -> Result<()> {
        self.system.close_waves()
    }
}

impl Scheduler for Hosted {
    fn waiting(&self) -> [usize; 2] {
        [self.system.requests.len(), self.system.operations.len()]
    }

    fn request(&mut self, stripe: Stripe, data: Vec<Column>) {
        self.system.requests.push_back(stripe);
        self.system.writes.extend(data);
        self.requested += 1;
        self.expected[0] += if stripe.transfer == Transfer::Write { 0 } else { u64::from(stripe.columns) };
    }

    fn operate(&mut self, work: Work, data: Vec<Column>) {
        self.system.operations.push_back(work);
        self.system.loads.extend(data);
        self.expected[1] += u64::from(matches!(work, Work::Results | Work::Sum { .. }));
    }

    fn requests_done(&self) -> u64 {
        self.system.requests_done
    }

    fn step(&mut self) -> Result<Stepped> {
        self.system.trace = Some(Vec::new());
        self.system.step().context("the channel failed")?;
        let mut given = Given { data: self.system.bus_used, ..Given::default() };
        for (_, command) in self.system.trace.take().unwrap_or_default() {
            let is_row = command.kind().is_some_and(HbmKind::is_row);
            *(if is_row { &mut given.row } else { &mut given.column }) = Some(command);
        }
        let [columns, mut results, sums] = std::mem::take(&mut self.system.read);
        // A column takes two clocks, so at most one of the two came.
        results.extend(sums);
        self.seen[0] += columns.len() as u64;
        self.seen[1] += results.len() as u64;
        let done = self.seen == self.expected && self.requested == self.system.requests_done;
        Ok(Stepped { given, columns, results, idle: done && self.system.is_idle() })
    }
}

impl Pins for Hosted {
    fn clock(&mut self, _: u32, _: u32, _: Option<[u64; 2]>) -> Result<HbmOutputs> {
        Err(fault!("the channel failed: its commands are those of its controller"))
    }

    fn scheduler(&mut self) -> Option<&mut dyn Scheduler> {
        Some(self)
    }

    fn violations(&self) -> u64 {
        self.system.device().violation_count()
    }

    fn statistics(&self) -> HbmStatistics {
        self.system.device().statistics()
    }

    fn activity(&self) -> HbmActivity {
        self.system.device().activity()
    }

    fn close(&mut self) -> Result<()> {
        self.close_waves()
    }
}
