//! Which neurons the next token needs: the lightweight predictor of Hermes (section IV-C1) at the paper's scale, and others.
//!
//! Between what says which neurons were active (traces, or the monitor of a running system) and who decides where neurons lie
//! and what is computed where. Reading order: [`PredictorRules`] (the numbers), [`NeuronStates`] (4 bits per neuron),
//! [`LayerTable`] (two parents per neuron, sampled from a trace), [`Predictor`] (both together), [`evaluate`] (how good it is).
//! How it became fast is told in `docs/predictor.md`. [`LowRank`] predicts from the input of the MLP instead, as PowerInfer and LLM in a
//! flash do; [`ActivityPredictor`] is what both are to a text that is being generated.

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

/// Refuses data of another length; `what` names them.
fn same_length(what: &str, found: usize, expected: usize) -> Result<()> {
    ensure!(found == expected, "{what}: {found} entries, expected {expected}");
    Ok(())
}
