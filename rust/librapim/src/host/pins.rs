//! The pins of a channel, whoever is behind them.

use crate::host::scheduler::Scheduler;
use ndp_dram::hbm::{HbmActivity, HbmOutputs, HbmStatistics, PseudoChannel};
use ndp_files::Result;

/// A channel, whatever is behind its pins. One type, so that the host is compiled once, with optimisation, and not in each crate that uses it.
pub type Channel = Box<dyn Pins>;

pub fn boxed(channels: impl IntoIterator<Item = impl Pins + 'static>) -> Vec<Channel> {
    channels.into_iter().map(|channel| Box::new(channel) as Channel).collect()
}

/// A channel, clock by clock: the device model, or RTL.
pub trait Pins: Send {
    /// One clock, as [`PseudoChannel::clock`].
    ///
    /// # Errors
    /// If what is behind the pins fails.
    fn clock(&mut self, row: u32, column: u32, write: Option<[u64; 2]>) -> Result<HbmOutputs>;

    /// The scheduler, if the channel has one. It is given the work then, and [`Pins::clock`] is not used.
    fn scheduler(&mut self) -> Option<&mut dyn Scheduler> {
        None
    }

    /// Violations of the protocol so far.
    fn violations(&self) -> u64;

    /// Figures of the bus and the multipliers.
    fn statistics(&self) -> HbmStatistics;

    fn activity(&self) -> HbmActivity;

    /// Writes what is left of its waves, if there are any.
    ///
    /// # Errors
    /// A file that cannot be written.
    fn close(&mut self) -> Result<()> {
        Ok(())
    }
}

impl Pins for PseudoChannel {
    fn clock(&mut self, row: u32, column: u32, write: Option<[u64; 2]>) -> Result<HbmOutputs> {
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
