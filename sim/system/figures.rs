//! Figures of a run on several devices.

use super::event_log::Operation;
use super::flash::FlashFigures;
use crate::gemv::{MergeFormat, ProgramFigures};
use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DimmFigures {
    pub cycles: u64,
    /// Prediction of `cycles`.
    pub model_cycles: u64,
    pub programs: u64,
    pub instructions: u64,
    pub neurons: u64,
    /// Bytes of partial sums sent to other cores.
    pub sent_bytes: u64,
}

/// Bytes by their way. With links in RTL ([`LinkFigures`]) they include the scheduler's moves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PathBytes {
    /// Bus, from the GPU: inputs of Q, K and V, input of FC1 (once for all DIMMs), residuals.
    pub bus_inputs: u64,
    /// Bus, from the GPU: its partial sums.
    pub bus_gpu_sums: u64,
    /// Bus, from the GPU: keys and values of the prompt.
    pub bus_prompt_cache: u64,
    /// Bus, to the GPU: contexts of attention, outputs of FC2.
    pub bus_results: u64,
    /// Channels: the bus's data, FC1's input for each DIMM, lists (4 bytes per neuron), outputs of FC1 that the host
    /// reads, inputs of FC2 that it sends, masks of the monitors, and neurons from the SSD.
    pub channel_data: u64,
    /// Channels: instructions, a burst for four, and a read of the status for each program.
    pub channel_control: u64,
    /// Links: partial sums to the core where they meet.
    pub link_sums: u64,
    /// Links: Q, K and V to the cores of their heads.
    pub link_qkv: u64,
    /// SSD: bundles of neurons without a slot.
    pub ssd_bundles: u64,
}

impl PathBytes {
    pub fn bus(&self) -> u64 {
        self.bus_inputs + self.bus_gpu_sums + self.bus_prompt_cache + self.bus_results
    }

    pub fn channels(&self) -> u64 {
        self.channel_data + self.channel_control
    }

    pub fn links(&self) -> u64 {
        self.link_sums + self.link_qkv
    }
}

/// Costs of meeting, for products whose sums came from several devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MergeFigures {
    pub format: MergeFormat,
    /// Programs that finished a product, or some columns of it.
    pub meetings: u64,
    /// Partial results that cores handed over: all columns, although the core's own part stays.
    pub handed_over: u64,
    /// Cycles of `import` or `merge`, `round`, the steps after the product, and `store` in these programs.
    pub meet_cycles: u64,
    pub link_bytes: u64,
    pub bus_bytes: u64,
}

/// Cost of rounding: results that differ from exact sums of the same inputs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Differences {
    pub compared: u64,
    pub different: u64,
    /// Largest distance, counted in FP16 numbers.
    pub largest: u32,
}

/// The pass before a generated token.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TokenFigures {
    pub position: usize,
    /// Sum over the steps of the slowest core's cycles.
    pub critical_cycles: u64,
    /// Time of the pass, with GPU, bus and links by their bandwidths.
    pub ns: u64,
    pub gpu_neurons: u64,
    pub dimm_neurons: Vec<u64>,
    pub dimm_cycles: Vec<u64>,
}

/// Counters of a DIMM's link controller (docs/dimm-link.md, *Counters*).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LinkCounters {
    /// Flits sent, with repeated ones.
    pub flits_sent: u32,
    pub sent_again: u32,
    pub accepted: u32,
    pub wrong_crc: u32,
    pub out_of_order: u32,
    /// Replays that the other side requested.
    pub replays_asked: u32,
    /// Replays after a timeout.
    pub replays_timed: u32,
    /// Slots in which a flit waited for credit.
    pub without_credit: u32,
    /// Cycles with a full replay buffer.
    pub full: u32,
}

impl LinkCounters {
    pub(super) fn of(counters: [u32; 16]) -> Self {
        let [flits_sent, sent_again, accepted, wrong_crc, out_of_order, replays_asked, replays_timed, ..] =
            counters;
        let (without_credit, full) = (counters[8], counters[9]);
        Self {
            flits_sent,
            sent_again,
            accepted,
            wrong_crc,
            out_of_order,
            replays_asked,
            replays_timed,
            without_credit,
            full,
        }
    }
}

