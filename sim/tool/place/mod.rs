//! `ndp place`: reads a trace, places the model's neurons with `ndp_hermes::placement`, and writes placement and
//! problem.

mod args;
mod report;

use crate::prelude::*;
use crate::tools::{note_dense_attention, tick, traced_model, traced_preset};
pub use args::Args;
use args::{LpFormArg, Method};
use indicatif::ProgressBar;
use ndp_config::{BlockKind, Ssd};
use ndp_hermes::placement::{
    Certificate, HostMemory, Instance, LpForm, Machine, MilpOptions, Options, Placement, PlacementFile,
    PowerInferProgram, least_neurons, place_greedy, place_milp, place_powerinfer, place_random,
    place_structured, place_tiers, synthetic_frequencies, write_lp, write_powerinfer_lp,
};
use ndp_traces::{Counted, NeuronShape, Profile, TraceReader};
use report::{Origin, Own};
use std::time::{Duration, Instant};

pub fn run(args: &Shown<Args>) -> Result<Report> {
    let files = FileSet::new().configuration("the system", &args.system);
    let files = args.llm.iter().fold(files, |files, model| files.configuration("the model", model));
    let files = args.trace.iter().fold(files, |files, trace| files.input("the trace", trace));
    let files = args.ssd.iter().fold(files, |files, ssd| files.configuration("the SSD", ssd));
    args.check_method()?;
    let three_tiers = args.ssd.is_none() || args.method == Method::Structured;
    ensure!(three_tiers, "--ssd needs --method structured: the other methods place only on GPU and DIMMs");
    args.form
        .files(files)
        .optional("--out", args.out.as_ref())
        .optional("--lp-out", args.lp_out.as_ref())
        .check()?;
    crate::ignored::warn("place", &args.system, &crate::ignored::PLACE)?;
    if args.table {
        return table(args);
    }
    let model = model(args)?;
    let lp_form = lp_form(args)?;
    let mut system = system(args, args.dimms)?;
    if let Some(percent) = args.gpu_percent {
        system = system.with_gpu_percent(&model, percent)?;
    }
    let out = args.out.as_deref().map(OutputFile::create).transpose()?;
    let lp_out = args.lp_out.as_deref().map(OutputFile::create).transpose()?;
    // Refuse a model that cannot fit before neurons are drawn.
    Machine::of(&model, &system, args.kv_tokens)?.check()?;
    let (frequencies, origin) = frequencies(args, &model)?;
    let begin = Instant::now();
    let instance = Instance::new(&model, &system, &frequencies, &options(args))?;
    let grouping_seconds = begin.elapsed().as_secs_f64();
    let begin = Instant::now();
    let (placement, certificate, own) = place(args, &model, &instance)?;
    let placing_seconds = begin.elapsed().as_secs_f64();
    let origin = Origin {
        system: system.name().to_owned(),
        method: format!("{:?}", args.method).to_lowercase(),
        frequencies: origin,
        terms: args.terms,
        group_neurons: args.group,
        grouping_seconds,
        placing_seconds,
    };
    let dimms = instance.machine().dimms;
    if let Some(lp_out) = lp_out {
        let of = format!(
            "{} on {} with {dimms} DIMMs, frequencies from {}, groups of {}",
            model.name(),
            origin.system,
            origin.frequencies,
            args.group
        );
        let ours =
            |value: f64, bound: f64, unit| format!("{of}\nours {value:.6} {unit}, bound {bound:.6} {unit}");
        match (&own.powerinfer, lp_form) {
            (Some(found), None) => {
                let program = powerinfer_program(args, &model, &instance)?;
                let title = ours(found.impact, found.impact_bound, "impact");
                lp_out.finish(|out| write_powerinfer_lp(&program, &title, out))?;
            }
            (_, form) => {
                let title = ours(certificate.objective_us, certificate.bound_us, "us");
                let form = form.unwrap_or(LpForm::Reduced);
                lp_out.finish(|out| write_lp(&instance, form, &title, out))?;
            }
        }
    }
    if let Some(out) = out {
        let file = PlacementFile::new(model.name(), dimms, &placement);
        out.finish(|out| Ok(serde_json::to_writer(out, &file)?))?;
    }
    let dense = model.dense_note().filter(|_| args.synthetic_seed.is_some());
    let report = report::report(&model, &instance, &certificate, &origin, &own);
    Ok(dense.into_iter().fold(report, Report::note))
}

fn model(args: &Args) -> Result<LlmShape> {
    match (&args.llm, &args.trace) {
        (Some(name), _) => Ok(LlmShape::load(name)?),
        (None, Some(trace)) => {
            let (model, assumed) = traced_model(TraceReader::open(trace)?.header())?;
            assumed.inspect(|assumed| note!("{assumed}"));
            Ok(model)
        }
        (None, None) => bail!("neither --llm nor --trace"),
    }
}

