//! Where the time of a token goes: core cycles by the phases of a decoder layer.
//!
//! Each cycle of a program belongs to one part of the core ([`PartCycles`]), and each part's cycles to one phase: what a product is
//! for, or what computes beside it. So the phases add up to all cycles.

use crate::core::PartCycles;
use ndp_isa::Counters;
use ndp_model::GemvClass;
use serde::Serialize;
use std::collections::BTreeMap;

/// What a cycle was spent on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Products of the query, key and value projections.
    Qkv,
    /// Rotary embedding of queries and keys, loads and stores included.
    Rotary,
    /// Keys and values into the caches, their loads included.
    Append,
    /// Products of keys and queries.
    Scores,
    /// Softmax.
    Softmax,
    /// Products of probabilities and values.
    Context,
    /// Rounding of exact sums, in attention and behind products over active neurons.
    Round,
    /// Product of the attention's output projection.
    Projection,
    /// Product of the first feed-forward layer.
    Fc1,
    /// Product of the second feed-forward layer.
    Fc2,
    /// Product of the output head.
    Head,
    /// Biases, ReLU, scale and residuals, as far as no product hides them.
    ElementWise,
    /// Loads, stores, lists and clearing, as far as nothing is computed meanwhile.
    Transfer,
    /// Nothing at work: instructions on their way, beginnings and ends of programs.
    Waiting,
}

impl Phase {
    /// All of them, in the order of a layer.
    pub const ALL: [Self; 14] = [
        Self::Qkv,
        Self::Rotary,
        Self::Append,
        Self::Scores,
        Self::Softmax,
        Self::Context,
        Self::Round,
        Self::Projection,
        Self::Fc1,
        Self::Fc2,
        Self::Head,
        Self::ElementWise,
        Self::Transfer,
        Self::Waiting,
    ];

    /// Its name in tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Qkv => "QKV",
            Self::Rotary => "rotary",
            Self::Append => "append",
            Self::Scores => "scores",
            Self::Softmax => "softmax",
            Self::Context => "context",
            Self::Round => "round",
            Self::Projection => "projection",
            Self::Fc1 => "FC1",
            Self::Fc2 => "FC2",
            Self::Head => "head",
            Self::ElementWise => "element-wise",
            Self::Transfer => "transfer",
            Self::Waiting => "waiting",
        }
    }

    /// That of a product.
    pub fn of(class: GemvClass) -> Self {
        match class {
            GemvClass::Qkv => Self::Qkv,
            GemvClass::Scores => Self::Scores,
            GemvClass::Context => Self::Context,
            GemvClass::Proj => Self::Projection,
            GemvClass::Fc1 | GemvClass::Up => Self::Fc1,
            GemvClass::Fc2 => Self::Fc2,
            GemvClass::Head => Self::Head,
        }
    }
}

/// Cycles of each phase.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PhaseCycles(BTreeMap<Phase, u64>);

impl PhaseCycles {
    /// The cycles of a phase.
    pub fn get(&self, phase: Phase) -> u64 {
        self.0.get(&phase).copied().unwrap_or(0)
    }

    /// The phases that occurred, in the order of a layer, and their cycles.
    pub fn iter(&self) -> impl Iterator<Item = (Phase, u64)> {
        self.0.iter().map(|(phase, cycles)| (*phase, *cycles)).filter(|(_, cycles)| *cycles > 0)
    }

    /// All cycles.
    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }

    fn add(&mut self, phase: Phase, cycles: u64) {
        *self.0.entry(phase).or_default() += cycles;
    }

    /// Counts a program that computes products of a class.
    pub(crate) fn linear(&mut self, class: GemvClass, parts: &PartCycles) {
        self.add(Phase::of(class), parts.gemv);
        self.add(Phase::ElementWise, parts.activation);
        self.rest(parts);
    }

    /// Counts a program all of whose cycles belong to one phase.
    pub(crate) fn whole(&mut self, phase: Phase, parts: &PartCycles) {
        self.add(phase, parts.total());
    }

    /// Counts a program that attends; returns the cycles of the two products.
    pub(crate) fn attend(&mut self, parts: &PartCycles, counters: &Counters) -> (u64, u64) {
        let context = parts.gemv.min(counters.axpy.into());
        let scores = parts.gemv - context;
        self.add(Phase::Scores, scores);
        self.add(Phase::Context, context);
        self.add(Phase::Softmax, parts.activation);
        self.rest(parts);
        (scores, context)
    }

    fn rest(&mut self, parts: &PartCycles) {
        self.add(Phase::Round, parts.round);
        self.add(Phase::Transfer, parts.moving());
        self.add(Phase::Waiting, parts.idle);
    }
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
        let mut phases = PhaseCycles::default();
        phases.linear(GemvClass::Fc1, &parts);
        phases.whole(Phase::Append, &parts);
        let counters = Counters { axpy: 30, product: 101, ..Counters::default() };
        assert_eq!(phases.attend(&parts, &counters), (70, 30));
        assert_eq!(phases.total(), 3 * parts.total());
        assert_eq!(
            (phases.get(Phase::Fc1), phases.get(Phase::Softmax), phases.get(Phase::Qkv)),
            (100, 20, 0)
        );
        assert!(phases.iter().all(|(phase, cycles)| cycles > 0 && Phase::ALL.contains(&phase)));
    }
}
