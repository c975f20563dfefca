//! The tool `ndp`: everything except writing Verilog, which `gen-rtl` does.
//!
//! Each subcommand has a file or folder with its arguments; `cli` combines them. Without the cargo feature `rtl`,
//! commands that simulate RTL are missing, and neither Verilator nor libclang is needed.

#[macro_use(bail, ensure, note, refusal, say)]
extern crate ndp_files;

/// Adds charts to a report: table, title, caption and marks, and optionally whether each is shown.
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
mod coverage;
mod cycles;
mod fpga;
mod get;
mod given;
mod ignored;
mod kept;
mod made;
mod mutate;
mod offload;
mod output;
mod papers;
mod pim_times;
mod place;
mod power;
mod prelude;
mod program;
mod prove;
mod schema;
mod serve;
mod sweep;
mod synth;
mod temperature;
mod tools;
mod trace;
mod waivers;

/// Commands that simulate RTL, with unchanged paths.
#[cfg(feature = "rtl")]
#[path = "."]
mod rtl {
    pub mod args;
    pub mod bench;
    pub mod calibrate;
    pub mod compare;
    pub mod compare_runs;
    pub mod compile;
    pub mod energy;
    pub mod evaluate;
    pub mod figures;
    pub mod gemv;
    pub mod generate;
    pub mod golden;
    pub mod layer;
    pub mod link;
    pub mod machine;
    pub mod operands;
    pub mod perplexity;
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
use std::process::ExitCode;

/// Runs the program. Exit codes: 0 if all results are as expected; 1 if one is not, or the simulation failed; 2 if
/// arguments or files are refused; 3 if something cannot be used or written.
pub fn main() -> ExitCode {
    let (arguments, renamed) = cli::renamed(std::env::args_os().collect());
    let job = |cli: cli::Cli| {
        if let Some((old, new)) = renamed {
            note!("note: 'ndp {old}' is now 'ndp {new}'; the next release removes the old name");
        }
        cli::check_lists()?;
        #[cfg(feature = "rtl")]
        if let Some(form) = cli.form {
            // The variable applies to all commands, the option only to this one.
            ensure!(
                cli.command.may_simulate() || std::env::var_os("NDP_FORM").is_some(),
                "--form has no effect on a command that simulates no RTL; leave it out"
            );
            form.make_default();
        }
        cli.command.run()
    };
    ndp_files::program(cli::command(), arguments, job, |error| ndp_files::exit_code(error, refuses))
}

/// Whether an error was caused by a refusal in a library with its own error types.
fn refuses(cause: &(dyn std::error::Error + 'static)) -> bool {
    cause.is::<ndp_hdl::designs::BuildError>()
        || cause.is::<ndp_hdl_language::HdlError>()
        || cause.is::<ndp_isa::IsaError>()
        || cause.is::<ndp_isa::Malformed>()
        || cause.is::<safetensors::SafeTensorError>()
        || cause.is::<toml::de::Error>()
}
