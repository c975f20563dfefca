//! Policies of the Hermes host, which need neither RTL nor Verilator.
//!
//! Reading order: [`predictor`] (neurons that the next token needs), [`placement`] (where neurons lie best),
//! [`scheduler`] (moves during generation), [`flash`] (neurons that stay in memory if an SSD has the others).

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod flash;
pub mod placement;
pub mod predictor;
pub mod scheduler;
