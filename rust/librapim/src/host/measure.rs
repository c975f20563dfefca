//! Times of work in memory, measured on a channel clock by clock, for models too large to generate texts with.
//!
//! **Attention**: one head of one request in one channel, refresh included: query in, MACs on keys, scores out,
//! probabilities in, MACs on values, results out. Heads of a channel follow one another, so a batch takes that time for
//! each head of the fullest channel, or softmax on the NPU if longer. `crate::offloading::pim` has a formula for the
//! head. Heads of Q that
//! share keys and values count one by one here, although the host opens rows once for all of them.
//!
//! **Matrices whose weights are broadcast**: two numbers of outputs in one channel, with 1 to 16 vectors. Interpolation
//! is linear in outputs and in vectors: each vector adds a SUM to each output.

use crate::host::attention::{HeadQuery, Progress, Query};
use crate::host::controller::{Controller, Returned};
use crate::host::memory::{CacheShape, Memory};
use crate::host::pins::Channel;
use crate::host::shared::{Product, channel_work};
use crate::offloading::npu::NpuTime;
use crate::offloading::timeline::Work;
use crate::offloading::work::Matrix;
use crate::offloading::{AnalyticTimes, DeviceTimes, Hardware, Model, Picos};
use ndp_config::{HbmCommandBuses, HbmCommandSet, HbmConfig};
use ndp_dram::hbm::PseudoChannel;
use ndp_files::{Result, bail, ensure};
use ndp_numerics::f16;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};

const PATIENCE: u64 = 10_000_000;

/// Clocks of one head of Q over `context` tokens, as the only work of a channel of the device model.
pub fn head_clocks(config: &HbmConfig, head_width: usize, context: usize) -> Result<u64> {
    group_clocks(config, (1, head_width), context)
}

/// [`head_clocks`] of `heads` heads of Q that share keys and values, and the opening of each row.
pub fn group_clocks(config: &HbmConfig, of: (usize, usize), context: usize) -> Result<u64> {
    clocks_on(config, Box::new(PseudoChannel::new(config)?), of, context)
}

/// [`head_clocks`] on any channel. Fails as [`Memory::new`] and [`Controller::step`], or without progress.
pub fn head_clocks_on(
    config: &HbmConfig,
    channel: Channel,
    head_width: usize,
    context: usize,
) -> Result<u64> {
    clocks_on(config, channel, (1, head_width), context)
}

fn clocks_on(
    config: &HbmConfig,
    channel: Channel,
    (heads, head_width): (usize, usize),
    context: usize,
) -> Result<u64> {
    let shape = CacheShape { sequences: 1, layers: 1, heads: 1, head_width, positions: context };
    let memory = Memory::new(config, shape, 0)?;
    let mut controller = Controller::new(config, 0, channel)?;
    let banks = config.banks() as usize;
    let query = Query { elements: vec![f16::ONE; head_width], at: 0 };
    let queries = vec![query; heads];
    let query = HeadQuery { head: 0, queries, first: 0, visible: context, score_cap: None };
    let mut progress = Progress::new(query);
    let start = controller.clock();
    let (operations, results) = progress.score_operations(&memory, config)?;
    let mut awaited = VecDeque::from(results);
    operations.into_iter().for_each(|operation| controller.operate(operation));
    let mut has_scores = false;
    loop {
        controller.step()?;
        while let Some(returned) = controller.take() {
            let Returned::Results(column) = returned else { continue };
            let Some(query) = awaited.pop_front() else { continue };
            if has_scores {
                if progress.take_result(query, &column, banks) {
                    return Ok(controller.clock() - start);
                }
            } else if progress.take_scores(query, &column, banks) {
                has_scores = true;
                let (operations, results) = progress.value_operations(&memory, config)?;
                awaited.extend(results);
                operations.into_iter().for_each(|operation| controller.operate(operation));
            }
        }
        if controller.clock() > start + PATIENCE {
            return Err(controller.stuck());
        }
    }
}

