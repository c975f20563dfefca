//! A decode step, built slot by slot. [`crate::offloading::plan`] has the slots and their rules.

use crate::offloading::algorithm::{Choice, Decision, Stage};
use crate::offloading::hardware::Baselines;
use crate::offloading::step::{Job, Layout, Mode, Step};
use crate::offloading::time::Picos;
use crate::offloading::timeline::{Device, Event, Timeline, Work};
use crate::offloading::times::DeviceTimes;
use crate::offloading::work::Model;

/// A group on the NPU; `layer` is the next one with attention (stage middle: Q, K, V).
#[derive(Clone, Copy)]
pub(crate) struct OnNpu {
    pub group: u8,
    pub stage: Stage,
    pub layer: u32,
    pub requests: u32,
}

/// A group in attention; contexts are longest first.
#[derive(Clone, Copy)]
pub(crate) struct InMha<'a> {
    pub group: u8,
    pub layer: u32,
    pub contexts: &'a [u32],
}

pub(crate) struct Builder<'a> {
    model: &'a Model,
    times: &'a dyn DeviceTimes,
    mode: Mode,
    layout: Layout,
    /// Share of reads that NeuPIMs does while banks compute, in thousandths.
    overlap_permille: u64,
    now: Picos,
    npu_macs: u64,
    pim_macs: u64,
    jobs: Vec<(Job, u64)>,
    timeline: Timeline,
    /// Cache: attention of all of a group, which many slots need.
    ragged: Vec<(Vec<u32>, Picos)>,
}

impl<'a> Builder<'a> {
    pub fn new(
        model: &'a Model,
        times: &'a dyn DeviceTimes,
        baselines: &Baselines,
        mode: Mode,
        layout: Layout,
    ) -> Self {
        let overlap_permille = baselines.overlap_permille.into();
        let timeline = Timeline::default();
        let (now, ragged, jobs) = (Picos::ZERO, Vec::new(), Vec::new());
        let (npu_macs, pim_macs) = (0, 0);
        Self { model, times, mode, layout, overlap_permille, now, npu_macs, pim_macs, jobs, timeline, ragged }
    }

    pub fn finish(mut self, choice: Option<Choice>) -> Step {
        self.timeline.span = self.now;
        let Self { mode, layout, npu_macs, pim_macs, jobs, timeline, .. } = self;
        Step { mode, layout, choice, npu_macs, pim_macs, jobs, timeline }
    }

    fn job(&mut self, job: Job) {
        match self.jobs.iter_mut().find(|(known, _)| *known == job) {
            Some((_, times)) => *times += 1,
            None => self.jobs.push((job, 1)),
        }
    }

    fn matrix(&mut self, work: Work, npu: u32, pim: u32) {
        let weights = self.model.weights(work);
        self.npu_macs += u64::from(npu) * weights;
        self.pim_macs += u64::from(pim) * weights;
        self.job(Job::Matrix { work, npu, pim });
    }

    fn attention(&mut self, device: Device, contexts: &[u32]) {
        let macs: u64 = contexts.iter().map(|&context| self.model.attention_macs(context)).sum();
        match device {
            Device::Npu => self.npu_macs += macs,
            Device::Pim => self.pim_macs += macs,
        }
        self.job(Job::Attention { device, contexts: contexts.to_vec() });
    }

    fn mha_pim(&mut self, contexts: &[u32]) -> Picos {
        if let Some((_, time)) = self.ragged.iter().find(|(known, _)| known == contexts) {
            return *time;
        }
        let time = self.times.mha_pim_ragged(contexts);
        self.ragged.push((contexts.to_vec(), time));
        time
    }

    /// Time that banks wait for reads of a slot, where both exclude each other.
    fn excluded(&self, read: Picos) -> Picos {
        match self.mode {
            Mode::Pipelined | Mode::Dbo => read,
            Mode::NeuPims => Picos(read.0 / 1000 * (1000 - self.overlap_permille)),
            _ => Picos::ZERO,
        }
    }

    /// Time of a slot by itself.
    pub fn span(&self, on_npu: Option<OnNpu>, in_mha: Option<InMha<'_>>, decision: Decision) -> Picos {
        let (jobs, timeline, ragged) = (Vec::new(), Timeline::default(), Vec::new());
        let mut alone = Self { now: Picos::ZERO, jobs, timeline, ragged, ..*self };
        alone.slot(on_npu, in_mha, decision);
        alone.now
    }

