//! `ndp generate`: a text, with all of the DIMM's work in RTL: linear layers with their biases, ReLU and residuals, the caches
//! of keys and values, and attention.
//!
//! Loads the model, runs the decoder on the checking backend, shows the text as it comes, and reports figures per class
//! of product, instruction and phase, and the comparison with the stored golden. LayerNorm, embeddings, sampling and the lists of
//! active neurons are reference numerics.

pub mod args;

pub use self::args::Args;

use self::args::Job;
use crate::args::check_weights;
use crate::energy::CoreEnergy;
use crate::figures::{CLASS, INSTRUCTION, classes, instructions};
use crate::golden::{self, Comparison, verdict_text};
use crate::made;
use crate::phases::PhaseTable;
use crate::records::Records;
use crate::report::{SUMMARY, Summary};
use crate::stream::TextStream;
use crate::system;
use crate::tools::{Tools, load_model, quantisation_text, workspace_path};
use crate::verdict::Verdict;
use anyhow::Context;
use ndp_config::{DesignConfig, WeightFormat};
use ndp_files::{OutputFile, Progress};
use ndp_model::{Generation, LayerSparsity, Model, QuantisationError, generate};
use ndp_numerics::SerialSteps;
use ndp_report::{Level, Report, fields};
use ndp_sim::backend::{CoreBackend, Neurons};
use ndp_sim::expected::Expected;
use ndp_sim::gemv::GemvOptions;
use ndp_sim::progress;
use serde::Serialize;

#[derive(Debug, Serialize)]
struct Figures<'a> {
    model: String,
    prompt: &'a str,
    text: &'a str,
    tokens: usize,
    temperature_percent: u32,
    seed: u64,
    neurons: Neurons,
    weights: WeightFormat,
    quantisation: Option<QuantisationError>,
    stalls_percent: u32,
    prompt_cycles: u64,
    token_cycles: &'a [u64],
    mean_token_cycles: Option<u64>,
    tokens_per_second: Option<f64>,
    golden: Option<Comparison>,
}

fields! { FIGURES
    "tokens_per_second" "rate after the prompt" {Real("tokens/s", 0)} Head: "tokens after the first in a second at the core's clock; null without such a token";
    "mean_token_cycles" "a token" {Cycles} Head: "mean core cycles of a token after the first";
    "prompt_cycles" "prompt" {Cycles} Screen: "core cycles until the first token is known";
    "tokens" "tokens" {Count} Verbose: "tokens generated";
    "token_cycles" "each token" {Count} Verbose: "core cycles of each token after the first";
    "temperature_percent" "temperature" {Real("%", 0)} Verbose: "sampling temperature times 100";
    "seed" "seed" {Count} Verbose: "seed of the sampler and of the stalls";
    "neurons" "neurons" {Text} Verbose: "neurons that take part: active or all";
    "weights" "weights" {Text} Verbose: "format of the weights";
    "stalls_percent" "stalls" {Real("%", 0)} Verbose: "cycles in which the host is not ready";
    "model" "model" {Text} Verbose: "folder of the model";
    "prompt" "prompt" {Text} Json: "text that is continued";
    "text" "text" {Text} Json: "text that was generated";
    "quantisation" "" {Data} Json: "distance of quantised weights from the given ones";
    "golden" "" {Data} Json: "comparison with a stored text, or null if there is none";
}

fields! { LAYER
    "qkv_input" "QKV input" {Share} Screen: "part of the inputs of Q, K and V that is 0";
    "ffn_hidden" "FFN hidden" {Share} Screen: "part of the FFN's hidden activations that is 0";
}

/// Fraction of zeros.
#[derive(Debug, Serialize)]
struct Layer {
    qkv_input: f64,
    ffn_hidden: f64,
}

/// Runs the job.
pub fn run(args: &Args) -> anyhow::Result<Verdict> {
    args.check_effects()?;
    let unit = &args.unit;
    unit.energy.check_effects(unit.form.is_whole() || args.records.timeline.is_some())?;
    let files = args.records.files(unit.files()).optional("--chart", args.chart.as_ref());
    let own = workspace_path("golden/model");
    let files = files.optional("--trace", args.trace.as_ref());
    let files = args.placement.files(args.flash.files(files.configuration("the system", &args.system)));
    let files = files.input_folder("part of the model", args.model.as_ref().unwrap_or(&own));
    files.input_folder("a stored text", workspace_path("golden/generate")).check()?;
    let config = DesignConfig::load(&unit.config)?;
    let job = Job::new(args)?;
    check_weights(args.weights, &config)?;
    let model = load_model(&job.model)?;
    let (model, quantisation) = model.quantised(args.weights)?;
    quantisation.inspect(|error| note!("{}", quantisation_text(args.weights, error)));
    if args.dimms.is_empty() {
        args.placement.needs("--dimms")?;
    } else {
        return unit.form.show(|| system::run(args, &job, (&model, &config)));
    }
    unit.form.show(|| single(args, &job, (&model, &config), quantisation))
}

