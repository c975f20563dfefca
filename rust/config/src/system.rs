//! The machine around the NDP cores: GPU, bus, DIMMs and links.
//!
//! From TOML or a preset, validated once, immutable. Bytes are decimal (1 GB = 10^9 bytes), as in the sources.

use crate::keys::checked;
use crate::{LlmShape, NameRule, Ssd, getters, in_range, name_is, parse, presets};
use ndp_files::{Result, ensure, refusal};
use serde::{Deserialize, Serialize};

const GB: f64 = 1e9;

/// Unknown keys are refused.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSystem {
    name: String,
    gpu: Gpu,
    bus: Bus,
    #[serde(default)]
    channel: Channel,
    #[serde(default)]
    host: Host,
    dimms: Option<Dimms>,
    price: Option<Price>,
    ssd: Option<Ssd>,
}

checked! {
    "gpu.", gpu:
    /// The GPU, or several that share each product.
    #[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct Gpu {
        /// Number of GPUs, 1 if left out; the other keys describe one of them.
        #[serde(default = "one_device")]
        pub count: u32, in_range(1, 1024);
        /// Memory in GB.
        pub memory_gb: f64, in_range(0.0, 1e4);
        /// Part of the memory, in GB, that is neither weights nor neurons: activations, kernels, fragments.
        pub workspace_gb: f64, in_range(0.0, gpu.memory_gb.max(0.0));
        /// Bandwidth of its memory in GB/s.
        pub bandwidth_gbps: f64, in_range(1.0, 1e6);
        /// Share of the bandwidth that a product of a matrix and few vectors reaches; 1 if left out.
        #[serde(default = "one")]
        pub bandwidth_efficiency: f64, in_range(0.01, 1.0);
        /// FP16 tensor throughput in TFLOP/s.
        pub tflops: f64, in_range(0.1, 1e6);
        /// Share of the throughput that a product of a matrix and many vectors reaches; 1 if left out.
        #[serde(default = "one")]
        pub compute_efficiency: f64, in_range(0.01, 1.0);
    }
}

fn one() -> f64 {
    1.0
}

fn one_device() -> u32 {
    1
}

checked! {
    "bus.", bus:
    /// The way between host memory and GPU.
    #[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct Bus {
        /// Bandwidth in GB/s.
        pub bandwidth_gbps: f64, in_range(0.1, 1e5);
        /// One synchronisation in microseconds: `T_sync` (Hermes, Table I). The paper does not give its value.
        pub sync_us: f64, in_range(0.0, 1e6);
    }
}

checked! {
    "channel.", channel:
    /// The host's memory channels. DIMMs `n * dimms` and up share channel `n`.
    #[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct Channel {
        /// DIMMs on a channel.
        pub dimms: u32, in_range(1, SystemConfig::MAX_DIMMS);
        /// Bandwidth in GB/s, in either direction.
        pub bandwidth_gbps: f64, in_range(0.1, 1e5);
        /// Nanoseconds from the host's request to a DIMM's port, and from there to the host.
        pub latency_ns: f64, in_range(0.0, 1e6);
        /// Nanoseconds that a channel is idle between reads and writes.
        pub turnaround_ns: f64, in_range(0.0, 1e6);
    }
}

impl Default for Channel {
    fn default() -> Self {
        Self { dimms: 2, bandwidth_gbps: 25.6, latency_ns: 40.0, turnaround_ns: 20.0 }
    }
}

checked! {
    "host.", host:
    /// The host's processor and its memory.
    #[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    pub struct Host {
        /// Cores that share a block's neurons when they predict.
        pub cores: u32, in_range(1, 1024);
        /// Picoseconds of one core for each neuron of a block: to predict it and to learn whether it was active.
        pub predictor_ps_per_neuron: u32, in_range(1, 1000000);
        /// Memory in GB, NDP-DIMMs not counted.
        pub memory_gb: f64, in_range(0.0, 1e6);
        /// Bandwidth of that memory in GB/s.
        pub bandwidth_gbps: f64, in_range(0.1, 1e6);
        /// Floating-point throughput of all cores in TFLOP/s.
        pub tflops: f64, in_range(0.001, 1e6);
    }
}

impl Default for Host {
    fn default() -> Self {
        Self { cores: 1, predictor_ps_per_neuron: 217, memory_gb: 192.0, bandwidth_gbps: 89.6, tflops: 1.38 }
    }
}

