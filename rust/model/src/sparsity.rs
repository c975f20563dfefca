//! Zero activations where they save fetching neurons: before the QKV projections, and between FC1 and FC2.

use ndp_numerics::{f16, fp16};

/// Zeros among the elements seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ZeroCount {
    /// Elements that were +0 or -0.
    pub zeros: u64,
    /// All elements.
    pub total: u64,
}

impl ZeroCount {
    /// Adds `values`.
    pub fn count(&mut self, values: &[f16]) {
        self.zeros += values.iter().filter(|&&v| fp16::is_zero(v)).count() as u64;
        self.total += values.len() as u64;
    }

    /// Zeros per element, 0 to 1; 0 without elements.
    pub fn fraction(&self) -> f64 {
        if self.total == 0 { 0.0 } else { self.zeros as f64 / self.total as f64 }
    }
}

/// Counts of one layer over all positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LayerSparsity {
    /// Input of the Q, K and V projections (after the ReLU, if `relu_before_qkv`).
    pub qkv_input: ZeroCount,
    /// Input of FC2, after its ReLU.
    pub ffn_hidden: ZeroCount,
}

ndp_config::sums!(ZeroCount: zeros, total);
ndp_config::sums!(LayerSparsity: qkv_input, ffn_hidden);
