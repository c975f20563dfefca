//! `ndp serve`: many requests that arrive over time, on both papers' machines.
//!
//! One file for each command; the machines' options are in `machine`, the report is in `report`, texts in RTL in `texts`.

mod export;
mod machine;
mod report;
mod run;
mod synth;
#[cfg(feature = "rtl")]
mod texts;

use crate::prelude::*;
use clap::Subcommand;
pub use run::Args;

#[derive(Subcommand, Debug)]
pub enum Below {
    /// Draw a trace: Poisson arrivals, lengths like those of Alpaca
    Synth(Shown<synth::Args>),
    /// Write latencies and energies of an NPU with HBM-PIM as tables, in the form that LLMServingSim reads
    Export(Shown<export::Args>),
}

/// Runs the job.
pub fn run(args: &Args, below: Option<&Below>) -> Result<u8> {
    match below {
        Some(Below::Synth(args)) => args.show(synth::run),
        Some(Below::Export(args)) => args.show(export::run),
        None => args.form.show(|| run::run(args)),
    }
}