/// The text on one core.
fn single(
    args: &Args,
    job: &Job,
    (model, config): (&Model, &DesignConfig),
    quantisation: Option<QuantisationError>,
) -> anyhow::Result<Report> {
    let unit = &args.unit;
    let Job { prompt, options, .. } = job;
    let seed = options.seed;
    ensure!(
        args.flash.flash_resident.is_none(),
        "--flash-resident needs --dimms: a single core holds all neurons"
    );
    let recorded_products = if args.records.is_asked() { args.timeline_products } else { 0 };
    let backend = CoreBackend::open(config, &GemvOptions { recorded_products, ..unit.options(seed) })?;
    let mut backend = backend.with_neurons(args.neurons);
    let records = Records::create(&args.records)?;
    let chart = args.chart.as_deref().map(OutputFile::create).transpose()?;

    let meter = backend.meter();
    // Cycles when each token was known. The first one comes out of the prompt's pass.
    let mut known_at = Vec::new();
    let mut expected = Expected::new(config, args.neurons);
    generate(model, &mut expected, prompt.as_bytes(), options, |_| {})?;
    let progress = Progress::watch(expected.work(), "cycles at the roofline", progress::work);
    let mut stream = TextStream::new(prompt, &model.vocabulary, progress, unit.form.json);
    let generation = generate(model, &mut backend, prompt.as_bytes(), options, |token| {
        known_at.push(meter.cycles());
        stream.push(token.token);
    });
    let shown = stream.finish();
    let written = records.write(backend.unit_mut().take_recording().as_ref(), &unit.energy);
    backend.unit_mut().close_waves()?;
    let summary = Summary::new(&backend.total(), backend.mismatches(), backend.unit());
    let generation = match generation {
        Ok(generation) => generation,
        // Reported above; the figures up to there are still of interest.
        Err(_) if summary.mismatches > 0 => Generation {
            tokens: Vec::new(),
            text: shown.strip_prefix(prompt.as_str()).unwrap_or_default().to_owned(),
            logits_digests: Vec::new(),
            sparsity: Vec::new(),
        },
        Err(error) if summary.outputs_checked == 0 => return Err(error.into()),
        Err(error) => return Err(error).with_context(|| format!("seed {seed}, rerun: {}", made::rerun())),
    };
    written?;
    let checked = summary.mismatches == 0;
    if checked && backend.unit().flip_is_pending() {
        bail!("no product of the model holds the flipped bit");
    }

    // The stored texts are those of the repository's own models with full significands.
    let comparable = checked && config.gemv().serial_steps() == SerialSteps::FULL.get();
    let stored = match job.stored_as.filter(|_| comparable) {
        Some(model) => {
            golden::find((model, args.weights), prompt, options.temperature_percent, seed, options.tokens)?
        }
        None => None,
    };
    let comparison = stored.map(|(file, golden)| golden::compare(&file, &golden, &generation));
    let agrees = checked && comparison.as_ref().is_none_or(Comparison::agrees);
    let classes = classes(&backend);
    let instructions = instructions(&backend, summary.cycles);
    let energy = CoreEnergy::new(&unit.energy, &mut backend)?;
    let phases = PhaseTable::new(backend.phases());
    phases.write_chart(
        chart,
        &format!("{}: {} tokens and their prompt", config.name(), generation.tokens.len()),
    )?;
    let prompt_cycles = known_at.first().copied().unwrap_or_default();
    let token_cycles: Vec<u64> = known_at.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let decode_cycles = token_cycles.iter().sum::<u64>();
    let count = token_cycles.len() as u64;
    let mean_token_cycles = decode_cycles.checked_div(count);
    let hz = config.core().clock_ghz() * 1e9;
    let tokens_per_second = (count > 0).then(|| count as f64 * hz / decode_cycles as f64);
    let (right, verdict) = summary.verdict();
    let golden = verdict_text(comparison.as_ref());
    let sparsity: Vec<Layer> = generation.sparsity.iter().map(Layer::from).collect();
    let figures = Figures {
        model: job.model.display().to_string(),
        prompt,
        text: &generation.text,
        tokens: generation.tokens.len(),
        temperature_percent: options.temperature_percent,
        seed,
        neurons: args.neurons,
        weights: args.weights,
        quantisation,
        stalls_percent: unit.stalls,
        prompt_cycles,
        token_cycles: &token_cycles,
        mean_token_cycles,
        tokens_per_second,
        golden: comparison,
    };
    let report = summary
        .mismatches(
            Report::checked("generate", right && agrees, format!("{verdict}; stored text: {golden}")),
            seed,
        )
        .setting(format!(
            "{} tokens on {}, one core without a GPU, {} weights, seed {seed}, {} % stalls",
            figures.tokens,
            config.name(),
            args.weights,
            unit.stalls
        ))
        .figures(FIGURES, &figures)
        .figures(SUMMARY, &summary);
    let report = phases
        .show(report)
        .table("classes", "Products", CLASS, &classes)
        .table_at(Level::Verbose, None, ("instructions", "Instructions"), INSTRUCTION, &instructions)
        .table_at(Level::Verbose, None, ("sparsity", "Zeros of each layer"), LAYER, &sparsity);
    Ok(energy
        .show(report, unit.energy.energy)
        .data("config", "the configuration (docs/configuration.md)", config)
        .data("tools", "versions of the tools", &Tools::new()))
}

impl From<&LayerSparsity> for Layer {
    fn from(layer: &LayerSparsity) -> Self {
        Self { qkv_input: layer.qkv_input.fraction(), ffn_hidden: layer.ffn_hidden.fraction() }
    }
}
