//! The pins of a channel, whoever is behind them.

use crate::PimError;
use crate::scheduler::Scheduler;
use ndp_dram::hbm::{HbmActivity, HbmOutputs, HbmStatistics, PseudoChannel};

/// A channel, clock by clock: the device model, or RTL.
pub trait Pins: Send {
    /// One clock, as [`PseudoChannel::clock`].
    ///
    /// # Errors
    /// If what is behind the pins fails.
    fn clock(&mut self, row: u32, column: u32, write: Option<[u64; 2]>) -> Result<HbmOutputs, PimError>;

    /// The scheduler, if the channel has one. It is given the work then, and [`Pins::clock`] is not used.
    fn scheduler(&mut self) -> Option<&mut dyn Scheduler> {
        None
    }

    /// Violations of the protocol so far.
    fn violations(&self) -> u64;

    /// Figures of the bus and the multipliers.
    fn statistics(&self) -> HbmStatistics;

    /// What energy depends on.
    fn activity(&self) -> HbmActivity;
}

impl Pins for PseudoChannel {
    fn clock(&mut self, row: u32, column: u32, write: Option<[u64; 2]>) -> Result<HbmOutputs, PimError> {
        Ok(PseudoChannel::clock(self, row, column, write))
    }

    fn violations(&self) -> u64 {
        self.violation_count()
    }

    fn statistics(&self) -> HbmStatistics {
        PseudoChannel::statistics(self)
    }

    fn activity(&self) -> HbmActivity {
        PseudoChannel::activity(self)
    }
}
