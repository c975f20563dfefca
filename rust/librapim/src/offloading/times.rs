//! Times of both devices for the scheduler, and analytic ones.
//!
//! A cycle model or a table ([`crate::offloading::MeasuredTimes`]) can also answer. The balance is exact for any times
//! that do not fall with more work.

use crate::offloading::hardware::Hardware;
use crate::offloading::npu::{NpuTime, NpuTimes};
use crate::offloading::pim::PimTimes;
use crate::offloading::time::Picos;
use crate::offloading::timeline::Work;
use crate::offloading::work::Model;

/// The times of one decoder layer on both devices.
///
/// Times must not fall with requests or context, and are 0 without requests. Past [`DeviceTimes::limits`] (requests,
/// tokens in K and V; context is at least 1) they are the times at the limit.
pub trait DeviceTimes {
    /// Most requests and longest context.
    fn limits(&self) -> (u32, u32) {
        (u32::MAX, u32::MAX)
    }
    /// Work on the NPU; `context` is only for attention (MHA offload).
    fn npu(&self, work: Work, requests: u32, context: u32) -> NpuTime;
    /// Work in memory: attention, the FFN, or a whole group's matrices. The NPU computes logits.
    fn pim(&self, work: Work, requests: u32, context: u32) -> Picos;

    fn mha_pim(&self, requests: u32, context: u32) -> Picos {
        self.pim(Work::Mha, requests, context)
    }
    /// FFN in memory (FFN offload or whole group).
    fn ffn_pim(&self, requests: u32) -> Picos {
        self.pim(Work::Ffn, requests, 1)
    }

    /// The whole FFN in AttAcc's banks.
    fn ffn_coprocessed(&self, requests: u32) -> Picos {
        self.ffn_pim(requests)
    }

    /// Attention on the NPU of requests of several lengths; by default all count as the longest.
    fn mha_npu_ragged(&self, contexts: &[u32]) -> NpuTime {
        self.npu(Work::Mha, contexts.len() as u32, contexts.iter().copied().max().unwrap_or(1))
    }

    /// Attention in memory of requests of several lengths; by default all count as the longest.
    fn mha_pim_ragged(&self, contexts: &[u32]) -> Picos {
        self.mha_pim(contexts.len() as u32, contexts.iter().copied().max().unwrap_or(1))
    }
}

/// Times by formula ([`NpuTimes`], [`PimTimes`]).
#[derive(Clone, Debug)]
pub struct AnalyticTimes {
    model: Model,
    npu: NpuTimes,
    pim: PimTimes,
}

impl AnalyticTimes {
    /// `sliced` banks have the longer tCCD.
    pub fn new(model: &Model, hardware: &Hardware, sliced: bool) -> Self {
        let npu = NpuTimes::new(hardware, sliced);
        Self { model: model.clone(), npu, pim: PimTimes::new(hardware, sliced) }
    }

    /// One head of K and V with its heads of Q, in one channel.
    pub fn head(&self, context: u32) -> Picos {
        self.pim.head(&self.model, context)
    }

    /// Attention in memory, given the time of that head.
    pub fn attention_of(&self, requests: u32, context: u32, head: Picos) -> Picos {
        self.pim.attention_of(&self.model, requests, context, head)
    }
}

impl DeviceTimes for AnalyticTimes {
    fn npu(&self, work: Work, requests: u32, context: u32) -> NpuTime {
        let model = &self.model;
        let normalised = || self.npu.normalised(model.hidden, requests);
        let mapped = |width| self.npu.mapped(width, requests);
        let vector = match work {
            Work::Qkv | Work::Head => normalised(),
            Work::Projection => mapped(model.hidden),
            Work::Ffn => normalised() + mapped(model.ffn * (model.ffn_matrices - 1) + model.hidden),
            Work::Mha => return self.npu.attention(model, std::iter::repeat_n(context, requests as usize)),
        };
        self.npu.gemms(model.matrices(work), requests).and_then(vector)
    }

    fn pim(&self, work: Work, requests: u32, context: u32) -> Picos {
        match work {
            Work::Mha => self.pim.attention(&self.model, requests, context),
            _ => self.pim.broadcasts(self.model.matrices(work), requests),
        }
    }

    fn mha_npu_ragged(&self, contexts: &[u32]) -> NpuTime {
        self.npu.attention(&self.model, contexts.iter().copied())
    }

    fn mha_pim_ragged(&self, contexts: &[u32]) -> Picos {
        self.pim.attention_ragged(&self.model, contexts)
    }
}

/// Ordinary banks with NPU+AiM's and AttAcc's commands: attention takes at least their stream's time.
pub struct BaselineTimes<'a> {
    inner: &'a dyn DeviceTimes,
    model: Model,
    pim: PimTimes,
}

impl<'a> BaselineTimes<'a> {
    pub fn new(model: &Model, hardware: &Hardware, inner: &'a dyn DeviceTimes) -> Self {
        Self { inner, model: model.clone(), pim: PimTimes::new(hardware, false) }
    }

    fn commands(&self, context: u32) -> u64 {
        u64::from(self.model.kv_heads) * self.pim.head_commands(&self.model, context)
    }
}

impl DeviceTimes for BaselineTimes<'_> {
    fn limits(&self) -> (u32, u32) {
        self.inner.limits()
    }

    fn npu(&self, work: Work, requests: u32, context: u32) -> NpuTime {
        self.inner.npu(work, requests, context)
    }

    fn pim(&self, work: Work, requests: u32, context: u32) -> Picos {
        let issue = match work {
            Work::Mha => self.pim.issue(u64::from(requests) * self.commands(context)),
            _ => Picos::ZERO,
        };
        self.inner.pim(work, requests, context).max(issue)
    }

    fn ffn_coprocessed(&self, requests: u32) -> Picos {
        self.model.ffn_parts().map(|matrix| self.pim.coprocessed(matrix, requests)).sum()
    }

    fn mha_npu_ragged(&self, contexts: &[u32]) -> NpuTime {
        self.inner.mha_npu_ragged(contexts)
    }

    fn mha_pim_ragged(&self, contexts: &[u32]) -> Picos {
        let commands = match contexts {
            [first, rest @ ..] if rest.iter().all(|context| context == first) => {
                contexts.len() as u64 * self.commands(*first)
            }
            _ => contexts.iter().map(|&context| self.commands(context)).sum(),
        };
        self.inner.mha_pim_ragged(contexts).max(self.pim.issue(commands))
    }
}
