//! Policies of the Hermes host, which need neither RTL nor Verilator.
//!
//! Reading order: [`predictor`] (which neurons the next token needs), [`placement`] (where neurons best lie), [`scheduler`] (which of
//! them move while text is generated), [`flash`] (which stay in memory if the others are on an SSD).

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod flash;
pub mod placement;
pub mod predictor;
pub mod scheduler;
