//! The DRAM of a DIMM: one device model per rank, and a way into their contents that takes no time.

use super::burst::Burst;
use super::pins::CorePins;
use crate::error::SimError;
use crate::ffi::Model;
use ndp_config::DesignConfig;
use ndp_dram::{Command, Rank, Violation};

/// The ranks of a DIMM.
#[derive(Debug)]
pub(crate) struct Dimm {
    pub ranks: Vec<Rank>,
    /// Clock of the ranks at the first edge after the last reset.
    origin: u64,
}

impl Dimm {
    pub(super) fn new(config: &DesignConfig, record: bool) -> Self {
        let rank = |_| {
            let mut rank = Rank::new(config.dram());
            if record {
                rank.record_commands();
            }
            rank
        };
        Self { ranks: (0..config.gemv().ranks()).map(rank).collect(), origin: 0 }
    }

    /// Clock of the ranks at the first edge after the last reset.
    pub(super) fn origin(&self) -> u64 {
        self.origin
    }

    /// Ends the recording of commands and hands it out, in clocks since the last reset.
    pub(super) fn take_commands(&mut self) -> Vec<Vec<(u64, Command)>> {
        let since_reset = |commands: Vec<(u64, Command)>| {
            commands.into_iter().map(|(clock, command)| (clock - self.origin, command)).collect()
        };
        self.ranks.iter_mut().map(Rank::take_commands).map(since_reset).collect()
    }

    /// The core's reset ends: clocks of recorded commands count from here.
    pub(super) fn leave_reset(&mut self) {
        self.origin = self.ranks.first().map_or(0, Rank::cycle);
        self.ranks.iter_mut().for_each(Rank::forget_commands);
    }

    /// One clock of the DRAM: before its rising edge.
    #[inline]
    pub(super) fn clock(&mut self, model: &mut Model, pins: &CorePins) {
        for (index, rank) in self.ranks.iter_mut().enumerate() {
            let (command, write) = pins.rank(model, index);
            if let Some(data) = rank.clock(&command, write) {
                pins.drive_rank(model, index, data);
            }
        }
    }

    /// The burst at an address of the DIMM.
    pub(super) fn read(&self, address: u64) -> Burst {
        let ranks = self.ranks.len() as u64;
        self.ranks[(address % ranks) as usize].read_burst(address / ranks)
    }

    /// Replaces the burst at an address of the DIMM.
    pub(super) fn write(&mut self, address: u64, burst: &Burst) {
        let ranks = self.ranks.len() as u64;
        self.ranks[(address % ranks) as usize].write_burst(address / ranks, burst);
    }

    /// Violations of all ranks.
    pub(super) fn violations(&self) -> u64 {
        self.ranks.iter().map(Rank::violation_count).sum()
    }

    /// The first violation of the first rank that has one.
    pub(super) fn first_violation(&self) -> Option<(usize, &Violation<Command>)> {
        self.ranks.iter().enumerate().find_map(|(index, rank)| Some((index, rank.violations().first()?)))
    }

    /// An error if any rule was broken.
    pub(super) fn verdict(&self) -> Result<(), SimError> {
        match self.first_violation() {
            None => Ok(()),
            Some((rank, first)) => {
                Err(SimError::Dram { rank, count: self.violations(), first: first.to_string() })
            }
        }
    }
}
