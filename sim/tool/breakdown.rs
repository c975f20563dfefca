//! Cycles of a run by cause, from the core's counters.

use crate::prelude::*;
use ndp_isa::Counters;

/// Cycles of the ranks' groups between two readings of the counters. Every part has its own counter, and the parts
/// add up to all cycles of all groups.
#[derive(Clone, Copy, Debug, Default)]
pub struct StallBreakdown {
    counters: Counters,
    /// Number of ranks. Each has a group, which waits outside of products and while sums are rounded.
    ranks: u32,
}

impl StallBreakdown {
    pub fn new(counters: &Counters, ranks: u32) -> Result<Self> {
        let breakdown = Self { counters: *counters, ranks };
        let (sum, total) = (counters.accounted(ranks), breakdown.each(counters.cycles));
        anyhow::ensure!(
            sum == total,
            "the core's counters account for {sum} cycles of its groups, but {total} passed: {counters:?}"
        );
        Ok(breakdown)
    }

    fn each(&self, cycles: u32) -> u64 {
        u64::from(cycles) * u64::from(self.ranks)
    }

    pub fn figures(&self) -> Values {
        let counters = &self.counters;
        figures! {
            "working" "working" {Cycles} Screen: "a job was running" = counters.working;
            "waiting_for_row" "waiting for rows" {Cycles} Screen: "no row, or no scalar of the row, had arrived yet" = counters.waiting_for_row;
            "waiting_for_weights" "waiting for weights" {Cycles} Screen: "the row's weights had not arrived yet" = counters.waiting_for_weights;
            "waiting_for_room" "waiting for room" {Cycles} Screen: "the group waited for sums of other ranks" = counters.waiting_for_room;
            "filling_and_draining" "filling and draining" {Cycles} Screen: "a product was running, with nothing to do for the group: its beginning and end"
                = counters.filling;
            "rounding" "rounding" {Cycles} Screen: "sums were being rounded" = self.each(counters.round);
            "outside" "outside of products" {Cycles} Screen: "no product and no rounding: loads, stores, instructions in transit"
                = self.each(counters.outside);
            "total" "all" {Cycles} Screen: "cycles times ranks" = self.each(counters.cycles);
        }
    }

    /// Busy share of the groups, and the largest part of the rest.
    pub fn reason(&self) -> String {
        let counters = &self.counters;
        let share = |cycles: u64| 100.0 * cycles as f64 / self.each(counters.cycles).max(1) as f64;
        let losses = [
            (counters.waiting_for_row.into(), "they wait for rows"),
            (counters.waiting_for_weights.into(), "they wait for weights"),
            (counters.waiting_for_room.into(), "they wait for sums of other ranks"),
            (counters.filling.into(), "a product begins or ends"),
            (self.each(counters.round), "sums are rounded"),
            (self.each(counters.outside), "no product runs"),
        ];
        let (most, why) = losses.into_iter().max_by_key(|(cycles, _)| *cycles).unwrap_or_default();
        format!(
            "the multipliers' groups work in {:.1} % of their cycles; in {:.1} % {why}",
            share(counters.working.into()),
            share(most)
        )
    }
}
