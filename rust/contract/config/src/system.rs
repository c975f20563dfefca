//! The machine around the NDP cores: one GPU, the bus to it, the DIMMs and the links between them.
//!
//! Read from TOML or a preset, validated once, immutable afterwards. Placement and the time model take their bandwidths and
//! capacities from here. Bytes are decimal (1 GB = 10^9 bytes) where the sources give decimal figures.

use crate::{ConfigError, parse, presets};
use serde::{Deserialize, Serialize};

/// Bytes of a GB.
const GB: f64 = 1e9;

/// What a system file holds; unknown keys are refused.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSystem {
    name: String,
    gpu: Gpu,
    bus: Bus,
    dimms: Dimms,
}

/// The GPU.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Gpu {
    /// Memory in GB.
    pub memory_gb: f64,
    /// Part of the memory, in GB, that is neither weights nor neurons: activations, kernels, fragments.
    pub workspace_gb: f64,
    /// Bandwidth of its memory in GB/s.
    pub bandwidth_gbps: f64,
    /// FP16 tensor throughput in TFLOP/s.
    pub tflops: f64,
}

/// The way between host memory and GPU.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bus {
    /// Bandwidth in GB/s.
    pub bandwidth_gbps: f64,
    /// One synchronisation in microseconds: `T_sync` (Hermes, Table I). The paper does not give its value.
    pub sync_us: f64,
}

/// The NDP-DIMMs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dimms {
    /// How many.
    pub count: u32,
    /// Capacity of each in GB.
    pub capacity_gb: f64,
    /// Bandwidth of each towards its own core in GB/s: that of its ranks together, refresh not counted.
    pub bandwidth_gbps: f64,
    /// Payload of a DIMM-link in GB/s and direction.
    pub link_gbps: f64,
}

/// A validated system.
///
/// ```
/// let system = ndp_config::SystemConfig::preset("hermes").unwrap().with_dimms(4).unwrap();
/// assert_eq!(system.dimms().count, 4);
/// assert_eq!(system.gpu().bandwidth_gbps, 936.0);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SystemConfig {
    name: String,
    gpu: Gpu,
    bus: Bus,
    dimms: Dimms,
}

// The paper's system, and the same with the other GPUs of its Fig. 14.
presets!(
    SystemConfig,
    "system",
    "hermes" => "../presets/systems/hermes.toml",
    "hermes-3090" => "../presets/systems/hermes-3090.toml",
    "hermes-t4" => "../presets/systems/hermes-t4.toml",
);

impl SystemConfig {
    /// Most DIMMs that a system may have.
    pub const MAX_DIMMS: u32 = 64;

    /// Parses and validates a system in TOML.
    ///
    /// # Errors
    /// [`ConfigError::Syntax`] for text that is not such a file (unknown keys included), [`ConfigError::OutOfRange`] for a
    /// value that no machine has.
    pub fn from_toml(text: &str) -> Result<Self, ConfigError> {
        let RawSystem { name, gpu, bus, dimms } = parse(text)?;
        for (key, value, min, max) in [
            ("gpu.memory_gb", gpu.memory_gb, 0.0, 1e4),
            ("gpu.workspace_gb", gpu.workspace_gb, 0.0, gpu.memory_gb.max(0.0)),
            ("gpu.bandwidth_gbps", gpu.bandwidth_gbps, 1.0, 1e6),
            ("gpu.tflops", gpu.tflops, 0.1, 1e6),
            ("bus.bandwidth_gbps", bus.bandwidth_gbps, 0.1, 1e5),
            ("bus.sync_us", bus.sync_us, 0.0, 1e6),
            ("dimms.count", f64::from(dimms.count), 1.0, f64::from(Self::MAX_DIMMS)),
            ("dimms.capacity_gb", dimms.capacity_gb, 1e-9, 1e5),
            ("dimms.bandwidth_gbps", dimms.bandwidth_gbps, 1.0, 1e5),
            ("dimms.link_gbps", dimms.link_gbps, 0.1, 1e5),
        ] {
            if !(min..=max).contains(&value) {
                return Err(ConfigError::OutOfRange { key, value: value.to_string(), min, max });
            }
        }
        Ok(Self { name, gpu, bus, dimms })
    }

    /// The same system with so many DIMMs.
    ///
    /// # Errors
    /// [`ConfigError::OutOfRange`] for none or more than [`SystemConfig::MAX_DIMMS`].
    pub fn with_dimms(mut self, count: u32) -> Result<Self, ConfigError> {
        if !(1..=Self::MAX_DIMMS).contains(&count) {
            let (min, max) = (1.0, f64::from(Self::MAX_DIMMS));
            return Err(ConfigError::OutOfRange { key: "dimms.count", value: count.to_string(), min, max });
        }
        self.dimms.count = count;
        Ok(self)
    }

    /// Name of the system.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The GPU.
    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// The bus to the GPU.
    pub fn bus(&self) -> &Bus {
        &self.bus
    }

    /// The DIMMs.
    pub fn dimms(&self) -> &Dimms {
        &self.dimms
    }

    /// Bytes of the GPU's memory that weights can take: memory without workspace.
    pub fn gpu_weight_bytes(&self) -> u64 {
        ((self.gpu.memory_gb - self.gpu.workspace_gb) * GB).round() as u64
    }

    /// Bytes of one DIMM.
    pub fn dimm_bytes(&self) -> u64 {
        (self.dimms.capacity_gb * GB).round() as u64
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_valid_and_has_its_name() {
        for name in SystemConfig::PRESETS {
            assert_eq!(SystemConfig::preset(name).unwrap().name(), name);
        }
        assert!(SystemConfig::preset("pc").unwrap_err().to_string().contains("hermes-t4"));
    }

    #[test]
    fn values_that_no_machine_has_are_refused_by_name() {
        let text = include_str!("../presets/systems/hermes.toml");
        for (from, to, named) in [
            ("count = 8", "count = 0", "dimms.count = 0"),
            ("sync_us = 10.0", "sync_us = -1.0", "bus.sync_us = -1"),
            ("sync_us = 10.0", "sync_us = nan", "bus.sync_us = NaN"),
            ("workspace_gb = 0.5", "workspace_gb = 25.0", "gpu.workspace_gb = 25"),
            ("link_gbps", "link_gbit", "link_gbit"),
        ] {
            assert!(text.contains(from), "{from}");
            let error = SystemConfig::from_toml(&text.replace(from, to)).unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
        assert!(SystemConfig::preset("hermes").unwrap().with_dimms(65).is_err());
    }
}
