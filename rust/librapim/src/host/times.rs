//! Times of a layer on this host: the NPU's by formula, the memory's measured on a channel clock by clock.
//!
//! For the scheduler of `crate::offloading` while texts are generated. Attention of a head is measured by context, an
//! FFN with broadcast weights by vectors, on one channel of the device model; all channels do the same. In prompts a
//! channel has many heads in a row, and each further one takes less. The formulas are too far off for few vectors:
//! a result waits tMAC after each output's last MAC.

use crate::host::attention::{HeadQuery, Query};
use crate::host::machine::{Attention, Machine};
use crate::host::measure::{group_clocks, shared_clocks};
use crate::host::memory::CacheShape;
use crate::host::pins::boxed;
use crate::offloading::npu::{NpuTime, NpuTimes};
use crate::offloading::timeline::Work;
use crate::offloading::work::Matrix;
use crate::offloading::{AnalyticTimes, DeviceTimes, Hardware, Model, Picos};
use ndp_config::HbmConfig;
use ndp_dram::hbm::PseudoChannel;
use ndp_files::Result;
use ndp_model::decoder::MAX_BATCH;
use ndp_numerics::f16;

/// Positions between measured contexts: as many as in a column of values.
const STEP: u32 = HbmConfig::LANES;

/// Further heads of a measurement.
const FURTHER: usize = 8;

/// Clocks of equal heads of K and V, one after the other, in a channel of this host, each with `sharing` heads of Q.
fn heads_clocks(
    config: &HbmConfig,
    hardware: &Hardware,
    (sharing, head_width): (usize, usize),
    positions: usize,
    heads: usize,
) -> Result<u64> {
    let config = config.clone().with_channels(1)?;
    let shape = CacheShape { sequences: 1, layers: 1, heads: 1, head_width, positions };
    let pins = boxed(PseudoChannel::all(&config)?);
    let mut machine = Machine::new(&config, hardware, shape, 0, pins)?;
    let query = |index| Query { elements: vec![f16::ONE; head_width], at: index * head_width };
    let head = |index| HeadQuery {
        head: 0,
        queries: (index * sharing..(index + 1) * sharing).map(query).collect(),
        first: 0,
        visible: positions,
        score_cap: None,
    };
    let queries = (0..heads).map(head).collect();
    let label = "heads".to_owned();
    let elements = heads * sharing * head_width;
    machine.start_pim(0, Attention { label, appends: Vec::new(), queries, vectors: heads, elements })?;
    machine.run()?;
    Ok(machine.clock())
}

/// Times of one layer of a model on one machine.
#[derive(Clone, Debug)]
pub struct HostTimes {
    model: Model,
    clock_ps: u64,
    channels: u64,
    npu: NpuTimes,
    computed: AnalyticTimes,
    requests: u32,
    /// Clocks of a head of K and V, by all its heads of Q, with at most `STEP * (i + 1)` positions.
    heads: Vec<u64>,
    /// Clocks of each further head of K and V in the same channel.
    further: Vec<u64>,
    ffn: Vec<u64>,
}

impl HostTimes {
    /// Measures heads of up to `positions` positions and FFNs of up to `requests` vectors, at most one per bank. Fails
    /// as [`group_clocks`] and [`shared_clocks`].
    pub fn new(
        model: &Model,
        hardware: &Hardware,
        config: &HbmConfig,
        requests: u32,
        positions: u32,
    ) -> Result<Self> {
        let (mut heads, mut further, mut ffn) = (Vec::new(), Vec::new(), vec![0]);
        let risen = |before: &[u64], clocks: u64| before.last().copied().unwrap_or(0).max(clocks);
        let of = (model.group() as usize, model.head_width as usize);
        for number in 1..=positions.div_ceil(STEP) {
            let positions = (number * STEP) as usize;
            heads.push(risen(&heads, group_clocks(config, of, positions)?));
            let [few, many] = [1, 1 + FURTHER];
            let clocks = |heads| heads_clocks(config, hardware, of, positions, heads);
            further.push(risen(&further, clocks(many)?.saturating_sub(clocks(few)?) / FURTHER as u64));
        }
        for vectors in 1..=requests.min(config.banks()) {
            let mut clocks = 0;
            for matrix in model.ffn_parts() {
                clocks += shared_clocks(config, matrix, vectors as usize)?;
            }
            // The balance needs times that do not fall with more vectors.
            ffn.push(ffn.last().copied().unwrap_or(0).max(clocks));
        }
        Ok(Self {
            model: model.clone(),
            clock_ps: hardware.pim.clock_ps.into(),
            channels: config.channels().into(),
            npu: NpuTimes::new(hardware, config.slicing()),
            computed: AnalyticTimes::new(model, hardware, config.slicing()),
            requests,
            heads,
            further,
            ffn,
        })
    }