/// Clocks of one matrix broadcast to `vectors` vectors in an idle channel. The weights are zeros: time does not depend
/// on them.
///
/// # Errors
/// As [`Memory::add`], [`channel_work`] and [`Controller::step`]; no progress.
pub fn shared_clocks(config: &HbmConfig, matrix: Matrix, vectors: usize) -> Result<u64> {
    let shape = CacheShape { sequences: 1, layers: 1, heads: 1, head_width: 16, positions: 1 };
    let (rows, cols) = (matrix.outputs as usize, matrix.inputs as usize);
    let mut memory = Memory::new(config, shape, cols)?;
    memory.add("matrix", (rows, cols), &vec![f16::ZERO; rows * cols])?;
    let vectors = vec![vec![f16::ONE; cols]; vectors];
    let product = Product { label: "matrix".to_owned(), vectors, others: 0 };
    let work = channel_work(&product, &memory, config, 0)?;
    let mut controller = Controller::new(config, 0, Box::new(PseudoChannel::new(config)?))?;
    let start = controller.clock();
    let reads = work.reads.into_iter().map(|(access, _)| access);
    controller.multiply(work.inputs, reads, work.operations);
    while !controller.is_idle() {
        controller.step()?;
        while controller.take().is_some() {}
        if controller.clock() > start + PATIENCE {
            return Err(controller.stuck());
        }
    }
    Ok(controller.clock() - start)
}

/// Vectors of measured broadcasts.
const VECTORS: [u32; 6] = [1, 2, 4, 8, 12, 16];
/// Weights of the smaller number of outputs in a channel; the larger is [`SPREAD`] times as many. Enough for an average
/// rate of refreshes.
const WEIGHTS: u32 = 1 << 17;
const OUTPUTS: u32 = 8;
const SPREAD: u32 = 3;

/// Clocks of a broadcast in a channel: `fixed`, and `more` for each `outputs`.
#[derive(Clone, Copy, Debug)]
struct Broadcast {
    vectors: u32,
    outputs: u32,
    fixed: u64,
    more: u64,
}

impl Broadcast {
    /// Clocks for `outputs` in the channel, rounded up.
    fn clocks(self, outputs: u64) -> u64 {
        self.fixed + (self.more * outputs).div_ceil(self.outputs.into())
    }
}

/// Measures broadcasts of vectors of `inputs` elements, by number of vectors.
fn broadcasts(config: &HbmConfig, inputs: u32) -> Result<Vec<Broadcast>> {
    let alone = config.clone().with_channels(1)?;
    let mut all: Vec<Broadcast> = Vec::new();
    for vectors in VECTORS.into_iter().filter(|&vectors| vectors <= config.banks()) {
        let clocks = |outputs| shared_clocks(&alone, Matrix { inputs, outputs }, vectors as usize);
        let outputs = (WEIGHTS / inputs.max(1)).max(OUTPUTS);
        let [few, many] = [clocks(outputs)?, clocks(SPREAD * outputs)?];
        let mut more = many.saturating_sub(few) / u64::from(SPREAD - 1);
        let mut fixed = few.saturating_sub(more);
        // The balance needs times that do not fall with more vectors.
        if let Some(last) = all.last() {
            (fixed, more) = (fixed.max(last.fixed), more.max(last.more));
        }
        all.push(Broadcast { vectors, outputs, fixed, more });
    }
    Ok(all)
}

/// Computes the NPU's times, and measures attention and matrices in memory on a channel of the device model. AiM's
/// commands have no broadcast, so only attention is measured there.
#[derive(Clone)]
pub struct MeasuredMemory {
    model: Model,
    hardware: Hardware,
    computed: AnalyticTimes,
    heads: BTreeMap<u32, u64>,
    broadcasts: BTreeMap<u32, Vec<Broadcast>>,
}

