//! Where the cycles of a run went, from the core's counters.

use ndp_cosim::core::Counters;
use serde::Serialize;

/// Where the cycles of the ranks' groups went; they add up to all cycles of all groups.
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
    /// From what was counted during `cycles`.
    pub fn new(cycles: u64, counters: &Counters, ranks: u32) -> Self {
        let each = |cycles: u32| u64::from(cycles) * u64::from(ranks);
        let working = u64::from(counters.working);
        let (row, weights) = (u64::from(counters.waiting_for_row), u64::from(counters.waiting_for_weights));
        let room = u64::from(counters.waiting_for_room);
        let (product, rounding, total) =
            (each(counters.product), each(counters.round), cycles * u64::from(ranks));
        Self {
            working,
            waiting_for_row: row,
            waiting_for_weights: weights,
            waiting_for_room: room,
            filling_and_draining: product.saturating_sub(working + row + weights + room),
            rounding,
            outside: total.saturating_sub(product + rounding),
            total,
        }
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
