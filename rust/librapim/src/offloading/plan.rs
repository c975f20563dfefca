//! A decode step in each mode, as a timeline.
//!
//! | mode | groups | devices at the same time | memory |
//! | --- | --- | --- | --- |
//! | serial: NPU+AiM | one | no (Fig. 5a) | ordinary |
//! | attacc | one | heads of attention and of Q, K, V and projection; parts of an FFN | ordinary |
//! | pipelined | two | yes (Fig. 5b) | reads for the NPU and PIM exclude each other (Fig. 8b) |
//! | neupims | two | yes | two row buffers: a part of the reads beside PIM |
//! | dex | two | yes | sliced: reads and PIM at once, tCCD 2 % longer |
//! | dbo | two | as pipelined, with offloading by algorithm 1 | ordinary |
//! | dex+dbo: LibraPIM | two | yes, with offloading by algorithm 1 | sliced |
//! | shortest | one or two | the shortest [`Layout`], each with offloading | sliced |
//!
//! `shortest` is not the paper's. Two groups load all weights twice, which costs small groups more than overlap gains;
//! a whole group in memory is shorter only for very small ones.
//!
//! **Slots.** With two groups, the NPU has one group's matrices while the other is in attention; then they swap. The
//! NPU's stages are Q, K, V of layer 1; then projection, FFN and Q, K, V of the next layer; last projection, FFN and
//! logits: `2 (layers + 1)` slots. A slot lasts until both devices finish. In `pipelined` a slot's weights are read
//! before PIM works; ideal turns would take as long. NeuPIMs' second row buffer takes a share of these reads out of the
//! banks' way. Both deal requests to channels longest first, to the one that is free first.
//!
//! **NPU+AiM and AttAcc** get their PIM commands as [`Baselines`] says: in one stream for all channels, if `shared`.
//!
//! **FFN offload.** Weights are broadcast while the NPU reads them, so the memory does its share of the FFN with the
//! NPU, and attention before and after. Q, K and V wait for both shares. **MHA offload**: the longest contexts, on the
//! NPU at the end of the slot. **Whole group**: layer by layer the NPU has one group's matrices and the memory the
//! other's, then the memory has both attentions.

use crate::offloading::algorithm::{Choice, Decision, Rule, Scheduler, Slot, Stage};
use crate::offloading::batch::Batch;
use crate::offloading::builder::{Builder, InMha, OnNpu};
use crate::offloading::hardware::{Baselines, Hardware};
use crate::offloading::step::{Layout, Mode, Step};
use crate::offloading::times::{BaselineTimes, DeviceTimes};
use crate::offloading::work::Model;
use ndp_files::{Result, ensure, in_range};

/// Plans steps of one model on one system.
pub struct Planner<'a> {
    model: Model,
    plain: &'a dyn DeviceTimes,
    sliced: &'a dyn DeviceTimes,
    issued: BaselineTimes<'a>,
    baselines: Baselines,
    channels: u32,
    rule: Rule,
    /// Requests with an offloaded FFN, instead of algorithm 1's decision.
    given: Option<u32>,
    /// Requests of both groups whose copies fit.
    copies: u32,
}

impl<'a> Planner<'a> {
    /// `plain` and `sliced` are times of ordinary and sliced banks.
    pub fn new(
        model: &Model,
        hardware: &Hardware,
        plain: &'a dyn DeviceTimes,
        sliced: &'a dyn DeviceTimes,
    ) -> Self {
        let issued = BaselineTimes::new(model, hardware, plain);
        let (model, baselines, channels) = (model.clone(), hardware.baselines, hardware.pim.channels);
        Self {
            model,
            plain,
            sliced,
            issued,
            baselines,
            channels,
            rule: Rule::default(),
            given: None,
            copies: u32::MAX,
        }
    }

    #[must_use]
    pub fn with_rule(mut self, rule: Rule) -> Self {
        self.rule = rule;
        self
    }

