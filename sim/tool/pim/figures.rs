//! Figures of a run in one mode: time, busy devices, traffic, offloading.

use super::energy::PimEnergy;
use super::{CLOCKS_PER_US, Ran};
use crate::prelude::*;
use ndp_dram::hbm::{HbmBusCycles, HbmStatistics, PimCycles};
use ndp_energy::HbmConstants;
use ndp_librapim::host::{Commands, Decided, Event, Outcome, Work};
use ndp_librapim::offloading::{Device, Mode};
use ndp_model::Generation;
use serde::Serialize;

/// Bytes over the buses of all channels after the weights are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Bytes {
    /// Weights that the NPU read. Weights of FFNs that both devices compute count once.
    pub weights: u64,
    /// New keys and values, of either device.
    pub new_keys_and_values: u64,
    /// Keys and values for the NPU's attention.
    pub keys_and_values: u64,
    /// Keys and values that moved.
    pub moved: u64,
    /// Queries and probabilities for the global buffer.
    pub operands: u64,
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

#[derive(Debug, Serialize)]
pub struct ChannelFigures {
    pub channel: usize,
    /// Commands after the weights are written, without commands for all banks (PREA, REF).
    pub commands: Commands,
    pub bus: HbmBusCycles,
    pub multipliers: PimCycles,
}

#[derive(Debug)]
pub struct Figures {
    pub mode: Mode,
    /// Clocks after the weights are written.
    pub clocks: u64,
    pub tokens: usize,
    pub tokens_per_second: f64,
    pub protocol_violations: u64,
    pub texts_differ: usize,
    pub channels: Vec<ChannelFigures>,
    /// Energy of the memory after the weights are written.
    pub energy: PimEnergy,
    pub decisions: Vec<Decided>,
    /// All figures as a row of the table of modes.
    pub row: Values,
}

