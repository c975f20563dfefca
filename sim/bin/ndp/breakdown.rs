//! Where the cycles of a run went, from the core's counters.

use ndp_isa::Counters;
use ndp_report::fields;
use serde::Serialize;

/// Where the cycles of the ranks' groups went, between the reading of the counters before the run and the one after it. Every
/// part has a counter of its own, and they add up to all cycles of all groups.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct StallBreakdown {
    /// A job was in work.
    working: u64,
    /// No row, or no scalar of it, was there yet.
    waiting_for_row: u64,
    /// The row's weights were not there yet.
    waiting_for_weights: u64,
    /// Sums of other ranks were awaited.
    waiting_for_room: u64,
    /// A product was running, with nothing to do for the group: its beginning and end.
    filling_and_draining: u64,
    /// Sums were being rounded.
    rounding: u64,
    /// No product and no rounding: loads before the first and stores after the last one, instructions on their way.
    outside: u64,
    /// All of them: cycles times ranks.
    total: u64,
}

impl StallBreakdown {
    /// From what was counted.
    ///
    /// # Errors
    /// If the parts do not add up to all cycles.
    pub fn new(counters: &Counters, ranks: u32) -> anyhow::Result<Self> {
        let each = |cycles: u32| u64::from(cycles) * u64::from(ranks);
        let breakdown = Self {
            working: counters.working.into(),
            waiting_for_row: counters.waiting_for_row.into(),
            waiting_for_weights: counters.waiting_for_weights.into(),
            waiting_for_room: counters.waiting_for_room.into(),
            filling_and_draining: counters.filling.into(),
            rounding: each(counters.round),
            outside: each(counters.outside),
            total: each(counters.cycles),
        };
        let sum = counters.accounted(ranks);
        anyhow::ensure!(
            sum == breakdown.total,
            "the core's counters account for {sum} cycles of its groups, but {} passed: {breakdown:?}",
            breakdown.total
        );
        Ok(breakdown)
    }

    /// How much of their time the groups work, and what takes most of the rest.
    pub fn reason(&self) -> String {
        let share = |cycles: u64| 100.0 * cycles as f64 / self.total.max(1) as f64;
        let losses = [
            (self.waiting_for_row, "they wait for rows"),
            (self.waiting_for_weights, "they wait for weights"),
            (self.waiting_for_room, "they wait for sums of other ranks"),
            (self.filling_and_draining, "a product begins or ends"),
            (self.rounding, "sums are rounded"),
            (self.outside, "no product runs"),
        ];
        let (most, why) = losses.into_iter().max_by_key(|(cycles, _)| *cycles).unwrap_or_default();
        format!(
            "the multipliers' groups work in {:.1} % of their cycles; in {:.1} % {why}",
            share(self.working),
            share(most)
        )
    }
}

// The parts, for reports.
fields! { pub STALLS
    "working" "working" {Cycles} Screen: "a job was in work";
    "waiting_for_row" "waiting for rows" {Cycles} Screen: "no row, or no scalar of it, was there yet";
    "waiting_for_weights" "waiting for weights" {Cycles} Screen: "the row's weights were not there yet";
    "waiting_for_room" "waiting for room" {Cycles} Screen: "sums of other ranks were awaited";
    "filling_and_draining" "filling and draining" {Cycles} Screen: "a product was running, with nothing to do for the group: its beginning and end";
    "rounding" "rounding" {Cycles} Screen: "sums were being rounded";
    "outside" "outside of products" {Cycles} Screen: "no product and no rounding: loads, stores, instructions on their way";
    "total" "all" {Cycles} Screen: "cycles times ranks";
}
