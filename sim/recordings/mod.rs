//! A recording of a core, or of a system of several, as files: text for people and comparisons, a timeline for ui.perfetto.dev.
//!
//! Downstream of [`crate::core::Recording`]. Times are those of the waves: the rising edge in which something happened.
//! Output is the same from run to run. Where it goes, and that it is complete or absent, is up to the binaries.

mod commands;
mod system;
mod text;
mod timeline;

pub use system::{Moves, SystemTimeline, write_system_timeline};
pub use text::write_text;
pub use timeline::write_timeline;

use crate::core::Recording;
use crate::ffi::Edge;

impl Recording {
    /// When a core cycle's rising edge is, in ps.
    fn core_ps(&self, cycle: u64) -> u64 {
        self.clocks.rise_ps(Edge::Core, cycle)
    }

    /// When a clock of the ranks is, in ps.
    fn dram_ps(&self, clock: u64) -> u64 {
        self.clocks.rise_ps(Edge::Dram, self.dram_origin + clock)
    }

    /// What an address of the host is: a register of the core, or a burst of the DRAM.
    fn place_of(&self, address: u64) -> String {
        let core = 1 << self.config.dimm_burst_bits();
        if address & core == 0 {
            return format!("{address:#x}");
        }
        match address & (core - 1) {
            0 => "status and queue".to_owned(),
            register => format!("register {register}"),
        }
    }
}
