//! `ndp generate --dimms N`: a text with several cores in RTL, a GPU in software, and the host's scheduler in the loop.
//!
//! Another text of the same model is run in software first and profiled; placement, predictor and policy work on what it shows. The
//! prompt is the GPU's. `run` runs it; `report` (one run) and `table` (several) make the report.

pub mod args;
pub mod flash;
mod report;
mod run;
mod table;
pub mod time;

use self::args::PolicyChoice;
use crate::generate::args::{Args, Job};
use crate::records::Records;
use crate::stream::TextStream;
use ndp_config::{DesignConfig, SystemConfig};
use ndp_files::{OutputFile, Progress};
use ndp_model::{GenerateOptions, Model, SoftwareBackend, generate};
use ndp_report::Report;
use ndp_sim::backend::Neurons;
use ndp_sim::recordings::write_system_timeline;
use ndp_sim::system::{Setup, check_model};
use ndp_traces::capture::shape_of;
use run::{Choice, Host, Outcome, simulate};

/// Tokens that are generated in software to be profiled.
const PROFILE_TOKENS: usize = 64;

/// Runs the job.
pub fn run(args: &Args, job: &Job, (model, config): (&Model, &DesignConfig)) -> anyhow::Result<Report> {
    ensure!(
        args.neurons == Neurons::Active,
        "--neurons all has no meaning with --dimms: only active or predicted neurons are computed there"
    );
    run::check_links(args)?;
    check_model(model)?;
    crate::ignored::warn("generate --dimms", &args.system, &crate::ignored::HOST)?;
    let system = args.flash.with_ssd(SystemConfig::load(&args.system)?.having_dimms()?)?;
    let policies = PolicyChoice::policies(&args.policy);
    args.placement.check(&policies)?;
    let (mut choices, mut placement) = (Vec::new(), None);
    for &dimms in &args.dimms {
        placement = args.placement.load(&shape_of(&model.config), dimms, &args.flash)?;
        for &policy in &policies {
            choices.extend(args.merge.iter().map(|&merge| Choice { dimms, policy, merge }));
        }
    }
    let (prompt, options) = (&job.prompt, &job.options);
    let other = GenerateOptions {
        tokens: PROFILE_TOKENS,
        seed: options.seed.wrapping_add(1),
        temperature_percent: options.temperature_percent,
    };
    let setup = Setup { placement, ..Setup::profile(model, prompt.as_bytes(), &other)? };
    let exact = generate(model, &mut SoftwareBackend::new(), prompt.as_bytes(), options, |_| {})?;
    let threads = match args.threads {
        Some(threads) => threads as usize,
        None => std::thread::available_parallelism().map_or(1, usize::from),
    };
    let prompt_tokens = model.vocabulary.tokens(prompt.as_bytes())?.len();
    let (system, setup, exact) = (&system, &setup, &exact);
    let host = Host { args, job, model, prompt_tokens, config, system, setup, exact, threads };
    match choices[..] {
        [choice] => one(&host, choice),
        _ => several(&host, &choices),
    }
}

/// One run, with everything that can be said of it.
fn one(host: &Host<'_>, choice: Choice) -> anyhow::Result<Report> {
    let args = host.args;
    let create = |path: Option<&std::path::Path>| path.map(OutputFile::create).transpose();
    let timeline = create(args.records.timeline.as_deref())?;
    // The timeline of a system is not that of a core.
    let records = Records::create(&crate::args::RecordArgs { timeline: None, ..args.records.clone() })?;
    let mut stream = TextStream::new(
        &host.job.prompt,
        &host.model.vocabulary,
        Progress::new(u64::from(args.tokens - 1).max(1), "tokens"),
        args.unit.form.json,
    );
    let outcome = simulate(host, choice, |token| stream.push(token));
    stream.finish();
    let mut outcome = outcome?;
    warn_of_faults(&outcome);
    outcome.quality = run::quality(host)?;
    if args.records.commands.is_some() && outcome.recording.is_none() && outcome.failure.is_none() {
        let ran = outcome.figures.dimms[args.shown_dimm as usize].programs;
        bail!(
            "shown-program = {} must be below the {ran} programs of DIMM {}",
            args.shown_program,
            args.shown_dimm
        );
    }
    records.write(outcome.recording.as_ref(), &args.unit.energy)?;
    if let Some(file) = timeline {
        let moves = outcome.moves();
        let shown = outcome.timeline(host, &moves);
        file.finish(|out| write_system_timeline(&shown, out))?;
    }
    if let Some(path) = args.trace.as_deref().filter(|_| outcome.failure.is_none()) {
        outcome.write_trace(host, path)?;
    }
    check_flip(&outcome)?;
    report::report(host, &outcome)
}

/// Several runs in one table.
fn several(host: &Host<'_>, choices: &[Choice]) -> anyhow::Result<Report> {
    let args = host.args;
    let single = [
        ("--trace", args.trace.is_some()),
        ("--timeline", args.records.timeline.is_some()),
        ("--commands", args.records.commands.is_some()),
        ("--waves", args.unit.waves.is_some()),
    ];
    if let Some((option, _)) = single.into_iter().find(|(_, given)| *given) {
        bail!(
            "{option} shows one run, and these are {} combinations of DIMMs, policies and forms",
            choices.len()
        );
    }
    let mut rows = Vec::new();
    let progress = Progress::new(u64::from(args.tokens) * choices.len() as u64, "tokens");
    for &choice in choices {
        let outcome = simulate(host, choice, |_| progress.add(1))?;
        check_flip(&outcome)?;
        warn_of_faults(&outcome);
        rows.push(table::Row::new(host, &outcome));
    }
    drop(progress);
    Ok(table::report(host, &rows, run::quality(host)?.as_ref()))
}

/// A fault that came too late has tested nothing.
fn warn_of_faults(outcome: &Outcome) {
    if let Some(links) = &outcome.figures.links {
        for fault in &links.pending_faults {
            note!(
                "warning: --fault {fault} never came into effect; the links ran for {} cycles",
                links.all_cycles
            );
        }
    }
}

/// A deliberate error that found no place would prove nothing.
fn check_flip(outcome: &Outcome) -> anyhow::Result<()> {
    ensure!(!outcome.is_sound() || !outcome.flip_is_pending, "no product of the model holds the flipped bit");
    Ok(())
}