fn system(args: &Args, dimms: Option<u32>) -> Result<SystemConfig> {
    let system = SystemConfig::load(&args.system)?.having_dimms()?;
    let system = match dimms {
        Some(dimms) => system.with_dimms(dimms)?,
        None => system,
    };
    Ok(match &args.ssd {
        Some(ssd) => system.with_ssd(Ssd::load(ssd)?),
        None => system,
    })
}

/// Form in which to write Hermes' problem; `None` for PowerInfer's own problem.
fn lp_form(args: &Args) -> Result<Option<LpForm>> {
    let own = args.method == Method::Powerinfer;
    match args.lp_form {
        None => Ok((!own).then_some(LpForm::Reduced)),
        Some(LpFormArg::Powerinfer) => {
            ensure!(own, "--lp-form powerinfer needs --method powerinfer, whose program it writes");
            Ok(None)
        }
        Some(LpFormArg::Full) => Ok(Some(LpForm::Full)),
        Some(LpFormArg::Reduced) => Ok(Some(LpForm::Reduced)),
    }
}

fn options(args: &Args) -> Options {
    Options { group_neurons: args.group, terms: args.terms, kv_tokens: args.kv_tokens }
}

/// Frequencies of each block, and their origin.
fn frequencies(args: &Args, model: &LlmShape) -> Result<(Vec<Vec<f32>>, String)> {
    if let Some(seed) = args.synthetic_seed {
        let origin =
            if model.is_dense() { "a dense model".to_owned() } else { format!("synthetic seed {seed}") };
        return Ok((synthetic_frequencies(model, seed), origin));
    }
    let Some(path) = args.trace.as_deref() else { bail!("neither --trace nor --synthetic-seed") };
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let counted = match (args.prompt_only, args.profile) {
        (true, _) => Counted::Prompts,
        (_, true) => Counted::Profiled,
        _ => Counted::All,
    };
    let waiting = waiting("reading the trace");
    let frequencies = read_trace(path, counted, model)
        .with_context(|| format!("cannot take frequencies from '{}'", path.display()))?;
    waiting.finish_and_clear();
    Ok((frequencies, format!("trace {name}")))
}

fn read_trace(path: &Path, counted: Counted, model: &LlmShape) -> Result<Vec<Vec<f32>>> {
    let reader = TraceReader::open(path)?;
    note_dense_attention(reader.header(), model.hidden());
    let mut reader = reader.with_dense_attention(model.hidden());
    let header = reader.header();
    // An unknown name says nothing about the model, but the sizes do. A ReLU variant has the sizes of its model.
    let same =
        |traced: LlmShape| traced.name().eq_ignore_ascii_case(model.name()) || traced.has_sizes_of(model);
    ensure!(
        traced_preset(header).is_none_or(same),
        "the trace is of model '{}', not of '{}'",
        header.model,
        model.name()
    );
    let sizes = |layers, attention, mlp| format!("{layers} layers of {attention} + {mlp} neurons");
    ensure!(
        reader.shape() == &NeuronShape::of(model),
        "the trace has {}, {} has {}",
        sizes(header.layers, header.attention, header.mlp),
        model.name(),
        sizes(model.layers(), model.hidden(), model.block_neurons(BlockKind::Mlp))
    );
    let profile = Profile::from_reader(&mut reader, counted)?;
    let tokens = match counted {
        Counted::All => "tokens",
        Counted::Prompts => "tokens of prompts",
        Counted::Profiled => "tokens in front of its last sequence",
    };
    ensure!(profile.tokens() > 0, "the trace has no {tokens}");
    let tokens = f64::from(profile.tokens());
    let block =
        |block| profile.counts(block).iter().map(|&count| (f64::from(count) / tokens) as f32).collect();
    Ok((0..profile.shape().blocks().len()).map(block).collect())
}

fn powerinfer_program<'a>(
    args: &Args,
    model: &LlmShape,
    instance: &'a Instance,
) -> Result<PowerInferProgram<'a>> {
    let least = match args.least {
        Some(least) => {
            let most = instance.blocks().iter().map(|block| block.order.len()).min().unwrap_or(0);
            ensure!(
                least as usize <= most,
                "--least {least} must be in 0..={most}: the smallest block has {most} neurons"
            );
            vec![Some(least); instance.blocks().len()]
        }
        None => least_neurons(instance, args.cpu_gbps)?,
    };
    let memory = HostMemory::of(model, args.cpu_gb, args.predictor_percent, args.kv_tokens)?;
    PowerInferProgram::new(instance, &least, &memory)
}