    /// One slot: the NPU's stage beside the other group's attention.
    pub fn slot(&mut self, on_npu: Option<OnNpu>, in_mha: Option<InMha<'_>>, decision: Decision) {
        let start = self.now;
        let (m, n) = match decision {
            Decision::None => (0, 0),
            Decision::Ffn(m) => (m, 0),
            Decision::Mha(n) => (0, n as usize),
        };
        let times = self.times;
        let on_both = |work, requests| if work == Work::Ffn { (requests - m, m) } else { (requests, 0) };
        // Reads of the NPU in the slot; in some modes the banks wait for them.
        let reads = on_npu.iter().flat_map(|OnNpu { stage, requests, .. }| {
            stage.matrices().iter().map(|&work| times.npu(work, on_both(work, *requests).0, 1).read)
        });
        let pim_free = start + self.excluded(reads.sum());
        // The NPU: projection, its share of the FFN, then Q, K, V or logits once both shares end.
        let (mut npu_end, mut ffn_pim) = (start, None);
        if let Some(OnNpu { group, stage, layer, requests }) = on_npu {
            for &work in stage.matrices() {
                let layer = if work == Work::Qkv { layer } else { layer.saturating_sub(1) };
                let (npu, pim) = on_both(work, requests);
                let event = |device, requests, start, time| Event {
                    device,
                    work,
                    group,
                    layer,
                    requests,
                    start,
                    end: start + time,
                };
                let share = event(Device::Pim, pim, npu_end.max(pim_free), times.pim(work, pim, 1));
                npu_end =
                    self.timeline.add(event(Device::Npu, npu, npu_end, times.npu(work, npu, 1).total()));
                if pim > 0 {
                    npu_end = npu_end.max(share.end);
                    ffn_pim = Some(share);
                }
                self.matrix(work, npu, pim);
            }
        }
        let mut pim_end = start;
        let share: Option<Event> = ffn_pim.filter(|share: &Event| share.end > share.start);
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
                self.attention(Device::Npu, offloaded);
            }
            let time = self.mha_pim(kept);
            let start = pim_free;
            // Before and after the offloaded FFN.
            let first = share.map_or(time, |share| time.min(share.start.saturating_sub(start)));
            pim_end = self.timeline.add(event(Device::Pim, kept.len(), start, start + first));
            if let Some(share) = share {
                pim_end = self.timeline.add(share);
                pim_end =
                    self.timeline.add(event(Device::Pim, kept.len(), pim_end, pim_end + (time - first)));
            }
            self.attention(Device::Pim, kept);
        }
        self.now = npu_end.max(pim_end);
    }

    /// The same stage and weights for one group on the NPU and one in memory. The NPU computes both logits.
    pub fn both(&mut self, on_npu: OnNpu, in_memory: u32) {
        let OnNpu { stage, layer, requests, .. } = on_npu;
        let times = self.times;
        let at = |device, work, requests, start, time| Event {
            device,
            work,
            group: u8::from(device == Device::Pim),
            layer: if work == Work::Qkv { layer } else { layer.saturating_sub(1) },
            requests,
            start,
            end: start + time,
        };
        let (mut npu, mut pim) = (self.now, self.now);
        for works in stage.matrices().chunk_by(|_, next| *next == Work::Ffn) {
            if works == [Work::Head] {
                let all = requests + in_memory;
                let time = times.npu(Work::Head, all, 1).total();
                npu = self.timeline.add(at(Device::Npu, Work::Head, all, npu.max(pim), time));
                self.matrix(Work::Head, all, 0);
                continue;
            }
            for &work in works {
                let time = times.npu(work, requests, 1).total();
                npu = self.timeline.add(at(Device::Npu, work, requests, npu, time));
            }
            for &work in works {
                let time = times.pim(work, in_memory, 1);
                pim = self.timeline.add(at(Device::Pim, work, in_memory, pim, time));
                self.matrix(work, requests, in_memory);
            }
        }
        self.now = npu.max(pim);
    }

    /// AttAcc's attention of a layer, one group: while heads are in one of (Q, K, V), attention and projection, others
    /// are in another. Heads go one by one, so the first and last have nothing beside them.
    pub fn by_heads(&mut self, layer: u32, contexts: &[u32]) {
        let (start, requests, times) = (self.now, contexts.len() as u32, self.times);
        let heads = u64::from(self.model.kv_heads.max(1));
        let [qkv, projection] =
            [times.npu(Work::Qkv, requests, 1).total(), times.npu(Work::Projection, requests, 1).total()];
        let mha = self.mha_pim(contexts);
        let of_head = |time: Picos| Picos(time.0.div_ceil(heads));
        let event = |device, work, start, end| Event { device, work, group: 0, layer, requests, start, end };
        let qkv_end = self.timeline.add(event(Device::Npu, Work::Qkv, start, start + qkv));
        let mha_end = (start + of_head(qkv) + mha).max(qkv_end + of_head(mha));
        self.timeline.add(event(Device::Pim, Work::Mha, mha_end - mha, mha_end));
        let end = (mha_end + of_head(projection)).max(qkv_end + projection);
        self.now = self.timeline.add(event(Device::Npu, Work::Projection, end - projection, end));
        self.matrix(Work::Qkv, requests, 0);
        self.matrix(Work::Projection, requests, 0);
        self.attention(Device::Pim, contexts);
    }

    /// AttAcc's FFN of a layer: each device multiplies a part of the weights, so that both end at the same time.
    pub fn coprocessed(&mut self, layer: u32, requests: u32) {
        let (start, times) = (self.now, self.times);
        let (npu, pim) = (times.npu(Work::Ffn, requests, 1).total(), times.ffn_coprocessed(requests));
        let all = u64::from(requests) * self.model.ffn_weights();
        let (npu_wide, sum) = (u128::from(npu.0), u128::from(npu.0) + u128::from(pim.0));
        let part = |of: u64| (u128::from(of) * npu_wide).checked_div(sum).unwrap_or(0) as u64;
        let pim_macs = part(all);
        let npu_macs = all - pim_macs;
        let end = start + Picos(part(pim.0));
        for (device, macs) in [(Device::Npu, npu_macs), (Device::Pim, pim_macs)] {
            if macs > 0 {
                let event = Event { device, work: Work::Ffn, group: 0, layer, requests, start, end };
                self.timeline.add(event);
            }
        }
        self.now = end;
        self.job(Job::Coprocessed { requests, npu_macs, pim_macs });
        self.npu_macs += npu_macs;
        self.pim_macs += pim_macs;
    }

    pub fn logits(&mut self, requests: u32) {
        let layer = self.model.layers.saturating_sub(1);
        let (start, end) = (self.now, self.now + self.times.npu(Work::Head, requests, 1).total());
        let (device, work) = (Device::Npu, Work::Head);
        self.now = self.timeline.add(Event { device, work, group: 0, layer, requests, start, end });
        self.matrix(Work::Head, requests, 0);
    }
}
