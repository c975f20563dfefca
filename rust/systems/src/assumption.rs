//! Numbers that the papers do not state: with a name, a unit, a range and a neutral value.
//!
//! A set gives values to some of them, with reasons. `stated` gives none: every device reaches its peak, and nothing
//! waits. The sets `hermes`, `powerinfer` and `flash` have one value for all figures of a paper.

use ndp_config::{NameRule, SystemConfig};
use ndp_files::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Assumption {
    /// In the unit of its key.
    pub value: f64,
    pub reason: String,
}

/// Variant, key in files, neutral value, range, unit, meaning.
macro_rules! keys {
    ($($(#[doc = $doc:literal])+ $key:ident $name:literal = $stated:literal in $low:literal, $high:literal $unit:literal;)+) => {
        ndp_config::named! {
            #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
            pub enum Key {
                $($(#[doc = $doc])+ #[serde(rename = $name)] $key = $name,)+
            }
        }

        impl Key {
            pub fn stated(self) -> f64 {
                match self { $(Self::$key => $stated,)+ }
            }

            /// Accepted range.
            pub fn range(self) -> [f64; 2] {
                match self { $(Self::$key => [$low, $high],)+ }
            }

            /// Whether it is on (1) or off (0).
            pub fn is_switch(self) -> bool {
                matches!(self, Self::SkipPairs | Self::Contiguous)
            }

            pub fn unit(self) -> &'static str {
                match self { $(Self::$key => $unit,)+ }
            }

            pub fn meaning(self) -> &'static str {
                match self { $(Self::$key => concat!($($doc),+),)+ }
            }
        }
    };
}

keys! {
    /// Share of the GPU's memory bandwidth that a product with few vectors reaches.
    GpuBandwidth "gpu_bandwidth" = 1.0 in 0.05, 1.0 "of the peak";
    /// Share of the GPU's tensor throughput that prefill reaches.
    GpuCompute "gpu_compute" = 1.0 in 0.01, 1.0 "of the peak";
    /// Part of the GPU's memory that holds no weights.
    GpuReserve "gpu_reserve" = 0.0 in 0.0, 12.0 "GB";
    /// Share of the bus that a stream of weights reaches.
    BusStream "bus_stream" = 1.0 in 0.01, 1.0 "of the peak";
    /// Share of the bus that FlexGen's stream of weights reaches.
    BusFlexGen "bus_flexgen" = 1.0 in 0.01, 1.0 "of the peak";
    /// Share of the bus that Deja Vu reaches, which gathers active neurons.
    BusGather "bus_gather" = 1.0 in 0.01, 1.0 "of the peak";
    /// Share of the bus that Accelerate reaches with OPT models.
    BusAccelerateOpt "bus_accelerate_opt" = 1.0 in 0.01, 1.0 "of the peak";
    /// Share of the bus that Accelerate reaches with LLaMA and Falcon models.
    BusAccelerate "bus_accelerate" = 1.0 in 0.01, 1.0 "of the peak";
    /// Share of the host's memory bandwidth that its processor reaches with listed neurons.
    HostBandwidth "host_bandwidth" = 1.0 in 0.05, 1.0 "of the peak";
    /// Share of the host's arithmetic throughput that a product with many vectors reaches.
    HostCompute "host_compute" = 1.0 in 0.01, 1.0 "of the peak";
    /// Time that the host's software adds to each layer if its processor computes neurons.
    HostLayer "host_layer" = 0.0 in 0.0, 5000.0 "us";
    /// One synchronisation of GPU and host or DIMMs; a block takes two.
    Sync "sync" = 0.0 in 0.0, 500.0 "us";
    /// Time that launches and the host's software add to each layer of Hermes.
    HermesLayer "hermes_layer" = 0.0 in 0.0, 5000.0 "us";
    /// Work of the most loaded DIMM over the mean.
    Imbalance "imbalance" = 1.0 in 1.0, 4.0 "";
    /// Whether a DIMM skips a listed row for the vectors of a batch that do not need it (1); the core as built computes all of them (0).
    SkipPairs "skip_pairs" = 0.0 in 0.0, 1.0 "";
    /// Rate of Hermes-base's DIMMs over that of the same products in the cycle model.
    BaseDimm "base_dimm" = 1.0 in 0.05, 1.0 "";
    /// Active share of the MLP neurons of OPT models.
    MlpActiveOpt "mlp_active_opt" = 0.1 in 0.01, 1.0 "of the neurons";
    /// Active share of the MLP neurons of LLaMA and Falcon models with ReLU.
    MlpActive "mlp_active" = 0.3 in 0.01, 1.0 "of the neurons";
    /// Active share of the inputs of Q, K and V of OPT models.
    QkvActiveOpt "qkv_active_opt" = 0.3 in 0.01, 1.0 "of the neurons";
    /// Active share of the inputs of Q, K and V of LLaMA and Falcon models.
    QkvActive "qkv_active" = 0.3 in 0.01, 1.0 "of the neurons";
    /// Share of the neurons that is hot, if the GPU has room for it.
    HotShare "hot_share" = 0.2 in 0.01, 1.0 "of the neurons";
    /// Share of the activations that this share of the neurons has.
    HotWork "hot_work" = 0.8 in 0.05, 1.0 "of the activations";
    /// Neighbouring neurons that a text favours together.
    Cluster "cluster" = 1.0 in 1.0, 8192.0 "neurons";
    /// Neurons that have 80 % of the activations, over those of the papers' statistics: below 1 a trace is more skewed.
    Skew "skew" = 1.0 in 0.3, 1.5 "";
    /// Whether each DIMM begins with a piece of every block (1) or with what the placement gives it (0).
    Contiguous "contiguous" = 0.0 in 0.0, 1.0 "";
    /// Share of the memory bandwidth of all GPUs that TensorRT-LLM reaches with tensor parallelism.
    TensorParallel "tensor_parallel" = 1.0 in 0.05, 1.0 "of the peak";
    /// Throughput of an RTX 3090 with hot neurons over what its data sheet gives.
    Gpu3090 "gpu_3090" = 1.0 in 0.1, 1.0 "";
    /// Bytes of Deja Vu's predictors over those of the model: 2 GB for LLaMA-7B (Hermes, section III-B).
    DejaVuPredictor "deja_vu_predictor" = 0.148 in 0.0, 0.5 "of the weights";
    /// Share of the host's memory bandwidth that its processor reaches with whole matrices.
    HostDense "host_dense" = 1.0 in 0.01, 1.0 "of the peak";
    /// Share of the host's memory bandwidth that its processor reaches with listed neurons of quantised weights.
    HostQuantised "host_quantised" = 1.0 in 0.05, 1.0 "of the peak";
    /// Share of the attention heads that a token needs: "nearly half" contribute little (PowerInfer, section 2.1).
    HeadsActive "heads_active" = 0.5 in 0.05, 1.0 "of the heads";
    /// Share of the inactive neurons that PowerInfer's predictors take to be active.
    FalsePositives "false_positives" = 0.0 in 0.0, 0.2 "of the inactive neurons";
    /// Parameters of PowerInfer's predictors over those of a model that its Table 6 does not have (section 5.1).
    Predictor "predictor" = 0.06 in 0.0, 0.3 "of the weights";
    /// Share of the neurons on PowerInfer's GPU that are not the most frequent ones of the text at hand, but any (Fig. 5b: less than 10 %).
    ProfileShift "profile_shift" = 0.1 in 0.0, 1.0 "of the neurons";
    /// Time that launches of sparse operators and predictors add to each layer of PowerInfer.
    GpuLayer "gpu_layer" = 0.0 in 0.0, 5000.0 "us";
    /// Tokens that SpecInfer gains from each pass over the model.
    VerifiedTokens "verified_tokens" = 1.0 in 1.0, 16.0 "tokens";
    /// Time of reading chunks from flash over what the SSD's latency and streams give; its bandwidth is a limit of its own.
    SsdChunks "ssd_chunks" = 0.0 in 0.0, 4.0 "";
    /// Rate at which rows that were read from flash are copied within memory, deletions included: 400 GB/s of an M1 Max, each byte read and written.
    NeuronCopy "neuron_copy" = 200.0 in 0.5, 500.0 "GB/s";
    /// Share of their peak that the NPU's arrays reach with full tiles.
    NpuCompute "npu_compute" = 1.0 in 0.1, 1.0 "of the peak";
    /// Rows of weights that an array of the NPU loads in a clock.
    NpuLoad "npu_load" = 1.0 in 1.0, 64.0 "rows/clock";
    /// Rate at which the NPU reads the HBM: 64 channels with a column of 32 bytes each tCCD_S = 2 clocks of the memory's description. The paper's simulator has
    /// tCCD_S = 1, which would be 2.048.
    PimBuses "pim_buses" = 1.024 in 0.256, 2.048 "TB/s";
    /// PIM commands that NPU+AiM and AttAcc issue to all channels together; 64 if each channel has a stream of its own.
    PimIssue "pim_issue" = 64.0 in 0.25, 64.0 "commands/ns";
    /// Rate at which AttAcc's banks multiply the weights of co-processed FFNs.
    AttAccFfn "attacc_ffn" = 1.0 in 0.01, 1.0 "of the peak";
    /// Share of the reads that NeuPIMs does while its banks compute.
    NeuPimsOverlap "neupims_overlap" = 1.0 in 0.0, 1.0 "of the reads";
    /// Least part of a step that FFNs have to take off to move to LibraPIM's banks: algorithm 1 moves them for any gain.
    FfnGain "ffn_gain" = 0.0 in 0.0, 0.01 "of the step";
}

/// A named set of assumptions.
///
/// ```
/// use ndp_systems::{Assumptions, Key};
/// let set = Assumptions::from_toml("name = 'own'\n[sync]\nvalue = 4.0\nreason = 'measured'").unwrap();
/// assert_eq!((set.get(Key::Sync), set.get(Key::GpuBandwidth)), (4.0, 1.0));
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Assumptions {
    pub name: String,
    /// In a file: the set that has the missing keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    base: Option<String>,
    #[serde(flatten)]
    values: BTreeMap<String, Assumption>,
}

ndp_config::presets!(
    Assumptions,
    "set of assumptions",
    "stated" => "../presets/stated.toml",
    "hermes" => "../presets/hermes.toml",
    "powerinfer" => "../presets/powerinfer.toml",
    "flash" => "../presets/flash.toml",
    "librapim" => "../presets/librapim.toml",
    "librapim-published" => "../presets/librapim-published.toml",
);

impl Assumptions {
    /// Fails for unknown keys, missing reasons, and values outside their range.
    pub fn from_toml(text: &str) -> Result<Self> {
        let set: Self = ndp_config::parse(text)?;
        ndp_config::name_is(NameRule::Title, "name", &set.name)?;
        for (name, Assumption { value, reason }) in &set.values {
            let Some(key) = Key::named(name) else {
                return Err(ndp_config::unknown_preset("assumption", name, &Key::ALL.map(Key::name)));
            };
            let [min, max] = key.range();
            ensure!((min..=max).contains(value), "{} = {value} must be in {min}..={max}", key.name());
            ensure!(!reason.trim().is_empty(), "not a valid configuration: {name} must have a reason");
        }
        Ok(set)
    }

    /// A preset or file. Keys that a file leaves out come from its `base`, else from `default`. Fails as
    /// [`Assumptions::load`], and for an unknown `base`.
    pub fn chosen(preset_or_path: &str, default: &str) -> Result<Self> {
        let mut own = Self::load(preset_or_path)?;
        if preset_or_path.ends_with(".toml") {
            let below = Self::preset(own.base.as_deref().unwrap_or(default))
                .with_context(|| format!("in '{preset_or_path}'"))?;
            let values = std::mem::take(&mut own.values);
            own.name = format!("{} over {}", own.name, below.name);
            own.base = Some(below.name);
            own.values = below.values;
            own.values.extend(values);
        }
        Ok(own)
    }

    /// The set's value of a key, or the stated one.
    pub fn get(&self, key: Key) -> f64 {
        self.values.get(key.name()).map_or_else(|| key.stated(), |assumption| assumption.value)
    }

    /// A system whose GPU and synchronisations have the set's values, for a machine that takes both from its system.
    /// The other values are about devices that such a machine models, or about systems that it does not run.
    pub fn on(&self, system: &SystemConfig) -> Result<SystemConfig> {
        let mut gpu = *system.gpu();
        gpu.bandwidth_efficiency *= self.get(Key::GpuBandwidth);
        gpu.compute_efficiency *= self.get(Key::GpuCompute);
        gpu.workspace_gb = (gpu.workspace_gb + self.get(Key::GpuReserve)).min(gpu.memory_gb);
        if system.name() == "hermes-3090" {
            gpu.bandwidth_efficiency *= self.get(Key::Gpu3090);
        }
        let system = system.clone().with_gpu(gpu)?;
        if self.names(Key::Sync) { system.with_sync_us(self.get(Key::Sync)) } else { Ok(system) }
    }

    pub fn names(&self, key: Key) -> bool {
        self.values.contains_key(key.name())
    }

    /// Reason of a key's value, if the set has it.
    pub fn reason(&self, key: Key) -> Option<&str> {
        self.values.get(key.name()).map(|assumption| assumption.reason.as_str())
    }

    /// Keys that the set has, with their values and reasons.
    pub fn assumed(&self) -> impl Iterator<Item = (Key, &Assumption)> {
        self.values.iter().filter_map(|(name, assumption)| Some((Key::named(name)?, assumption)))
    }

    /// Changes one value, for sensitivity studies.
    #[must_use]
    pub fn with(&self, key: Key, value: f64) -> Self {
        let mut set = self.clone();
        set.values.insert(key.name().to_owned(), Assumption { value, reason: "varied".to_owned() });
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_is_valid_and_stated_assumes_nothing() {
        for name in Assumptions::PRESETS {
            assert_eq!(Assumptions::preset(name).unwrap().name, name);
        }
        let stated = Assumptions::preset("stated").unwrap();
        for key in Key::ALL {
            let [low, high] = key.range();
            assert!(!stated.names(key) && (low..=high).contains(&key.stated()), "{}", key.name());
        }
    }

    #[test]
    fn a_file_lies_over_the_set_that_it_names_or_the_default() {
        let path = std::env::temp_dir().join(format!("ndp-assumed-{}.toml", std::process::id()));
        let file = path.to_str().unwrap();
        let sync = "[sync]\nvalue = 4.0\nreason = 'measured'\n";
        let hermes = Assumptions::preset("hermes").unwrap();
        let flash = Assumptions::preset("flash").unwrap();
        for (base, below, name) in
            [("", &hermes, "own over hermes"), ("base = 'flash'\n", &flash, "own over flash")]
        {
            std::fs::write(&path, format!("name = 'own'\n{base}{sync}")).unwrap();
            let set = Assumptions::chosen(file, "hermes").unwrap();
            assert_eq!((set.get(Key::Sync), set.name.as_str()), (4.0, name));
            for key in Key::ALL.into_iter().filter(|key| *key != Key::Sync) {
                assert_eq!(set.get(key), below.get(key), "{}", key.name());
            }
        }
        std::fs::write(&path, format!("name = 'own'\nbase = 'stated'\n{sync}")).unwrap();
        let set = Assumptions::chosen(file, "hermes").unwrap();
        assert!(Key::ALL.into_iter().all(|key| key == Key::Sync || set.get(key) == key.stated()));
        std::fs::write(&path, format!("name = 'own'\nbase = 'hermse'\n{sync}")).unwrap();
        let error = format!("{:#}", Assumptions::chosen(file, "hermes").unwrap_err());
        assert!(error.contains(file) && error.contains("did you mean 'hermes'?"), "{error}");
        std::fs::remove_file(path).unwrap();
        assert_eq!(Assumptions::chosen("stated", "hermes").unwrap(), Assumptions::preset("stated").unwrap());
    }

    #[test]
    fn what_no_set_has_is_refused_by_name() {
        let refused = |text: &str| Assumptions::from_toml(text).unwrap_err().to_string();
        assert!(refused("name = 'x'\n[snyc]\nvalue = 1.0\nreason = 'r'").contains("did you mean 'sync'?"));
        assert!(
            refused("name = 'x'\n[sync]\nvalue = -1.0\nreason = 'r'")
                .contains("sync = -1 must be in 0..=500")
        );
        assert!(refused(r#"name = "x\u001b""#).contains(r#"name = "x\u001b" must start with"#));
        assert!(refused("name = 'x'\n[sync]\nvalue = nan\nreason = 'r'").contains("sync = NaN"));
        assert!(refused("name = 'x'\n[sync]\nvalue = 1.0\nreason = ' '").contains("sync must have a reason"));
        assert!(refused("name = 'x'\n[sync]\nvalue = 1.0").contains("reason"));
    }
}
