//! Activation traces: which neurons of a language model were active for which token.
//!
//! Between what runs a model (or stands in for one) and what plans with its sparsity: predictor, placement, scheduler. Reading
//! order: [`NeuronShape`] (which neurons there are) and [`Activity`] (those of one token that were active).

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod activity;
mod shape;

pub use activity::{Activity, ones};
pub use shape::{Block, NeuronShape};
