//! The command line: all subcommands, by groups.

use crate::prelude::*;
use clap::{Parser, Subcommand};
use itertools::Itertools;
use ndp_files::EXIT_CODES;
use std::ffi::OsString;
use std::fmt::Write;

/// Commands by groups, in the order of the help.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Answer a question", &["compare", "evaluate", "offload", "serve", "figures", "sweep"]),
    ("Run the machine", &["generate", "layer", "gemv", "run", "bench"]),
    ("Models, traces, placements", &["model", "trace", "place"]),
    ("Hardware", &["rtl", "synth", "verify"]),
    ("This tool", &["help"]),
];

/// Headings of the help, with the options below them. All other options are below Experiment.
const HEADINGS: [(&str, &str); 4] = [
    (
        "Input",
        "a b data file folder input llm matrix model netlists placement programs prompt space text \
         trace vectors weights",
    ),
    (
        "Machine",
        "assume backend ber block channel channels clocked config controller cpu_gb cpu_gbps device \
         dimms energy_core energy_dram energy_memory energy_npu energy_system faults flash_resident \
         flash_window gpu_numerics gpu_percent hardware kv_gb kv_mapping liberty liberty_seq \
         link_gbps link_ns links machine memory no_gqa pp ssd stalls system tp",
    ),
    (
        "Output",
        "chart commands commands_from commands_to csv dump energy html json keep list lp_form \
         lp_out out report shown_dimm shown_program table terms timeline timeline_products verbose \
         wave_block wave_channel wave_start wave_stop waves",
    ),
    ("Speed", "chunk engine fast form fresh jobs load quick threads time_limit timeout_s watchdog"),
];

/// Adds headings to options that have none.
fn with_headings(command: clap::Command) -> clap::Command {
    let named = |arg: clap::Arg| {
        let id = arg.get_id().as_str();
        let found =
            HEADINGS.iter().find(|(_, ids)| ids.split(' ').any(|of| of == id)).map(|(heading, _)| *heading);
        match (arg.get_help_heading(), id) {
            (Some(_), _) | (_, "help" | "version") => arg,
            (None, _) => arg.help_heading(found.unwrap_or("Experiment")),
        }
    };
    command.mut_args(named).mut_subcommands(with_headings)
}

pub fn command() -> clap::Command {
    let rtl = "Example:\n  ndp rtl --config tiny --out rtl --block rank_group\n\nWith --check, the exit code is 1 if a file would change.";
    with_headings(<Cli as clap::CommandFactory>::command())
        .mut_subcommand("rtl", |command| command.after_help(rtl))
}

/// Command names of the previous release, with their replacements.
const OLD: [(&str, [&str; 2]); 12] = [
    ("compare-runs", ["compare", "runs"]),
    ("pim", ["generate", "pim"]),
    ("pim-diagram", ["generate", "pim-diagram"]),
    ("pim-times", ["bench", "pim"]),
    ("link", ["bench", "link"]),
    ("cycles", ["run", "cycles"]),
    ("compile", ["model", "compile"]),
    ("power", ["synth", "power"]),
    ("fpga", ["synth", "fpga"]),
    ("prove", ["verify", "prove"]),
    ("mutate", ["verify", "mutate"]),
    ("coverage", ["verify", "coverage"]),
];

/// Arguments of this process, with the new name of the command.
pub fn arguments() -> Vec<OsString> {
    renamed(std::env::args_os().collect()).0
}