/// The placement, its quality, and results that only its method has.
fn place(args: &Args, model: &LlmShape, instance: &Instance) -> Result<(Placement, Certificate, Own)> {
    let mut own = Own::default();
    let placement = match args.method {
        Method::Structured if instance.machine().ssd_gbps.is_some() => {
            let waiting = waiting("placing on three tiers");
            let (placement, tiers) = place_tiers(instance)?;
            waiting.finish_and_clear();
            // A bound for two tiers also holds for three tiers.
            let certificate = Certificate::of(instance, &placement)?;
            let certificate = Certificate { bound_us: tiers.bound_us, gap: tiers.gap, ..certificate };
            own.tiers = Some(tiers);
            return Ok((placement, certificate, own));
        }
        Method::Structured => {
            let (placement, certificate) = place_structured(instance)?;
            return Ok((placement, certificate, own));
        }
        Method::Greedy => place_greedy(instance)?,
        Method::Random => place_random(instance, args.seed)?,
        Method::Powerinfer => {
            let (placement, report) = place_powerinfer(&powerinfer_program(args, model, instance)?)?;
            own.powerinfer = Some(report);
            placement
        }
        Method::Milp => {
            let options = MilpOptions {
                groups_per_variable: args.milp_groups,
                time_limit_s: args.time_limit,
                ..MilpOptions::default()
            };
            let waiting = waiting(&format!("solving, {} s at most", args.time_limit));
            let (placement, report) = place_milp(instance, &options)?;
            waiting.finish_and_clear();
            own.milp = Some(report);
            placement
        }
    };
    let certificate = Certificate::of(instance, &placement)?;
    Ok((placement, certificate, own))
}

/// Shows the elapsed time, on terminals only.
fn waiting(what: &str) -> ProgressBar {
    let bar = ProgressBar::new_spinner().with_message(what.to_owned());
    tick(&bar, Duration::from_millis(200));
    bar
}

/// Number of runs; the best one counts.
const RUNS: usize = 5;

fn table(args: &Args) -> Result<Report> {
    let progress = Progress::new(9, "placements");
    let mut rows = Vec::new();
    for name in ["relu-llama2-7b", "relu-llama2-70b", "opt-66b"] {
        let model = LlmShape::load(name)?;
        let (frequencies, _) = frequencies(args, &model)?;
        for dimms in [4, 8, 16] {
            let system = system(args, Some(dimms))?;
            let (mut grouping, mut placing) = (f64::MAX, f64::MAX);
            let mut last = None;
            for _ in 0..RUNS {
                let begin = Instant::now();
                let instance = Instance::new(&model, &system, &frequencies, &options(args))?;
                grouping = grouping.min(begin.elapsed().as_secs_f64());
                let begin = Instant::now();
                let (_, certificate) = place_structured(&instance)?;
                placing = placing.min(begin.elapsed().as_secs_f64());
                last = Some((instance, certificate));
            }
            let Some((instance, certificate)) = last else { continue };
            rows.push((name, dimms, instance, certificate, grouping, placing));
            progress.add(1);
        }
    }
    drop(progress);
    let rows = rows! { rows => |(name, dimms, instance, certificate, grouping, placing)|
        "model" "model" {Text} Screen: "model" = name;
        "dimms" "DIMMs" {Count} Screen: "DIMMs" = dimms;
        "groups" "groups" {Count} Screen: "groups of neurons" = instance.groups().len();
        "objective_us" "time" {Real("us", 2)} Screen: "equation 1 of Hermes for the placement" = certificate.objective_us;
        "bound_us" "bound" {Real("us", 2)} Screen: "no placement takes less" = certificate.bound_us;
        "gap" "gap" {Real("", 6)} Screen: "objective_us / bound_us - 1" = certificate.gap;
        "gpu_bytes" "GPU" {Bytes} Screen: "bytes of the GPU's neurons" = certificate.gpu_bytes;
        "gpu_capacity_bytes" "of" {Bytes} Screen: "bytes of the GPU for neurons" = instance.machine().gpu_bytes;
        "grouping_ms" "grouping" {Real("ms", 1)} Screen: "time of grouping, the best of five runs" = grouping * 1e3;
        "placing_ms" "placing" {Real("ms", 1)} Screen: "time of placing, the best of five runs" = placing * 1e3;
    };
    let most = rows.numbers("gap").fold(0.0, f64::max);
    Ok(Report::answer(
        "place --table",
        format!("no placement is more than {:.4} % above its bound", 100.0 * most),
    )
    .table("rows", "Models and numbers of DIMMs", rows))
}
