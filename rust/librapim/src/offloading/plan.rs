//! A decode step in each mode, as a timeline.
//!
//! | mode | groups | devices at the same time | memory |
//! | --- | --- | --- | --- |
//! | serial: NPU+AiM | one | no (Fig. 5a) | ordinary |
//! | attacc | one | heads of attention and of Q, K, V and projection; parts of an FFN | ordinary |
//! | pipelined | two | yes (Fig. 5b) | reads for the NPU and PIM exclude each other (Fig. 8b) |
//! | neupims | two | yes | two row buffers: a part of the reads beside PIM |
//! | dex | two | yes | sliced: reads and PIM at once, tCCD 2 % longer |
//! | dbo | one or two | as serial or pipelined, with offloading | ordinary |
//! | dex+dbo: LibraPIM | one or two | as serial or dex, with offloading | sliced |
//!
//! **Rules.** [`Rule::Shortest`] plans every [`Layout`] and takes the shortest. A slot's time depends on nothing
//! outside it, so the shortest decision in each slot gives the shortest step of a layout: none, the best share of the
//! FFN, or the best share of attention. LibraPIM is thus never slower than one group without offloading on the same
//! banks. [`Rule::Paper`] is algorithm 1: two groups, or a whole group in memory if it is small. Two groups load all
//! weights twice, which costs small groups more than overlap gains.
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
//! NPU at the end of the slot. With one group, FFN offload has no attention beside it, and the NPU waits while
//! attention is in memory. **Whole group**, on sliced banks: layer by layer the NPU has one group's matrices and the
//! memory the other's, then the memory has both attentions.

use crate::offloading::algorithm::{Choice, Decision, Rule, Scheduler, Slot, Stage};
use crate::offloading::batch::Batch;
use crate::offloading::builder::{Builder, InMha, OnNpu};
use crate::offloading::hardware::{Baselines, Hardware};
use crate::offloading::step::{Layout, Mode, Step};
use crate::offloading::time::Picos;
use crate::offloading::times::{BaselineTimes, DeviceTimes};
use crate::offloading::work::Model;
use ndp_files::{Result, ensure, in_range};
use std::collections::BTreeSet;

/// Mechanisms that a plan can do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Mechanism {
    /// Two groups, each on its own device
    Groups,
    /// A share of the FFN in memory
    Ffn,
    /// A share of attention on the NPU
    Attention,
}

type Slots<'b> = Vec<(Option<OnNpu>, Option<InMha<'b>>)>;

/// Contexts of requests as layers see them, by window.
struct Seen<'b> {
    all: &'b [u32],
    windowed: Vec<(u32, Vec<u32>)>,
}

impl<'b> Seen<'b> {
    fn new(model: &Model, all: &'b [u32]) -> Self {
        let windows: BTreeSet<u32> = model.windows.iter().copied().flatten().collect();
        let limited = |window: u32| (window, all.iter().map(|&context| context.min(window)).collect());
        Self { all, windowed: windows.into_iter().map(limited).collect() }
    }

    fn by(&self, model: &Model, layer: u32) -> &[u32] {
        let window = model.windows.get(layer as usize).copied().flatten();
        let own = self.windowed.iter().find(|(of, _)| Some(*of) == window);
        own.map_or(self.all, |(_, contexts)| contexts)
    }
}