impl Figures {
    /// Computes the figures. `alone`: the text of each prompt, generated on its own in software.
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
        let (tokens_per_second, texts_differ) = (tokens as f64 / seconds, differs.count());
        let energy = PimEnergy::new(constants, memory, ran, tokens);
        let row = figures! {
            "mode" "mode" {Text} Screen: "mode" = mode;
            "tokens_per_second" "tokens/s" {Real("tokens/s", 0)} Screen: "generated tokens over the time" = tokens_per_second;
            "npu_only" "NPU only" {Share} Screen: "share of the clocks in which only the NPU is busy" = part(npu_busy - both_busy);
            "both" "both" {Share} Screen: "share of the clocks in which NPU and banks are busy" = part(both_busy);
            "pim_only" "banks only" {Share} Screen: "share of the clocks in which only the banks are busy" = part(pim_busy - both_busy);
            "neither" "neither" {Share} Screen: "share of the clocks in which both wait" = part(outcome.clocks + both_busy - npu_busy - pim_busy);
            "energy.per_token" "energy of a token" {Energy} Screen: "energy of the memory over generated tokens";
            "clocks_per_token" "clocks per token" {Real("", 0)} Verbose: "clocks over generated tokens" = outcome.clocks as f64 / tokens.max(1) as f64;
            "clocks" "clocks" {Cycles} Verbose: "clocks after the writing of the weights" = outcome.clocks;
            "loading_clocks" "loading" {Cycles} Verbose: "clocks of the writing of the weights" = outcome.loading_clocks;
            "npu_idle" "NPU idle" {Cycles} Verbose: "clocks in which the NPU waits" = outcome.clocks - npu_busy;
            "pim_idle" "banks idle" {Cycles} Verbose: "clocks in which the banks wait" = outcome.clocks - pim_busy;
            "ffn_requests" "FFNs moved" {Count} Verbose: "requests of all steps whose FFN the banks computed" = shares().map(|share| share.ffn).sum::<u32>();
            "ffn_steps" "in steps" {Count} Verbose: "steps of a group in which FFNs moved to the banks" = shares().filter(|share| share.ffn > 0).count();
            "mha_requests" "attention moved" {Count} Verbose: "requests of all steps whose attention the NPU computed"
                = shares().map(|share| share.mha).sum::<u32>();
            "mha_steps" "in steps" {Count} Verbose: "steps of a group in which attention moved to the NPU" = shares().filter(|share| share.mha > 0).count();
            "bytes" = bytes;
            "bytes.weights" "weights" {Bytes} Verbose: "weights that the NPU read; weights of FFNs that both devices share count once";
            "bytes.new_keys_and_values" "new K, V" {Bytes} Verbose: "new keys and values, in the banks or for the NPU";
            "bytes.keys_and_values" "K, V read" {Bytes} Verbose: "keys and values that the NPU read for attention";
            "bytes.moved" "K, V moved" {Bytes} Verbose: "keys and values that were read to be moved";
            "bytes.operands" "queries, probabilities" {Bytes} Verbose: "queries and probabilities into the global buffer";
            "bytes.inputs" "inputs of FFNs" {Bytes} Verbose: "inputs of FFNs in the banks";
            "bytes.results" "results" {Bytes} Verbose: "results and sums of the banks";
            "outputs_checked" "attention checked" {Count} Verbose: "outputs of attention in the banks that were compared" = outcome.checked.attention;
            "ffn_outputs_checked" "FFNs checked" {Count} Verbose: "outputs of FFNs in the banks that were compared" = outcome.checked.products;
            "columns_checked" "columns of weights" {Count} Verbose: "columns of weights that the NPU read and that were compared" = outcome.columns_checked;
            "copies_checked" "of K, V" {Count} Verbose: "columns of keys and values that the NPU read and that were compared" = outcome.copies_checked;
            "protocol_violations" "violations" {Count} Verbose: "broken timing rules of the memory" = violations;
            "texts_differ" "texts differ" {Count} Verbose: "texts that differ from the software's, in tokens or logits" = texts_differ;
            "tokens" "tokens" {Count} Json: "generated tokens" = tokens;
            "npu_busy" "NPU busy" {Cycles} Json: "clocks in which the NPU is busy" = npu_busy;
            "pim_busy" "banks busy" {Cycles} Json: "clocks in which the banks are busy" = pim_busy;
            "both_busy" "both busy" {Cycles} Json: "clocks in which NPU and banks are busy" = both_busy;
            "memory" "memory" {Text} Json: "name of the memory, with or without sliced banks" = memory.name();
            "groups" "groups" {Count} Verbose: "groups of requests" = outcome.groups;
            "bus" "" {Data} Json: "clocks of the buses of all channels since reset, by their use" = bus;
            "multipliers" "" {Data} Json: "clocks of the multipliers of all channels since reset, by their use" = multipliers;
            "energy" "" {Data} Json: "energy of the memory in fJ (docs/energy-hbm.md): total, by part, command, operation and channel, and with loading of the weights before"
                = energy;
        };
        let channel = |(channel, (statistics, commands)): (usize, (&HbmStatistics, Commands))| {
            ChannelFigures { channel, commands, bus: statistics.bus, multipliers: statistics.pim }
        };
        Self {
            mode,
            clocks: outcome.clocks,
            tokens,
            tokens_per_second,
            protocol_violations: *violations,
            texts_differ,
            channels: each.map(channel).collect(),
            energy,
            decisions,
            row,
        }
    }

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

/// Busy times of a device, in order and without overlap.
pub fn spans(events: &[Event], device: Device) -> Vec<(u64, u64)> {
    let own = events.iter().filter(|event| event.device == device);
    let all = own.map(|event| (event.start, event.end)).sorted_unstable();
    all.coalesce(|a, b| if b.0 <= a.1 { Ok((a.0, a.1.max(b.1))) } else { Err((a, b)) }).collect()
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
