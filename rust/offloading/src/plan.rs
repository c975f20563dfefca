//! A decode step in each mode, as a timeline.
//!
//! | mode | groups | devices at the same time | memory |
//! | --- | --- | --- | --- |
//! | serial | one | no (Fig. 5a) | ordinary |
//! | pipelined | two | yes (Fig. 5b) | reads for the NPU and PIM exclude each other (Fig. 8b) |
//! | dex | two | yes | sliced: reads and PIM at once, tCCD 2 % longer |
//! | dex+dbo | two | yes, with offloading by algorithm 1 | sliced |
//! | shortest | one or two | the shortest [`Layout`], each with offloading | sliced |
//!
//! `shortest` is not the paper's. Two groups load all weights twice, which is more than overlapping gives back if groups are
//! small; and a whole group in memory is shorter for very small ones only.
//!
//! **Slots.** With two groups, slot by slot, the NPU has one group's matrices while the other one is in attention; then they
//! change places. The NPU's stages are Q, K, V of layer 1; then projection, FFN and Q, K, V of the next layer; at the end
//! projection, FFN and logits. `2 (layers + 1)` slots make a step; the next one starts when it is done. A slot lasts until both
//! are through. In `pipelined` the weights of a slot are read first, the PIM works behind; with ideal turns in place of blocks the
//! slot would take as long.
//!
//! **FFN offload.** Weights are broadcast while the NPU reads them, so the memory does its share of the FFN when the NPU does its
//! own, and attention before and after. Q, K and V wait for both shares. **MHA offload**: the requests with the longest contexts, on
//! the NPU at the end of the slot. **Whole group**: layer by layer the NPU has one group's matrices and the memory the other
//! one's, then the memory has attention of both.

use crate::algorithm::{Choice, Decision, Rule, Scheduler, Slot, Stage};
use crate::batch::Batch;
use crate::error::OffloadError;
use crate::time::Picos;
use crate::timeline::{Device, Event, Timeline, Work};
use crate::times::DeviceTimes;
use crate::work::{Matrix, Model};
use serde::{Deserialize, Serialize};

/// How a step is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// One device after the other.
    #[serde(rename = "serial")]
    Serial,
    /// Two groups, memory exclusive.
    #[serde(rename = "pipelined")]
    Pipelined,
    /// Two groups, sliced banks.
    #[serde(rename = "dex")]
    Dex,
    /// Two groups, sliced banks, offloading.
    #[serde(rename = "dex+dbo")]
    DexDbo,
    /// Sliced banks, offloading, the shortest layout.
    #[serde(rename = "shortest")]
    Shortest,
}

/// How requests are spread over groups and devices.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layout {
    /// One group; attention begins when its matrices are done.
    OneGroup,
    /// Two groups that change places.
    TwoGroups,
    /// Two groups, one of them in memory as a whole.
    WholeGroup,
}

impl Mode {
    /// All of them, each adding something.
    pub const ALL: [Self; 5] = [Self::Serial, Self::Pipelined, Self::Dex, Self::DexDbo, Self::Shortest];

    /// Name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Serial => "serial",
            Self::Pipelined => "pipelined",
            Self::Dex => "dex",
            Self::DexDbo => "dex+dbo",
            Self::Shortest => "shortest",
        }
    }
}

/// A decode step.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Step {
    /// How it was executed.
    pub mode: Mode,
    /// Groups and devices.
    pub layout: Layout,
    /// The decision in a middle layer, while the first group is on the NPU. `None` without DBO, with another layout than two
    /// groups, or if there is one layer only.
    pub choice: Option<Choice>,
    /// MACs of the NPU.
    pub npu_macs: u64,
    /// MACs of the memory.
    pub pim_macs: u64,
    /// Who is busy when.
    pub timeline: Timeline,
}

/// Plans steps of one model on one system.
pub struct Planner<'a> {
    model: Model,
    plain: &'a dyn DeviceTimes,
    sliced: &'a dyn DeviceTimes,
    channels: u32,
    rule: Rule,
}

/// A group on the NPU: its number, requests, and layer whose attention is next (stage middle: Q, K, V) .
#[derive(Clone, Copy)]
struct OnNpu {
    group: u8,
    stage: Stage,
    layer: u32,
    requests: u32,
}

