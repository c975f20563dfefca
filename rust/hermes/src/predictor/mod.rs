//! Neurons that the next token needs: Hermes' lightweight predictor (section IV-C1) at the paper's scale, and others.
//!
//! Reading order: [`PredictorRules`] (constants), [`NeuronStates`] (4 bits per neuron), [`LayerTable`] (two parents per
//! neuron, sampled from a trace), [`Predictor`] (both together), [`evaluate`] (quality). `docs/predictor.md` says how
//! it became fast. [`LowRank`] predicts from the MLP's input, as PowerInfer and LLM in a flash do.
//! [`ActivityPredictor`] is their common trait.

mod activity;
mod aligned;
mod children;
mod evaluate;
mod file;
mod kernel;
mod lightweight;
mod low_rank;
mod rules;
mod sample;
mod states;
mod table;

pub use activity::{ActivityPredictor, Exact};
pub use evaluate::{Confusion, Evaluation, evaluate};
pub use lightweight::Predictor;
pub use low_rank::{LowRank, LowRankLayer};
use ndp_files::{Result, ensure};
pub use rules::{MAX_STATE, PredictorKind, PredictorRules, first_state};
pub use states::NeuronStates;
pub use table::{LayerTable, Parents, previous_block};

fn same_length(what: &str, found: usize, expected: usize) -> Result<()> {
    ensure!(found == expected, "{what}: {found} entries, expected {expected}");
    Ok(())
}