checked! {
    "dimms.", dimms:
    /// The NDP-DIMMs. A file without them describes a system that has none.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct Dimms {
        /// Number of DIMMs; 0 only in a system without any.
        pub count: u32, in_range(1, SystemConfig::MAX_DIMMS);
        /// Capacity of each in GB.
        pub capacity_gb: f64, in_range(1e-9, 1e5);
        /// Bandwidth of each DIMM towards its own core in GB/s: all ranks together, refresh not counted.
        pub bandwidth_gbps: f64, in_range(1.0, 1e5);
        /// Payload of a DIMM-link in GB/s and direction.
        pub link_gbps: f64, in_range(0.1, 1e5);
    }
}

checked! {
    "price.", price:
    /// Prices of the devices.
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct Price {
        /// A GPU, in US dollars.
        pub gpu_usd: f64, in_range(0.0, 1e7);
        /// Processor, board, memory that is not NDP-DIMMs, case and supply, in US dollars.
        pub host_usd: f64, in_range(0.0, 1e7);
        /// An NDP-DIMM, in US dollars.
        pub dimm_usd: f64, in_range(0.0, 1e7);
        /// Source and date of the prices.
        pub source: String;
    }
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
    channel: Channel,
    host: Host,
    dimms: Dimms,
    price: Option<Price>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ssd: Option<Ssd>,
}

// Hermes' system, with the other GPUs of its Fig. 15, and one for a model that a GPU computes faster than a
// synchronisation; systems without NDP-DIMMs: PowerInfer's section 8.1 and Fig. 18, the five A100 of Hermes' Fig. 17,
// and the M1 Max of "LLM in a flash".
presets!(
    SystemConfig,
    "system",
    "hermes" => "../presets/systems/hermes.toml",
    "hermes-3090" => "../presets/systems/hermes-3090.toml",
    "hermes-t4" => "../presets/systems/hermes-t4.toml",
    "small" => "../presets/systems/small.toml",
    "pc-high" => "../presets/systems/pc-high.toml",
    "pc-low" => "../presets/systems/pc-low.toml",
    "a100x5" => "../presets/systems/a100x5.toml",
    "a100-80gb" => "../presets/systems/a100-80gb.toml",
    "m1-max" => "../presets/systems/m1-max.toml",
);

getters!(SystemConfig {
    /// Name of the system.
    name: &str,
    /// The GPU.
    gpu: &Gpu,
    /// The bus to the GPU.
    bus: &Bus,
    /// The host's memory channels.
    channel: &Channel,
    /// The host's processor and memory.
    host: &Host,
    /// The DIMMs.
    dimms: &Dimms,
});

impl SystemConfig {
    /// Most DIMMs that a system may have.
    pub const MAX_DIMMS: u32 = 64;

    /// Parses and validates a system in TOML; unknown keys are errors.
    pub fn from_toml(text: &str) -> Result<Self> {
        let RawSystem { name, gpu, bus, channel, host, dimms, price, ssd } = parse(text)?;
        name_is(NameRule::Title, "name", &name)?;
        ssd.iter().try_for_each(Ssd::validate)?;
        gpu.check_keys()?;
        bus.check_keys()?;
        channel.check_keys()?;
        host.check_keys()?;
        dimms.iter().try_for_each(Dimms::check_keys)?;
        let dimms = dimms.unwrap_or_default();
        if let Some(price) = &price {
            price.check_keys()?;
            ensure!(
                !price.source.trim().is_empty(),
                "not a valid configuration: price.source must say where the prices are from"
            );
        }
        Ok(Self { name, gpu, bus, channel, host, dimms, price, ssd })
    }

    /// Fails without NDP-DIMMs.
    pub fn having_dimms(self) -> Result<Self> {
        if self.dimms.count == 0 {
            Err(refusal!(
                "the system '{}' has no DIMMs; another one is needed, such as hermes or small",
                self.name
            ))
        } else {
            Ok(self)
        }
    }

    /// Changes the number of DIMMs; an error for 0 or more than [`SystemConfig::MAX_DIMMS`].
    pub fn with_dimms(mut self, count: u32) -> Result<Self> {
        in_range("dimms.count", count, 1, Self::MAX_DIMMS)?;
        self.dimms.count = count;
        Ok(self)
    }

    /// Changes the SSD.
    #[must_use]
    pub fn with_ssd(self, ssd: Ssd) -> Self {
        Self { ssd: Some(ssd), ..self }
    }

    /// Changes the GPU; an error for a value out of its range.
    pub fn with_gpu(mut self, gpu: Gpu) -> Result<Self> {
        gpu.check_keys()?;
        self.gpu = gpu;
        Ok(self)
    }

    /// Changes a synchronisation's microseconds; an error for negative times, or more than a second.
    pub fn with_sync_us(mut self, us: f64) -> Result<Self> {
        in_range("bus.sync_us", us, 0.0, 1e6)?;
        self.bus.sync_us = us;
        Ok(self)
    }

