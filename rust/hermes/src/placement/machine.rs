//! Capacities, bandwidths and synchronisation of the mapping problem.

use crate::placement::ONE;
use ndp_config::{BlockKind, LlmShape, SystemConfig};
use ndp_files::{Error, Result, bail, in_range, refusal};
use serde::Serialize;

/// Capacities in bytes, bandwidths in GB/s (10^9 bytes), times in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Machine {
    /// Memory for neurons: `S_GPU` of equation 6.
    pub gpu_bytes: u64,
    pub gpu_gbps: f64,
    /// One synchronisation: `T_sync` of equation 3.
    pub sync_us: f64,
    pub dimms: u32,
    /// Memory of each DIMM for neurons: `S_dimm` of equation 7.
    pub dimm_bytes: u64,
    /// Bandwidth of each DIMM towards its core.
    pub dimm_gbps: f64,
    /// Memory of each DIMM for keys and values, beside `dimm_bytes`.
    pub kv_bytes: u64,
    /// Rate of an SSD below the DIMMs for many scattered MLP neurons at a time; `None` without an SSD.
    pub ssd_gbps: Option<f64>,
}

/// Neurons for which the SSD's rate is taken.
const MANY: u64 = 1 << 20;

impl Machine {
    /// The part of a system for neurons: the GPU without projections and embeddings, the DIMMs without the keys and
    /// values of `kv_tokens` tokens, evenly spread. Fails if these exceed the DIMMs.
    pub fn of(model: &LlmShape, system: &SystemConfig, kv_tokens: u32) -> Result<Self> {
        let (available, resident) = (system.gpu_weight_bytes(), model.resident_bytes());
        let gpu_bytes = available.checked_sub(resident).ok_or_else(|| {
            let model = model.name().to_owned();
            refusal!("the GPU has {available} bytes for weights, the projections and embeddings of {model} take {resident}")
        })?;
        let dimms = system.dimms().count;
        let kv_bytes = (model.kv_bytes_per_token() * u64::from(kv_tokens)).div_ceil(dimms.into());
        let dimm_bytes = system
            .dimm_bytes()
            .checked_sub(kv_bytes)
            .ok_or_else(|| dimms_too_small(model.neurons_bytes(), dimms, 0, kv_bytes))?;
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

    /// Fails for DIMMs outside 1..=64, bandwidths that are not positive and negative times.
    pub fn check(&self) -> Result<()> {
        in_range("dimms", self.dimms, 1, SystemConfig::MAX_DIMMS)?;
        let ssd_gbps = self.ssd_gbps.unwrap_or(1.0);
        for (what, value) in [
            ("GPU bandwidth", self.gpu_gbps),
            ("DIMM bandwidth", self.dimm_gbps),
            ("SSD bandwidth", ssd_gbps),
        ] {
            if !(value > 0.0 && value.is_finite()) {
                bail!("{what} = {value} must be a positive number of GB/s");
            }
        }
        if !(self.sync_us >= 0.0 && self.sync_us.is_finite()) {
            let (what, value) = ("synchronisation", self.sync_us);
            bail!("{what} = {value} must be a number of us, 0 or more");
        }
        Ok(())
    }

    /// Time of the GPU for work (frequency x bytes, times [`ONE`]); 1 GB/s is 1000 bytes per microsecond.
    pub fn gpu_us(&self, work: f64) -> f64 {
        work / (f64::from(ONE) * 1e3 * self.gpu_gbps)
    }

    /// [`Self::gpu_us`] with both synchronisations: equation 3, which adds them even if nothing is on the GPU.
    pub fn gpu_side_us(&self, work: f64) -> f64 {
        self.gpu_us(work) + 2.0 * self.sync_us
    }

    pub fn ssd_us(&self, work: f64) -> f64 {
        self.ssd_gbps.map_or(0.0, |gbps| work / (f64::from(ONE) * 1e3 * gbps))
    }

    /// Time of one DIMM.
    pub fn dimm_us(&self, work: f64) -> f64 {
        work / (f64::from(ONE) * 1e3 * self.dimm_gbps)
    }
}

/// Error of neurons that do not fit in the DIMMs, with `each` bytes per DIMM beside `kv_bytes`.
pub(crate) fn dimms_too_small(needed: u64, dimms: u32, each: u64, kv_bytes: u64) -> Error {
    let (needed, usable) = (size(needed), usable(dimms, each, kv_bytes));
    refusal!("{needed} of neurons do not fit in {usable}; use more DIMMs, a smaller --kv-tokens, or --ssd")
}

fn size(bytes: u64) -> String {
    match bytes as f64 {
        small if small < 1e6 => format!("{bytes} bytes"),
        some if some < 1e9 => format!("{:.1} MB", some / 1e6),
        many => format!("{:.1} GB", many / 1e9),
    }
}

fn usable(dimms: u32, each: u64, kv_bytes: u64) -> String {
    let (plural, of_each) = if dimms == 1 { ("", "") } else { ("s", " in each") };
    let kept = match (each, kv_bytes) {
        (_, 0) => String::new(),
        (0, kept) => format!(" (keys and values alone take {}{of_each})", size(kept)),
        (each, kept) => format!(" ({} minus {} for keys and values)", size(each + kept), size(kept)),
    };
    let usable = if each == 0 { "none".to_owned() } else { size(each) };
    format!("{dimms} DIMM{plural}: {usable} is usable{of_each}{kept}")
}
