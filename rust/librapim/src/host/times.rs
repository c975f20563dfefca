//! Times of a layer on this host: the NPU's by formula, the memory's measured on a channel clock by clock.
//!
//! For the scheduler of `crate::offloading` while texts are generated. Attention of a head is measured by context, an
//! FFN with broadcast weights by vectors, on one channel of the device model; all channels do the same. The formulas
//! are too far off for few vectors: a result waits tMAC after each output's last MAC.

use crate::host::measure::{head_clocks, shared_clocks};
use crate::offloading::npu::{NpuTime, NpuTimes};
use crate::offloading::timeline::Work;
use crate::offloading::work::Matrix;
use crate::offloading::{AnalyticTimes, DeviceTimes, Hardware, Model, Picos};
use ndp_config::HbmConfig;
use ndp_files::Result;

/// Positions between measured contexts: as many as in a column of values.
const STEP: u32 = HbmConfig::LANES;

/// Times of one layer of a model on one machine.
#[derive(Clone, Debug)]
pub struct HostTimes {
    model: Model,
    clock_ps: u64,
    channels: u64,
    npu: NpuTimes,
    computed: AnalyticTimes,
    requests: u32,
    /// Clocks of a head with at most `STEP * (i + 1)` positions.
    heads: Vec<u64>,
    ffn: Vec<u64>,
}

impl HostTimes {
    /// Measures heads of up to `positions` positions and FFNs of up to `requests` vectors, at most one per bank. Fails
    /// as [`head_clocks`] and [`shared_clocks`].
    pub fn new(
        model: &Model,
        hardware: &Hardware,
        config: &HbmConfig,
        requests: u32,
        positions: u32,
    ) -> Result<Self> {
        let (mut heads, mut ffn) = (Vec::new(), vec![0]);
        for number in 1..=positions.div_ceil(STEP) {
            let clocks = head_clocks(config, model.head_width as usize, (number * STEP) as usize)?;
            heads.push(heads.last().copied().unwrap_or(0).max(clocks));
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
            ffn,
        })
    }

    fn time(&self, clocks: u64) -> Picos {
        Picos(self.clock_ps) * clocks
    }

    fn at(clocks: &[u64], index: usize) -> u64 {
        clocks.get(index).or(clocks.last()).copied().unwrap_or(0)
    }

    pub fn head_clocks(&self, context: u32) -> u64 {
        Self::at(&self.heads, (context.div_ceil(STEP).max(1) - 1) as usize)
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
                let heads = u64::from(requests) * u64::from(self.model.heads);
                let scores = heads * u64::from(context);
                let in_memory = self.time(self.head_clocks(context) * heads.div_ceil(self.channels));
                in_memory.max(self.npu.softmax(scores))
            }
            Work::Ffn => self.time(self.ffn_clocks(requests)),
            _ => self.computed.pim(work, requests, context),
        }
    }
}
