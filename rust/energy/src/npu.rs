//! The NPU beside an HBM-PIM.

use crate::constant::Constant;
use crate::energy::Energy;
use ndp_config::NameRule;
use ndp_files::Result;
use serde::{Deserialize, Serialize};

/// What a file of constants of an NPU holds; unknown keys are refused.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NpuConstants {
    /// Which NPU it is.
    pub name: String,
    /// A product, or a sum, with what it takes to bring operands to it.
    pub flop_pj: Constant,
    /// Power that is drawn all the time.
    pub standby_w: Constant,
}

ndp_config::presets!(NpuConstants, "energy of an NPU", "npu-65tflops" => "../presets/npu-65tflops.toml");

impl NpuConstants {
    /// Parses and checks a file.
    ///
    /// # Errors
    /// Text in another form, an unknown constant, and one whose bounds are out of order or whose source is missing.
    pub fn from_toml(text: &str) -> Result<Self> {
        let constants: Self = ndp_config::parse(text)?;
        ndp_config::name_is(NameRule::Title, "name", &constants.name)?;
        constants.flop_pj.check("flop_pj", 1e-6, 1e6)?;
        constants.standby_w.check("standby_w", 0.0, 1e5)?;
        Ok(constants)
    }

    /// So many products and sums.
    pub fn flops(&self, flops: u64) -> Energy {
        Energy::from_pj(self.flop_pj.range()) * flops
    }

    /// Some time.
    pub fn standby(&self, ps: u64) -> Energy {
        // 1 W is 1,000 fJ in a ps.
        Energy::from_pj(self.standby_w.range()) * ps
    }
}
