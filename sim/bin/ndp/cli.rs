//! The command line: all subcommands, by groups.

use crate::verdict::Verdict;
use clap::{Parser, Subcommand};
use ndp_files::EXIT_CODES;
use std::collections::BTreeSet;
use std::fmt::Write;

/// What the subcommands do, in groups, in the order of the help.
const GROUPS: [(&str, &[&str]); 4] = [
    ("Simulate the NDP core in RTL", &["gemv", "layer", "generate", "bench", "run", "link"]),
    ("Simulate HBM-PIM", &["pim", "pim-diagram", "pim-times"]),
    (
        "Model and schedule, without RTL",
        &[
            "compile",
            "cycles",
            "trace",
            "place",
            "evaluate",
            "compare",
            "compare-runs",
            "figures",
            "offload",
            "serve",
            "sweep",
        ],
    ),
    (
        "Synthesise, prove and measure tests; this tool",
        &["synth", "power", "fpga", "prove", "mutate", "coverage", "completions", "help"],
    ),
];

/// LLM inference next to and inside memory: generated hardware in lockstep with its software, bit for bit
#[derive(Parser, Debug)]
#[command(name = "ndp", version, help_template = template(), after_help = after_help())]
pub struct Cli {
    /// What simulates RTL [default: native]; waves are always Verilated
    #[cfg(feature = "rtl")]
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "FORM",
        env = "NDP_FORM",
        hide_env_values = true,
        hide_short_help = true
    )]
    pub form: Option<ndp_sim::ffi::Form>,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The subcommands.
#[derive(Subcommand, Debug)]
pub enum Command {
    #[cfg(feature = "rtl")]
    Gemv(crate::gemv::Args),
    #[cfg(feature = "rtl")]
    Layer(crate::layer::Args),
    #[cfg(feature = "rtl")]
    Generate(Box<crate::generate::Args>),
    #[cfg(feature = "rtl")]
    Bench(crate::bench::Args),
    #[cfg(feature = "rtl")]
    Run(crate::run::Args),
    #[cfg(feature = "rtl")]
    Link(crate::link::Args),
    #[cfg(feature = "rtl")]
    Pim(Box<crate::pim::Args>),
    #[cfg(feature = "rtl")]
    PimDiagram(crate::pim_diagram::Args),
    PimTimes(crate::pim_times::Args),
    #[cfg(feature = "rtl")]
    Compile(crate::compile::Args),
    Cycles(crate::cycles::Args),
    Trace(crate::trace::Args),
    Place(crate::place::Args),
    #[cfg(feature = "rtl")]
    Evaluate(Box<crate::evaluate::Args>),
    Compare(crate::compare::Args),
    CompareRuns(crate::compare_runs::Args),
    Figures(crate::papers::Args),
    Offload(crate::offload::Args),
    Serve(Box<crate::serve::Args>),
    Sweep(crate::sweep::Args),
    Synth(crate::synth::Args),
    Power(crate::power::Args),
    Fpga(crate::fpga::Args),
    Prove(crate::prove::Args),
    Mutate(crate::mutate::Args),
    Coverage(crate::coverage::Args),
    Completions(Completions),
}

/// Print a completion script for a shell
#[derive(clap::Args, Debug)]
#[command(after_help = "Example:\n  ndp completions bash > ~/.local/share/bash-completion/completions/ndp")]
pub struct Completions {
    /// The shell
    shell: clap_complete::Shell,
}

impl Command {
    /// Whether it may simulate RTL.
    #[cfg(feature = "rtl")]
    pub fn may_simulate(&self) -> bool {
        use ndp_sim::core::Backend::Rtl;
        match self {
            Self::Gemv(args) => args.unit.backend == Rtl,
            Self::Layer(args) => args.unit.backend == Rtl,
            Self::Generate(args) => args.unit.backend == Rtl,
            Self::Run(args) => args.unit.backend == Rtl,
            Self::Bench(args) => args.backend == Rtl && !args.speed && !args.profile,
            Self::Link(_) | Self::Pim(_) | Self::PimDiagram(_) | Self::PimTimes(_) => true,
            Self::Serve(_) | Self::Trace(_) | Self::Mutate(_) | Self::Coverage(_) => true,
            _ => false,
        }
    }

