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

/// Serve a trace of requests with continuous batching: rates, latencies, utilisation, energy
///
/// Requests are JSON by lines, or columns, as LLMServingSim reads them. The batch is decided anew for each iteration; keys and values are paged, and have what
/// weights leave of the machine's memory. docs/serving.md says how times are computed and what is assumed.
#[derive(clap::Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(after_help = "Examples:\n  \
    ndp serve synth --requests 1000 --rate 20 --out alpaca.jsonl\n  \
    ndp serve alpaca.jsonl --llm llama2-7b\n  \
    ndp serve alpaca.jsonl --llm llama3-70b --tp 8 --pp 2 --modes serial,neupims,dex+dbo --html serve.html\n  \
    ndp serve few.jsonl --rtl --memory librapim-small --hardware librapim-small-npu --modes serial,dex\n  \
    ndp serve alpaca.jsonl --machine hermes --llm llama2-70b --policies hermes,flexgen --max-batch 16\n  \
    ndp serve export --llm llama2-7b --out tables")]
pub struct Args {
    #[command(flatten)]
    run: run::Args,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// Draw a trace: Poisson arrivals, lengths like those of Alpaca
    Synth(Shown<synth::Args>),
    /// Write latencies and energies of an NPU with HBM-PIM as tables, in the form that LLMServingSim reads
    Export(Shown<export::Args>),
}

/// Runs the job.
pub fn run(args: &Args) -> Result<u8> {
    match &args.command {
        Some(Command::Synth(args)) => args.show(synth::run),
        Some(Command::Export(args)) => args.show(export::run),
        None => args.run.form.show(|| run::run(&args.run)),
    }
}
