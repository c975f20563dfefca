//! A count of how far this process's texts are, for displays only.

use std::sync::atomic::{AtomicU64, Ordering};

static WEIGHTS: AtomicU64 = AtomicU64::new(0);

/// Weights written to memory or used in a product, each time.
pub fn weights() -> u64 {
    WEIGHTS.load(Ordering::Relaxed)
}

pub(crate) fn count_weights(weights: usize) {
    WEIGHTS.fetch_add(weights as u64, Ordering::Relaxed);
}
