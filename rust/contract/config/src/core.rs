//! Parameters of the NDP core around the GEMV unit: queues between the instruction stream, the DRAM and the unit.

use crate::ConfigError;
use crate::limits::{in_range, power_of_two};
use serde::{Deserialize, Serialize};

/// The `[core]` table as written: every key optional.
#[derive(Deserialize, Clone)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawCore {
    clock_mhz: u32,
    queue_entries: u32,
    list_entries: u32,
    read_fifo_beats: u32,
    link: bool,
}

impl Default for RawCore {
    fn default() -> Self {
        Self { clock_mhz: 1000, queue_entries: 64, list_entries: 4096, read_fifo_beats: 128, link: true }
    }
}

/// Validated parameters of the core.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct CoreConfig {
    clock_mhz: u32,
    queue_entries: u32,
    list_entries: u32,
    read_fifo_beats: u32,
    link: bool,
}

impl CoreConfig {
    /// The slowest clock: below it a DRAM of any grade is more than eight times as fast, and nobody asks for that.
    pub const SLOWEST_MHZ: u32 = 200;
    /// The fastest clock. A reset of eight cycles is four of the slowest DRAM (833 ps), which is what the queues between the clocks need.
    pub const FASTEST_MHZ: u32 = 2000;

    pub(crate) fn validate(raw: RawCore) -> Result<Self, ConfigError> {
        let RawCore { clock_mhz, queue_entries, list_entries, read_fifo_beats, link } = raw;
        in_range("core.clock_mhz", clock_mhz, Self::SLOWEST_MHZ, Self::FASTEST_MHZ)?;
        power_of_two("core.queue_entries", queue_entries, 8, 1024)?;
        power_of_two("core.list_entries", list_entries, 64, 4096)?;
        power_of_two("core.read_fifo_beats", read_fifo_beats, 16, 256)?;
        Ok(Self { clock_mhz, queue_entries, list_entries, read_fifo_beats, link })
    }

    /// The core's clock in MHz.
    pub fn clock_mhz(&self) -> u32 {
        self.clock_mhz
    }

    /// Period of the core's clock in ps: `10^6 / clock_mhz`, rounded to the nearest. All times follow from it.
    pub fn clock_ps(&self) -> u64 {
        (1_000_000 + u64::from(self.clock_mhz) / 2) / u64::from(self.clock_mhz)
    }

    /// Cycles of the core in a nanosecond, by the period.
    pub fn clock_ghz(&self) -> f64 {
        1e3 / self.clock_ps() as f64
    }

    /// So many cycles in ns, rounded up.
    pub fn cycles_to_ns(&self, cycles: u64) -> u64 {
        (cycles * self.clock_ps()).div_ceil(1000)
    }

    /// Whole cycles in so many ns.
    pub fn ns_to_cycles(&self, ns: u64) -> u64 {
        ns * 1000 / self.clock_ps()
    }

    /// Instructions that can wait.
    pub fn queue_entries(&self) -> u32 {
        self.queue_entries
    }

    /// Row indices that the list memory holds.
    pub fn list_entries(&self) -> u32 {
        self.list_entries
    }

    /// Beats that a rank can have read and the core not taken yet.
    pub fn read_fifo_beats(&self) -> u32 {
        self.read_fifo_beats
    }

    /// Whether the core has a DIMM-link, with the parameters of the `[link]` table.
    pub fn link(&self) -> bool {
        self.link
    }
}
