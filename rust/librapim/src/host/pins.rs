//! The pins of a channel, for a device model or RTL.

use crate::host::scheduler::Scheduler;
use ndp_dram::hbm::{HbmActivity, HbmOutputs, HbmStatistics, PseudoChannel};
use ndp_files::Result;

/// Boxed, so that the host is compiled once, with optimisation, and not in each crate that uses it.
pub type Channel = Box<dyn Pins>;

pub fn boxed(channels: impl IntoIterator<Item = impl Pins + 'static>) -> Vec<Channel> {
    channels.into_iter().map(|channel| Box::new(channel) as Channel).collect()
}

/// A channel, clock by clock: device model or RTL.
pub trait Pins: Send {
    /// One clock, as [`PseudoChannel::clock`]. Fails if the channel fails.
    fn clock(&mut self, row: u32, column: u32, write: Option<[u64; 2]>) -> Result<HbmOutputs>;

    /// The channel's scheduler, if any. It then gets the work, and [`Pins::clock`] is not used.
    fn scheduler(&mut self) -> Option<&mut dyn Scheduler> {
        None
    }

    fn violations(&self) -> u64;

    fn statistics(&self) -> HbmStatistics;

    fn activity(&self) -> HbmActivity;

    /// Writes the rest of the waves, if any. Fails if the file cannot be written.
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
