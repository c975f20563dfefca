//! The machine as the mapping problem sees it: capacities, bandwidths and the synchronisation.

use crate::{ONE, PlacementError};
use ndp_config::{BlockKind, LlmShape, SystemConfig};
use serde::Serialize;

/// Capacities in bytes, bandwidths in GB/s (10^9 bytes), times in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Machine {
    /// Bytes of the GPU that neurons can take: `S_GPU` of equation 6.
    pub gpu_bytes: u64,
    /// Bandwidth of the GPU's memory.
    pub gpu_gbps: f64,
    /// One synchronisation: `T_sync` of equation 3.
    pub sync_us: f64,
    /// Number of DIMMs.
    pub dimms: u32,
    /// Bytes of each DIMM that neurons can take: `S_dimm` of equation 7.
    pub dimm_bytes: u64,
    /// Bandwidth of each DIMM towards its core.
    pub dimm_gbps: f64,
    /// Bytes of each DIMM that are kept for keys and values, beside `dimm_bytes`.
    pub kv_bytes: u64,
    /// Rate at which an SSD below the DIMMs reads neurons of the MLP that lie anywhere, many at a time; none if there is no SSD.
    pub ssd_gbps: Option<f64>,
}

/// Neurons of which the rate of an SSD is taken.
const MANY: u64 = 1 << 20;

impl Machine {
    /// What a system leaves to the neurons of a model: the GPU without projections and embeddings, the DIMMs without the
    /// keys and values of `kv_tokens` tokens, which lie evenly over them.
    ///
    /// # Errors
    /// [`PlacementError::GpuTooSmall`]; [`PlacementError::DimmsTooSmall`] if the keys and values alone exceed the DIMMs.
    pub fn of(model: &LlmShape, system: &SystemConfig, kv_tokens: u32) -> Result<Self, PlacementError> {
        let (available, resident) = (system.gpu_weight_bytes(), model.resident_bytes());
        let gpu_bytes = available.checked_sub(resident).ok_or_else(|| {
            let model = model.name().to_owned();
            PlacementError::GpuTooSmall { model, resident, available }
        })?;
        let dimms = system.dimms().count;
        let kv_bytes = (model.kv_bytes_per_token() * u64::from(kv_tokens)).div_ceil(dimms.into());
        let dimm_bytes = system.dimm_bytes().checked_sub(kv_bytes).ok_or(PlacementError::DimmsTooSmall {
            needed: model.neurons_bytes(),
            available: 0,
            each: 0,
            dimms,
            kv_bytes,
        })?;
        Ok(Self {
            gpu_bytes,
            gpu_gbps: system.gpu().bandwidth_gbps * system.gpu().bandwidth_efficiency,
            sync_us: system.bus().sync_us,
            dimms,
            dimm_bytes,
            dimm_gbps: system.dimms().bandwidth_gbps,
            kv_bytes,
            ssd_gbps: system.ssd().map(|ssd| {
                let bytes = model.neuron_bytes(BlockKind::Mlp);
                (MANY * bytes) as f64 / ssd.read_ns(MANY, bytes) as f64
            }),
        })
    }

    /// Whether the numbers make sense.
    ///
    /// # Errors
    /// [`PlacementError::Range`] for a number of DIMMs outside 1..=64, [`PlacementError::Quantity`] for bandwidths that are not
    /// positive and times that are negative.
    pub fn check(&self) -> Result<(), PlacementError> {
        let max = SystemConfig::MAX_DIMMS;
        if !(1..=max).contains(&self.dimms) {
            return Err(PlacementError::Range {
                what: "dimms",
                value: self.dimms.into(),
                min: 1,
                max: max.into(),
            });
        }
        let ssd_gbps = self.ssd_gbps.unwrap_or(1.0);
        for (what, value) in [
            ("GPU bandwidth", self.gpu_gbps),
            ("DIMM bandwidth", self.dimm_gbps),
            ("SSD bandwidth", ssd_gbps),
        ] {
            if !(value > 0.0 && value.is_finite()) {
                return Err(PlacementError::Quantity { what, value, rule: "a positive number of GB/s" });
            }
        }
        if !(self.sync_us >= 0.0 && self.sync_us.is_finite()) {
            let (what, value) = ("synchronisation", self.sync_us);
            return Err(PlacementError::Quantity { what, value, rule: "a number of us, 0 or more" });
        }
        Ok(())
    }

    /// Time in which the GPU reads so much work (frequency x bytes, times [`ONE`]); 1 GB/s is 1000 bytes per microsecond.
    pub fn gpu_us(&self, work: f64) -> f64 {
        work / (f64::from(ONE) * 1e3 * self.gpu_gbps)
    }

    /// The same with both synchronisations: equation 3, which adds them whether anything is on the GPU or not.
    pub fn gpu_side_us(&self, work: f64) -> f64 {
        self.gpu_us(work) + 2.0 * self.sync_us
    }

    /// Time in which the SSD reads so much work.
    pub fn ssd_us(&self, work: f64) -> f64 {
        self.ssd_gbps.map_or(0.0, |gbps| work / (f64::from(ONE) * 1e3 * gbps))
    }

    /// Time in which one DIMM reads so much work.
    pub fn dimm_us(&self, work: f64) -> f64 {
        work / (f64::from(ONE) * 1e3 * self.dimm_gbps)
    }
}
