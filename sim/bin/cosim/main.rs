//! `cosim`: runs the generated hardware in lockstep with its host software and checks every output bit for bit.
//!
//! Jobs: `run`, a program for the core from a file; `cycles`, its cycles as the cycle model predicts them; `gemv`, one matrix-vector
//! product with random operands; `generate`, a text by a language model whose layers run in RTL but for LayerNorm; `layer`, one of
//! its layers in one step; `bench`, the paper's row lengths against the roofline; `pim`, texts by an NPU and an HBM2 memory whose banks
//! compute; `pim-trace`, a timing diagram of such a memory; `link`, rates of a link over its errors. Exit codes: 0 if everything agreed; 1 for a
//! mismatch, a protocol error or a hang; 2 for an argument or a file that cannot be used. The simulation itself is the library's.

/// `println!` for output whose reader may have gone away, which is no reason to fail.
macro_rules! say {
    ($($argument:tt)*) => {{
        use std::io::Write;
        let _ = writeln!(std::io::stdout(), $($argument)*);
    }};
}

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

use clap::Parser;
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
    let result = match args::Cli::parse().command {
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
    match result {
        Ok(Verdict::Agreed) => ExitCode::SUCCESS,
        Ok(Verdict::Differed) => ExitCode::from(1),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(if is_failure_of_the_run(&error) { 1 } else { 2 })
        }
    }
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
                    | SimError::WaveWrite { .. }
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
