//! Algorithm 1: requests to offload while one group is on the NPU and the other in attention.
//!
//! | line of the paper | here |
//! | --- | --- |
//! | 5-8 | a [`DeviceTimes`] in place of FLOPs over FLOPS; the comment of line 4 has bytes over FLOPS |
//! | 10-12, `B < Channel_PIM` | [`Scheduler::group_is_small`]; [`crate::offloading::plan`] does it |
//! | 14-18, NPU longer | [`Decision::Ffn`], equation 1; the offloaded FFN waits for the projection ([`Sides::pim_with`]) |
//! | 16 | the printed line has `FLOPS_xPU`; the PIM's time is with the PIM's rate |
//! | 21-25, attention longer | [`Decision::Mha`], equation 2 |
//! | 15, 22 | use `m` and `n` before lines 17 and 24 set them: the sides are functions of them |
//!
//! Groups may differ in size. The context is the longest of the group in attention.

use crate::offloading::balance::{Balance, balance, exhaustive};
use crate::offloading::time::Picos;
use crate::offloading::timeline::Work;
use crate::offloading::times::DeviceTimes;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;

/// Work of the NPU for its group between two attentions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Before the first attention: Q, K and V.
    First,
    /// Projection, FFN, and Q, K and V of the next layer.
    Middle,
    /// After the last attention: projection, FFN and logits.
    Last,
    Idle,
}

impl Stage {
    /// Matrices in order.
    pub fn matrices(self) -> &'static [Work] {
        match self {
            Self::First => &[Work::Qkv],
            Self::Middle => &[Work::Projection, Work::Ffn, Work::Qkv],
            Self::Last => &[Work::Projection, Work::Ffn, Work::Head],
            Self::Idle => &[],
        }
    }

    fn has_ffn(self) -> bool {
        self.matrices().contains(&Work::Ffn)
    }
}

/// Work of both devices at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot {
    /// Stage of the NPU.
    pub stage: Stage,
    pub requests: u32,
    pub mha_requests: u32,
    /// Longest context of these requests.
    pub context: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", content = "requests", rename_all = "lowercase")]
pub enum Decision {
    #[default]
    None,
    /// FFN of `m` requests, to the memory.
    Ffn(u32),
    /// Attention of `n` requests, to the NPU.
    Mha(u32),
}

/// Choice of the plan of a step, in LibraPIM's modes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Rule {
    /// The shortest of all plans: one group, two groups, or a whole group in memory; without offloading, or with a share
    /// of the FFN or of attention
    #[default]
    Shortest,
    /// Algorithm 1 as printed: two groups, or a whole group in memory if it has fewer requests than channels
    Paper,
}

/// Time as a function of requests.
type Side<'a> = &'a dyn Fn(u32) -> Picos;
type Solver = fn(u32, Side<'_>, Side<'_>) -> Balance;

/// Sides of a slot, as functions of the number of offloaded requests.
pub struct Sides<'a> {
    times: &'a dyn DeviceTimes,
    slot: Slot,
    /// NPU work without the FFN.
    others: Picos,
    mha: Picos,
}

impl Sides<'_> {
    /// The NPU without the FFN of `m` requests.
    pub fn npu_without(&self, m: u32) -> Picos {
        let ffn =
            self.slot.stage.has_ffn().then(|| self.times.npu(Work::Ffn, self.slot.requests - m, 1).total());
        self.others + ffn.unwrap_or_default()
    }

    /// The memory with the FFN of `m` requests. Equation 1 has `tMHA_PIM + tFFN_PIM(m)`. Here the FFN also waits for the
    /// projection, and Q, K and V wait for the FFN.
    pub fn pim_with(&self, m: u32) -> Picos {
        if m == 0 { self.mha } else { self.mha.max(self.others) + self.times.ffn_pim(m) }
    }

    /// The NPU with attention of `n` requests.
    pub fn npu_with(&self, n: u32) -> Picos {
        self.npu_without(0) + self.times.npu(Work::Mha, n, self.slot.context).total()
    }

    /// The memory without attention of `n` requests.
    pub fn pim_without(&self, n: u32) -> Picos {
        self.times.mha_pim(self.slot.mha_requests - n, self.slot.context)
    }

    fn unshared(&self) -> Choice {
        let (npu, pim) = (self.npu_without(0), self.mha);
        Choice { decision: Decision::None, npu_before: npu, pim_before: pim, npu, pim }
    }
}