/// Replaces an old command name. Also returns the old and the new name if there was one.
pub fn renamed(mut arguments: Vec<OsString>) -> (Vec<OsString>, Option<(&'static str, String)>) {
    let first = (1..arguments.len()).find(|&index| {
        let is_value = arguments[index - 1] == "--form";
        !is_value && !arguments[index].to_string_lossy().starts_with('-')
    });
    let found = first.and_then(|at| Some((at, OLD.iter().find(|(old, _)| arguments[at] == *old)?)));
    let renamed = found.map(|(at, (old, new))| {
        arguments.splice(at..=at, new.map(OsString::from));
        (*old, new.join(" "))
    });
    (arguments, renamed)
}

/// LLM inference next to and inside memory: generated hardware in lockstep with its software, bit for bit
#[derive(Parser, Debug)]
#[command(name = "ndp", version, help_template = template(), after_help = after_help())]
pub struct Cli {
    /// Form of the simulated RTL [default: native]; waves always come from Verilated models
    #[cfg(feature = "rtl")]
    #[arg(long, global = true, value_enum, value_name = "FORM", hide_short_help = true)]
    #[arg(env = "NDP_FORM", hide_env_values = true)]
    pub form: Option<ndp_sim::ffi::Form>,
    /// Subcommand.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Subcommand, Debug)]
pub enum Command {
    #[cfg(feature = "rtl")]
    Compare(Both<Shown<crate::compare::Args>, CompareBelow>),
    #[cfg(feature = "rtl")]
    Evaluate(Box<Shown<crate::evaluate::Args>>),
    Offload(Shown<crate::offload::Args>),
    Serve(Box<Both<crate::serve::Args, crate::serve::Below>>),
    Figures(Shown<crate::papers::Args>),
    Sweep(crate::sweep::Args),
    #[cfg(feature = "rtl")]
    Generate(Box<Both<crate::generate::Args, GenerateBelow>>),
    #[cfg(feature = "rtl")]
    Layer(crate::layer::Args),
    #[cfg(feature = "rtl")]
    Gemv(crate::gemv::Args),
    Run(Run),
    Bench(Bench),
    #[command(
        subcommand,
        after_help = "Examples:\n  ndp model get smollm2\n  ndp model compile --config tiny --dimms 4 --out compiled"
    )]
    Model(Model),
    Trace(crate::trace::Args),
    Place(Shown<crate::place::Args>),
    /// Emit the hardware of a configuration as Verilog
    Rtl(ndp_hdl::emit::Args),
    Synth(Both<Shown<crate::synth::Args>, SynthBelow>),
    #[command(subcommand, after_help = "Example:\n  ndp verify prove fifo")]
    Verify(Verify),
    #[command(hide = true)]
    Completions(Completions),
    #[command(hide = true)]
    Schema(Shown<crate::schema::Args>),
}

// A command with subcommands. Its help text is the one of its arguments.
#[derive(clap::Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Both<A: clap::Args, B: Subcommand> {
    #[command(flatten)]
    args: A,
    #[command(subcommand)]
    below: Option<B>,
}

#[cfg(feature = "rtl")]
#[derive(Subcommand, Debug)]
pub enum CompareBelow {
    Runs(crate::compare_runs::Args),
}

#[cfg(feature = "rtl")]
#[derive(Subcommand, Debug)]
pub enum GenerateBelow {
    Pim(Box<Shown<crate::pim::Args>>),
    PimDiagram(Shown<crate::pim_diagram::Args>),
}

/// Run programs
#[derive(clap::Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[cfg_attr(not(feature = "rtl"), command(subcommand_required = true))]
pub struct Run {
    #[cfg(feature = "rtl")]
    #[command(flatten)]
    args: crate::run::Args,
    #[command(subcommand)]
    below: Option<RunBelow>,
}

#[derive(Subcommand, Debug)]
enum RunBelow {
    Cycles(Shown<crate::cycles::Args>),
}

/// Time products, links and pieces of work
#[derive(clap::Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[cfg_attr(not(feature = "rtl"), command(subcommand_required = true))]
pub struct Bench {
    #[cfg(feature = "rtl")]
    #[command(flatten)]
    args: Shown<crate::bench::Args>,
    #[command(subcommand)]
    below: Option<BenchBelow>,
}

#[derive(Subcommand, Debug)]
enum BenchBelow {
    #[cfg(feature = "rtl")]
    Link(Shown<crate::link::Args>),
    Pim(Shown<crate::pim_times::Args>),
}

/// Get public models, and prepare models for the core
#[derive(Subcommand, Debug)]
pub enum Model {
    Get(Shown<crate::get::Args>),
    #[cfg(feature = "rtl")]
    Perplexity(Shown<crate::perplexity::Args>),
    #[cfg(feature = "rtl")]
    Calibrate(Shown<crate::calibrate::Args>),
    #[cfg(feature = "rtl")]
    Compile(Shown<crate::compile::Args>),
}

#[derive(Subcommand, Debug)]
pub enum SynthBelow {
    Power(Shown<crate::power::Args>),
    Fpga(Shown<crate::fpga::Args>),
}

/// Check the hardware and its tests: proofs, mutants, coverage
#[derive(Subcommand, Debug)]
pub enum Verify {
    Prove(Shown<crate::prove::Args>),
    Mutate(Shown<crate::mutate::Args>),
    Coverage(Shown<crate::coverage::Args>),
}

