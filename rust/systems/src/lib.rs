//! The papers' systems end to end: Hermes, its baselines and its reduced versions, on the devices of a [`SystemConfig`](ndp_config::SystemConfig).
//!
//! A [`Policy`] says which device computes which part; a [`Machine`] how long a device takes under [`Assumptions`].
//! Times of NDP-DIMMs come from the core's cycle model, all others from bandwidths and throughputs. [`figures`]
//! compares with the papers.
//!
//! Reading order: [`assumption`](Key), [`Machine`], [`Policy`], [`Run`], [`figures`], [`serving`] (requests over time).

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod ablation;
mod activity;
mod assumption;
mod dimms;
mod energy;
pub mod figures;
mod machine;
mod policies;
mod run;
pub mod serving;

pub use activity::Frequencies;
pub use assumption::{Assumption, Assumptions, Key};
pub use dimms::DimmModel;
pub use energy::RunCosts;
pub use machine::{Machine, Workload};
pub use policies::{Policy, dense_note, hot_share, prefill};
pub use run::{Device, Run, Step, Steps, Use};