/// A decision with its expected times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Choice {
    pub decision: Decision,
    /// The NPU's time without offloading.
    pub npu_before: Picos,
    /// The memory's time without offloading.
    pub pim_before: Picos,
    /// The NPU's time with it.
    pub npu: Picos,
    /// The memory's time with it.
    pub pim: Picos,
}

impl Choice {
    /// Time until both finish.
    pub fn longer(&self) -> Picos {
        self.npu.max(self.pim)
    }
}

#[derive(Clone, Copy)]
pub struct Scheduler<'a> {
    times: &'a dyn DeviceTimes,
    channels: u32,
    copies: u32,
}

impl<'a> Scheduler<'a> {
    /// `channels` also limits the requests whose FFN is offloaded ("up to 64 batches - the number of available PIM
    /// channels", section 6.2).
    pub fn new(times: &'a dyn DeviceTimes, channels: u32) -> Self {
        Self { times, channels, copies: u32::MAX }
    }

    /// Limits requests of a group whose attention moves to those with room for a copy of keys and values.
    #[must_use]
    pub fn with_copies(mut self, requests: u32) -> Self {
        self.copies = requests;
        self
    }

    /// Line 10: fewer requests than channels.
    pub fn group_is_small(&self, requests: u32) -> bool {
        requests < self.channels
    }

    pub fn sides(&self, slot: Slot) -> Sides<'a> {
        let (times, b) = (self.times, slot.requests);
        let others = slot.stage.matrices().iter().filter(|work| **work != Work::Ffn);
        let others = others.map(|work| times.npu(*work, b, 1).total()).sum();
        let mha = times.mha_pim(slot.mha_requests, slot.context);
        Sides { times, slot, others, mha }
    }

    fn ffn_limit(&self, slot: Slot) -> u32 {
        if slot.stage.has_ffn() { slot.requests.min(self.channels) } else { 0 }
    }

    /// Moves the FFN of `requests` requests, or of all, to the memory, whatever it takes.
    pub fn give(&self, slot: Slot, requests: u32) -> Choice {
        let sides = self.sides(slot);
        let m = requests.min(self.ffn_limit(slot));
        let decision = if m > 0 { Decision::Ffn(m) } else { Decision::None };
        Choice { decision, npu: sides.npu_without(m), pim: sides.pim_with(m), ..sides.unshared() }
    }

    /// Lines 14 to 28, by bisection.
    pub fn decide(&self, slot: Slot) -> Choice {
        self.decide_by(slot, |limit, falling, rising| balance(limit, falling, rising))
    }

    /// Lines 14 to 28, by trying all numbers.
    pub fn decide_exhaustively(&self, slot: Slot) -> Choice {
        self.decide_by(slot, |limit, falling, rising| exhaustive(limit, falling, rising))
    }

    /// The best share of the FFN, equation 1, and of attention, equation 2.
    pub fn shares(&self, slot: Slot) -> [Choice; 2] {
        let solve: Solver = |limit, falling, rising| balance(limit, falling, rising);
        let sides = self.sides(slot);
        [self.share_of_ffn(&sides, solve), self.share_of_attention(&sides, solve)]
    }

    fn decide_by(&self, slot: Slot, solve: Solver) -> Choice {
        let sides = self.sides(slot);
        match sides.npu_without(0).cmp(&sides.mha) {
            Ordering::Greater => self.share_of_ffn(&sides, solve),
            Ordering::Less => self.share_of_attention(&sides, solve),
            Ordering::Equal => sides.unshared(),
        }
    }

    fn share_of_ffn(&self, sides: &Sides<'_>, solve: Solver) -> Choice {
        let best = solve(self.ffn_limit(sides.slot), &|m| sides.npu_without(m), &|m| sides.pim_with(m));
        let none = sides.unshared();
        match best.count {
            0 => none,
            m => Choice { decision: Decision::Ffn(m), npu: best.falling, pim: best.rising, ..none },
        }
    }

    fn share_of_attention(&self, sides: &Sides<'_>, solve: Solver) -> Choice {
        let limit = sides.slot.mha_requests.min(self.copies);
        let best = solve(limit, &|n| sides.pim_without(n), &|n| sides.npu_with(n));
        let none = sides.unshared();
        match best.count {
            0 => none,
            n => Choice { decision: Decision::Mha(n), npu: best.rising, pim: best.falling, ..none },
        }
    }
}
