//! Where the cycles of a run went, from the core's counters.

use ndp_isa::Counters;
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

    /// The line that jobs print.
    pub fn print(&self) {
        let share = |cycles: u64| 100.0 * cycles as f64 / self.total.max(1) as f64;
        say!(
            "groups             {:.1} % working, waiting {:.1} % for rows, {:.1} % for weights, {:.1} % for room; \
             {:.1} % filling and draining, {:.1} % rounding, {:.1} % outside of products",
            share(self.working),
            share(self.waiting_for_row),
            share(self.waiting_for_weights),
            share(self.waiting_for_room),
            share(self.filling_and_draining),
            share(self.rounding),
            share(self.outside),
        );
    }
}
