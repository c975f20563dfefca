//! `trace`: captures, generates, measures and shows activation traces.
//!
//! Arguments and exit codes are here, one file for each command beside it. What is done is the library's.

#[macro_use(note)]
extern crate ndp_files;

mod capture;
mod show;
mod stats;
mod synth;
mod table;

use clap::{Parser, Subcommand};
use std::process::ExitCode;

/// Activation traces: which neurons of a language model were active for which token.
///
/// Exit code 0; 2 if the arguments or a file are not as they should be; 128 + n if signal n ended it.
#[derive(Debug, Parser)]
#[command(
    name = "trace",
    version,
    after_help = "Examples:
  trace capture --tokens 64 --out own.trace
  trace synth --model llama2-70b --tokens 256 --out llama.trace
  trace stats llama.trace
  trace show own.trace --token 3 --layer 0"
)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs the repository's model on a prompt and records which neurons were active
    Capture(capture::Args),
    /// Generates a trace of a model that is too large to be run, with published statistics
    Synth(synth::Args),
    /// Measures a trace: density, power law, similarity, change of hot neurons, correlation
    Stats(stats::Args),
    /// Shows a trace's header and some of its tokens
    Show(show::Args),
}

fn main() -> ExitCode {
    ndp_files::program(run, |_| 2)
}

fn run(args: Args) -> anyhow::Result<u8> {
    match args.command {
        Command::Capture(args) => capture::run(&args),
        Command::Synth(args) => synth::run(&args),
        Command::Stats(args) => stats::run(&args),
        Command::Show(args) => show::run(&args),
    }?;
    Ok(0)
}
