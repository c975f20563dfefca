//! The NPU beside an HBM-PIM.

use crate::constant::{self, Constant, constants};
use crate::energy::Energy;
use ndp_files::Result;

constants! {
    /// What a file of constants of an NPU holds.
    pub struct NpuConstants {
        /// Which NPU it is.
        name: String,
        /// A product, or a sum, with what it takes to bring operands to it.
        flop_pj: Constant = 1e-6 to 1e6,
        /// Power that is drawn all the time.
        standby_w: Constant = 0.0 to 1e5,
    }
}

ndp_config::presets!(NpuConstants, "energy of an NPU", "npu-65tflops" => "../presets/npu-65tflops.toml");

impl NpuConstants {
    /// Parses and checks a file.
    ///
    /// # Errors
    /// Text in another form, an unknown constant, and one whose bounds are out of order or whose source is missing.
    pub fn from_toml(text: &str) -> Result<Self> {
        constant::read(text)
    }

    /// So many products and sums.
    pub fn flops(&self, flops: u64) -> Energy {
        Energy::from_pj(self.flop_pj.range()) * flops
    }

    pub fn standby(&self, ps: u64) -> Energy {
        // 1 W is 1,000 fJ in a ps.
        Energy::from_pj(self.standby_w.range()) * ps
    }
}