    /// Fixes the requests of each group whose FFN goes to the memory in `dbo` and `dex+dbo`, even of small groups.
    pub fn with_ffn(mut self, requests: Option<u32>) -> Result<Self> {
        let asked = requests.unwrap_or(0);
        in_range("requests of a group whose FFN is offloaded", asked, 0, self.channels)?;
        self.given = requests;
        Ok(self)
    }

    /// Limits moved attention to requests whose copies fit ([`crate::offloading::Room`]); two groups have half each.
    #[must_use]
    pub fn with_copies(mut self, requests: u32) -> Self {
        self.copies = requests;
        self
    }

    /// Scheduler of sliced banks, for one group.
    pub fn scheduler(&self) -> Scheduler<'a> {
        Scheduler::new(self.sliced, self.channels, self.rule).with_copies(self.copies)
    }

    fn times(&self, mode: Mode) -> &dyn DeviceTimes {
        match mode {
            Mode::Serial | Mode::AttAcc => &self.issued,
            _ if mode.sliced() => self.sliced,
            _ => self.plain,
        }
    }

    fn builder(&self, mode: Mode, layout: Layout) -> Builder<'_> {
        Builder::new(&self.model, self.times(mode), &self.baselines, mode, layout)
    }

    /// A step of the batch. Fails if requests or contexts exceed the known times, if the memory gets more FFNs than the
    /// larger group has requests, or if the time overflows.
    pub fn step(&self, batch: &Batch, mode: Mode) -> Result<Step> {
        let contexts = batch.contexts();
        let times = self.times(mode);
        let (requests, context) = times.limits();
        let asked = [
            ("requests", contexts.len() as u32, requests),
            ("context", contexts.first().copied().unwrap_or(0), context),
        ];
        for (what, value, max) in asked {
            ensure!(value <= max, "{what} = {value} is beyond the table, which ends at {max}");
        }
        let groups = batch.groups();
        if let (Some(given), Mode::Dbo | Mode::DexDbo) = (self.given, mode) {
            let most = groups.iter().map(Vec::len).max().unwrap_or(0) as u64;
            in_range("requests of a group whose FFN is offloaded", given.into(), 0, most)?;
        }
        let step = match mode {
            Mode::Serial => self.one_group(mode, &contexts),
            Mode::AttAcc => self.attacc(&contexts),
            Mode::Pipelined | Mode::NeuPims | Mode::Dex | Mode::Dbo => self.slots(mode, &groups),
            Mode::DexDbo if self.given.is_none() && self.is_small(&groups) => self.whole_group(mode, &groups),
            Mode::DexDbo => self.slots(mode, &groups),
            Mode::Shortest => self.shortest(&contexts, &groups),
        };
        in_range("picoseconds of a step", step.timeline.span.0, 0, u64::MAX - 1)?;
        Ok(step)
    }

    pub fn run(&self, batch: &Batch, mode: Mode) -> Result<Vec<Step>> {
        let (mut steps, mut next) = (Vec::new(), Some(batch.clone()));
        while let Some(batch) = next {
            steps.push(self.step(&batch, mode)?);
            next = batch.advanced();
        }
        Ok(steps)
    }

    /// Lines 10-12 of algorithm 1; the first group is never the smaller one. A single request has no other group.
    fn is_small(&self, groups: &[Vec<u32>; 2]) -> bool {
        self.scheduler().group_is_small(groups[0].len() as u32) && !groups[1].is_empty()
    }

    /// The shortest layout; among equals, two groups first, then one.
    fn shortest(&self, contexts: &[u32], groups: &[Vec<u32>; 2]) -> Step {
        let mut best = self.slots(Mode::Shortest, groups);
        let mut others = vec![self.one_group(Mode::Shortest, contexts)];
        if self.is_small(groups) {
            others.push(self.whole_group(Mode::Shortest, groups));
        }
        for other in others {
            if other.timeline.span < best.timeline.span {
                best = other;
            }
        }
        best
    }

    fn one_group(&self, mode: Mode, contexts: &[u32]) -> Step {
        let mut step = self.builder(mode, Layout::OneGroup);
        let requests = contexts.len() as u32;
        let context = contexts.first().copied().unwrap_or(1);
        let decide = |slot| match mode {
            Mode::Serial => Decision::None,
            _ => self.scheduler().decide(slot).decision,
        };
        let decisions = [Stage::First, Stage::Middle, Stage::Last]
            .map(|stage| decide(Slot { stage, requests, mha_requests: 0, context }));
        let of_mha = decide(Slot { stage: Stage::Idle, requests: 0, mha_requests: requests, context });
        for layer in 0..=self.model.layers {
            let stage = self.stage(layer);
            let on_npu = OnNpu { group: 0, stage, layer, requests };
            step.slot(Some(on_npu), None, decisions[stage as usize]);
            if layer < self.model.layers {
                step.slot(None, Some(InMha { group: 0, layer, contexts }), of_mha);
            }
        }
        step.finish(None)
    }

    fn attacc(&self, contexts: &[u32]) -> Step {
        let mut step = self.builder(Mode::AttAcc, Layout::OneGroup);
        let requests = contexts.len() as u32;
        for layer in 0..self.model.layers {
            step.by_heads(layer, contexts);
            step.coprocessed(layer, requests);
        }
        step.logits(requests);
        step.finish(None)
    }

    fn stage(&self, layer: u32) -> Stage {
        match layer {
            0 => Stage::First,
            layer if layer < self.model.layers => Stage::Middle,
            _ => Stage::Last,
        }
    }

    fn slots(&self, mode: Mode, groups: &[Vec<u32>; 2]) -> Step {
        let mut step = self.builder(mode, Layout::TwoGroups);
        let mut decided: Vec<(Slot, Choice)> = Vec::new();
        let mut shown = None;
        // Slot k: the NPU has stage k / 2 of group k mod 2; in attention is its previous group.
        for slot in 0..2 * self.model.layers + 2 {
            let (layer, group) = (slot / 2, (slot % 2) as u8);
            let on_npu = (layer <= self.model.layers).then(|| OnNpu {
                group,
                stage: self.stage(layer),
                layer,
                requests: groups[usize::from(group)].len() as u32,
            });
            let in_mha =
                slot.checked_sub(1).filter(|before| before / 2 < self.model.layers).map(|before| InMha {
                    group: (before % 2) as u8,
                    layer: before / 2,
                    contexts: &groups[(before % 2) as usize],
                });
            let mut decision = Decision::None;
            if let (true, Some(npu), Some(mha)) = (mode.offloads(), on_npu, in_mha)
                && let Some(&context) = mha.contexts.first()
            {
                let mha_requests = mha.contexts.len() as u32;
                let key = Slot { stage: npu.stage, requests: npu.requests, mha_requests, context };
                let choice = match decided.iter().find(|(slot, _)| *slot == key) {
                    Some(&(_, choice)) => choice,
                    None => {
                        let scheduler = Scheduler::new(self.times(mode), self.channels, self.rule);
                        let scheduler = scheduler.with_copies(self.copies / 2);
                        let choice = match self.given.filter(|_| mode != Mode::Shortest) {
                            Some(requests) => scheduler.give(key, requests),
                            None => scheduler.decide(key),
                        };
                        decided.push((key, choice));
                        choice
                    }
                };
                decision = choice.decision;
                if npu.stage == Stage::Middle && group == 0 {
                    shown = Some(choice);
                }
            }
            step.slot(on_npu, in_mha, decision);
        }
        step.finish(shown)
    }

    fn whole_group(&self, mode: Mode, groups: &[Vec<u32>; 2]) -> Step {
        let mut step = self.builder(mode, Layout::WholeGroup);
        let mut both: Vec<u32> = groups.concat();
        both.sort_unstable_by_key(|&context| std::cmp::Reverse(context));
        let [first, second] = [groups[0].len() as u32, groups[1].len() as u32];
        for layer in 0..=self.model.layers {
            let stage = self.stage(layer);
            step.both(OnNpu { group: 0, stage, layer, requests: first }, second);
            if layer < self.model.layers {
                step.slot(None, Some(InMha { group: 0, layer, contexts: &both }), Decision::None);
            }
        }
        step.finish(None)
    }
}
