//! How long attention in memory takes, measured on a channel clock by clock, for models that no text can be generated with here.
//!
//! One head of one request in one channel: the query into the buffer, MACs on the keys, the scores out, the probabilities in, MACs on
//! the values, the results out, refresh included. Heads of a channel follow one another, so attention of a batch is that time
//! times the heads of the fullest channel, or softmax on the NPU if that is longer: as `ndp_offloading::pim` has it, whose head is a
//! formula. So is an FFN whose weights are broadcast. Keys and values of several heads of Q are read anew for each of them.

use crate::PimError;
use crate::attention::{HeadQuery, Progress};
use crate::controller::{Controller, Returned};
use crate::memory::{CacheShape, Memory};
use crate::shared::{Product, channel_work};
use ndp_config::HbmConfig;
use ndp_dram::hbm::PseudoChannel;
use ndp_numerics::f16;
use ndp_offloading::npu::{NpuTime, NpuTimes};
use ndp_offloading::work::Matrix;
use ndp_offloading::{AnalyticTimes, DeviceTimes, Hardware, KvMapping, Model, Picos};
use std::collections::BTreeMap;

/// Clocks after which a measurement is given up.
const PATIENCE: u64 = 10_000_000;

/// Clocks of one head of Q over so many tokens, alone in a channel of `config`.
///
/// # Errors
/// As [`Memory::new`] and [`Controller::step`]; [`PimError::Stuck`].
pub fn head_clocks(config: &HbmConfig, head_width: usize, context: usize) -> Result<u64, PimError> {
    let shape = CacheShape { sequences: 1, layers: 1, heads: 1, head_width, positions: context };
    let memory = Memory::new(config, shape)?;
    let mut controller = Controller::new(config, 0, PseudoChannel::new(config)?)?;
    let banks = config.banks() as usize;
    let query = HeadQuery { head: 0, query: vec![f16::ONE; head_width], visible: context, at: 0 };
    let mut progress = Progress::new(query);
    let start = controller.clock();
    for operation in progress.score_operations(&memory, config)? {
        controller.operate(operation);
    }
    let mut has_scores = false;
    loop {
        controller.step()?;
        while let Some(returned) = controller.take() {
            let Returned::Results(column) = returned else { continue };
            if has_scores {
                if progress.take_result(&column, banks) {
                    return Ok(controller.clock() - start);
                }
            } else if progress.take_scores(&column, banks) {
                has_scores = true;
                for operation in progress.value_operations(&memory, config)? {
                    controller.operate(operation);
                }
            }
        }
        if controller.clock() > start + PATIENCE {
            return Err(PimError::Stuck {
                channel: 0,
                clock: controller.clock(),
                what: controller.describe(),
            });
        }
    }
}

/// Clocks of one matrix whose weights are broadcast to so many vectors in one channel of `config`, which has nothing else to do. The
/// weights are zeros: time does not depend on them.
///
/// # Errors
/// As [`Memory::add`], [`channel_work`] and [`Controller::step`]; [`PimError::Stuck`].
pub fn shared_clocks(config: &HbmConfig, matrix: Matrix, vectors: usize) -> Result<u64, PimError> {
    let shape = CacheShape { sequences: 1, layers: 1, heads: 1, head_width: 16, positions: 1 };
    let (rows, cols) = (matrix.outputs as usize, matrix.inputs as usize);
    let mut memory = Memory::with_inputs(config, shape, cols)?;
    memory.add("matrix", (rows, cols), &vec![f16::ZERO; rows * cols])?;
    let vectors = vec![vec![f16::ONE; cols]; vectors];
    let product = Product { label: "matrix".to_owned(), vectors, others: 0 };
    let work = channel_work(&product, &memory, config, 0)?;
    let mut controller = Controller::new(config, 0, PseudoChannel::new(config)?)?;
    let start = controller.clock();
    let reads = work.reads.into_iter().map(|(access, _)| access);
    controller.multiply(work.inputs, reads, work.operations);
    while !controller.is_idle() {
        controller.step()?;
        while controller.take().is_some() {}
        if controller.clock() > start + PATIENCE {
            let (clock, what) = (controller.clock(), controller.describe());
            return Err(PimError::Stuck { channel: 0, clock, what });
        }
    }
    Ok(controller.clock() - start)
}

