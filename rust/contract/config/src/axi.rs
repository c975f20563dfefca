//! Parameters of the AXI4 subordinate in front of the core's host port.

use crate::limits::{in_range, power_of_two};
use crate::{BEAT_BITS, ConfigError};
use serde::{Deserialize, Serialize};

/// The `[axi]` table as written: every key optional.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawAxi {
    data_bits: u32,
    id_bits: u32,
    outstanding: u32,
}

impl Default for RawAxi {
    fn default() -> Self {
        Self { data_bits: BEAT_BITS, id_bits: 4, outstanding: 64 }
    }
}

/// Validated parameters of the subordinate.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct AxiConfig(RawAxi);

impl AxiConfig {
    /// Most bursts of DRAM under way in each direction: the host's tags have six bits for their numbers.
    pub const MOST_OUTSTANDING: u32 = 64;

    pub(crate) fn validate(raw: RawAxi) -> Result<Self, ConfigError> {
        power_of_two("axi.data_bits", raw.data_bits, 32, BEAT_BITS)?;
        in_range("axi.id_bits", raw.id_bits, 1, 16)?;
        power_of_two("axi.outstanding", raw.outstanding, 4, Self::MOST_OUTSTANDING)?;
        Ok(Self(raw))
    }

    /// Bits of WDATA and RDATA.
    pub fn data_bits(&self) -> u32 {
        self.0.data_bits
    }

    /// Bits of an ID.
    pub fn id_bits(&self) -> u32 {
        self.0.id_bits
    }

    /// Bursts of DRAM under way in each direction.
    pub fn outstanding(&self) -> u32 {
        self.0.outstanding
    }
}
