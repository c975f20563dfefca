//! Which neurons the next token needs: the lightweight predictor of Hermes (section IV-C1) at the paper's scale.
//!
//! Between what says which neurons were active (traces, or the monitor of a running system) and who decides where neurons lie
//! and what is computed where. Reading order: [`PredictorRules`] (the numbers), [`NeuronStates`] (4 bits per neuron),
//! [`LayerTable`] (two parents per neuron, sampled from a trace), [`Predictor`] (both together), [`evaluate`] (how good it is).
//! How it became fast is told in `docs/predictor.md`.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod aligned;
mod children;
mod error;
mod evaluate;
mod file;
mod kernel;
mod predictor;
mod rules;
mod sample;
mod states;
mod table;

pub use error::PredictorError;
pub use evaluate::{Confusion, Evaluation, evaluate};
pub use predictor::Predictor;
pub use rules::{MAX_STATE, PredictorKind, PredictorRules, first_state};
pub use states::NeuronStates;
pub use table::{LayerTable, Parents, previous_block};
