//! Values of the arguments of several DIMMs.

use ndp_scheduler::Policy;

/// Whose live predictor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum PredictorChoice {
    /// Hermes': states and parents
    Hermes,
    /// Low-rank matrices, predictor.safetensors beside the model's weights
    LowRank,
}

/// How links between DIMMs are simulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LinksChoice {
    /// Controllers, bridge and lanes, bit by bit
    Rtl,
    /// Bytes over bandwidth; the host moves the data
    Bandwidth,
}

/// A policy, or all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyChoice {
    /// All of them, in the order of the paper.
    All,
    /// This one.
    One(Policy),
}

impl std::str::FromStr for PolicyChoice {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        if name == "all" { Ok(Self::All) } else { name.parse().map(Self::One) }
    }
}

impl PolicyChoice {
    /// The policies that were chosen, each once.
    pub fn policies(choices: &[Self]) -> Vec<Policy> {
        let mut policies = Vec::new();
        for choice in choices {
            let of = match choice {
                Self::All => Policy::ALL.to_vec(),
                Self::One(policy) => vec![*policy],
            };
            for policy in of {
                if !policies.contains(&policy) {
                    policies.push(policy);
                }
            }
        }
        policies
    }
}

/// A bit error rate.
pub fn bit_error_rate(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(rate) if (0.0..=1e-3).contains(&rate) => Ok(rate),
        _ => Err("expected a number from 0 to 0.001".into()),
    }
}
