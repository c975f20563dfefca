//! What a run on several devices comes to.

use super::event_log::Operation;
use super::flash::FlashFigures;
use crate::gemv::{MergeFormat, ProgramFigures};
use serde::Serialize;
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DimmFigures {
    /// Cycles of all its programs.
    pub cycles: u64,
    /// The same by the cycle model.
    pub model_cycles: u64,
    pub programs: u64,
    pub instructions: u64,
    pub neurons: u64,
    /// Bytes of partial sums that it sent to other cores.
    pub sent_bytes: u64,
}

/// Bytes by the way that they took. What the scheduler moves is among them with links in RTL ([`LinkFigures`]), otherwise not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PathBytes {
    /// Bus, from the GPU: values of the neurons in front of Q, K, V, input of FC1, once for all DIMMs, residuals.
    pub bus_inputs: u64,
    /// Bus, from the GPU: its partial sums.
    pub bus_gpu_sums: u64,
    /// Bus, from the GPU: keys and values of the prompt.
    pub bus_prompt_cache: u64,
    /// Bus, to the GPU: contexts of attention, outputs of FC2.
    pub bus_results: u64,
    /// Memory channels: what the bus carries, FC1's input for each DIMM, lists, 4 bytes for each neuron, outputs of FC1 that the host reads, inputs of
    /// FC2 that it sends, masks of the monitors, and neurons from the SSD.
    pub channel_data: u64,
    /// Memory channels: instructions, a burst for four, and a read of the status for each program.
    pub channel_control: u64,
    /// Links: partial sums on their way to the core where they meet.
    pub link_sums: u64,
    /// Links: Q, K and V on their way to the cores of their heads.
    pub link_qkv: u64,
    /// SSD: bundles of neurons that no slot had.
    pub ssd_bundles: u64,
}

impl PathBytes {
    /// Bytes over the bus.
    pub fn bus(&self) -> u64 {
        self.bus_inputs + self.bus_gpu_sums + self.bus_prompt_cache + self.bus_results
    }

    /// Bytes over the memory channels.
    pub fn channels(&self) -> u64 {
        self.channel_data + self.channel_control
    }

    /// Bytes over links.
    pub fn links(&self) -> u64 {
        self.link_sums + self.link_qkv
    }
}

/// What meeting cost, of products whose sums came from more than one device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MergeFigures {
    /// The form of partial results.
    pub format: MergeFormat,
    /// Programs that finished a product, or some columns of it.
    pub meetings: u64,
    /// Partial results that cores handed over: all columns, of which the core's own part stays.
    pub handed_over: u64,
    /// Cycles of these programs: `import` or `merge`, `round`, what follows the product, `store`.
    pub meet_cycles: u64,
    /// Bytes that cores sent over links.
    pub link_bytes: u64,
    /// Bytes that the GPU sent over the bus.
    pub bus_bytes: u64,
}

/// Results that differ from those of exact sums throughout, given the same inputs: what rounding on the way costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Differences {
    /// Results that were compared with those of exact sums.
    pub compared: u64,
    pub different: u64,
    /// The largest distance, in FP16 numbers between the two.
    pub largest: u32,
}

/// One generated token, or rather the pass behind which it is drawn.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TokenFigures {
    pub position: usize,
    /// Cycles of the slowest core of each step, added up.
    pub critical_cycles: u64,
    /// Nanoseconds of the whole pass, GPU, bus and links by their bandwidths.
    pub ns: u64,
    pub gpu_neurons: u64,
    pub dimm_neurons: Vec<u64>,
    /// Cycles of each core.
    pub dimm_cycles: Vec<u64>,
}

/// What the controller of a DIMM's link has counted (docs/dimm-link.md, *Counters*).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LinkCounters {
    /// Flits sent, repeated ones included.
    pub flits_sent: u32,
    pub sent_again: u32,
    pub accepted: u32,
    /// Flits with a wrong CRC.
    pub wrong_crc: u32,
    /// Flits out of order.
    pub out_of_order: u32,
    /// Replays that the other side asked for.
    pub replays_asked: u32,
    /// Replays after a time without progress.
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

/// What went over links in RTL.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LinkFigures {
    /// Messages with partial sums, Q, K and V that arrived.
    pub messages: u64,
    pub bytes: u64,
    /// Their cycles, from the first instruction's offer to the end of the later side, added up.
    pub cycles: u64,
    /// Messages that were sent again as a whole.
    pub repeated: u64,
    pub migrations: u64,
    /// Bytes on their way for that.
    pub migration_bytes: u64,
    /// Neurons that the host copied to the GPU through a core's port.
    pub uploads: u64,
    /// Bytes read for that.
    pub upload_bytes: u64,
    /// Neurons that did not arrive and stayed where they were.
    pub failed_moves: u64,
    pub counters: Vec<LinkCounters>,
    /// Bits that independent errors have changed on all lanes.
    pub wrong_bits: u64,
    /// Cycles that all cores have run together.
    pub all_cycles: u64,
    /// Faults that were asked for and have not come into effect, as they were asked for.
    pub pending_faults: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SystemFigures {
    pub dimms: Vec<DimmFigures>,
    /// Cycles of the slowest core of each step that all wait for, added up: what the DIMMs take side by side.
    pub critical_cycles: u64,
    pub operation_cycles: BTreeMap<Operation, u64>,
    /// Nanoseconds of the generated tokens by operation.
    pub operation_ns: BTreeMap<Operation, u64>,
    /// Nanoseconds of the prompt on the GPU, by its bandwidth and rate.
    pub prompt_ns: u64,
    /// Each pass behind the prompt, or behind what the GPU computed of it.
    pub tokens: Vec<TokenFigures>,
    /// Neurons that the GPU computed, the prompt's left out.
    pub gpu_neurons: u64,
    /// Bytes of partial sums that the GPU sent to cores.
    pub gpu_sent_bytes: u64,
    /// Bytes by the way that they took.
    pub bytes: PathBytes,
    pub merge: MergeFigures,
    /// What went over links, if they are simulated.
    pub links: Option<LinkFigures>,
    /// What came from the SSD, if the DIMMs do not hold all neurons.
    pub flash: Option<FlashFigures>,
    /// Results of cores that were compared with the reference.
    pub outputs_checked: u64,
    pub mismatches: u64,
    /// Results that differ from those of exact sums; nothing is compared if all sums are exact.
    pub differences: Differences,
}

impl SystemFigures {
    /// Cycles of the core that has most over the mean; 1 if none has any.
    pub fn imbalance(&self) -> f64 {
        imbalance(self.dimms.iter().map(|dimm| dimm.cycles))
    }

    /// Passes, cycles of the slowest cores and nanoseconds behind the prompt.
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

    /// Counts bytes of partial sums that a core has sent to another one.
    pub(super) fn sent(&mut self, dimm: usize, bytes: u64) {
        self.dimms[dimm].sent_bytes += bytes;
        self.bytes.link_sums += bytes;
        self.merge.link_bytes += bytes;
    }

    /// Counts neurons of a core, or of the GPU.
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

/// The largest of some numbers over their mean; 1 if all are 0.
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
