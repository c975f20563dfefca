//! A host for HBM2 whose banks compute: NPU, scheduler of the channels, attention in memory, requests in two groups.
//!
//! Generates texts as LibraPIM would (sections 4 and 5): linear layers on the NPU, whose weights are read over the channels'
//! buses; attention in the banks; one group of requests on the NPU while the other is in attention. The channels are behind
//! [`Pins`], clock by clock: the device model of `ndp_dram::hbm`, or RTL. Everything that comes back is compared bit for bit.
//!
//! | mode | memory | groups |
//! | --- | --- | --- |
//! | `serial` | not sliced | one: the devices take turns |
//! | `pipelined` | not sliced | two: rows are open for reads or for computing |
//! | `dex` | sliced | two: reads and computing at the same time |
//!
//! Reading order: [`timing`] (when a command may be given), [`controller`] (which one is), [`scheduled`] (or somebody else says
//! which), [`memory`] (what lies where),
//! [`attention`] (operations of a head), [`machine`] (channels and NPU), [`groups`] (who is served), [`batch`] (texts); [`measure`] (times for larger
//! models).
//!
//! Left out: offloading of FFN and attention to the other device, which `ndp_offloading` plans.

#![deny(missing_docs)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod attention;
pub mod batch;
pub mod controller;
mod error;
pub mod groups;
pub mod machine;
pub mod measure;
pub mod memory;
pub mod pins;
pub mod scheduled;
pub mod timing;

pub use batch::{Outcome, Prompt, Text, groups_of, run_batch};
pub use error::PimError;
pub use machine::{Event, Machine};
pub use pins::Pins;
pub use scheduled::Scheduler;
