//! The figures of a run in one mode: time, who was busy, what passed over the buses, what was offloaded.

use super::energy::PimEnergy;
use super::{CLOCKS_PER_US, Ran};
use ndp_config::HbmConfig;
use ndp_dram::hbm::{HbmBusCycles, PimCycles};
use ndp_energy::HbmConstants;
use ndp_model::Generation;
use ndp_offloading::{Device, Mode};
use ndp_pim::{Commands, Decided, Event, Outcome, Work};
use serde::Serialize;

/// Bytes over all channels' buses behind the writing of the weights, by what they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Bytes {
    /// Weights that the NPU read; those of FFNs that both devices share count once.
    pub weights: u64,
    /// New keys and values, at either home.
    pub new_keys_and_values: u64,
    /// Keys and values that the NPU read for attention.
    pub keys_and_values: u64,
    /// Keys and values that were read to be moved.
    pub moved: u64,
    /// Queries and probabilities into the global buffer.
    pub operands: u64,
    /// Inputs of products in memory.
    pub inputs: u64,
    /// Results and sums of the banks.
    pub results: u64,
}

impl Bytes {
    fn add(&mut self, event: &Event, commands: &Commands) {
        let bytes = |columns: u32| u64::from(columns) * u64::from(HbmConfig::COLUMN_BYTES);
        let read = bytes(commands.read + commands.share);
        match (event.device, event.work) {
            (Device::Npu, Work::Matrix | Work::Product) => self.weights += read,
            (Device::Npu, Work::Attention) => self.keys_and_values += read,
            _ => self.moved += read,
        }
        match event.work {
            Work::Product => self.inputs += bytes(commands.write),
            _ => self.new_keys_and_values += bytes(commands.write),
        }
        self.operands += bytes(commands.load);
        self.results += bytes(commands.result + commands.sum);
    }
}

/// One channel.
#[derive(Debug, Serialize)]
pub struct ChannelFigures {
    /// Its number.
    pub channel: usize,
    /// Commands behind the writing of the weights; those for all banks (PREA, REF) are not among them.
    pub commands: Commands,
    /// From the beginning.
    pub bus: HbmBusCycles,
    /// From the beginning.
    pub multipliers: PimCycles,
}

/// One mode.
#[derive(Debug, Serialize)]
pub struct Figures {
    pub mode: Mode,
    pub memory: String,
    pub groups: usize,
    /// Everything behind the writing of the weights.
    pub clocks: u64,
    pub loading_clocks: u64,
    pub tokens: usize,
    pub clocks_per_token: f64,
    pub tokens_per_second: f64,
    pub npu_busy: u64,
    pub pim_busy: u64,
    /// Both at the same time.
    pub both_busy: u64,
    pub npu_idle: u64,
    pub pim_idle: u64,
    /// Parts of all clocks, which add up to 1.
    pub npu_only: f64,
    pub both: f64,
    pub pim_only: f64,
    pub neither: f64,
    /// Steps of a group in which FFNs, or attention, moved to the other device.
    pub ffn_steps: usize,
    pub mha_steps: usize,
    /// Requests of all steps whose FFN was the memory's, and whose attention was the NPU's.
    pub ffn_requests: u32,
    pub mha_requests: u32,
    /// Outputs of attention in the banks that were compared.
    pub outputs_checked: u64,
    /// Outputs of FFNs in the banks that were compared.
    pub ffn_outputs_checked: u64,
    /// Columns of weights.
    pub columns_checked: u64,
    /// Columns of keys and values that the NPU read.
    pub copies_checked: u64,
    pub protocol_violations: u64,
    pub texts_differ: usize,
    pub bytes: Bytes,
    /// Of all channels together, from the beginning.
    pub bus: HbmBusCycles,
    pub multipliers: PimCycles,
    #[serde(skip)]
    pub channels: Vec<ChannelFigures>,
    /// Of the memory, behind the writing of the weights.
    pub energy: PimEnergy,
    #[serde(skip)]
    pub decisions: Vec<Decided>,
}