/// Print a completion script for a shell
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  ndp completions bash > ~/.local/share/bash-completion/completions/ndp")]
pub struct Completions {
    /// Shell
    shell: clap_complete::Shell,
}

impl Command {
    #[cfg(feature = "rtl")]
    pub fn may_simulate(&self) -> bool {
        use ndp_sim::core::Backend::Rtl;
        match self {
            Self::Gemv(args) => args.unit.backend == Rtl,
            Self::Layer(args) => args.unit.backend == Rtl,
            Self::Generate(all) => all.below.is_some() || all.args.unit.backend == Rtl,
            Self::Run(all) => all.below.is_none() && all.args.unit.backend == Rtl,
            Self::Bench(Bench { below: None, args }) => args.backend == Rtl && !args.speed && !args.profile,
            Self::Bench(_) | Self::Serve(_) | Self::Trace(_) => true,
            Self::Verify(below) => !matches!(below, Verify::Prove(_)),
            _ => false,
        }
    }

    /// Runs the command, and returns the exit code.
    pub fn run(&self) -> Result<u8> {
        match self {
            #[cfg(feature = "rtl")]
            Self::Compare(Both { below: Some(CompareBelow::Runs(args)), .. }) => {
                args.form.show(|| crate::compare_runs::run(args))
            }
            #[cfg(feature = "rtl")]
            Self::Compare(Both { args, .. }) => args.show(crate::compare::run),
            #[cfg(feature = "rtl")]
            Self::Evaluate(args) => args.show(crate::evaluate::run),
            Self::Offload(args) => args.show(crate::offload::run),
            Self::Serve(all) => crate::serve::run(&all.args, all.below.as_ref()),
            Self::Figures(args) => args.show(crate::papers::run),
            Self::Sweep(args) => crate::sweep::run(args),
            #[cfg(feature = "rtl")]
            Self::Generate(all) => match &all.below {
                Some(GenerateBelow::Pim(args)) => args.show(crate::pim::run),
                Some(GenerateBelow::PimDiagram(args)) => args.show(crate::pim_diagram::run),
                None => crate::generate::run(&all.args),
            },
            #[cfg(feature = "rtl")]
            Self::Layer(args) => crate::layer::run(args),
            #[cfg(feature = "rtl")]
            Self::Gemv(args) => args.unit.form.show(|| crate::gemv::run(args)),
            Self::Run(Run { below: Some(RunBelow::Cycles(args)), .. }) => args.show(crate::cycles::run),
            #[cfg(feature = "rtl")]
            Self::Run(Run { args, .. }) => args.unit.form.show(|| crate::run::run(args)),
            #[cfg(feature = "rtl")]
            Self::Bench(Bench { below: Some(BenchBelow::Link(args)), .. }) => args.show(crate::link::run),
            Self::Bench(Bench { below: Some(BenchBelow::Pim(args)), .. }) => args.show(crate::pim_times::run),
            #[cfg(feature = "rtl")]
            Self::Bench(Bench { args, .. }) => args.show(crate::bench::run),
            #[cfg(not(feature = "rtl"))]
            Self::Run(_) | Self::Bench(_) => bail!("this tool was built without RTL"),
            Self::Model(Model::Get(args)) => args.show(crate::get::run),
            #[cfg(feature = "rtl")]
            Self::Model(Model::Perplexity(args)) => args.show(crate::perplexity::run),
            #[cfg(feature = "rtl")]
            Self::Model(Model::Calibrate(args)) => args.show(crate::calibrate::run),
            #[cfg(feature = "rtl")]
            Self::Model(Model::Compile(args)) => args.show(crate::compile::run),
            Self::Trace(args) => crate::trace::run(args),
            Self::Place(args) => args.show(crate::place::run),
            Self::Rtl(args) => rtl(args),
            Self::Synth(Both { args, below }) => match below {
                Some(SynthBelow::Power(args)) => args.show(crate::power::run),
                Some(SynthBelow::Fpga(args)) => args.show(crate::fpga::run),
                None => args.show(crate::synth::run),
            },
            Self::Verify(Verify::Prove(args)) => args.show(crate::prove::run),
            Self::Verify(Verify::Mutate(args)) => args.show(crate::mutate::run),
            Self::Verify(Verify::Coverage(args)) => args.show(crate::coverage::run),
            Self::Completions(args) => completions(args),
            Self::Schema(args) => args.show(crate::schema::run),
        }
    }
}

