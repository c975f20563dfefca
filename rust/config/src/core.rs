//! Parameters of the NDP core around the GEMV unit: queues between the instruction stream, the DRAM and the unit.

use crate::keys::part;
use crate::limits::{in_range, power_of_two};

part! {
    "core.", raw:
    /// Validated parameters of the core.
    pub struct CoreConfig(RawCore) {
        /// The core's clock in MHz; its period is rounded to the nearest ps.
        pub clock_mhz: u32 = 1000, in_range(CoreConfig::SLOWEST_MHZ, CoreConfig::FASTEST_MHZ);
        /// Number of instructions that can wait.
        pub queue_entries: u32 = 64, power_of_two(8, 1024);
        /// Row numbers in the list memory.
        pub list_entries: u32 = 4096, power_of_two(64, 4096);
        /// Beats that a rank may have read before the core takes them.
        pub read_fifo_beats: u32 = 128, power_of_two(16, 256);
        /// Whether the core has a DIMM-link, with the parameters of `[link]`.
        pub link: bool = true;
    }
}

impl CoreConfig {
    /// Below it a DRAM of any grade is more than eight times as fast.
    pub const SLOWEST_MHZ: u32 = 200;
    /// A reset of eight cycles has four clocks of the slowest DRAM (833 ps), which the queues between the clocks need.
    pub const FASTEST_MHZ: u32 = 2000;

    /// Period in ps: `10^6 / clock_mhz`, to the nearest. All times follow from it.
    pub fn clock_ps(&self) -> u64 {
        (1_000_000 + u64::from(self.clock_mhz()) / 2) / u64::from(self.clock_mhz())
    }

    /// Core cycles per nanosecond.
    pub fn clock_ghz(&self) -> f64 {
        1e3 / self.clock_ps() as f64
    }

    /// Cycles in ns, rounded up.
    pub fn cycles_to_ns(&self, cycles: u64) -> u64 {
        (cycles * self.clock_ps()).div_ceil(1000)
    }
}