/// A group in attention; contexts are longest first.
#[derive(Clone, Copy)]
struct InMha<'a> {
    group: u8,
    layer: u32,
    contexts: &'a [u32],
}

impl<'a> Planner<'a> {
    /// For `model` with times of ordinary (`plain`) and of sliced banks.
    pub fn new(
        model: &Model,
        plain: &'a dyn DeviceTimes,
        sliced: &'a dyn DeviceTimes,
        channels: u32,
    ) -> Self {
        let model = model.clone();
        Self { model, plain, sliced, channels, rule: Rule::default() }
    }

    /// With another rule.
    #[must_use]
    pub fn with_rule(mut self, rule: Rule) -> Self {
        self.rule = rule;
        self
    }

    /// The scheduler of sliced banks.
    pub fn scheduler(&self) -> Scheduler<'a> {
        Scheduler::new(self.sliced, self.channels, self.rule)
    }

    /// A step of the batch.
    ///
    /// # Errors
    /// [`OffloadError::BeyondTable`] if requests or contexts are beyond what the times are known for.
    pub fn step(&self, batch: &Batch, mode: Mode) -> Result<Step, OffloadError> {
        let contexts = batch.contexts();
        let times = match mode {
            Mode::Serial | Mode::Pipelined => self.plain,
            Mode::Dex | Mode::DexDbo | Mode::Shortest => self.sliced,
        };
        let (requests, context) = times.limits();
        let asked = [
            ("requests", contexts.len() as u32, requests),
            ("context", contexts.first().copied().unwrap_or(0), context),
        ];
        for (what, value, max) in asked {
            if value > max {
                return Err(OffloadError::BeyondTable { what, value, max });
            }
        }
        let groups = batch.groups();
        Ok(match mode {
            Mode::Serial => self.one_group(mode, &contexts),
            Mode::Pipelined | Mode::Dex => self.slots(mode, &groups),
            Mode::DexDbo if self.is_small(&groups) => self.whole_group(mode, &groups),
            Mode::DexDbo => self.slots(mode, &groups),
            Mode::Shortest => self.shortest(&contexts, &groups),
        })
    }

    /// Steps until all requests are finished.
    ///
    /// # Errors
    /// As [`Planner::step`].
    pub fn run(&self, batch: &Batch, mode: Mode) -> Result<Vec<Step>, OffloadError> {
        let (mut steps, mut next) = (Vec::new(), Some(batch.clone()));
        while let Some(batch) = next {
            steps.push(self.step(&batch, mode)?);
            next = batch.advanced();
        }
        Ok(steps)
    }

    /// Lines 10-12 of algorithm 1; the first group is never the smaller one. A request by itself has no other group.
    fn is_small(&self, groups: &[Vec<u32>; 2]) -> bool {
        self.scheduler().group_is_small(groups[0].len() as u32) && !groups[1].is_empty()
    }

    /// The shortest layout; of several, two groups first, then one.
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
        let times = if mode == Mode::Serial { self.plain } else { self.sliced };
        let mut step = Builder::new(self, times, mode, Layout::OneGroup);
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

    fn stage(&self, layer: u32) -> Stage {
        match layer {
            0 => Stage::First,
            layer if layer < self.model.layers => Stage::Middle,
            _ => Stage::Last,
        }
    }

    fn slots(&self, mode: Mode, groups: &[Vec<u32>; 2]) -> Step {
        let times = if mode == Mode::Pipelined { self.plain } else { self.sliced };
        let mut step = Builder::new(self, times, mode, Layout::TwoGroups);
        let mut decided: Vec<(Slot, Choice)> = Vec::new();
        let mut shown = None;
        // Slot k: the NPU has stage k / 2 of group k mod 2; in attention is what it had before.
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
            if let (Mode::DexDbo | Mode::Shortest, Some(npu), Some(mha)) = (mode, on_npu, in_mha)
                && let Some(&context) = mha.contexts.first()
            {
                let mha_requests = mha.contexts.len() as u32;
                let key = Slot { stage: npu.stage, requests: npu.requests, mha_requests, context };
                let choice = match decided.iter().find(|(slot, _)| *slot == key) {
                    Some(&(_, choice)) => choice,
                    None => {
                        let choice = self.scheduler().decide(key);
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
        let mut step = Builder::new(self, self.sliced, mode, Layout::WholeGroup);
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

/// A step that grows slot by slot.
struct Builder<'a> {
    planner: &'a Planner<'a>,
    times: &'a dyn DeviceTimes,
    mode: Mode,
    layout: Layout,
    now: Picos,
    npu_macs: u64,
    pim_macs: u64,
    timeline: Timeline,
    /// Attention of all of a group, which many slots ask for.
    ragged: Vec<(Vec<u32>, Picos)>,
}

impl<'a> Builder<'a> {
    fn new(planner: &'a Planner<'a>, times: &'a dyn DeviceTimes, mode: Mode, layout: Layout) -> Self {
        let timeline = Timeline::default();
        let (now, ragged) = (Picos::ZERO, Vec::new());
        Self { planner, times, mode, layout, now, npu_macs: 0, pim_macs: 0, timeline, ragged }
    }

    fn finish(mut self, choice: Option<Choice>) -> Step {
        self.timeline.span = self.now;
        let Self { mode, layout, npu_macs, pim_macs, timeline, .. } = self;
        Step { mode, layout, choice, npu_macs, pim_macs, timeline }
    }

    fn mha_pim(&mut self, contexts: &[u32]) -> Picos {
        if let Some((_, time)) = self.ragged.iter().find(|(known, _)| known == contexts) {
            return *time;
        }
        let time = self.times.mha_pim_ragged(contexts);
        self.ragged.push((contexts.to_vec(), time));
        time
    }

    fn mha_macs(&self, contexts: &[u32]) -> u64 {
        contexts.iter().map(|&context| self.planner.model.attention_macs(context)).sum()
    }

    /// MACs of a stage for one request, without the FFN.
    fn other_macs(&self, stage: Stage) -> u64 {
        let model = &self.planner.model;
        let [qkv, projection, head] = [model.qkv(), model.projection(), model.head()].map(Matrix::weights);
        match stage {
            Stage::First => qkv,
            Stage::Middle => projection + qkv,
            Stage::Last => projection + head,
            Stage::Idle => 0,
        }
    }

    /// One slot: the NPU's stage and the other group's attention at once.
    fn slot(&mut self, on_npu: Option<OnNpu>, in_mha: Option<InMha<'_>>, decision: Decision) {
        let start = self.now;
        let (m, n) = match decision {
            Decision::None => (0, 0),
            Decision::Ffn(m) => (m, 0),
            Decision::Mha(n) => (0, n as usize),
        };
        // What the NPU does: projection, its share of the FFN, then Q, K, V or logits once both shares are done.
        let (mut npu_end, mut read, mut ffn_pim) = (start, Picos::ZERO, None);
        if let Some(OnNpu { group, stage, layer, requests }) = on_npu {
            let times = self.times;
            let before = layer.saturating_sub(1);
            let event = |work, layer, requests, start, end| Event {
                device: Device::Npu,
                work,
                group,
                layer,
                requests,
                start,
                end,
            };
            if stage != Stage::First {
                let projection = times.projection_npu(requests);
                let ffn = times.ffn_npu(requests - m);
                read += projection.read + ffn.read;
                let ready = npu_end + projection.total();
                self.timeline.add(event(Work::Projection, before, requests, npu_end, ready));
                npu_end =
                    self.timeline.add(event(Work::Ffn, before, requests - m, ready, ready + ffn.total()));
                let share = Event {
                    device: Device::Pim,
                    ..event(Work::Ffn, before, m, ready, ready + times.ffn_pim(m))
                };
                npu_end = npu_end.max(share.end);
                ffn_pim = Some(share);
                let ffn_macs = self.planner.model.ffn_weights();
                self.npu_macs += u64::from(requests - m) * ffn_macs;
                self.pim_macs += u64::from(m) * ffn_macs;
            }
            let (work, last, layer) = match stage {
                Stage::First | Stage::Middle | Stage::Idle => (Work::Qkv, times.qkv_npu(requests), layer),
                Stage::Last => (Work::Head, times.head_npu(requests), before),
            };
            read += last.read;
            npu_end = self.timeline.add(event(work, layer, requests, npu_end, npu_end + last.total()));
            self.npu_macs += u64::from(requests) * self.other_macs(stage);
        }
        let mut pim_end = start;
        let share = ffn_pim.filter(|share| share.end > share.start);
        if in_mha.is_none()
            && let Some(share) = share
        {
            pim_end = self.timeline.add(share);
        }
        if let Some(InMha { group, layer, contexts }) = in_mha {
            let (offloaded, kept) = contexts.split_at(n);
            let event = |device, requests: usize, start, end| Event {
                device,
                work: Work::Mha,
                group,
                layer,
                requests: requests as u32,
                start,
                end,
            };
            if n > 0 {
                let time = self.times.mha_npu_ragged(offloaded).total();
                npu_end = self.timeline.add(event(Device::Npu, n, npu_end, npu_end + time));
                self.npu_macs += self.mha_macs(offloaded);
            }
            let time = self.mha_pim(kept);
            let start = if self.mode == Mode::Pipelined { start + read } else { start };
            // Before the offloaded FFN, and the rest behind it.
            let first = share.map_or(time, |share| time.min(share.start - start));
            pim_end = self.timeline.add(event(Device::Pim, kept.len(), start, start + first));
            if let Some(share) = share {
                pim_end = self.timeline.add(share);
                pim_end =
                    self.timeline.add(event(Device::Pim, kept.len(), pim_end, pim_end + (time - first)));
            }
            self.pim_macs += self.mha_macs(kept);
        }
        self.now = npu_end.max(pim_end);
    }

    /// The same stage of two groups at once: the NPU has one, the memory the other, with the same weights. Logits of both are the
    /// NPU's.
    fn both(&mut self, on_npu: OnNpu, in_memory: u32) {
        let OnNpu { stage, layer, requests, .. } = on_npu;
        let start = self.now;
        let times = self.times;
        let before = layer.saturating_sub(1);
        let at = |device, work, layer, requests, start, time| Event {
            device,
            work,
            group: u8::from(device == Device::Pim),
            layer,
            requests,
            start,
            end: start + time,
        };
        let (mut npu, mut pim) = (start, start);
        if stage != Stage::First {
            let time = times.projection_npu(requests).total();
            npu = self.timeline.add(at(Device::Npu, Work::Projection, before, requests, npu, time));
            let time = times.ffn_npu(requests).total();
            npu = self.timeline.add(at(Device::Npu, Work::Ffn, before, requests, npu, time));
            let time = times.projection_pim(in_memory);
            pim = self.timeline.add(at(Device::Pim, Work::Projection, before, in_memory, pim, time));
            let time = times.ffn_pim(in_memory);
            pim = self.timeline.add(at(Device::Pim, Work::Ffn, before, in_memory, pim, time));
            let ffn = self.planner.model.ffn_weights();
            self.npu_macs += u64::from(requests) * ffn;
            self.pim_macs += u64::from(in_memory) * ffn;
        }
        if stage == Stage::Last {
            let all = requests + in_memory;
            let ready = npu.max(pim);
            let time = times.head_npu(all).total();
            npu = self.timeline.add(at(Device::Npu, Work::Head, before, all, ready, time));
            let [projection, head] =
                [self.planner.model.projection(), self.planner.model.head()].map(Matrix::weights);
            self.npu_macs += u64::from(requests) * projection + u64::from(all) * head;
            self.pim_macs += u64::from(in_memory) * projection;
        } else {
            let time = times.qkv_npu(requests).total();
            npu = self.timeline.add(at(Device::Npu, Work::Qkv, layer, requests, npu, time));
            let time = times.qkv_pim(in_memory);
            pim = self.timeline.add(at(Device::Pim, Work::Qkv, layer, in_memory, pim, time));
            self.npu_macs += u64::from(requests) * self.other_macs(stage);
            self.pim_macs += u64::from(in_memory) * self.other_macs(stage);
        }
        self.now = npu.max(pim);
    }
}
