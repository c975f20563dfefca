//! The serving machines, from their options.

use crate::offload::memory_times;
use crate::prelude::*;
use clap::ValueEnum;
use ndp_dram::hbm::PseudoChannel;
use ndp_energy::{HbmConstants, NpuConstants};
use ndp_librapim::host::{Arrangement, Extent, Offloading, Sizes, boxed, groups_of};
use ndp_librapim::offloading::{DeviceTimes, Hardware, Mode, Model, Rule, StepCosts};
use ndp_systems::serving::librapim::kv_memory;
use ndp_systems::serving::{KvMemory, LibraPimSteps, Parallel, TimingOnlySteps};
use serde::Serialize;

/// Serving machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// An NPU with HBM-PIM (LibraPIM and its baselines)
    Librapim,
    /// A GPU, a host and NDP-DIMMs (Hermes and its baselines)
    Hermes,
}

/// Options of an NPU with HBM-PIM.
#[derive(clap::Args, Debug)]
pub struct LibraPimArgs {
    /// NPU and how the host uses the memory: preset (librapim, librapim-published, librapim-small-npu) or path of a
    /// TOML file
    #[arg(long, value_name = "PRESET|FILE.toml", default_value = "librapim")]
    pub hardware: String,
    /// Memory of a chip: preset (librapim, ...) or path of a TOML file
    #[arg(long, value_name = "PRESET|FILE.toml", default_value = "librapim")]
    memory: String,
    /// Use formulas instead of exact times, for work in HBM-PIM (docs/offloading.md), and for hermes and hermes-base
    /// (docs/papers.md)
    #[arg(long, help_heading = "Options")]
    pub formula: bool,
    /// Run each iteration clock by clock, without data, on the device model of one channel that represents all
    /// channels, like the host of `ndp generate pim`
    #[arg(long, conflicts_with_all = ["formula", "tp", "pp"])]
    pub clocked: bool,
    /// Plan of a step in the modes dbo and dex+dbo
    #[arg(long, value_enum, default_value = "shortest")]
    rule: Rule,
    /// Number of chips that share each layer (tensor parallelism)
    #[arg(long, value_name = "N", default_value_t = 1)]
    tp: u32,
    /// Number of pipeline stages, each with a part of the layers (pipeline parallelism)
    #[arg(long, value_name = "N", default_value_t = 1)]
    pp: u32,
    /// Bandwidth of a chip's link in GB/s, each way (assumed)
    #[arg(long, value_name = "GB/S", default_value_t = Parallel::default().link_gbps)]
    link_gbps: f64,
    /// Latency from chip to chip in nanoseconds (assumed)
    #[arg(long, value_name = "NS", default_value_t = Parallel::default().link_ns)]
    link_ns: f64,
    /// Energy constants of the memory: hbm2-8gb or a path ending in .toml
    #[arg(long, value_name = "PRESET|FILE.toml", default_value = "hbm2-8gb")]
    energy_memory: String,
    /// Energy constants of the NPU: npu-65tflops or a path ending in .toml
    #[arg(long, value_name = "PRESET|FILE.toml", default_value = "npu-65tflops")]
    energy_npu: String,
}

/// Chips with their times, for all modes.
pub struct Chips {
    pub model: Model,
    pub part: Model,
    pub parallel: Parallel,
    pub hardware: Hardware,
    pub memory: HbmConfig,
    pub rule: Rule,
    /// Times for ordinary and for sliced banks.
    pub times: [Box<dyn DeviceTimes>; 2],
    energy: (HbmConstants, NpuConstants),
}

impl LibraPimArgs {
    pub fn files(&self, files: FileSet) -> FileSet {
        files
            .configuration("the hardware", &self.hardware)
            .configuration("the memory", &self.memory)
            .configuration("the memory's energy", &self.energy_memory)
            .configuration("the NPU's energy", &self.energy_npu)
    }

    pub fn is_single(&self) -> bool {
        (self.tp, self.pp) == (1, 1)
    }

    pub fn is_measured(&self) -> bool {
        !(self.formula || self.clocked)
    }

    /// Computes times for contexts up to each of `contexts`. Before, checks that weights and `kv`, bytes for keys and
    /// values, fit, unless they may exceed the memory.
    pub fn chips(
        &self,
        shape: &LlmShape,
        kv: Option<(Option<u64>, bool)>,
        contexts: Vec<u32>,
    ) -> Result<(Chips, KvMemory)> {
        let parallel = self.parallel();
        parallel.part(&Model::of(shape))?;
        let kv = match kv {
            Some((given, beyond)) => {
                let memory = self.memory()?;
                kv_memory(shape, &parallel, memory.bytes(), given, beyond).map_err(|error| {
                    refusal!(
                        "{error}; use more chips (--tp, --pp), another --memory, or --beyond-capacity with --kv-gb"
                    )
                })?
            }
            None => KvMemory { bytes: 0, bytes_per_token: shape.kv_bytes_per_token() },
        };
        Ok((self.of_model(Model::of(shape), contexts)?, kv))
    }