impl Figures {
    /// Of a run; `alone` is what each prompt gives by itself.
    pub fn new(
        mode: Mode,
        memory: &HbmConfig,
        constants: &HbmConstants,
        ran: &Ran,
        alone: &[Generation],
    ) -> Self {
        let Ran { outcome, violations, channels, .. } = ran;
        let busy = |device| spans(&outcome.events, device);
        let length = |spans: &[(u64, u64)]| -> u64 { spans.iter().map(|(start, end)| end - start).sum() };
        let (npu, pim) = (busy(Device::Npu), busy(Device::Pim));
        let (npu_busy, pim_busy) = (length(&npu), length(&pim));
        let both_busy: u64 =
            npu.iter().flat_map(|a| pim.iter().map(move |b| b.1.min(a.1).saturating_sub(b.0.max(a.0)))).sum();
        let part = |clocks: u64| clocks as f64 / outcome.clocks.max(1) as f64;
        let tokens: usize = outcome.texts.iter().map(|text| text.tokens.len()).sum();
        let differs = outcome.texts.iter().zip(alone).filter(|(text, alone)| {
            text.tokens != alone.tokens || text.logits_digests != alone.logits_digests
        });
        let (mut bus, mut multipliers) = (HbmBusCycles::default(), PimCycles::default());
        for channel in channels {
            bus += channel.bus;
            multipliers += channel.pim;
        }
        let (bytes, commands) = commands(outcome, channels.len());
        let each = channels.iter().zip(commands).enumerate();
        let seconds = outcome.clocks as f64 / CLOCKS_PER_US / 1e6;
        let decisions = outcome.decisions.clone();
        let shares = || decisions.iter().map(|decided| decided.share);
        Self {
            mode,
            memory: memory.name().to_owned(),
            groups: super::groups(mode),
            clocks: outcome.clocks,
            loading_clocks: outcome.loading_clocks,
            tokens,
            clocks_per_token: outcome.clocks as f64 / tokens.max(1) as f64,
            tokens_per_second: tokens as f64 / seconds,
            npu_busy,
            pim_busy,
            both_busy,
            npu_idle: outcome.clocks - npu_busy,
            pim_idle: outcome.clocks - pim_busy,
            npu_only: part(npu_busy - both_busy),
            both: part(both_busy),
            pim_only: part(pim_busy - both_busy),
            neither: part(outcome.clocks + both_busy - npu_busy - pim_busy),
            ffn_steps: shares().filter(|share| share.ffn > 0).count(),
            mha_steps: shares().filter(|share| share.mha > 0).count(),
            ffn_requests: shares().map(|share| share.ffn).sum(),
            mha_requests: shares().map(|share| share.mha).sum(),
            outputs_checked: outcome.checked.attention,
            ffn_outputs_checked: outcome.checked.products,
            columns_checked: outcome.columns_checked,
            copies_checked: outcome.copies_checked,
            protocol_violations: *violations,
            texts_differ: differs.count(),
            bytes,
            bus,
            multipliers,
            channels: each
                .map(|(channel, (statistics, commands))| ChannelFigures {
                    channel,
                    commands,
                    bus: statistics.bus,
                    multipliers: statistics.pim,
                })
                .collect(),
            energy: PimEnergy::new(constants, memory, ran, tokens),
            decisions,
        }
    }

    /// Whether everything that was checked agreed.
    pub fn agrees(&self) -> bool {
        self.texts_differ == 0 && self.protocol_violations == 0
    }
}

fn commands(outcome: &Outcome, channels: usize) -> (Bytes, Vec<Commands>) {
    let (mut bytes, mut by_channel) = (Bytes::default(), vec![Commands::default(); channels]);
    for span in &outcome.spans {
        bytes.add(&outcome.events[span.event], &span.commands);
        by_channel[span.channel] += span.commands;
    }
    (bytes, by_channel)
}

/// When a device was busy: from when to when, in order and without overlap.
pub fn spans(events: &[Event], device: Device) -> Vec<(u64, u64)> {
    let own = events.iter().filter(|event| event.device == device);
    let mut all: Vec<(u64, u64)> = own.map(|event| (event.start, event.end)).collect();
    all.sort_unstable();
    let mut merged: Vec<(u64, u64)> = Vec::new();
    for (start, end) in all {
        match merged.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => merged.push((start, end)),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_work_that_overlap_count_once() {
        let event = |device, start, end| Event {
            device,
            group: 0,
            step: 0,
            work: Work::Attention,
            label: String::new(),
            vectors: 0,
            start,
            end,
        };
        let events = [
            event(Device::Pim, 30, 40),
            event(Device::Pim, 0, 10),
            event(Device::Npu, 0, 99),
            event(Device::Pim, 5, 20),
            event(Device::Pim, 20, 25),
            event(Device::Pim, 32, 35),
        ];
        assert_eq!(spans(&events, Device::Pim), [(0, 25), (30, 40)]);
    }
}
