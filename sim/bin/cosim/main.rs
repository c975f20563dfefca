//! `cosim`: runs the generated hardware in lockstep with its host software and checks every output bit for bit.
//!
//! Jobs: `run`, a program for the core from a file; `cycles`, its cycles as the cycle model predicts them; `gemv`, one matrix-vector
//! product with random operands; `generate`, a text by a language model whose layers run in RTL but for LayerNorm; `layer`, one of
//! its layers in one step; `bench`, the paper's row lengths against the roofline; `pim`, texts by an NPU and an HBM2 memory whose banks
//! compute; `pim-trace`, a timing diagram of such a memory; `link`, rates of a link over its errors. Exit codes: 0 if everything agreed; 1 for a
//! mismatch, a protocol error or a hang; 2 for an argument, a file or an environment that cannot be used; 128 + n if signal n ended it.
//! The simulation itself is the library's.

#[macro_use(note, say)]
extern crate ndp_files;

mod args;
mod bench;
mod breakdown;
mod cycles;
mod figures;
mod gemv;
mod generate;
mod golden;
mod layer;
mod link;
mod output;
mod phases;
mod pim;
mod pim_trace;
mod report;
mod rerun;
mod run;
mod stream;
mod system;

use ndp_cosim::error::SimError;
use ndp_model::ModelError;
use ndp_pim::PimError;
use ndp_traces::capture::CaptureError;
use std::process::ExitCode;

/// How a job ended that could be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// Everything that was checked agreed.
    Agreed,
    /// Something differed; it has been reported.
    Differed,
}

fn main() -> ExitCode {
    ndp_files::program(run, |error| if is_failure_of_the_run(error) { 1 } else { 2 })
}

fn run(cli: args::Cli) -> anyhow::Result<u8> {
    let verdict = match cli.command {
        args::Command::Run(args) => run::run(&args),
        args::Command::Cycles(args) => cycles::run(&args),
        args::Command::Gemv(args) => gemv::run(&args),
        args::Command::Generate(args) => generate::run(&args),
        args::Command::Layer(args) => layer::run(&args),
        args::Command::Bench(args) => bench::run(&args),
        args::Command::Pim(args) => pim::run(&args),
        args::Command::Link(args) => link::run(&args),
        args::Command::PimTrace(args) => pim_trace::run(&args),
    };
    Ok(match verdict? {
        Verdict::Agreed => 0,
        Verdict::Differed => 1,
    })
}

/// Whether the simulation failed, rather than its arguments.
fn is_failure_of_the_run(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        // What passes a capture of activity is wrapped by it.
        let captured = match cause.downcast_ref() {
            Some(CaptureError::Backend(error)) => Some(error),
            _ => None,
        };
        let sim = matches!(
            cause.downcast_ref().or(captured),
            Some(
                SimError::Hang { .. }
                    | SimError::Host { .. }
                    | SimError::Dram { .. }
                    | SimError::Mismatch { .. }
                    | SimError::LinkFault { .. }
                    | SimError::Link(_)
            )
        );
        let pim = matches!(
            cause.downcast_ref(),
            Some(
                PimError::Refused { .. }
                    | PimError::Data { .. }
                    | PimError::Mismatch { .. }
                    | PimError::Stuck { .. }
                    | PimError::Channel(_)
            )
        );
        sim || pim || matches!(cause.downcast_ref(), Some(ModelError::Numerics { .. }))
    })
}
