//! Energy of a run: time of devices in each state, and bytes read or carried.

use crate::machine::Machine;
use crate::run::{Device, Run, Steps};
use ndp_config::DesignConfig;
use ndp_energy::{CoreCosts, CoreUse, DramCosts, Energy, EnergyConstants, SystemCosts};

const BURST: f64 = 64.0;

/// Eight devices with 1 KB each.
const ROW_BURSTS: u64 = 128;

/// Ranks of the host's memory have 16 GB.
const RANK_GB: f64 = 16.0;

#[derive(Clone, Debug)]
pub struct RunCosts {
    dram: DramCosts,
    core: CoreCosts,
    system: SystemCosts,
    clock_ps: u64,
    dram_clock_ps: u64,
    ranks: u64,
}

impl RunCosts {
    pub fn new(design: &DesignConfig, constants: &EnergyConstants) -> Self {
        Self {
            dram: DramCosts::new(&constants.dram, design.dram()),
            core: CoreCosts::new(&constants.core, design),
            system: SystemCosts::new(&constants.system),
            clock_ps: design.core().clock_ps(),
            dram_clock_ps: design.dram().clock_ps(),
            ranks: design.gemv().ranks().into(),
        }
    }

    /// Reads from DRAM, bus included, with whole rows from first to last burst.
    fn reads(&self, bytes: f64) -> Energy {
        let bursts = (bytes / BURST).ceil() as u64;
        self.dram.read * bursts
            + self.dram.random_burst(true) * bursts
            + self.dram.activate * bursts.div_ceil(ROW_BURSTS)
    }

    pub fn of(&self, machine: &Machine<'_>, steps: &Steps) -> Vec<(Device, Energy)> {
        let ns = steps.ns().round() as u64;
        let states = |device| {
            let busy = (steps.busy_ns(device).round() as u64).min(ns);
            (ns - busy, busy)
        };
        let sum = |[idle, busy]: [Energy; 2]| idle + busy;
        let gpus = u64::from(machine.system.gpu().count);
        let (idle, busy) = states(Device::Gpu);
        let gpu = sum(self.system.gpu(idle, busy)) * gpus;
        let (idle, busy) = states(Device::Host);
        let clocks = ns * 1000 / self.dram_clock_ps;
        let host_ranks = (machine.system.host().memory_gb / RANK_GB).ceil() as u64;
        let carried = steps.bytes(Device::Bus);
        // The bus carries data from the host's memory.
        let read = steps.bytes(Device::Host) + carried;
        let host = sum(self.system.host(idle, busy))
            + self.reads(read)
            + self.dram.idle(clocks).total() * host_ranks;
        let bus = self.system.bus(carried.ceil() as u64);
        let (idle, busy) = states(Device::Ssd);
        let ssd =
            if machine.system.ssd().is_some() { sum(self.system.ssd(idle, busy)) } else { Energy::default() };
        let count = u64::from(machine.system.dimms().count);
        let (idle, busy) = states(Device::Dimms);
        let busy_cycles = CoreUse { dot: busy * 1000 / self.clock_ps, ..CoreUse::default() };
        let cores = self
            .core
            .of(&busy_cycles)
            .fold(self.core.idle(idle * 1000 / self.clock_ps), |sum, (_, one)| sum + one);
        let standby = self.dram.active_clock * (busy * 1000 / self.dram_clock_ps)
            + self.dram.idle(idle * 1000 / self.dram_clock_ps).total();
        let dimms = (cores + standby * self.ranks) * count + self.reads(steps.bytes(Device::Dimms));
        [
            (Device::Gpu, gpu),
            (Device::Host, host),
            (Device::Bus, bus),
            (Device::Ssd, ssd),
            (Device::Dimms, dimms),
        ]
        .into_iter()
        .filter(|(_, energy)| energy.high > 0)
        .collect()
    }

    /// Energy per generated token and device, with its share of the prefill.
    pub fn per_token(&self, machine: &Machine<'_>, run: &Run) -> Vec<(Device, Energy)> {
        let tokens = u64::from(run.output);
        let [prefill, token] = [&run.prefill, &run.token].map(|steps| self.of(machine, steps));
        token
            .into_iter()
            .map(|(device, energy)| {
                let before = prefill
                    .iter()
                    .find(|(other, _)| *other == device)
                    .map_or(Energy::default(), |found| found.1);
                (device, (before.per(tokens) + energy).per(u64::from(run.batch)))
            })
            .collect()
    }
}
