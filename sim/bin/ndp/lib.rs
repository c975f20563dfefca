//! The tool `ndp`: everything that the project does but writing Verilog, which is `gen-rtl`'s.
//!
//! Each subcommand has a file or folder of its own, with its arguments. `cli` puts them together. Without the cargo feature `rtl` the
//! tool has those that simulate no RTL, and needs neither Verilator nor libclang. What is done is left to the libraries.

#[macro_use(bail, ensure, note, refusal, say)]
extern crate ndp_files;

/// A report with more charts: table, title, caption and marks of each, and perhaps whether it is shown.
#[cfg(feature = "rtl")]
macro_rules! charts {
    ($report:expr => $($table:literal $title:expr, $caption:literal, $kind:expr $(, if $shown:expr)?;)+) => {{
        let report: ndp_report::Report = $report;
        $(let report = match true $(&& $shown)? {
            true => report.chart(ndp_report::Chart::new($table, $title, $caption, $kind)),
            false => report,
        };)+
        report
    }};
}

mod breakdown;
mod cli;
mod compare;
mod compare_runs;
mod coverage;
mod cycles;
mod fpga;
mod given;
mod ignored;
mod made;
mod mutate;
mod offload;
mod output;
mod papers;
mod pim_times;
mod place;
mod power;
mod program;
mod prove;
mod refusals;
mod schema;
mod serve;
mod sweep;
mod synth;
mod temperature;
mod tools;
mod trace;
mod waivers;

/// What simulates RTL. The files lie beside the others, and so do the names.
#[cfg(feature = "rtl")]
#[path = "."]
mod rtl {
    pub mod args;
    pub mod bench;
    pub mod compile;
    pub mod energy;
    pub mod evaluate;
    pub mod figures;
    pub mod gemv;
    pub mod generate;
    pub mod golden;
    pub mod layer;
    pub mod link;
    pub mod operands;
    pub mod phases;
    pub mod pim;
    pub mod pim_diagram;
    pub mod report;
    pub mod run;
    pub mod scaling;
    pub mod speed;
    pub mod stream;
    pub mod system;
}

#[cfg(feature = "rtl")]
use rtl::*;

use ndp_pim::PimError;
use std::process::ExitCode;

/// Does what the arguments of the program say. Exit codes: 0 if all results are as expected, 1 if one is not or the simulation failed, 2 if
/// arguments or files are refused, 3 if something cannot be used or written.
pub fn main() -> ExitCode {
    let (arguments, renamed) = cli::arguments();
    let job = |cli: cli::Cli| {
        if let Some((old, new)) = renamed {
            note!("note: 'ndp {old}' is now 'ndp {new}'; the old name goes with the next release");
        }
        cli::check_lists()?;
        #[cfg(feature = "rtl")]
        if let Some(form) = cli.form {
            // The variable holds for whatever runs next, the option for this command.
            ensure!(
                cli.command.may_simulate() || std::env::var_os("NDP_FORM").is_some(),
                "--form has no effect on a command that simulates no RTL; leave it out"
            );
            form.make_default();
        }
        cli.command.run()
    };
    #[cfg(feature = "rtl")]
    let failed = is_failure_of_the_run;
    #[cfg(not(feature = "rtl"))]
    let failed = |error: &anyhow::Error| error.chain().any(is_failure_of_pim);
    ndp_files::program(cli::command(), arguments, job, |error| {
        if failed(error) { 1 } else { ndp_files::exit_code(error, refusals::refuses) }
    })
}

/// Whether the simulation failed, rather than its arguments.
#[cfg(feature = "rtl")]
fn is_failure_of_the_run(error: &anyhow::Error) -> bool {
    use ndp_sim::error::SimError;
    use ndp_sim::hbm::{ControlledError, LockstepError};
    use ndp_sim::link::network::NetworkError;
    use ndp_sim::system::EvaluateError;
    use ndp_traces::capture::CaptureError;
    error.chain().any(|cause| {
        // What passes a capture of activity or an evaluation is shown as if it were theirs.
        let captured = match cause.downcast_ref() {
            Some(CaptureError::Backend(error)) => Some(error),
            _ => None,
        };
        let evaluated = match cause.downcast_ref() {
            Some(EvaluateError::System(error)) => Some(error),
            _ => None,
        };
        let sim = matches!(
            cause.downcast_ref().or(captured).or(evaluated),
            Some(
                SimError::Hang { .. }
                    | SimError::Host { .. }
                    | SimError::Dram { .. }
                    | SimError::Mismatch { .. }
                    | SimError::Padding { .. }
                    | SimError::LinkFault { .. }
                    | SimError::Link(_)
            )
        );
        let network = matches!(cause.downcast_ref(), Some(NetworkError::Link(_)));
        // What else these say of a model or port is not about the run.
        let channel =
            matches!(cause.downcast_ref(), Some(LockstepError::Mismatch { .. } | LockstepError::Numerics(_)));
        let controller = matches!(
            cause.downcast_ref(),
            Some(
                ControlledError::Refused { .. }
                    | ControlledError::Hang { .. }
                    | ControlledError::Numerics(_)
                    | ControlledError::Lockstep(LockstepError::Mismatch { .. } | LockstepError::Numerics(_))
            )
        );
        sim || network || channel || controller || is_failure_of_pim(cause)
    })
}

/// The same for the channels of a PIM memory, which need no RTL.
fn is_failure_of_pim(cause: &(dyn std::error::Error + 'static)) -> bool {
    matches!(
        cause.downcast_ref(),
        Some(
            PimError::Refused { .. }
                | PimError::Data { .. }
                | PimError::Mismatch { .. }
                | PimError::Stuck { .. }
                | PimError::Channel(_)
        )
    )
}

#[cfg(all(test, feature = "rtl"))]
mod tests {
    use super::*;
    use ndp_sim::error::{LinkError, SimError};
    use ndp_sim::hbm::{ControlledError, LockstepError};
    use ndp_sim::link::network::NetworkError;
    use ndp_sim::system::EvaluateError;

    #[test]
    fn what_the_hardware_does_wrong_is_told_from_unusable_arguments() {
        let mismatch = || LockstepError::Mismatch {
            clock: 7,
            signal: "read_o",
            found: "1".into(),
            expected: "0".into(),
            commands: String::new(),
        };
        let refused = ControlledError::Refused {
            clock: 7,
            status: [1, 0],
            commands: "ACT".into(),
            reason: "tRC".into(),
        };
        for wrong in [
            mismatch().into(),
            ControlledError::from(mismatch()).into(),
            anyhow::Error::from(refused).context("dex"),
            NetworkError::from(LinkError::Hang { cycle: 9, quiet: 9, missing: 1 }).into(),
            EvaluateError::System(SimError::Host { cycle: 7, what: "a read".into() }).into(),
        ] {
            assert!(is_failure_of_the_run(&wrong), "{wrong:#}");
        }
        assert!(!is_failure_of_the_run(&anyhow::anyhow!("no such file")));
    }
}