/// Plans steps of one model on one system.
pub struct Planner<'a> {
    model: Model,
    plain: &'a dyn DeviceTimes,
    sliced: &'a dyn DeviceTimes,
    issued: BaselineTimes<'a>,
    baselines: Baselines,
    /// Most requests of a group with FFNs in memory; smaller groups are small.
    channels: u32,
    rule: Rule,
    without: Vec<Mechanism>,
    /// Requests with an offloaded FFN, instead of the rule's decision.
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
            without: Vec::new(),
            given: None,
            copies: u32::MAX,
        }
    }

    #[must_use]
    pub fn with_rule(mut self, rule: Rule) -> Self {
        self.rule = rule;
        self
    }

    /// Leaves mechanisms out of the plans of [`Rule::Shortest`].
    #[must_use]
    pub fn without(mut self, mechanisms: &[Mechanism]) -> Self {
        self.without = mechanisms.to_vec();
        self
    }

    /// Fixes the requests of each of two groups whose FFN goes to the memory in `dbo` and `dex+dbo`.
    pub fn with_ffn(mut self, requests: Option<u32>) -> Result<Self> {
        let asked = requests.unwrap_or(0);
        in_range("requests of a group whose FFN is offloaded", asked, 0, self.channels)?;
        self.given = requests;
        Ok(self)
    }

    /// Limits FFNs in memory to this number of requests of a group, instead of the number of channels.
    #[must_use]
    pub fn with_most_ffn(mut self, requests: u32) -> Self {
        self.channels = requests;
        self
    }

    /// Limits moved attention to requests whose copies fit ([`crate::offloading::Room`]); two groups have half each.
    #[must_use]
    pub fn with_copies(mut self, requests: u32) -> Self {
        self.copies = requests;
        self
    }

    /// Scheduler of sliced banks, for one group.
    pub fn scheduler(&self) -> Scheduler<'a> {
        Scheduler::new(self.sliced, self.channels).with_copies(self.copies)
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
            Mode::Serial => self.laid_out(mode, Layout::OneGroup, &contexts, &groups),
            Mode::AttAcc => self.attacc(&contexts),
            Mode::Dbo | Mode::DexDbo if self.given.is_none() => self.offloaded(mode, &contexts, &groups),
            _ => self.laid_out(mode, Layout::TwoGroups, &contexts, &groups),
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

    /// The layout that the rule chooses; among equals, two groups first, then one.
    fn offloaded(&self, mode: Mode, contexts: &[u32], groups: &[Vec<u32>; 2]) -> Step {
        let may_be_whole = mode.sliced() && self.is_small(groups);
        let (first, others) = match self.rule {
            Rule::Paper if may_be_whole => (Layout::WholeGroup, &[][..]),
            Rule::Paper => (Layout::TwoGroups, &[][..]),
            Rule::Shortest if self.without.contains(&Mechanism::Groups) => (Layout::OneGroup, &[][..]),
            Rule::Shortest if may_be_whole => {
                (Layout::TwoGroups, &[Layout::OneGroup, Layout::WholeGroup][..])
            }
            Rule::Shortest => (Layout::TwoGroups, &[Layout::OneGroup][..]),
        };
        let mut best = self.laid_out(mode, first, contexts, groups);
        for &layout in others {
            let other = self.laid_out(mode, layout, contexts, groups);
            if other.timeline.span < best.timeline.span {
                best = other;
            }
        }
        best
    }

    /// Time of all steps until the last request is finished, in one layout; `dex+dbo` with the shares of
    /// [`Rule::Shortest`]. Contexts beyond the known times count as the longest known.
    pub fn run_in(&self, batch: &Batch, layout: Layout) -> Picos {
        let (mut sum, mut next) = (Picos::ZERO, Some(batch.clone()));
        while let Some(batch) = next {
            sum += self.laid_out(Mode::DexDbo, layout, &batch.contexts(), &batch.groups()).timeline.span;
            next = batch.advanced();
        }
        sum
    }

    fn laid_out(&self, mode: Mode, layout: Layout, contexts: &[u32], groups: &[Vec<u32>; 2]) -> Step {
        match layout {
            Layout::OneGroup => {
                self.in_slots(mode, layout, self.one_group(&Seen::new(&self.model, contexts)))
            }
            Layout::TwoGroups => {
                let seen = groups.each_ref().map(|group| Seen::new(&self.model, group));
                self.in_slots(mode, layout, self.two_groups(&seen))
            }
            Layout::WholeGroup => self.whole_group(mode, groups),
        }
    }

    fn one_group<'b>(&self, seen: &'b Seen<'_>) -> Slots<'b> {
        let requests = seen.all.len() as u32;
        let on_npu = |layer| OnNpu { group: 0, stage: self.stage(layer), layer, requests };
        let in_mha = |layer| InMha { group: 0, layer, contexts: seen.by(&self.model, layer) };
        let of_layer = |layer| [(Some(on_npu(layer)), None), (None, Some(in_mha(layer)))];
        let layers = self.model.layers;
        (0..layers).flat_map(of_layer).chain([(Some(on_npu(layers)), None)]).collect()
    }

    /// Slot k: the NPU has stage k / 2 of group k mod 2; in attention is its previous group.
    fn two_groups<'b>(&self, groups: &'b [Seen<'_>; 2]) -> Slots<'b> {
        let layers = self.model.layers;
        let slot = |slot: u32| {
            let (layer, group) = (slot / 2, (slot % 2) as u8);
            let requests = groups[usize::from(group)].all.len() as u32;
            let before = slot.checked_sub(1).filter(|before| before / 2 < layers);
            let in_mha = before.map(|before| InMha {
                group: (before % 2) as u8,
                layer: before / 2,
                contexts: groups[(before % 2) as usize].by(&self.model, before / 2),
            });
            (Some(OnNpu { group, stage: self.stage(layer), layer, requests }), in_mha)
        };
        (0..2 * layers + 2).map(slot).collect()
    }

    fn attacc(&self, contexts: &[u32]) -> Step {
        let mut step = self.builder(Mode::AttAcc, Layout::OneGroup);
        let requests = contexts.len() as u32;
        let seen = Seen::new(&self.model, contexts);
        for layer in 0..self.model.layers {
            step.by_heads(layer, seen.by(&self.model, layer));
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

    fn in_slots(&self, mode: Mode, layout: Layout, slots: Slots<'_>) -> Step {
        let mut step = self.builder(mode, layout);
        let copies = if layout == Layout::TwoGroups { self.copies / 2 } else { self.copies };
        let scheduler = Scheduler::new(self.times(mode), self.channels).with_copies(copies);
        let mut decided = Vec::new();
        let mut shown: Option<Choice> = None;
        for (on_npu, in_mha) in slots {
            let group = in_mha.map(|mha| mha.group);
            let contexts = in_mha.map_or(&[][..], |mha| mha.contexts);
            let slot = Slot {
                stage: on_npu.map_or(Stage::Idle, |npu| npu.stage),
                requests: on_npu.map_or(0, |npu| npu.requests),
                mha_requests: contexts.len() as u32,
                context: contexts.first().copied().unwrap_or(1),
            };
            let mut decision = Decision::None;
            // Algorithm 1 and given numbers have attention beside each share.
            let is_alone = contexts.is_empty();
            if mode.offloads() && (!is_alone || self.rule == Rule::Shortest && self.given.is_none()) {
                let choice = match decided.iter().find(|(known, _)| *known == (slot, group)) {
                    Some(&(_, choice)) => choice,
                    None => {
                        let choice = match (self.given, self.rule) {
                            (Some(requests), _) => scheduler.give(slot, requests),
                            (None, Rule::Paper) => scheduler.decide(slot),
                            (None, Rule::Shortest) => {
                                self.shortest(&step, (on_npu, in_mha), scheduler.shares(slot))
                            }
                        };
                        decided.push(((slot, group), choice));
                        choice
                    }
                };
                decision = choice.decision;
                let of_ffn = slot.stage == Stage::Middle && on_npu.is_some_and(|npu| npu.group == 0);
                let of_attention = shown.is_some_and(|shown| shown.decision == Decision::None);
                if of_ffn || slot.stage == Stage::Idle && of_attention {
                    shown = Some(choice);
                }
            }
            step.slot(on_npu, in_mha, decision);
        }
        step.finish(shown)
    }

    /// The share with the shortest slot, if it is shorter than the slot without one.
    fn shortest(
        &self,
        step: &Builder<'_>,
        (on_npu, in_mha): (Option<OnNpu>, Option<InMha<'_>>),
        [ffn, attention]: [Choice; 2],
    ) -> Choice {
        let none = Choice { decision: Decision::None, npu: ffn.npu_before, pim: ffn.pim_before, ..ffn };
        let shares = [(Mechanism::Ffn, ffn), (Mechanism::Attention, attention)];
        let allowed = shares.into_iter().filter(|(mechanism, _)| !self.without.contains(mechanism));
        let shares = allowed.map(|(_, choice)| choice).filter(|choice| choice.decision != Decision::None);
        let span = |choice: &Choice| step.span(on_npu, in_mha, choice.decision);
        std::iter::once(none).chain(shares).min_by_key(span).unwrap_or(none)
    }

    fn whole_group(&self, mode: Mode, groups: &[Vec<u32>; 2]) -> Step {
        let mut step = self.builder(mode, Layout::WholeGroup);
        let mut both: Vec<u32> = groups.concat();
        both.sort_unstable_by_key(|&context| std::cmp::Reverse(context));
        let [first, second] = [groups[0].len() as u32, groups[1].len() as u32];
        let seen = Seen::new(&self.model, &both);
        for layer in 0..=self.model.layers {
            let stage = self.stage(layer);
            step.both(OnNpu { group: 0, stage, layer, requests: first }, second);
            if layer < self.model.layers {
                let contexts = seen.by(&self.model, layer);
                step.slot(None, Some(InMha { group: 0, layer, contexts }), Decision::None);
            }
        }
        step.finish(None)
    }
}
