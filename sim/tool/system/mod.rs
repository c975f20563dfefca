//! Texts of `ndp generate`: one DIMM without a GPU, or several DIMMs with a GPU in software and the host's scheduler.
//!
//! With a GPU, another text of the model first runs in software and provides the data for placement, predictor and
//! policy; the GPU computes the prompt. `run` runs a text; `report` (one run) and `table` (several runs) make the
//! report.

pub mod args;
mod report;
mod run;
mod table;
pub mod time;

use self::args::PolicyChoice;
use crate::generate::args::{Args, Job};
use crate::phases;
use crate::prelude::*;
use crate::stream::TextStream;
use ndp_hermes::placement::Placement;
use ndp_model::{
    Activation, Continuation, GenerateOptions, Model, QuantisationError, SoftwareBackend, generate_tokens,
};
use ndp_sim::expected::Expected;
use ndp_sim::progress;
use ndp_sim::recordings::write_system_timeline;
use ndp_sim::system::{Neurons, Setup, check_model};
use ndp_traces::capture::shape_of;
use run::{Choice, Host, Outcome, simulate};

/// Number of tokens of the text that is profiled in software.
const PROFILE_TOKENS: usize = 64;

pub fn run(
    args: &Args,
    job: &Job,
    (model, quantisation): (&Model, Option<QuantisationError>),
    config: &DesignConfig,
) -> Result<Report> {
    let (choices, placement) =
        if args.dimms.is_empty() { (vec![Choice::ALONE], None) } else { choices(args, model)? };
    crate::ignored::warn("generate", &args.system, &crate::ignored::HOST)?;
    let system = args.flash.with_ssd(SystemConfig::load(&args.system)?.having_dimms()?)?;
    let is_alone = choices == [Choice::ALONE];
    let (prompt, options) = (job.prompt_ids.as_slice(), &job.options);
    let other = GenerateOptions {
        sampling: options.sampling,
        ..GenerateOptions::new(PROFILE_TOKENS, 0, options.seed.wrapping_add(1))
    };
    let setup = match (is_alone, &args.trace) {
        // Without a GPU, only the trace needs the profile.
        (true, None) => None,
        // All neurons are active in any text.
        (false, None) if model.config.activation() != Activation::Relu && model.config.experts() == 1 => {
            Some(Setup::dense(model)?)
        }
        _ => Some(Setup::profile(model, prompt, &other)?),
    };
    let setup = setup.map(|setup| Setup { placement, ..setup });
    let mut expected = Expected::new(config, args.neurons);
    let exact = match is_alone {
        true => generate_tokens(model, &mut expected, prompt, options, |_| {})?,
        false => generate_tokens(model, &mut SoftwareBackend::new(), prompt, options, |_| {})?,
    };
    let threads = match args.threads {
        _ if is_alone => 1,
        Some(threads) => threads as usize,
        None => std::thread::available_parallelism().map_or(1, usize::from),
    };
    let prompt_tokens = prompt.len();
    let host = Host {
        args,
        job,
        model,
        quantisation,
        prompt_tokens,
        config,
        system: &system,
        setup: setup.as_ref(),
        exact: &exact,
        work: expected.work(),
        threads,
    };
    match choices[..] {
        [choice] => one(&host, choice),
        _ => several(&host, &choices),
    }
}

/// All combinations of DIMMs, policies and formats of partial results, and the placement that the user gave.
fn choices(args: &Args, model: &Model) -> Result<(Vec<Choice>, Option<Placement>)> {
    ensure!(
        args.neurons == Neurons::Active,
        "--neurons all is not available with --dimms: only active or predicted neurons are computed there"
    );
    run::check_links(args)?;
    check_model(model, args.activity)?;
    let policies = PolicyChoice::policies(&args.policy);
    args.placement.check(&policies)?;
    let (mut choices, mut placement) = (Vec::new(), None);
    for &dimms in &args.dimms {
        placement = args.placement.load(&shape_of(&model.config), dimms, &args.flash)?;
        for &policy in &policies {
            choices.extend(args.merge.iter().map(|&merge| Choice { dimms, policy: Some(policy), merge }));
        }
    }
    Ok((choices, placement))
}

fn one(host: &Host<'_>, choice: Choice) -> Result<Report> {
    let args = host.args;
    let timeline = args.records.timeline.as_deref().map(OutputFile::create).transpose()?;
    // A system has its own kind of timeline.
    let records = crate::args::RecordArgs { timeline: None, ..args.records.clone() }.create()?;
    let chart = Asked::create(args.chart.as_ref())?;
    let progress = match choice.policy {
        None => Progress::watch(host.work, "cycles at the roofline", progress::work),
        Some(_) => Progress::new(u64::from(args.tokens - 1).max(1), "tokens"),
    };
    let prompt = if args.chat.is_some() { "" } else { &host.job.prompt };
    let continuation = Continuation::new(&host.model.vocabulary, host.job.prompt_ids.clone());
    let mut stream = TextStream::new(prompt, continuation, progress, args.unit.form.prints_json());
    let outcome = simulate(host, choice, |token| stream.push(token));
    stream.finish();
    let mut outcome = outcome?;
    warn_of_faults(&outcome);
    outcome.quality = run::quality(host)?;
    if args.records.commands.is_some() && outcome.ran.recording.is_none() && outcome.failure.is_none() {
        let ran = outcome.ran.figures.dimms[args.shown_dimm as usize].programs;
        bail!(
            "shown-program = {} must be below the {ran} programs of DIMM {}",
            args.shown_program,
            args.shown_dimm
        );
    }
    records.write(outcome.ran.recording.as_ref(), &args.unit.energy)?;
    if let Some(file) = timeline {
        let moves = outcome.moves();
        let shown = outcome.timeline(host, &moves);
        file.finish(|out| write_system_timeline(&shown, out))?;
    }
    if let Some(path) = args.trace.as_deref().filter(|_| outcome.failure.is_none()) {
        outcome.write_trace(host, path)?;
    }
    check_flip(&outcome)?;
    let title =
        format!("{}: {} tokens and their prompt", host.config.name(), outcome.generation.tokens.len());
    phases::write_chart(&outcome.sums.phases, chart, &title)?;
    report::report(host, &outcome)
}

fn several(host: &Host<'_>, choices: &[Choice]) -> Result<Report> {
    let args = host.args;
    let single = [
        ("--chart", args.chart.is_some()),
        ("--trace", args.trace.is_some()),
        ("--timeline", args.records.timeline.is_some()),
        ("--commands", args.records.commands.is_some()),
        ("--waves", args.unit.waves.is_some()),
    ];
    if let Some((option, _)) = single.into_iter().find(|(_, given)| *given) {
        bail!(
            "{option} shows one run, but the options select {} combinations of DIMMs, policies and formats",
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

/// Warns of faults that came too late to test anything.
fn warn_of_faults(outcome: &Outcome) {
    if let Some(links) = &outcome.ran.figures.links {
        for fault in &links.pending_faults {
            note!(
                "warning: --fault {fault} never came into effect; the links ran for {} cycles",
                links.all_cycles
            );
        }
    }
}

/// Fails if a deliberate error was not injected, because the run would then prove nothing.
fn check_flip(outcome: &Outcome) -> Result<()> {
    ensure!(
        !outcome.is_sound() || !outcome.ran.flip_is_pending,
        "no product of the model holds the flipped bit"
    );
    Ok(())
}
