//! `ndp`: everything that the project does but writing Verilog, which is `gen-rtl`'s.
//!
//! Each subcommand has a file or folder of its own, with its arguments. [`cli`] puts them together. Without the cargo feature `rtl` the
//! tool has those that simulate no RTL, and needs neither Verilator nor libclang. What is done is left to the libraries.

#[macro_use(note, say)]
extern crate ndp_files;

mod breakdown;
mod cli;
mod cycles;
mod evaluate;
mod offload;
mod pim_times;
mod place;
mod program;
mod synth;
mod temperature;
mod tools;
mod trace;

#[cfg(feature = "rtl")]
mod args;
#[cfg(feature = "rtl")]
mod bench;
#[cfg(feature = "rtl")]
mod figures;
#[cfg(feature = "rtl")]
mod gemv;
#[cfg(feature = "rtl")]
mod generate;
#[cfg(feature = "rtl")]
mod golden;
#[cfg(feature = "rtl")]
mod layer;
#[cfg(feature = "rtl")]
mod link;
#[cfg(feature = "rtl")]
mod output;
#[cfg(feature = "rtl")]
mod phases;
#[cfg(feature = "rtl")]
mod pim;
#[cfg(feature = "rtl")]
mod pim_trace;
#[cfg(feature = "rtl")]
mod report;
#[cfg(feature = "rtl")]
mod rerun;
#[cfg(feature = "rtl")]
mod run;
#[cfg(feature = "rtl")]
mod stream;
#[cfg(feature = "rtl")]
mod system;

#[cfg(feature = "rtl")]
use ndp_cosim::error::SimError;
#[cfg(feature = "rtl")]
use ndp_model::ModelError;
#[cfg(feature = "rtl")]
use ndp_pim::PimError;
#[cfg(feature = "rtl")]
use ndp_traces::capture::CaptureError;
use std::process::ExitCode;

/// How a job ended that could be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// Everything that was checked agreed.
    Agreed,
    /// Something differed; it has been reported.
    #[cfg_attr(not(feature = "rtl"), expect(dead_code, reason = "only the RTL can be wrong"))]
    Differed,
}

fn main() -> ExitCode {
    let job = |cli: cli::Cli| {
        Ok(match cli.command.run()? {
            Verdict::Agreed => 0,
            Verdict::Differed => 1,
        })
    };
    #[cfg(feature = "rtl")]
    let code = |error: &anyhow::Error| if is_failure_of_the_run(error) { 1 } else { 2 };
    #[cfg(not(feature = "rtl"))]
    let code = |_: &anyhow::Error| 2;
    ndp_files::program(job, code)
}

/// Whether the simulation failed, rather than its arguments.
#[cfg(feature = "rtl")]
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