    /// Changes the bus's bandwidth in GB/s.
    pub fn with_bus_gbps(mut self, gbps: f64) -> Result<Self> {
        in_range("bus.bandwidth_gbps", gbps, 0.1, 1e5)?;
        self.bus.bandwidth_gbps = gbps;
        Ok(self)
    }

    /// Enlarges each DIMM.
    #[must_use]
    pub fn with_more_dimm_bytes(mut self, bytes: u64) -> Self {
        self.dimms.capacity_gb += bytes as f64 / GB;
        self
    }

    /// Gives the GPU room for all of a model except its neurons, and for `percent` of these, at most 100.
    pub fn with_gpu_percent(mut self, model: &LlmShape, percent: u32) -> Result<Self> {
        in_range("gpu_percent", percent, 0, 100)?;
        let neurons = model.neurons_bytes() as f64 * f64::from(percent) / 100.0;
        self.gpu.memory_gb = self.gpu.workspace_gb + (model.resident_bytes() as f64 + neurons) / GB;
        Ok(self)
    }

    /// Price of the whole system, if its file has it.
    pub fn usd(&self) -> Option<f64> {
        let Price { gpu_usd, host_usd, dimm_usd, .. } = self.price.as_ref()?;
        Some(f64::from(self.gpu.count) * gpu_usd + host_usd + f64::from(self.dimms.count) * dimm_usd)
    }

    /// Prices of the devices, if the file has them.
    pub fn price(&self) -> Option<&Price> {
        self.price.as_ref()
    }

    /// Picoseconds of the predictor's step for a block of neurons, evenly divided among the host's cores.
    pub fn predictor_ps(&self, neurons: usize) -> u64 {
        let Host { cores, predictor_ps_per_neuron, .. } = self.host;
        (neurons as u64 * u64::from(predictor_ps_per_neuron)).div_ceil(cores.into())
    }

    /// Nanoseconds of FP16 weights times `batch` vectors on the GPU: one read, and two FLOPs per weight and vector.
    /// Several GPUs share evenly. Synchronisations are extra (Hermes, eq. 3 and 4).
    pub fn gpu_ns(&self, bytes: u64, batch: usize) -> f64 {
        let Gpu { count, bandwidth_gbps, bandwidth_efficiency, tflops, compute_efficiency, .. } = self.gpu;
        let bytes = bytes as f64 / f64::from(count);
        let memory = bytes / (bandwidth_gbps * bandwidth_efficiency);
        memory.max(bytes * batch as f64 / (tflops * 1e3 * compute_efficiency))
    }

    /// The SSD below the DIMMs, if any.
    pub fn ssd(&self) -> Option<&Ssd> {
        self.ssd.as_ref()
    }