    /// Runs it.
    pub fn run(&self) -> anyhow::Result<Verdict> {
        match self {
            #[cfg(feature = "rtl")]
            Self::Gemv(args) => return crate::gemv::run(args),
            #[cfg(feature = "rtl")]
            Self::Layer(args) => return crate::layer::run(args),
            #[cfg(feature = "rtl")]
            Self::Generate(args) => return crate::generate::run(args),
            #[cfg(feature = "rtl")]
            Self::Bench(args) => return crate::bench::run(args),
            #[cfg(feature = "rtl")]
            Self::Run(args) => return crate::run::run(args),
            #[cfg(feature = "rtl")]
            Self::Link(args) => return crate::link::run(args),
            #[cfg(feature = "rtl")]
            Self::Pim(args) => return crate::pim::run(args),
            #[cfg(feature = "rtl")]
            Self::PimDiagram(args) => return crate::pim_diagram::run(args),
            Self::PimTimes(args) => crate::pim_times::run(args),
            #[cfg(feature = "rtl")]
            Self::Compile(args) => crate::compile::run(args),
            Self::Cycles(args) => crate::cycles::run(args),
            Self::Trace(args) => crate::trace::run(args),
            Self::Place(args) => crate::place::run(args),
            #[cfg(feature = "rtl")]
            Self::Evaluate(args) => crate::evaluate::run(args),
            Self::Compare(args) => crate::compare::run(args),
            Self::CompareRuns(args) => crate::compare_runs::run(args),
            Self::Figures(args) => crate::papers::run(args),
            Self::Offload(args) => crate::offload::run(args),
            Self::Serve(args) => crate::serve::run(args),
            Self::Sweep(args) => crate::sweep::run(args),
            Self::Synth(args) => crate::synth::run(args),
            Self::Power(args) => crate::power::run(args),
            Self::Fpga(args) => return crate::fpga::run(args),
            Self::Prove(args) => return crate::prove::run(args),
            Self::Mutate(args) => return crate::mutate::run(args),
            Self::Coverage(args) => return crate::coverage::run(args),
            Self::Completions(args) => completions(args),
        }?;
        Ok(Verdict::Agreed)
    }
}

/// Options whose list has a value for each prompt, so that values may be equal.
const FOR_EACH: [&str; 1] = ["tokens"];

/// Refuses a list that has a value twice.
///
/// # Errors
/// A refusal with option and value.
pub fn check_lists() -> anyhow::Result<()> {
    let command = <Cli as clap::CommandFactory>::command();
    // Arguments that cannot be parsed were refused before.
    let Ok(matches) = command.clone().try_get_matches() else { return Ok(()) };
    let (mut command, mut matches) = (&command, &matches);
    while let Some((name, inner)) = matches.subcommand() {
        let Some(found) = command.find_subcommand(name) else { break };
        (command, matches) = (found, inner);
    }
    let lists = command.get_arguments().filter(|option| option.get_value_delimiter().is_some());
    for option in lists.filter(|option| !FOR_EACH.contains(&option.get_id().as_str())) {
        let mut before = BTreeSet::new();
        let values = matches.get_raw(option.get_id().as_str()).into_iter().flatten();
        if let Some(twice) =
            values.map(|value| value.to_string_lossy()).find(|value| !before.insert(value.clone()))
        {
            bail!("--{} has '{twice}' twice; leave one out", option.get_long().unwrap_or_default());
        }
    }
    Ok(())
}

fn completions(args: &Completions) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut <Cli as clap::CommandFactory>::command(), "ndp", &mut script);
    ndp_files::print(&String::from_utf8(script)?);
    Ok(())
}

/// The help with the subcommands in their groups.
fn template() -> String {
    let commands = Command::augment_subcommands(clap::Command::new("ndp"));
    let mut text = "{about}\n\n{usage-heading} {usage}\n".to_owned();
    for (group, names) in GROUPS {
        let _ = write!(text, "\n{group}:\n");
        for name in names {
            let about = match commands.find_subcommand(name) {
                Some(command) => command.get_about().map(ToString::to_string).unwrap_or_default(),
                None if *name == "help" => "Print this message or the help of a subcommand".to_owned(),
                // Without the feature `rtl`.
                None => continue,
            };
            let _ = writeln!(text, "  {name:<12} {about}");
        }
    }
    text + "\nOptions:\n{options}{after-help}"
}

fn after_help() -> String {
    format!(
        "Examples:\n  \
         ndp gemv --config tiny --rows 64 --cols 64\n  \
         ndp generate --dimms 4 --tokens 8 --html system.html\n  \
         ndp pim --mode dex --html pim.html\n  \
         ndp trace synth --llm llama2-13b --tokens 256 --sequences 3 --out t.trace\n  \
         ndp evaluate --trace t.trace\n  \
         ndp synth --config tiny --block multiplier_unit\n\n{EXIT_CODES}"
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
        for name in command.get_subcommands().map(clap::Command::get_name) {
            let found = GROUPS.iter().flat_map(|(_, names)| names.iter()).filter(|known| **known == name);
            assert_eq!(found.count(), 1, "{name}");
            let about = command.find_subcommand(name).and_then(clap::Command::get_about);
            assert!(about.is_some_and(|about| !about.to_string().is_empty()), "{name}");
        }
    }

    #[test]
    fn every_subcommand_shows_an_example_in_its_short_help() {
        let mut cli = <Cli as clap::CommandFactory>::command();
        cli.build();
        for command in cli.get_subcommands_mut().filter(|command| command.get_name() != "help") {
            let help = command.render_help().to_string();
            assert!(help.contains("Example"), "{}: {help}", command.get_name());
        }
    }
}
