//! How far the simulations of this process are: counts for a display, which nothing is computed from.
//!
//! Cycles are those of all cores together. Work is counted by products, in the cycles of their roofline: each product costs about
//! its share of them, so the time that is left can be said while the cycles to come are not known. What work there will be, the
//! decoder says in software (`expected`).

use std::sync::atomic::{AtomicU64, Ordering};

static CYCLES: AtomicU64 = AtomicU64::new(0);
static WORK: AtomicU64 = AtomicU64::new(0);
/// Cycles when work was counted last.
static COUNTED: AtomicU64 = AtomicU64::new(0);

/// Core cycles that were simulated.
pub fn cycles() -> u64 {
    CYCLES.load(Ordering::Relaxed)
}

/// Roofline cycles of the decoder's products that were computed in RTL, and the cycles of the one that is in work.
pub fn work() -> u64 {
    WORK.load(Ordering::Relaxed) + cycles().saturating_sub(COUNTED.load(Ordering::Relaxed))
}

pub(crate) fn count_cycles(cycles: u64) {
    CYCLES.fetch_add(cycles, Ordering::Relaxed);
}

pub(crate) fn count_work(roofline_cycles: u64) {
    WORK.fetch_add(roofline_cycles, Ordering::Relaxed);
    COUNTED.store(cycles(), Ordering::Relaxed);
}
