//! The DRAM of a DIMM: one device model per rank, and backdoor access to their contents.

use super::burst::Burst;
use super::pins::CorePins;
use crate::ffi::Model;
use ndp_config::DesignConfig;
use ndp_dram::{Command, Rank, Violation};
use ndp_energy::RankActivity;
use ndp_files::{Result, fault};

/// Clocks of the DRAM between samples of a recording: 500 ns of DDR4-3200.
pub const SAMPLE_CLOCKS: u64 = 800;

/// Clocks and use of each rank since the last reset.
pub type Sample = (u64, Vec<RankActivity>);

#[derive(Debug)]
pub(crate) struct Dimm {
    pub ranks: Vec<Rank>,
    /// Clock of the ranks at the first edge after the last reset.
    origin: u64,
    /// Samples of the current recording.
    samples: Option<Vec<Sample>>,
    next_sample: u64,
}

impl Dimm {
    pub(super) fn new(config: &DesignConfig, record: bool) -> Self {
        let ranks = (0..config.gemv().ranks()).map(|_| Rank::new(config.dram())).collect();
        let mut dimm = Self { ranks, origin: 0, samples: None, next_sample: u64::MAX };
        if record {
            dimm.record();
        }
        dimm
    }

    fn cycle(&self) -> u64 {
        self.ranks.first().map_or(0, Rank::cycle)
    }

    pub(super) fn record(&mut self) {
        self.ranks.iter_mut().for_each(Rank::record_commands);
        self.samples = Some(Vec::new());
        self.sample();
    }

    fn sample(&mut self) {
        let (cycle, activity) = (self.cycle(), self.activity());
        if let Some(samples) = &mut self.samples {
            samples.push((cycle - self.origin, activity));
            self.next_sample = cycle + SAMPLE_CLOCKS;
        }
    }

    pub(super) fn origin(&self) -> u64 {
        self.origin
    }

    /// Ends the recording and returns it, in clocks since the last reset.
    pub(super) fn take_recording(&mut self) -> (Vec<Vec<(u64, Command)>>, Vec<Sample>) {
        self.sample();
        self.next_sample = u64::MAX;
        let since_reset = |commands: Vec<(u64, Command)>| {
            commands.into_iter().map(|(clock, command)| (clock - self.origin, command)).collect()
        };
        let commands = self.ranks.iter_mut().map(Rank::take_commands).map(since_reset).collect();
        (commands, self.samples.take().unwrap_or_default())
    }

    /// Clocks of a recording count from the end of the core's reset.
    pub(super) fn leave_reset(&mut self) {
        self.origin = self.cycle();
        if self.samples.is_some() {
            self.record();
        }
    }

    /// One clock of the DRAM, before its rising edge.
    #[inline]
    pub(super) fn clock(&mut self, model: &mut Model, pins: &CorePins) {
        if self.cycle() == self.next_sample {
            self.sample();
        }
        for (index, rank) in self.ranks.iter_mut().enumerate() {
            let (command, write) = pins.rank(model, index);
            if let Some(data) = rank.clock(&command, write) {
                pins.drive_rank(model, index, data);
            }
        }
    }

    pub(super) fn read(&self, address: u64) -> Burst {
        let ranks = self.ranks.len() as u64;
        self.ranks[(address % ranks) as usize].read_burst(address / ranks)
    }

    pub(super) fn write(&mut self, address: u64, burst: &Burst) {
        let ranks = self.ranks.len() as u64;
        self.ranks[(address % ranks) as usize].write_burst(address / ranks, burst);
    }

    pub(super) fn violations(&self) -> u64 {
        self.ranks.iter().map(Rank::violation_count).sum()
    }

    /// First violation of the first rank that has one.
    pub(super) fn first_violation(&self) -> Option<(usize, &Violation<Command>)> {
        self.ranks.iter().enumerate().find_map(|(index, rank)| Some((index, rank.violations().first()?)))
    }

    pub(super) fn verdict(&self) -> Result<()> {
        match self.first_violation() {
            None => Ok(()),
            Some((rank, first)) => Err(fault!(
                "{} violations of DRAM timing, the first of rank {rank}: {first}",
                self.violations()
            )),
        }
    }
}
