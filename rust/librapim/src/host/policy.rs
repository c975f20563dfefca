//! Decides how many groups there are, and which requests to offload in a step: none, fixed numbers, or by the
//! scheduler with this host's times.
//!
//! The host executes one group or two, without shares, with a share of the FFN, of attention, or both. It does not
//! execute a whole group in memory, because projection, Q, K and V have no products in the banks.

use crate::host::times::HostTimes;
use crate::offloading::algorithm::Choice;
use crate::offloading::{
    Batch, Decision, Hardware, Layout, Mechanism, Picos, Planner, Request, Rule, Scheduler, Slot, Stage,
};
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
    /// By the scheduler, in each step.
    Live(Rule),
}

impl Offloading {
    /// Whether FFNs, and attention, may be offloaded.
    pub fn may(self) -> [bool; 2] {
        match self {
            Self::None => [false; 2],
            Self::Fixed { ffn, mha } => [ffn > 0, mha > 0],
            Self::Live(_) => [true; 2],
        }
    }
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

/// Shares that plans leave out, the fewest shares first.
const WITHOUT: [&[Mechanism]; 4] =
    [&[Mechanism::Ffn, Mechanism::Attention], &[Mechanism::Attention], &[Mechanism::Ffn], &[]];

#[derive(Clone, Debug)]
pub struct Policy {
    offloading: Offloading,
    times: Option<HostTimes>,
    hardware: Hardware,
    /// Most requests with their FFN in memory: its banks.
    banks: u32,
    /// Shares that the plan leaves out.
    without: &'static [Mechanism],
}

impl Policy {
    /// Only [`Offloading::Live`] calls `times`. Fails for more requests than the `largest` group has, more FFNs than
    /// `banks`, or as `times`.
    pub fn new(
        offloading: Offloading,
        (hardware, banks): (&Hardware, u32),
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
        Ok(Self { offloading, times, hardware: *hardware, banks, without: &[] })
    }

    pub fn none() -> Self {
        let (offloading, hardware) = (Offloading::None, Hardware::default());
        Self { offloading, times: None, hardware, banks: 0, without: &[] }
    }

    /// Times for decisions, if any.
    pub fn times(&self) -> Option<&HostTimes> {
        self.times.as_ref()
    }

    /// Plans `prompts`, given by their tokens, and then the steps of `requests` in at most `most` groups. Returns the
    /// number of groups. With [`Rule::Shortest`], takes the shortest of all groups and shares that the host executes.
    pub fn plan(&mut self, most: usize, prompts: &[u32], requests: &[Request]) -> Result<usize> {
        let (Offloading::Live(Rule::Shortest), Some(times)) = (self.offloading, &self.times) else {
            return Ok(most);
        };
        let is_over = requests.iter().all(|request| request.remaining == 0);
        let batch = if is_over { None } else { Some(Batch::new(requests)?) };
        let layouts = [(1, Layout::OneGroup), (2, Layout::TwoGroups)];
        let plans = layouts.into_iter().filter(|(groups, _)| *groups <= most);
        let plans = plans.flat_map(|layout| WITHOUT.map(|without| (layout, without)));
        let span = |((groups, layout), without): &((usize, Layout), &[Mechanism])| {
            let planner = Planner::new(times.model(), &self.hardware, times, times);
            let planner = planner.with_most_ffn(self.banks).without(without);
            let steps = batch.as_ref().map_or(Picos::ZERO, |batch| planner.run_in(batch, *layout));
            times.prompts(prompts, *groups) + steps
        };
        let Some(((groups, _), without)) = plans.min_by_key(span) else { return Ok(most) };
        self.without = without;
        Ok(groups)
    }

    /// Share to offload of a group with contexts `own`, while the other has `other`.
    pub fn decide(&self, own: &[u32], other: &[u32]) -> Share {
        let requests = own.len() as u32;
        let times = match (self.offloading, &self.times) {
            (Offloading::Fixed { ffn, mha }, _) => {
                return Share { ffn: ffn.min(requests), mha: mha.min(requests), ..Share::default() };
            }
            (Offloading::Live(_), Some(times)) if requests > 0 => times,
            _ => return Share::default(),
        };
        let others = other.len() as u32;
        // A share is the same in all layers, with and without a window.
        let longest =
            |contexts: &[u32]| times.model().mean_context(contexts.iter().copied().max().unwrap_or(1));
        let scheduler = Scheduler::new(times, self.banks);
        let on_npu = scheduler.decide(Slot {
            stage: Stage::Middle,
            requests,
            mha_requests: others,
            context: longest(other),
        });
        let stage = if others == 0 { Stage::Idle } else { Stage::Middle };
        let in_attention =
            scheduler.decide(Slot { stage, requests: others, mha_requests: requests, context: longest(own) });
        let may = |mechanism| !self.without.contains(&mechanism);
        let ffn = if let (Decision::Ffn(m), true) = (on_npu.decision, may(Mechanism::Ffn)) { m } else { 0 };
        let mha = if let (Decision::Mha(n), true) = (in_attention.decision, may(Mechanism::Attention)) {
            n
        } else {
            0
        };
        Share { ffn, mha, on_npu: Some(on_npu), in_attention: Some(in_attention) }
    }
}