/// Traffic of links in RTL.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LinkFigures {
    /// Messages with partial sums, Q, K and V that arrived.
    pub messages: u64,
    pub bytes: u64,
    /// Sum of the messages' cycles, from the first instruction's offer to the end of the later side.
    pub cycles: u64,
    /// Messages that were resent as a whole.
    pub repeated: u64,
    pub migrations: u64,
    pub migration_bytes: u64,
    /// Neurons that the host copied to the GPU through a core's port.
    pub uploads: u64,
    pub upload_bytes: u64,
    /// Neurons that did not arrive and stayed in place.
    pub failed_moves: u64,
    pub counters: Vec<LinkCounters>,
    /// Independent bit errors on all lanes.
    pub wrong_bits: u64,
    /// Cycles of the system of linked cores.
    pub all_cycles: u64,
    /// Injected faults that have not taken effect.
    pub pending_faults: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SystemFigures {
    pub dimms: Vec<DimmFigures>,
    /// Sum over the steps that all wait for of the slowest core's cycles.
    pub critical_cycles: u64,
    pub operation_cycles: BTreeMap<Operation, u64>,
    /// Times of the generated tokens, by operation.
    pub operation_ns: BTreeMap<Operation, u64>,
    /// Prompt on the GPU, by its bandwidth and rate.
    pub prompt_ns: u64,
    /// Each pass after the prompt, or after the part that the GPU computed.
    pub tokens: Vec<TokenFigures>,
    /// Neurons that the GPU computed, without the prompt.
    pub gpu_neurons: u64,
    /// Partial sums from the GPU to cores.
    pub gpu_sent_bytes: u64,
    pub bytes: PathBytes,
    pub merge: MergeFigures,
    /// Set if links are simulated.
    pub links: Option<LinkFigures>,
    /// Set if there is a flash tier.
    pub flash: Option<FlashFigures>,
    /// Compared results of cores.
    pub outputs_checked: u64,
    pub mismatches: u64,
    /// Empty if all sums are exact.
    pub differences: Differences,
}

impl SystemFigures {
    /// Cycles of the busiest core over the mean; 1 if there are none.
    pub fn imbalance(&self) -> f64 {
        imbalance(self.dimms.iter().map(|dimm| dimm.cycles))
    }

    /// Passes, cycles of the slowest cores and ns after the prompt.
    pub fn generated(&self) -> (u64, u64, u64) {
        let sum = |of: fn(&TokenFigures) -> u64| self.tokens.iter().map(of).sum();
        (self.tokens.len() as u64, sum(|token| token.critical_cycles), sum(|token| token.ns))
    }

    /// Counts a program of a core; returns its cycles.
    pub(super) fn count(&mut self, dimm: usize, program: &ProgramFigures) -> u64 {
        let of = &mut self.dimms[dimm];
        of.cycles += program.cycles;
        of.model_cycles += program.model_cycles.unwrap_or(0);
        of.programs += 1;
        of.instructions += u64::from(program.instructions);
        if let Some(token) = self.tokens.last_mut() {
            token.dimm_cycles[dimm] += program.cycles;
        }
        program.cycles
    }

    /// Counts partial sums that a core sent to another one.
    pub(super) fn sent(&mut self, dimm: usize, bytes: u64) {
        self.dimms[dimm].sent_bytes += bytes;
        self.bytes.link_sums += bytes;
        self.merge.link_bytes += bytes;
    }

    /// Counts neurons of a core, or of the GPU (`None`).
    pub(super) fn neurons(&mut self, dimm: Option<usize>, count: usize) {
        let (total, of_token) = match dimm {
            None => (&mut self.gpu_neurons, self.tokens.last_mut().map(|token| &mut token.gpu_neurons)),
            Some(dimm) => (
                &mut self.dimms[dimm].neurons,
                self.tokens.last_mut().map(|token| &mut token.dimm_neurons[dimm]),
            ),
        };
        *total += count as u64;
        if let Some(of_token) = of_token {
            *of_token += count as u64;
        }
    }

    /// Counts cycles of an operation that all wait for.
    pub(super) fn critical(&mut self, operation: Operation, cycles: u64) {
        self.critical_cycles += cycles;
        *self.operation_cycles.entry(operation).or_default() += cycles;
        if let Some(token) = self.tokens.last_mut() {
            token.critical_cycles += cycles;
        }
    }
}

/// The largest number over the mean; 1 if all are 0.
pub fn imbalance(loads: impl ExactSizeIterator<Item = u64> + Clone) -> f64 {
    let (count, sum) = (loads.len() as f64, loads.clone().sum::<u64>() as f64);
    if sum == 0.0 { 1.0 } else { loads.max().unwrap_or(0) as f64 * count / sum }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn imbalance_is_the_largest_over_the_mean() {
        assert_eq!(imbalance([4, 4, 4].into_iter()), 1.0);
        assert_eq!(imbalance([6, 2, 1].into_iter()), 2.0);
        assert_eq!((imbalance([0, 0].into_iter()), imbalance([0u64; 0].into_iter())), (1.0, 1.0));
    }
}