/// Computed times, but for attention in memory, which is measured.
pub struct MeasuredAttention {
    model: Model,
    hardware: Hardware,
    computed: AnalyticTimes,
    npu: NpuTimes,
    /// Clocks of a head by context.
    heads: BTreeMap<u32, u64>,
}

impl MeasuredAttention {
    /// Measures at these contexts; `progress` is told how many are done. In between the next longer one counts.
    ///
    /// # Errors
    /// As [`head_clocks`]; [`PimError::Range`] for no context.
    pub fn new(
        model: &Model,
        hardware: &Hardware,
        config: &HbmConfig,
        contexts: &[u32],
        mut progress: impl FnMut(usize),
    ) -> Result<Self, PimError> {
        let mut heads = BTreeMap::new();
        for (done, &context) in contexts.iter().enumerate() {
            heads.insert(context, head_clocks(config, model.head_width as usize, context as usize)?);
            progress(done + 1);
        }
        if heads.is_empty() {
            return Err(PimError::Range { what: "contexts", value: 0, min: 1, max: u64::MAX });
        }
        Ok(Self {
            model: model.clone(),
            hardware: *hardware,
            computed: AnalyticTimes::new(model, hardware, config.slicing()),
            npu: NpuTimes::new(hardware, config.slicing()),
            heads,
        })
    }

    /// Clocks of a head of Q by context.
    pub fn heads(&self) -> &BTreeMap<u32, u64> {
        &self.heads
    }

    /// One head of K and V with the heads of Q on it. The 2 % that slicing adds to tCCD belong to the clock's length and are left
    /// out.
    pub fn head(&self, context: u32) -> Picos {
        let longer = self.heads.range(context..).next().or(self.heads.last_key_value());
        let clocks = longer.map_or(0, |(_, &clocks)| clocks);
        Picos(self.hardware.pim.clock_ps.into()) * (clocks * u64::from(self.model.group()))
    }
}

impl DeviceTimes for MeasuredAttention {
    fn qkv_npu(&self, requests: u32) -> NpuTime {
        self.computed.qkv_npu(requests)
    }

    fn projection_npu(&self, requests: u32) -> NpuTime {
        self.computed.projection_npu(requests)
    }

    fn ffn_npu(&self, requests: u32) -> NpuTime {
        self.computed.ffn_npu(requests)
    }

    fn head_npu(&self, requests: u32) -> NpuTime {
        self.computed.head_npu(requests)
    }

    fn mha_npu(&self, requests: u32, context: u32) -> NpuTime {
        self.computed.mha_npu(requests, context)
    }

    fn mha_pim(&self, requests: u32, context: u32) -> Picos {
        let channels = u64::from(self.hardware.pim.channels);
        let (requests, heads) = (u64::from(requests), u64::from(self.model.kv_heads));
        let in_channel = match self.hardware.pim.kv_mapping {
            KvMapping::Heads => (requests * heads).div_ceil(channels),
            KvMapping::Requests => requests.div_ceil(channels) * heads,
        };
        let scores = requests * u64::from(self.model.heads) * u64::from(context);
        (self.head(context) * in_channel).max(self.npu.softmax(scores))
    }

    fn qkv_pim(&self, requests: u32) -> Picos {
        self.computed.qkv_pim(requests)
    }

    fn projection_pim(&self, requests: u32) -> Picos {
        self.computed.projection_pim(requests)
    }

    fn ffn_pim(&self, requests: u32) -> Picos {
        self.computed.ffn_pim(requests)
    }
}
