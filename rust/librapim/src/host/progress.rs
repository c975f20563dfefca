//! How far the texts of this process are: a count for a display, which nothing is computed from.

use std::sync::atomic::{AtomicU64, Ordering};

static WEIGHTS: AtomicU64 = AtomicU64::new(0);

/// Weights that were written into a memory or used in a product, each time.
pub fn weights() -> u64 {
    WEIGHTS.load(Ordering::Relaxed)
}

pub(crate) fn count_weights(weights: usize) {
    WEIGHTS.fetch_add(weights as u64, Ordering::Relaxed);
}
