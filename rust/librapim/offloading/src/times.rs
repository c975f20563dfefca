//! What the scheduler asks about both devices, and the analytic answer.
//!
//! A cycle model, or a table of measured times ([`crate::MeasuredTimes`]), answers as well. The balance is exact whatever the times
//! are, as long as more work never takes less time.

use crate::hardware::Hardware;
use crate::npu::{NpuTime, NpuTimes};
use crate::pim::PimTimes;
use crate::time::Picos;
use crate::work::Model;

/// The times of one decoder layer on both devices.
///
/// No time may fall when requests or context rise, and no requests take no time. `requests` is at most
/// [`DeviceTimes::limits`]`.0`, `context` (tokens in K and V, at least 1) at most `.1`: who asks beyond gets the time at the limit.
pub trait DeviceTimes {
    /// Most requests and longest context that are known.
    fn limits(&self) -> (u32, u32) {
        (u32::MAX, u32::MAX)
    }
    /// Q, K and V on the NPU.
    fn qkv_npu(&self, requests: u32) -> NpuTime;
    /// The projection on the NPU.
    fn projection_npu(&self, requests: u32) -> NpuTime;
    /// The FFN on the NPU.
    fn ffn_npu(&self, requests: u32) -> NpuTime;
    /// Logits on the NPU, once per token.
    fn head_npu(&self, requests: u32) -> NpuTime;
    /// Attention on the NPU (MHA offload).
    fn mha_npu(&self, requests: u32, context: u32) -> NpuTime;
    /// Attention in memory.
    fn mha_pim(&self, requests: u32, context: u32) -> Picos;
    /// Q, K and V in memory (whole group).
    fn qkv_pim(&self, requests: u32) -> Picos;
    /// The projection in memory (whole group).
    fn projection_pim(&self, requests: u32) -> Picos;
    /// The FFN in memory (FFN offload, or whole group).
    fn ffn_pim(&self, requests: u32) -> Picos;

    /// The FFN in AttAcc's banks, all of it.
    fn ffn_coprocessed(&self, requests: u32) -> Picos {
        self.ffn_pim(requests)
    }

    /// Attention on the NPU of requests of several lengths; if nothing better is known, all are taken to be as long as the
    /// longest.
    fn mha_npu_ragged(&self, contexts: &[u32]) -> NpuTime {
        self.mha_npu(contexts.len() as u32, contexts.iter().copied().max().unwrap_or(1))
    }

    /// Attention in memory of requests of several lengths; if nothing better is known, all are taken to be as long as the longest.
    fn mha_pim_ragged(&self, contexts: &[u32]) -> Picos {
        self.mha_pim(contexts.len() as u32, contexts.iter().copied().max().unwrap_or(1))
    }
}

/// Times computed from sizes and clocks ([`NpuTimes`], [`PimTimes`]).
#[derive(Clone, Debug)]
pub struct AnalyticTimes {
    model: Model,
    npu: NpuTimes,
    pim: PimTimes,
}

impl AnalyticTimes {
    /// The times of `model`; `sliced` banks have the longer tCCD.
    pub fn new(model: &Model, hardware: &Hardware, sliced: bool) -> Self {
        let npu = NpuTimes::new(hardware, sliced);
        Self { model: model.clone(), npu, pim: PimTimes::new(hardware, sliced) }
    }

    /// One head of K and V with the heads of Q on it, in one channel.
    pub fn head(&self, context: u32) -> Picos {
        self.pim.head(&self.model, context)
    }
}

impl DeviceTimes for AnalyticTimes {
    fn qkv_npu(&self, requests: u32) -> NpuTime {
        let vector = self.npu.normalised(self.model.hidden, requests);
        self.npu.gemm(self.model.qkv(), requests).and_then(vector)
    }

    fn projection_npu(&self, requests: u32) -> NpuTime {
        let vector = self.npu.mapped(self.model.hidden, requests);
        self.npu.gemm(self.model.projection(), requests).and_then(vector)
    }

    fn ffn_npu(&self, requests: u32) -> NpuTime {
        let activations = self.model.ffn * (self.model.ffn_matrices - 1);
        let vector = self.npu.normalised(self.model.hidden, requests)
            + self.npu.mapped(activations + self.model.hidden, requests);
        self.npu.gemms(self.model.ffn_parts(), requests).and_then(vector)
    }

    fn head_npu(&self, requests: u32) -> NpuTime {
        let vector = self.npu.normalised(self.model.hidden, requests);
        self.npu.gemm(self.model.head(), requests).and_then(vector)
    }

    fn mha_npu(&self, requests: u32, context: u32) -> NpuTime {
        self.npu.attention(&self.model, std::iter::repeat_n(context, requests as usize))
    }

    fn mha_pim(&self, requests: u32, context: u32) -> Picos {
        self.pim.attention(&self.model, requests, context)
    }

    fn qkv_pim(&self, requests: u32) -> Picos {
        self.pim.broadcast(self.model.qkv(), requests)
    }

    fn projection_pim(&self, requests: u32) -> Picos {
        self.pim.broadcast(self.model.projection(), requests)
    }

    fn ffn_pim(&self, requests: u32) -> Picos {
        self.pim.broadcasts(self.model.ffn_parts(), requests)
    }

    fn mha_npu_ragged(&self, contexts: &[u32]) -> NpuTime {
        self.npu.attention(&self.model, contexts.iter().copied())
    }

    fn mha_pim_ragged(&self, contexts: &[u32]) -> Picos {
        self.pim.attention_ragged(&self.model, contexts)
    }
}

/// Times of ordinary banks that are given their commands as NPU+AiM's and AttAcc's: attention takes at least as long as the stream of
/// commands.
pub struct BaselineTimes<'a> {
    inner: &'a dyn DeviceTimes,
    model: Model,
    pim: PimTimes,
}

impl<'a> BaselineTimes<'a> {
    /// On times of ordinary banks.
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

    fn qkv_npu(&self, requests: u32) -> NpuTime {
        self.inner.qkv_npu(requests)
    }

    fn projection_npu(&self, requests: u32) -> NpuTime {
        self.inner.projection_npu(requests)
    }

    fn ffn_npu(&self, requests: u32) -> NpuTime {
        self.inner.ffn_npu(requests)
    }

    fn head_npu(&self, requests: u32) -> NpuTime {
        self.inner.head_npu(requests)
    }

    fn mha_npu(&self, requests: u32, context: u32) -> NpuTime {
        self.inner.mha_npu(requests, context)
    }

    fn mha_pim(&self, requests: u32, context: u32) -> Picos {
        let issue = self.pim.issue(u64::from(requests) * self.commands(context));
        self.inner.mha_pim(requests, context).max(issue)
    }

    fn qkv_pim(&self, requests: u32) -> Picos {
        self.inner.qkv_pim(requests)
    }

    fn projection_pim(&self, requests: u32) -> Picos {
        self.inner.projection_pim(requests)
    }

    fn ffn_pim(&self, requests: u32) -> Picos {
        self.inner.ffn_pim(requests)
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
