//! Progress of the simulations of this process, for display only.
//!
//! Cycles are the sum over all cores. Work is counted by products, in roofline cycles: a product takes about its share
//! of the time, so the remaining time can be estimated. `expected` gives the total.

use std::sync::atomic::{AtomicU64, Ordering};

static CYCLES: AtomicU64 = AtomicU64::new(0);
static WORK: AtomicU64 = AtomicU64::new(0);
static COUNTED: AtomicU64 = AtomicU64::new(0);

pub fn cycles() -> u64 {
    CYCLES.load(Ordering::Relaxed)
}

/// Roofline cycles of the decoder's products that were computed in RTL, and the cycles so far of the current one.
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