impl MeasuredMemory {
    /// Measures at these contexts and reports the number of finished ones to `progress`. In between, the next longer
    /// context counts. Fails as [`head_clocks`] and [`shared_clocks`], without contexts, if channels share command
    /// buses, and for a memory that could broadcast but has no slicing.
    pub fn new(
        model: &Model,
        hardware: &Hardware,
        config: &HbmConfig,
        contexts: &[u32],
        mut progress: impl FnMut(usize),
    ) -> Result<Self> {
        // AiM has no RDG to broadcast with.
        let shares = config.command_set() == HbmCommandSet::LibraPim;
        let memory = config.name().to_owned();
        ensure!(
            config.command_buses() != HbmCommandBuses::Shared,
            "times are measured in one channel, and those of '{memory}' share command buses"
        );
        if shares && !config.slicing() {
            bail!("offloading needs sliced banks, but memory '{memory}' does not slice its banks");
        }
        let mut heads = BTreeMap::new();
        for (done, &context) in contexts.iter().enumerate() {
            heads.insert(context, head_clocks(config, model.head_width as usize, context as usize)?);
            progress(done + 1);
        }
        ensure!(!heads.is_empty(), "no contexts to measure, at least one is needed");
        // The balance needs times that do not fall with the context.
        let mut longest = 0;
        for clocks in heads.values_mut() {
            longest = longest.max(*clocks);
            *clocks = longest;
        }
        let mut of_inputs = BTreeMap::new();
        for matrix in model.ffn_parts().chain([model.qkv(), model.projection()]).filter(|_| shares) {
            if let Entry::Vacant(vacant) = of_inputs.entry(matrix.inputs) {
                vacant.insert(broadcasts(config, matrix.inputs)?);
            }
        }
        Ok(Self {
            model: model.clone(),
            hardware: *hardware,
            computed: AnalyticTimes::new(model, hardware, config.slicing()),
            heads,
            broadcasts: of_inputs,
        })
    }

    /// Changes the pace of the NPU's reads. In memory slicing only changes the clock's length, which is left out.
    #[must_use]
    pub fn with_slicing(mut self, sliced: bool) -> Self {
        self.computed = AnalyticTimes::new(&self.model, &self.hardware, sliced);
        self
    }

    /// Changes the hardware around the memory: clock, channels and NPU. Clocks of the work in memory stay.
    #[must_use]
    pub fn with_hardware(mut self, hardware: &Hardware) -> Self {
        self.hardware = *hardware;
        self.computed = AnalyticTimes::new(&self.model, hardware, true);
        self
    }

    pub fn heads(&self) -> &BTreeMap<u32, u64> {
        &self.heads
    }

    pub fn time(&self, clocks: u64) -> Picos {
        Picos(self.hardware.pim.clock_ps.into()) * clocks
    }

    /// One head of K and V with its heads of Q, without the 2 % that slicing adds to tCCD.
    pub fn head(&self, context: u32) -> Picos {
        let longer = self.heads.range(context..).next().or(self.heads.last_key_value());
        let clocks = longer.map_or(0, |(_, &clocks)| clocks);
        self.time(clocks * u64::from(self.model.group()))
    }

    /// A matrix broadcast to the vectors of `requests`, as many at once as there are banks.
    pub fn broadcast(&self, matrix: Matrix, requests: u32) -> Picos {
        let outputs = u64::from(matrix.outputs).div_ceil(self.hardware.pim.channels.into());
        let of = |vectors: u32| {
            let measured = self.broadcasts.get(&matrix.inputs).map_or(&[][..], Vec::as_slice);
            let at = measured.partition_point(|broadcast| broadcast.vectors < vectors);
            let (Some(above), true) = (measured.get(at).or(measured.last()), vectors > 0) else { return 0 };
            let high = above.clocks(outputs);
            let Some(below) = at.checked_sub(1).map(|below| measured[below]) else { return high };
            if vectors >= above.vectors {
                return high;
            }
            let low = below.clocks(outputs);
            let [part, whole] = [vectors - below.vectors, above.vectors - below.vectors].map(u64::from);
            low + ((high - low) * part).div_ceil(whole)
        };
        let banks = self.hardware.pim.banks;
        self.time(u64::from(requests / banks) * of(banks) + of(requests % banks))
    }
}

impl DeviceTimes for MeasuredMemory {
    fn limits(&self) -> (u32, u32) {
        (u32::MAX, self.heads.last_key_value().map_or(0, |(&context, _)| context))
    }

    fn npu(&self, work: Work, requests: u32, context: u32) -> NpuTime {
        self.computed.npu(work, requests, context)
    }

