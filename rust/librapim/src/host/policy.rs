//! Decides which requests to offload in a step: none, fixed numbers, or by algorithm 1 with this host's times.

use crate::host::times::HostTimes;
use crate::offloading::algorithm::Choice;
use crate::offloading::{Decision, Rule, Scheduler, Slot, Stage};
use ndp_files::{Result, in_range};
use serde::Serialize;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Offloading {
    #[default]
    None,
    /// Fixed numbers of each group's requests, or all that are left.
    Fixed {
        /// Requests with their FFN in memory.
        ffn: u32,
        /// Requests with attention on the NPU.
        mha: u32,
    },
    /// Algorithm 1, in each step.
    Live(Rule),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Share {
    /// Requests with their FFN in memory: `m`.
    pub ffn: u32,
    /// Requests with attention on the NPU: `n`.
    pub mha: u32,
    /// Solution of equation 1: this group on the NPU, the other in attention. `None` without the scheduler.
    pub on_npu: Option<Choice>,
    /// Solution of equation 2: this group in attention, the other on the NPU.
    pub in_attention: Option<Choice>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Decided {
    pub group: usize,
    /// From 1.
    pub step: u32,
    pub clock: u64,
    /// Unfinished requests of the group.
    pub requests: u32,
    pub context: u32,
    pub other_requests: u32,
    pub other_context: u32,
    #[serde(flatten)]
    pub share: Share,
}

#[derive(Clone, Debug)]
pub struct Policy {
    offloading: Offloading,
    times: Option<HostTimes>,
    /// Most requests with their FFN in memory: its banks.
    banks: u32,
}

impl Policy {
    /// Only [`Offloading::Live`] calls `times`. Fails for more requests than the `largest` group has, more FFNs than
    /// `banks`, or as `times`.
    pub fn new(
        offloading: Offloading,
        banks: u32,
        largest: u32,
        times: impl FnOnce() -> Result<HostTimes>,
    ) -> Result<Self> {
        if let Offloading::Fixed { ffn, mha } = offloading {
            let limits = [
                ("requests of a group whose FFN is offloaded", ffn, largest.min(banks)),
                ("requests of a group whose attention is offloaded", mha, largest),
            ];
            for (what, value, max) in limits {
                in_range(what, value, 0, max)?;
            }
        }
        let times = matches!(offloading, Offloading::Live(_)).then(times).transpose()?;
        Ok(Self { offloading, times, banks })
    }

    pub fn none() -> Self {
        Self { offloading: Offloading::None, times: None, banks: 0 }
    }

    /// Whether FFNs, and attention, may be offloaded.
    pub fn may_offload(&self) -> [bool; 2] {
        match self.offloading {
            Offloading::None => [false; 2],
            Offloading::Fixed { ffn, mha } => [ffn > 0, mha > 0],
            Offloading::Live(_) => [true; 2],
        }
    }

    /// Times for decisions, if any.
    pub fn times(&self) -> Option<&HostTimes> {
        self.times.as_ref()
    }

    /// Share to offload of a group with contexts `own`, while the other has `other`.
    pub fn decide(&self, own: &[u32], other: &[u32]) -> Share {
        let requests = own.len() as u32;
        let (rule, times) = match (self.offloading, &self.times) {
            (Offloading::Fixed { ffn, mha }, _) => {
                return Share { ffn: ffn.min(requests), mha: mha.min(requests), ..Share::default() };
            }
            (Offloading::Live(rule), Some(times)) if requests > 0 => (rule, times),
            _ => return Share::default(),
        };
        let others = other.len() as u32;
        let longest = |contexts: &[u32]| contexts.iter().copied().max().unwrap_or(1);
        let scheduler = Scheduler::new(times, self.banks, rule);
        let on_npu = scheduler.decide(Slot {
            stage: Stage::Middle,
            requests,
            mha_requests: others,
            context: longest(other),
        });
        let stage = if others == 0 { Stage::Idle } else { Stage::Middle };
        let in_attention =
            scheduler.decide(Slot { stage, requests: others, mha_requests: requests, context: longest(own) });
        let ffn = if let Decision::Ffn(m) = on_npu.decision { m } else { 0 };
        let mha = if let Decision::Mha(n) = in_attention.decision { n } else { 0 };
        Share { ffn, mha, on_npu: Some(on_npu), in_attention: Some(in_attention) }
    }
}