fn rtl(args: &ndp_hdl::emit::Args) -> Result<u8> {
    match ndp_hdl::emit::run(args) {
        Ok(text) => {
            ndp_files::print(&text);
            Ok(0)
        }
        Err(error) if error.is::<ndp_hdl::emit::Drift>() => {
            note!("error: {error:#}");
            Ok(1)
        }
        Err(error) => Err(error),
    }
}

/// Options with a value for each prompt or position, in which values may repeat.
const FOR_EACH: [&str; 2] = ["prompt_ids", "tokens"];

/// Refuses a repeated value in a list.
pub fn check_lists() -> Result<()> {
    let command = command();
    // Arguments that cannot be parsed were refused before.
    let Ok(matches) = command.clone().try_get_matches_from(arguments()) else { return Ok(()) };
    let (mut command, mut matches) = (&command, &matches);
    while let Some((name, inner)) = matches.subcommand() {
        let Some(found) = command.find_subcommand(name) else { break };
        (command, matches) = (found, inner);
    }
    let lists = command.get_arguments().filter(|option| option.get_value_delimiter().is_some());
    for option in lists.filter(|option| !FOR_EACH.contains(&option.get_id().as_str())) {
        let values = matches.get_raw(option.get_id().as_str()).into_iter().flatten();
        if let Some(twice) = values.map(|value| value.to_string_lossy()).duplicates().next() {
            bail!("--{} has '{twice}' twice; leave one out", option.get_long().unwrap_or_default());
        }
    }
    Ok(())
}

fn completions(args: &Completions) -> Result<u8> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command(), "ndp", &mut script);
    ndp_files::print(&String::from_utf8(script)?);
    Ok(0)
}

fn template() -> String {
    let commands = Command::augment_subcommands(clap::Command::new("ndp"));
    let mut text = "{about}\n\n{usage-heading} {usage}\n".to_owned();
    for (group, names) in GROUPS {
        let _ = write!(text, "\n{group}:\n");
        for name in names {
            let about = match commands.find_subcommand(name) {
                Some(command) => command.get_about().map(ToString::to_string).unwrap_or_default(),
                None if *name == "help" => "Print this message or the help of a subcommand".to_owned(),
                // The command needs the feature `rtl`.
                None => continue,
            };
            let below = commands.find_subcommand(name).into_iter().flat_map(clap::Command::get_subcommands);
            let below = below.map(clap::Command::get_name).join(", ");
            let below = if below.is_empty() { below } else { format!(" [{below}]") };
            let _ = writeln!(text, "  {name:<12} {about}{below}");
        }
    }
    text + "\nOptions:\n{options}{after-help}"
}

fn after_help() -> String {
    format!(
        "Examples:\n  \
         ndp gemv --config tiny --rows 64 --cols 64\n  \
         ndp generate --dimms 4 --tokens 8 --html system.html\n  \
         ndp generate pim --mode dex --html pim.html\n  \
         ndp trace synth --llm relu-llama2-13b --tokens 256 --sequences 3 --out t.trace\n  \
         ndp evaluate --trace t.trace\n  \
         ndp synth --config tiny --block multiplier_unit\n\n\
         Also: `ndp schema COMMAND` lists the paths of the command's JSON, `ndp completions SHELL` prints a completion script.\n\n{EXIT_CODES}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_subcommand_is_in_one_group_and_says_what_it_does() {
        let command = Cli::command();
        for name in command.get_subcommands().filter(|of| !of.is_hide_set()).map(clap::Command::get_name) {
            let found = GROUPS.iter().flat_map(|(_, names)| names.iter()).filter(|known| **known == name);
            assert_eq!(found.count(), 1, "{name}");
            let about = command.find_subcommand(name).and_then(clap::Command::get_about);
            assert!(about.is_some_and(|about| !about.to_string().is_empty()), "{name}");
        }
    }

    #[test]
    fn every_subcommand_shows_an_example_in_its_short_help() {
        fn check(command: &mut clap::Command) {
            for command in command.get_subcommands_mut().filter(|command| command.get_name() != "help") {
                let help = command.render_help().to_string();
                assert!(help.contains("Example"), "{}: {help}", command.get_name());
                check(command);
            }
        }
        let mut cli = <Cli as clap::CommandFactory>::command();
        cli.build();
        check(&mut cli);
    }
}