    fn pim(&self, work: Work, requests: u32, context: u32) -> Picos {
        match work {
            Work::Mha => self.computed.attention_of(requests, context, self.head(context)),
            _ if self.broadcasts.is_empty() => self.computed.pim(work, requests, context),
            _ => self.model.matrices(work).map(|matrix| self.broadcast(matrix, requests)).sum(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::offloading::pim::PimTimes;
    use ndp_config::LlmShape;

    /// The formula (`crate::offloading::BaselineTimes`) leaves out buffer loads, activations and precharges. One
    /// channel gets a command every `t_cmd` clocks: as if 64 channels shared one stream, or had one each.
    #[test]
    fn a_head_with_the_commands_of_aim_takes_longer_than_the_formula_by_what_it_leaves_out() {
        let model = Model::of(&LlmShape::preset("gpt3-175b").unwrap());
        let aim = HbmConfig::preset("aim").unwrap();
        for (t_cmd, limits) in [(1, [1.0, 4.2]), (64, [1.0, 3.3])] {
            let config = aim.clone().with_t_cmd(t_cmd).unwrap();
            let hardware = Hardware::default().on(&config);
            let formula = PimTimes::new(&hardware, false);
            for context in [16, 64, 512, 4096] {
                let clocks = head_clocks(&config, 128, context as usize).unwrap();
                let commands = formula.head_commands(&model, context) * u64::from(t_cmd);
                let computed = formula.head(&model, context).max(Picos(commands * 1000));
                let ratio = Picos(clocks * 1000).us() / computed.us();
                println!(
                    "tCMD {t_cmd}, {context} tokens: {clocks} clocks, formula {}, {ratio:.3}",
                    computed.us()
                );
                assert!((limits[0]..limits[1]).contains(&ratio), "{context} {t_cmd} {ratio}");
            }
        }
    }

    #[test]
    fn memories_whose_channels_cannot_be_measured_alone_are_refused_at_once() {
        let model = Model::of(&LlmShape::preset("gpt3-175b").unwrap());
        for (name, words) in
            [("newton-aim", "does not slice its banks"), ("hbm2-pseudo", "share command buses")]
        {
            let config = HbmConfig::preset(name).unwrap();
            let hardware = Hardware::default().on(&config);
            let progress = |_| panic!("{name} was measured");
            let times = MeasuredMemory::new(&model, &hardware, &config, &[16], progress);
            let error = times.map(drop).unwrap_err().to_string();
            assert!(error.contains(words) && error.contains(name), "{error}");
        }
    }

    #[test]
    fn times_that_offloading_is_planned_with_are_those_of_the_device_model() {
        let config = HbmConfig::default();
        let model = Model {
            hidden: 1024,
            heads: 8,
            kv_heads: 8,
            ffn: 1536,
            ffn_matrices: 2,
            ..Model::of(&LlmShape::preset("gpt3-175b").unwrap())
        };
        let times = MeasuredMemory::new(&model, &Hardware::default(), &config, &[16, 700], |_| ()).unwrap();
        for context in [16, 700] {
            let clocks = head_clocks(&config, 128, context as usize).unwrap();
            // 8 heads of 16 requests, two per channel.
            assert_eq!(times.mha_pim(16, context), Picos(1000 * 2 * clocks));
        }
        // One channel of 64, with measured and interpolated numbers of vectors.
        let alone = config.with_channels(1).unwrap();
        for (matrix, vectors) in
            [(model.qkv(), 16), (model.qkv(), 3), (model.ffn_parts().last().unwrap(), 11)]
        {
            let outputs = matrix.outputs.div_ceil(64);
            let all = shared_clocks(&alone, Matrix { outputs, ..matrix }, vectors).unwrap();
            let ratio = times.broadcast(matrix, vectors as u32).0 as f64 / (1000 * all) as f64;
            assert!((ratio - 1.0).abs() < 0.02, "{matrix:?} {vectors} {ratio}");
        }
        let [once, twice] = [16, 32].map(|requests| times.ffn_pim(requests));
        assert_eq!(twice, once * 2);
        assert_eq!(times.ffn_pim(0), Picos::ZERO);
        for requests in 0..40 {
            assert!(times.ffn_pim(requests) <= times.ffn_pim(requests + 1));
        }
    }
}
