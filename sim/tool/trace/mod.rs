//! `ndp trace`: captures, generates, measures and shows activation traces. Each command has a file.

mod capture;
mod header;
mod show;
mod stats;
mod synth;

use crate::prelude::*;
use clap::Subcommand;

/// Make and inspect activation traces: which neurons of a language model were active for which token
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ndp trace capture --tokens 64 --out own.trace
  ndp trace synth --llm relu-llama2-70b --tokens 256 --out llama.trace
  ndp trace stats llama.trace
  ndp trace show own.trace --token 3 --layer 0")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the repository's model on a prompt and record which neurons were active
    ///
    /// The model in `golden/model` has a ReLU before the Q, K and V projections as well as in the MLP, so the inputs
    /// of both are recorded. Several prompts become several sequences. The last generated token is sampled but not
    /// run, so it has no activity.
    Capture(Shown<capture::Args>),
    /// Generate a trace of a model that is too large to be run, with published statistics
    ///
    /// docs/traces.md describes targets, mathematics and definitions. Equal arguments give equal bytes.
    Synth(Shown<synth::Args>),
    /// Measure a trace: density, power law, similarity, change of hot neurons, correlation
    ///
    /// Reads the whole trace, so it also finds any damage. All blocks are measured, except for the layer correlation
    /// (a sample of neurons of eight blocks).
    Stats(Shown<stats::Args>),
    /// Show a trace's header and some of its tokens
    ///
    /// Without --token, shows the first tokens, one line each. With --token, shows that token, one line per block;
    /// with --token and --layer, lists the active neurons of the layer.
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
