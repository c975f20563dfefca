//! `ndp trace`: captures, generates, measures and shows activation traces. One file for each command.

mod capture;
mod header;
mod show;
mod stats;
mod synth;

use crate::prelude::*;
use clap::Subcommand;

/// Activation traces: which neurons of a language model were active for which token
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ndp trace capture --tokens 64 --out own.trace
  ndp trace synth --llm llama2-70b --tokens 256 --out llama.trace
  ndp trace stats llama.trace
  ndp trace show own.trace --token 3 --layer 0")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs the repository's model on a prompt and records which neurons were active
    Capture(Shown<capture::Args>),
    /// Generates a trace of a model that is too large to be run, with published statistics
    Synth(Shown<synth::Args>),
    /// Measures a trace: density, power law, similarity, change of hot neurons, correlation
    Stats(Shown<stats::Args>),
    /// Shows a trace's header and some of its tokens
    Show(Shown<show::Args>),
}

pub fn run(args: &Args) -> Result<u8> {
    match &args.command {
        Command::Capture(args) => args.show(capture::run),
        Command::Synth(args) => args.show(synth::run),
        Command::Stats(args) => args.show(stats::run),
        Command::Show(args) => args.show(show::run),
    }
}
