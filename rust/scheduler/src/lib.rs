//! What the host does while a model runs on one GPU and several NDP-DIMMs, and how long a token takes then.
//!
//! Reading order: [`dimm_time`] (a DIMM's share of a layer, in cycles).

#![deny(missing_docs)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod dimm_time;
mod error;

pub use dimm_time::{Cycles, DimmTimes};
pub use error::SchedulerError;
