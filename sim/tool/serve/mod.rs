//! `ndp serve`: many requests that arrive over time, on both papers' machines.
//!
//! A file for each command; `machine` has the machines' options, `report` the report, `texts` texts in RTL.

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

pub fn run(args: &Args, below: Option<&Below>) -> Result<u8> {
    match below {
        Some(Below::Synth(args)) => args.show(synth::run),
        Some(Below::Export(args)) => args.show(export::run),
        None => args.form.show(|| run::run(args)),
    }
}
