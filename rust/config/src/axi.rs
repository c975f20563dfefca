//! Parameters of the AXI4 subordinate in front of the core's host port.

use crate::BEAT_BITS;
use crate::keys::part;
use crate::limits::{in_range, power_of_two};

part! {
    "axi.", raw:
    /// Validated parameters of the subordinate.
    pub struct AxiConfig(RawAxi) {
        /// Bits of WDATA and RDATA.
        pub data_bits: u32 = BEAT_BITS, power_of_two(32, BEAT_BITS);
        /// Bits of an ID.
        pub id_bits: u32 = 4, in_range(1, 16);
        /// Outstanding lines of 64 bytes in each direction.
        pub outstanding: u32 = 64, power_of_two(4, AxiConfig::MOST_OUTSTANDING);
    }
}

impl AxiConfig {
    /// The host's tags have six bits for bursts in flight in each direction.
    pub const MOST_OUTSTANDING: u32 = 64;
}
