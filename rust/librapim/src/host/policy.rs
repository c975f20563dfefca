//! Who decides what is offloaded in a step: nobody, a fixed number, or algorithm 1 with the times of this host.

use crate::host::times::HostTimes;
use crate::offloading::algorithm::Choice;
use crate::offloading::{Decision, Rule, Scheduler, Slot, Stage};
use ndp_files::{Result, in_range};
use serde::Serialize;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Offloading {
    #[default]
    None,
    /// In every step these numbers of each group's requests, or all that are left if they are fewer.
    Fixed {
        /// Requests whose FFN is the memory's.
        ffn: u32,
        /// Requests whose attention is the NPU's.
        mha: u32,
    },
    /// What algorithm 1 finds in each step.
    Live(Rule),
}

/// What of a group is offloaded in a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Share {
    /// Requests whose FFN is the memory's: `m`.
    pub ffn: u32,
    /// Requests whose attention is the NPU's: `n`.
    pub mha: u32,
    /// What equation 1 was solved for: this group on the NPU, the other one in attention. Nothing without the scheduler.
    pub on_npu: Option<Choice>,
    /// What equation 2 was solved for: this group in attention, the other one on the NPU.
    pub in_attention: Option<Choice>,
}

/// A decision for one step of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Decided {
    pub group: usize,
    /// Its step, from 1.
    pub step: u32,
    pub clock: u64,
    /// Requests of the group that are not done.
    pub requests: u32,
    /// Their longest context.
    pub context: u32,
    /// Requests of the other group.
    pub other_requests: u32,
    /// Their longest context.
    pub other_context: u32,
    #[serde(flatten)]
    pub share: Share,
}

/// Whoever decides.
#[derive(Clone, Debug)]
pub struct Policy {
    offloading: Offloading,
    times: Option<HostTimes>,
    /// Most requests whose FFN is the memory's: its banks.
    banks: u32,
}

impl Policy {
    /// The policy of `offloading`. `times` is only called for [`Offloading::Live`].
    ///
    /// # Errors
    /// More requests than the `largest` group has, or an FFN of more than `banks`; errors of `times`.
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

    /// Whether FFNs may be offloaded, and attention.
    pub fn may_offload(&self) -> [bool; 2] {
        match self.offloading {
            Offloading::None => [false; 2],
            Offloading::Fixed { ffn, mha } => [ffn > 0, mha > 0],
            Offloading::Live(_) => [true; 2],
        }
    }

    /// The times that decisions are made with, if there are.
    pub fn times(&self) -> Option<&HostTimes> {
        self.times.as_ref()
    }

    /// What is offloaded of a group with contexts `own`, while the other one has `other`.
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