    fn time(&self, clocks: u64) -> Picos {
        Picos(self.clock_ps) * clocks
    }

    fn at(clocks: &[u64], index: usize) -> u64 {
        clocks.get(index).or(clocks.last()).copied().unwrap_or(0)
    }

    pub fn model(&self) -> &Model {
        &self.model
    }

    fn at_context(clocks: &[u64], context: u32) -> u64 {
        Self::at(clocks, (context.div_ceil(STEP).max(1) - 1) as usize)
    }

    /// Attention of a part of a prompt in one layer, with a mean context.
    fn part_of_prompt(&self, tokens: u32, context: u32) -> Picos {
        let heads = self.heads_in_channel(tokens);
        let further = Self::at_context(&self.further, context) * heads.saturating_sub(1);
        self.time(self.head_clocks(context) + further)
    }

    /// Prompts of these numbers of tokens, one after the other. With two groups, attention of one group is concurrent
    /// with matrices of the other.
    pub fn prompts(&self, prompts: &[u32], groups: usize) -> Picos {
        let (layers, most) = (u64::from(self.model.layers), MAX_BATCH as u32);
        let of_prompt = |&tokens: &u32| -> [Picos; 2] {
            let (mut matrices, mut attention) = (self.npu(Work::Head, 1, 1).total(), Picos::ZERO);
            for done in (0..tokens).step_by(MAX_BATCH) {
                let part = most.min(tokens - done);
                let works = [Work::Qkv, Work::Projection, Work::Ffn];
                let layer: Picos = works.map(|work| self.npu(work, part, 1).total()).into_iter().sum();
                matrices += layer * layers;
                for (context, layers) in self.model.contexts(done + part.div_ceil(2)) {
                    attention += self.part_of_prompt(part, context) * layers;
                }
            }
            [matrices, attention]
        };
        let all: Vec<[Picos; 2]> = prompts.iter().map(of_prompt).collect();
        let group = |group: usize| all.iter().skip(group).step_by(groups).flatten().copied().sum();
        let longest = (0..groups).map(group).max().unwrap_or(Picos::ZERO);
        [0, 1].map(|device| all.iter().map(|of| of[device]).sum()).into_iter().fold(longest, Picos::max)
    }

    /// Heads of K and V in the fullest channel, each with its heads of Q.
    fn heads_in_channel(&self, tokens: u32) -> u64 {
        (u64::from(tokens) * u64::from(self.model.kv_heads)).div_ceil(self.channels)
    }

    pub fn head_clocks(&self, context: u32) -> u64 {
        Self::at_context(&self.heads, context)
    }

    pub fn ffn_clocks(&self, vectors: u32) -> u64 {
        Self::at(&self.ffn, vectors as usize)
    }
}

impl DeviceTimes for HostTimes {
    fn limits(&self) -> (u32, u32) {
        (self.requests, STEP * self.heads.len() as u32)
    }

    /// Q, K and V are three matrices here. Normalisations on the host take no time, so only products count.
    fn npu(&self, work: Work, requests: u32, context: u32) -> NpuTime {
        let Model { hidden: inputs, heads, kv_heads, head_width, .. } = self.model;
        let of_heads = |heads| Matrix { inputs, outputs: heads * head_width };
        match work {
            Work::Mha => self.computed.npu(work, requests, context),
            Work::Qkv => self.npu.gemms([heads, kv_heads, kv_heads].map(of_heads).into_iter(), requests),
            _ => self.npu.gemms(self.model.matrices(work), requests),
        }
    }

    fn pim(&self, work: Work, requests: u32, context: u32) -> Picos {
        match work {
            Work::Mha => {
                let scores = u64::from(requests) * u64::from(self.model.heads) * u64::from(context);
                let in_memory = self.time(self.head_clocks(context) * self.heads_in_channel(requests));
                in_memory.max(self.npu.softmax(scores))
            }
            Work::Ffn => self.time(self.ffn_clocks(requests)),
            _ => self.computed.pim(work, requests, context),
        }
    }
}
