//! Core cycles by the phases of a decoder layer.
//!
//! Each cycle of a program belongs to one part of the core ([`PartCycles`]), and each part's cycles to one phase, so
//! the phases add up to all cycles.

use super::event_log::Operation;
use crate::core::PartCycles;
use crate::gemv::ProgramFigures;
use ndp_isa::Counters;
use serde::Serialize;
use std::collections::BTreeMap;

ndp_config::named! {
    /// Activity that a cycle counts for.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum Phase {
        /// Products of the query, key and value projections.
        Qkv = "QKV",
        /// Rotary embedding of queries and keys, loads and stores included.
        Rotary = "rotary",
        /// Keys and values into the caches, their loads included.
        Append = "append",
        /// Products of keys and queries.
        Scores = "scores",
        Softmax = "softmax",
        /// Products of probabilities and values.
        Context = "context",
        /// Rounding of exact sums, in attention and after products over active neurons.
        Round = "round",
        /// Product of the attention's output projection.
        Projection = "projection",
        /// Product of the first feed-forward layer.
        Fc1 = "FC1",
        /// Product of the second feed-forward layer.
        Fc2 = "FC2",
        /// Product of the output head.
        Head = "head",
        /// Biases, ReLU, scale and residuals, as far as no product hides them.
        ElementWise = "element-wise",
        /// Loads, stores, lists and clearing while nothing is computed.
        Transfer = "transfer",
        /// No busy part: instructions in flight, begins and ends of programs.
        Waiting = "waiting",
    }
}

impl Phase {
    /// `None` for attention, which has two kinds of products.
    fn of(operation: Operation) -> Option<Self> {
        match operation {
            Operation::Q | Operation::K | Operation::V => Some(Self::Qkv),
            Operation::Attention => None,
            Operation::Projection => Some(Self::Projection),
            Operation::Fc1 => Some(Self::Fc1),
            Operation::Fc2 => Some(Self::Fc2),
            Operation::Head => Some(Self::Head),
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PhaseCycles(BTreeMap<Phase, u64>);

impl PhaseCycles {
    pub fn get(&self, phase: Phase) -> u64 {
        self.0.get(&phase).copied().unwrap_or(0)
    }

    /// Phases with cycles, in the order of a layer.
    pub fn iter(&self) -> impl Iterator<Item = (Phase, u64)> {
        self.0.iter().map(|(phase, cycles)| (*phase, *cycles)).filter(|(_, cycles)| *cycles > 0)
    }

    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }

    fn add(&mut self, phase: Phase, cycles: u64) {
        *self.0.entry(phase).or_default() += cycles;
    }

    pub(super) fn count(&mut self, (operation, what): (Operation, &str), program: &ProgramFigures) {
        let ProgramFigures { parts, counters, .. } = program;
        match (what, Phase::of(operation)) {
            ("rotary", _) => self.add(Phase::Rotary, parts.total()),
            ("append", _) => self.add(Phase::Append, parts.total()),
            (_, Some(phase)) => {
                self.add(phase, parts.gemv);
                self.add(Phase::ElementWise, parts.activation);
                self.rest(parts);
            }
            (_, None) => {
                let [scores, context] = products_of_attention(parts, counters);
                self.add(Phase::Scores, scores);
                self.add(Phase::Context, context);
                self.add(Phase::Softmax, parts.activation);
                self.rest(parts);
            }
        }
    }

    fn rest(&mut self, parts: &PartCycles) {
        self.add(Phase::Round, parts.round);
        self.add(Phase::Transfer, parts.moving());
        self.add(Phase::Waiting, parts.idle);
    }
}

/// Cycles of scores and of contexts in a program that attends.
pub(super) fn products_of_attention(parts: &PartCycles, counters: &Counters) -> [u64; 2] {
    let context = parts.gemv.min(counters.axpy.into());
    [parts.gemv - context, context]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phases_add_up_to_all_cycles() {
        let parts = PartCycles {
            gemv: 100,
            activation: 20,
            round: 8,
            store: 4,
            load: 3,
            idle: 2,
            ..Default::default()
        };
        let counters = Counters { axpy: 30, product: 101, ..Counters::default() };
        let program = ProgramFigures { parts, counters, ..ProgramFigures::default() };
        let mut phases = PhaseCycles::default();
        for (what, operation) in [
            ("product", Operation::Fc1),
            ("append", Operation::Attention),
            ("attend", Operation::Attention),
            ("rotary", Operation::K),
        ] {
            phases.count((operation, what), &program);
        }
        assert_eq!(phases.total(), 4 * parts.total());
        for (phase, cycles) in [
            (Phase::Fc1, 100),
            (Phase::Append, 137),
            (Phase::Rotary, 137),
            (Phase::Scores, 70),
            (Phase::Context, 30),
            (Phase::Softmax, 20),
            (Phase::ElementWise, 20),
            (Phase::Qkv, 0),
        ] {
            assert_eq!(phases.get(phase), cycles, "{phase:?}");
        }
        assert!(phases.iter().all(|(phase, cycles)| cycles > 0 && Phase::ALL.contains(&phase)));
    }
}
