//! The GEMV unit in lockstep: driver, memory side, protocol checks and comparison.
//!
//! Reading order: [`Command`] (what the unit is told), `dram` (where its weights come from), `lockstep` (one cycle),
//! [`GemvUnit`] (a whole product), [`Checker`] (whether it was right). `pins` maps the driver to a Verilated model and
//! `fake` to a unit in software with faults on demand, on which the driver's own checks are tested. The arithmetic is
//! `ndp_numerics`'s, the models are [`crate::ffi`]'s.

mod beat;
mod check;
mod command;
mod dram;
#[cfg(test)]
mod fake;
mod lockstep;
mod monitor;
mod pins;
mod plant;
mod stalls;
mod trace;
mod unit;

pub use check::{Checker, Mismatch};
pub use command::Command;
pub use lockstep::{DotResult, Run};
pub use plant::Plant;
pub use trace::Trace;
pub use unit::{GemvOptions, GemvRun, GemvUnit};
