//! Placement policies during generation: the settings that Hermes compares in Fig. 13.

use crate::predictor::PredictorKind;
use serde::{Deserialize, Serialize};

ndp_config::named! {
    /// Settings of section V-C; each extends the ones before unless it says otherwise.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Policy {
        /// Neurons anywhere, and they stay (Hermes-random).
        Random = "random",
        /// The offline placement, and it stays (Hermes-partition).
        Partition = "partition",
        /// Hot neurons go to the GPU by their states only (Hermes-token-adjustment).
        TokenAdjustment = "token-adjustment",
        /// Hot neurons go to the GPU by their parents only (Hermes-layer-adjustment).
        LayerAdjustment = "layer-adjustment",
        /// Hot neurons go to the GPU by states and parents (Hermes-adjustment).
        Adjustment = "adjustment",
        /// Cold neurons change DIMMs as well, once in a window (Hermes).
        Hermes = "hermes",
    }
}

impl Policy {
    /// Predictor that adjustment uses, if any.
    pub fn adjusts_by(self) -> Option<PredictorKind> {
        match self {
            Self::Random | Self::Partition => None,
            Self::TokenAdjustment => Some(PredictorKind::TokenOnly),
            Self::LayerAdjustment => Some(PredictorKind::LayerOnly),
            Self::Adjustment | Self::Hermes => Some(PredictorKind::Both),
        }
    }

    pub fn remaps(self) -> bool {
        self == Self::Hermes
    }
}

impl std::fmt::Display for Policy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for Policy {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::named(name).ok_or_else(|| {
            let known = Self::ALL.map(Self::name).join(", ");
            format!("unknown policy '{name}', expected one of {known}")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back_and_others_refused() {
        for policy in Policy::ALL {
            assert_eq!(policy.to_string().parse(), Ok(policy));
        }
        assert!("full".parse::<Policy>().unwrap_err().contains("'full', expected one of random, partition"));
    }
}
