//! The NPU beside an HBM-PIM.

use crate::constant::{self, Constant, constants};
use crate::energy::Energy;
use ndp_files::Result;

constants! {
    pub struct NpuConstants {
        /// Description of the NPU.
        name: String,
        /// A product or sum, with moving its operands.
        flop_pj: Constant = 1e-6 to 1e6,
        /// Power drawn all the time.
        standby_w: Constant = 0.0 to 1e5,
    }
}

ndp_config::presets!(NpuConstants, "energy of an NPU", "npu-65tflops" => "../presets/npu-65tflops.toml");

impl NpuConstants {
    /// Parses and checks a file. Fails for unknown keys, bounds out of order, and missing sources.
    pub fn from_toml(text: &str) -> Result<Self> {
        constant::read(text)
    }

    pub fn flops(&self, flops: u64) -> Energy {
        Energy::from_pj(self.flop_pj.range()) * flops
    }

    pub fn standby(&self, ps: u64) -> Energy {
        // 1 W is 1,000 fJ in a ps.
        Energy::from_pj(self.standby_w.range()) * ps
    }
}
