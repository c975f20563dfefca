//! `ndp serve`: many requests that arrive over time, on the machines of both papers.
//!
//! Each command has a file. `machine` has the options of the machines, `report` the report, `texts` the texts in RTL,
//! `tokens` the tokens of hermes on its machine.

mod export;
mod machine;
mod report;
mod run;
mod synth;
#[cfg(feature = "rtl")]
mod texts;
#[cfg(feature = "rtl")]
mod tokens;

use crate::prelude::*;
use clap::Subcommand;
pub use run::Args;

#[derive(Subcommand, Debug)]
pub enum Below {
    /// Draw a trace: Poisson arrivals, and lengths like those of Alpaca
    ///
    /// Lengths are log-normal. Their means and medians are those of Alpaca as far as they are published;
    /// rust/systems/src/serving/synth.rs gives the sources and the assumptions. Equal arguments give equal bytes.
    Synth(Shown<synth::Args>),
    /// Write tables of latencies and energies of an NPU with HBM-PIM, in the form that LLMServingSim reads
    ///
    /// Writes FOLDER/NAME/MODEL/fp16/meta.yaml and tp<N>/ with dense.csv, per_sequence.csv and attention.csv, in the
    /// form of `profiler/perf` of LLMServingSim; FOLDER/pim/NAME.ini, for its `configs/pim`; FOLDER/pim/NAME.csv with
    /// slope and intercept for its `pim_model.py`; and FOLDER/energies.csv, in a form of our own. docs/serving.md
    /// describes all of them.
    Export(Shown<export::Args>),
}

pub fn run(args: &Args, below: Option<&Below>) -> Result<u8> {
    match below {
        Some(Below::Synth(args)) => args.show(synth::run),
        Some(Below::Export(args)) => args.show(export::run),
        None => args.form.show(|| run::run(args)),
    }
}
