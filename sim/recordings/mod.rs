//! Recordings of a core or a system as files: text for people and comparisons, a timeline for ui.perfetto.dev.
//!
//! Downstream of [`crate::core::Recording`]. Times match the waves, at the rising edge of an event. Output is the same
//! from run to run.

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
    fn core_ps(&self, cycle: u64) -> u64 {
        self.clocks.rise_ps(Edge::Core, cycle)
    }

    fn dram_ps(&self, clock: u64) -> u64 {
        self.clocks.rise_ps(Edge::Dram, self.dram_origin + clock)
    }

    /// Name of a register of the core, or of a burst of the DRAM.
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