    fn parallel(&self) -> Parallel {
        let Self { tp, pp, link_gbps, link_ns, .. } = *self;
        Parallel { tp, pp, link_gbps, link_ns }
    }

    pub fn memory(&self) -> Result<HbmConfig> {
        HbmConfig::load(&self.memory).context("--memory")
    }

    pub fn of_model(&self, model: Model, contexts: Vec<u32>) -> Result<Chips> {
        let memory = self.memory()?;
        let hardware = Hardware::load(&self.hardware).context("--hardware")?.on(&memory);
        let energy = (
            HbmConstants::load(&self.energy_memory).context("--energy-memory")?,
            NpuConstants::load(&self.energy_npu).context("--energy-npu")?,
        );
        let (parallel, rule) = (self.parallel(), self.rule);
        let part = parallel.part(&model)?;
        let measured = self.is_measured().then_some(&contexts);
        let times = memory_times(&part, (&hardware, &self.hardware), &memory, measured)?;
        Ok(Chips { model, part, parallel, hardware, memory, rule, times, energy })
    }
}

impl Chips {
    pub fn costs(&self, model: &Model) -> StepCosts {
        StepCosts::new(model, &self.hardware, &self.energy.0, &self.energy.1)
    }

    /// A chip that runs requests without data in a mode, with `sizes` of one channel or of all. With `is_loaded`, the
    /// weights are already written.
    pub fn clocked<'s>(
        &self,
        mode: Mode,
        sizes: &'s Sizes,
        requests: (&[Extent], bool),
        kv_bytes: Option<u64>,
    ) -> Result<TimingOnlySteps<'s>> {
        let channels = self.memory.channels() / sizes.channels();
        let memory = self.memory(mode).with_channels(channels)?;
        let pins = boxed(PseudoChannel::all(&memory)?);
        let (devices, arrangement) = ((&memory, &self.hardware), self.arrangement(mode)?);
        TimingOnlySteps::new(sizes, devices, &arrangement, requests, (pins, kv_bytes))
    }

    pub fn memory(&self, mode: Mode) -> HbmConfig {
        if mode.sliced() { self.memory.clone() } else { self.memory.clone().unsliced() }
    }

    /// The arrangement with which the host of `ndp generate pim` runs a mode.
    pub fn arrangement(&self, mode: Mode) -> Result<Arrangement> {
        let offloading = if mode.offloads() { Offloading::Live(self.rule) } else { Offloading::None };
        Ok(Arrangement { groups: groups_of(mode)?, offloading, record: 0..0 })
    }

    /// Chips with the whole model, or with some of its layers.
    pub fn serving(&self, model: &Model, mode: Mode, kv: KvMemory) -> Result<LibraPimSteps<'_>> {
        let [plain, sliced] = &self.times;
        let times = [plain.as_ref(), sliced.as_ref()];
        let costs = |part: &Model| self.costs(part);
        let (scale, rule) = ((self.parallel, kv), (mode, self.rule));
        LibraPimSteps::new(model, scale, &self.hardware, costs, times, rule)
    }
}

/// Contexts to measure for requests of up to `longest` tokens: multiples of 16, because a bank has every 16th key;
/// above 4096, multiples of a 16th of a power of two. Other contexts take as long as the next longer one.
pub fn measured_contexts(longest: u32) -> Result<Vec<u32>> {
    const MOST: u32 = 65_536;
    ensure!(
        longest <= MOST,
        "the longest request has {longest} tokens, and times are measured up to {MOST}; --formula has no such limit"
    );
    let mut contexts = Vec::new();
    let mut context = 0;
    while context < longest {
        context += if context < 4096 { 16 } else { 1 << (context.ilog2() - 4) };
        contexts.push(context);
    }
    Ok(contexts)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn contexts_are_multiples_of_16_and_reach_the_longest() {
        assert_eq!(measured_contexts(1).unwrap(), [16]);
        assert_eq!(measured_contexts(33).unwrap(), [16, 32, 48]);
        let all = measured_contexts(65_536).unwrap();
        assert_eq!(all.last(), Some(&65_536));
        assert!(all.windows(2).all(|pair| pair[1] > pair[0] && (pair[1] - pair[0]) * 16 <= pair[1].max(256)));
        assert!(all.iter().all(|context| context % 16 == 0));
        assert!(all.contains(&4080) && all.len() < 350, "{}", all.len());
        assert!(measured_contexts(65_537).unwrap_err().to_string().contains("65537 tokens"));
    }
}