    /// For weights on all GPUs: memory without workspace.
    pub fn gpu_weight_bytes(&self) -> u64 {
        (f64::from(self.gpu.count) * (self.gpu.memory_gb - self.gpu.workspace_gb) * GB).round() as u64
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
    fn a_gpu_is_as_large_as_asked_for_and_takes_the_longer_one_of_two_times() {
        let model = LlmShape::opt_like("small", 4, 192, 3, 768, 256).unwrap();
        let system = SystemConfig::preset("hermes").unwrap().with_gpu_percent(&model, 25).unwrap();
        assert_eq!(system.gpu_weight_bytes(), model.resident_bytes() + model.neurons_bytes() / 4);
        let error = system.with_gpu_percent(&model, 101).unwrap_err().to_string();
        assert!(error.contains("gpu_percent = 101 must be in 0..=100"), "{error}");
        let text = include_str!("../presets/systems/hermes.toml")
            .replace("bandwidth_efficiency = 1.0", "bandwidth_efficiency = 0.5")
            .replace("compute_efficiency = 1.0", "compute_efficiency = 0.25");
        let system = SystemConfig::from_toml(&text).unwrap();
        // 468 GB/s; 82.5 TFLOP/s at batch 177 and above.
        assert_eq!(system.gpu_ns(468_000, 1), 1_000.0);
        assert_eq!(system.gpu_ns(825_000, 1_000), 10_000.0);
        // Cores share a block evenly, rounded up.
        let eight = SystemConfig::from_toml(&text.replace("cores = 1 ", "cores = 8 ")).unwrap();
        assert_eq!([0, 1, 28_672].map(|neurons| system.predictor_ps(neurons)), [0, 217, 6_221_824]);
        assert_eq!([0, 1, 28_672].map(|neurons| eight.predictor_ps(neurons)), [0, 28, 777_728]);
    }

    #[test]
    fn files_without_channels_and_efficiencies_have_those_of_the_paper_s_system() {
        let text: String = include_str!("../presets/systems/hermes.toml")
            .lines()
            .filter(|line| {
                !["efficiency", "[channel]", "latency_ns", "turnaround_ns", "[host]", "cores", "predictor"]
                    .iter()
                    .any(|key| line.contains(key))
            })
            .filter(|line| {
                ![
                    "dimms = 2",
                    "bandwidth_gbps = 25.6",
                    "memory_gb = 192",
                    "bandwidth_gbps = 89.6",
                    "tflops = 1.38",
                ]
                .iter()
                .any(|key| line.starts_with(key))
            })
            .map(|line| format!("{line}\n"))
            .collect();
        assert_eq!(SystemConfig::from_toml(&text).unwrap(), SystemConfig::preset("hermes").unwrap());
    }

    #[test]
    fn systems_without_dimms_serve_where_none_are_needed() {
        let pc = SystemConfig::preset("pc-high").unwrap();
        assert_eq!((pc.dimms().count, pc.usd()), (0, Some(3199.0)));
        let error = pc.having_dimms().unwrap_err().to_string();
        assert!(error.contains("the system 'pc-high' has no DIMMs"), "{error}");
        let hermes = SystemConfig::preset("hermes").unwrap().having_dimms().unwrap();
        assert_eq!(hermes.usd(), Some(2495.0), "the paper: about $2,500");
        assert_eq!(SystemConfig::preset("a100x5").unwrap().usd(), Some(50_000.0));
    }

    #[test]
    fn a_system_may_have_an_ssd() {
        let system = SystemConfig::preset("hermes").unwrap();
        assert_eq!(system.ssd(), None);
        let ssd = Ssd::preset("flash-m1").unwrap();
        let text = include_str!("../presets/systems/hermes.toml");
        let own = include_str!("../presets/ssds/flash-m1.toml");
        let same = SystemConfig::from_toml(&format!("{text}\n[ssd]\n{own}")).unwrap();
        assert_eq!(same, system.clone().with_ssd(ssd));
        assert_eq!(system.with_more_dimm_bytes(500_000_000).dimm_bytes(), 32_500_000_000);
        let error =
            SystemConfig::from_toml(&format!("{text}\n[ssd]\n{}", own.replace("32 ", "0 "))).unwrap_err();
        assert!(error.to_string().contains("ssd.threads = 0"), "{error}");
    }

    #[test]
    fn values_that_no_machine_has_are_refused_by_name() {
        let text = include_str!("../presets/systems/hermes.toml");
        for (from, to, named) in [
            ("count = 8", "count = 0", "dimms.count = 0"),
            ("sync_us = 10.0", "sync_us = -1.0", "bus.sync_us = -1"),
            ("sync_us = 10.0", "sync_us = nan", "bus.sync_us = NaN"),
            ("workspace_gb = 0.5", "workspace_gb = 25.0", "gpu.workspace_gb = 25"),
            ("bandwidth_efficiency = 1.0", "bandwidth_efficiency = 1.1", "gpu.bandwidth_efficiency = 1.1"),
            ("turnaround_ns = 20.0", "turnaround_ns = -1.0", "channel.turnaround_ns = -1"),
            ("cores = 1 ", "cores = 0 ", "host.cores = 0 must be in 1..=1024"),
            ("cores = 1 ", "cores = 1025 ", "host.cores = 1025 must be in 1..=1024"),
            ("cores = 1 ", "cores = -1 ", "invalid value: integer `-1`, expected u32"),
            ("per_neuron = 217", "per_neuron = 0", "host.predictor_ps_per_neuron = 0 must be in 1..=1000000"),
            ("per_neuron = 217", "per_neuron = 1_000_001", "host.predictor_ps_per_neuron = 1000001"),
            ("per_neuron = 217", "per_neuron = -1", "predictor_ps_per_neuron = -1"),
            ("per_neuron = 217", "per_neuron = nan", "predictor_ps_per_neuron = nan"),
            ("predictor_ps_per", "predictor_ns_per", "predictor_ns_per_neuron"),
            ("link_gbps", "link_gbit", "link_gbit"),
            ("dimm_usd = 112.0", "dimm_usd = -1.0", "price.dimm_usd = -1"),
            ("source = \"RTX", "source = \" \" #", "price.source"),
        ] {
            assert!(text.contains(from), "{from}");
            let error = SystemConfig::from_toml(&text.replace(from, to)).unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
        assert!(SystemConfig::preset("hermes").unwrap().with_dimms(65).is_err());
    }
}
