//! `ndp layer`: one decode step of one decoder layer, with all of the DIMM's work in RTL.
//!
//! Checks the sizes, runs the step on the checking backend and reports where its cycles go.

use crate::args::{RecordArgs, UnitArgs, activation, check_weights, density, weight_format};
use crate::breakdown::StallBreakdown;
use crate::energy::CoreEnergy;
use crate::figures::{classes, instructions};
use crate::gemv::name;
use crate::made;
use crate::phases;
use crate::prelude::*;
use crate::report::Summary;
use crate::scaling::{self, ScalingArgs};
use crate::system::args::LinksChoice;
use ndp_config::{Activation, WeightFormat};
use ndp_numerics::layer_norm;
use ndp_sim::expected::Expected;
use ndp_sim::gemv::{GemvOptions, HeadCut};
use ndp_sim::layer::{LayerSizes, LayerStep};
use ndp_sim::progress;
use ndp_sim::system::{ActivitySource, LoneCore, Neurons, check_model};
use serde_json::json;

/// Run one decode step of one decoder layer, and report where its time goes
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
        ndp layer --context 200\n  \
        ndp layer --config tiny --layer 2 --context 33 --batch 3 --neurons all --timeline layer.json\n  \
        ndp layer --hidden 1024 --heads 16 --ffn 4096 --context 512 --json\n  \
        ndp layer --hidden 4096 --heads 32 --kv-heads 8 --ffn 14336 --gated --context 1024 --backend cycles\n  \
        ndp layer --hidden 4096 --heads 32 --kv-heads 8 --ffn 14336 --gated --activation silu --dimms 1,2,4,8 --backend cycles\n  \
        ndp layer --hidden 4096 --heads 32 --ffn 16512 --active 0.2 --dimms 1,2,4,8 --backend cycles\n\n\
        Each sequence of the batch has its own caches, filled with random keys and values. The host computes LayerNorm and the \
        lists of active neurons; this takes no cycles.")]
pub struct Args {
    /// Hardware.
    #[command(flatten)]
    pub unit: UnitArgs,
    /// Number of the layer in the model [default: 0]
    #[arg(long, value_name = "N", conflicts_with = "hidden")]
    pub layer: Option<u32>,
    /// Directory with config.json and model.safetensors, or a GGUF file [default: golden/model]
    #[arg(long, value_name = "DIR|FILE.gguf", conflicts_with = "hidden")]
    pub model: Option<PathBuf>,
    /// Use random weights instead of a model: width of the hidden state (1..=16384); needs --heads and --ffn
    #[arg(long, value_name = "D", requires = "heads", requires = "ffn")]
    pub hidden: Option<u32>,
    /// With --hidden: number of attention heads, a divisor of the hidden size
    #[arg(long, value_name = "H", requires = "hidden")]
    pub heads: Option<u32>,
    /// With --hidden: number of heads with keys and values of their own, a divisor of --heads [default: --heads]
    #[arg(long, value_name = "K", requires = "hidden")]
    pub kv_heads: Option<u32>,
    /// With --hidden: a third matrix of the feed-forward block, whose products multiply the outputs of the activation
    #[arg(long, requires = "hidden")]
    pub gated: bool,
    /// With --hidden: function of the feed-forward block: relu, gelu or silu. After gelu and silu all neurons are active
    #[arg(long, value_name = "FUNCTION", requires = "hidden", default_value = "relu", value_parser = activation())]
    pub activation: Activation,
    /// With --hidden: width of the feed-forward block
    #[arg(long, value_name = "F", requires = "hidden")]
    pub ffn: Option<u32>,
    /// With --hidden: approximate share of the inputs of Q, K and V, and of FC2, that is active (above 0, at most 1)
    /// [default: a half and a sixth]
    #[arg(long, value_name = "SHARE", requires = "hidden", value_parser = density)]
    pub active: Option<f64>,
    /// Number of tokens that attention sees, the new one included (1..=16384, limited by the buffer)
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub context: u32,
    /// Number of sequences that take the step together (1..=16)
    #[arg(long, value_name = "B", default_value_t = 1)]
    pub batch: u32,
    /// Neurons that take part in the products
    #[arg(long, value_enum, default_value_t = Neurons::Active)]
    pub neurons: Neurons,
    /// Weight format: fp16, or int8 or int4 with a scale for every 32 weights (docs/numerics.md)
    #[arg(long, value_name = "FORMAT", default_value_t = WeightFormat::Fp16, value_parser = weight_format())]
    pub weights: WeightFormat,
    /// Options of several DIMMs.
    #[command(flatten)]
    pub scaling: ScalingArgs,
    /// Seed of the random data and the stalls
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Write a chart of where the time goes, as SVG
    #[arg(long, value_name = "FILE.svg")]
    pub chart: Option<PathBuf>,
    /// Recordings.
    #[command(flatten)]
    pub records: RecordArgs,
}

/// Most weights of a matrix: 512 MiB.
const MAX_WEIGHTS: u64 = 1 << 28;
/// Longest context in tokens. The buffer holds less.
const MAX_CONTEXT: u32 = 16_384;

fn model_folder(args: &Args) -> PathBuf {
    args.model.clone().unwrap_or_else(|| workspace_path("golden/model"))
}

fn step(args: &Args, config: &DesignConfig) -> Result<LayerStep> {
    let (context, batch, seed) = (args.context as usize, args.batch as usize, args.seed);
    ensure!(
        (1..=MAX_CONTEXT).contains(&args.context),
        "context = {context} must be in 1..={MAX_CONTEXT} tokens, the new one included"
    );
    let most = ndp_model::decoder::MAX_BATCH;
    ensure!((1..=most).contains(&batch), "batch = {batch} must be in 1..={most}");
    let (Some(hidden), Some(heads), Some(ffn)) = (args.hidden, args.heads, args.ffn) else {
        let path = model_folder(args);
        let model = load_model(&path)?;
        let (layer, layers) = (args.layer.unwrap_or(0) as usize, model.layers.len());
        ensure!(layer < layers, "layer = {layer} must be in 0..={}", layers - 1);
        if !args.scaling.dimms.is_empty() {
            check_model(&model, args.scaling.activity)?;
        }
        model.config.check_positions(context).context("--context")?;
        model.config.check_alibi().context("--model")?;
        HeadCut::new(config, model.config.num_attention_heads(), model.config.head_width())?;
        return Ok(LayerStep::of_model(&model, layer, context, batch, seed));
    };
    let longest = layer_norm::MAX_LEN as u32;
    ensure!((1..=longest).contains(&hidden), "hidden = {hidden} must be in 1..={longest} (LayerNorm)");
    ensure!(heads > 0 && hidden.is_multiple_of(heads), "heads = {heads} must divide hidden = {hidden}");
    let kv_heads = args.kv_heads.unwrap_or(heads);
    ensure!(
        kv_heads > 0 && heads.is_multiple_of(kv_heads),
        "kv-heads = {kv_heads} must divide heads = {heads}"
    );
    let weights = u64::from(hidden) * u64::from(ffn.max(hidden));
    ensure!(ffn > 0, "ffn = 0 must be at least 1");
    ensure!(
        weights <= MAX_WEIGHTS,
        "hidden * ffn = {weights} must be at most {MAX_WEIGHTS} weights (512 MiB)"
    );
    let size = |n: u32| n as usize;
    HeadCut::new(config, size(heads), size(hidden / heads))?;
    let sizes = LayerSizes {
        hidden: size(hidden),
        heads: size(heads),
        kv_heads: size(kv_heads),
        ffn: size(ffn),
        gated: args.gated,
        activation: args.activation,
        active: args.active,
    };
    LayerStep::random(&sizes, context, batch, seed)
}

pub fn run(args: &Args) -> Result<u8> {
    let Args { unit, records, .. } = args;
    let files = unit.files_with(records)?.optional("--chart", args.chart.as_ref());
    files.input_folder("part of the model", model_folder(args)).check()?;
    let config = DesignConfig::load(&unit.config)?;
    check_weights(args.weights, &config)?;
    let step = step(args, &config)?.quantised(args.weights)?;
    if !args.scaling.dimms.is_empty() {
        check_scaling(args)?;
        let step = step.alone();
        return unit.form.show(|| scaling::run(args, &config, &step));
    }
    unit.form.show(|| single(args, &config, &step))
}

fn single(args: &Args, config: &DesignConfig, step: &LayerStep) -> Result<Report> {
    let Args { unit, context, batch, neurons, seed, records, .. } = args;
    let recorded_products = if records.is_asked() { u32::MAX } else { 0 };
    let mut options = GemvOptions { recorded_products, ..unit.options(*seed) };
    options.core.predict = true;
    let backend = LoneCore::open(config, &options)?;
    let mut backend = backend.with_neurons(*neurons);
    let records = records.create()?;
    let chart = Asked::create(args.chart.as_ref())?;

    let mut expected = Expected::new(config, *neurons);
    step.run(&mut expected)?;
    let progress = Progress::watch(expected.work(), "cycles at the roofline", progress::work);
    let result = step.run(&mut backend);
    drop(progress);
    let written = records.write(backend.unit_mut().take_recording().as_ref(), &unit.energy);
    backend.unit_mut().close_waves()?;
    let summary = Summary::new(&backend);
    let zeros = match result {
        Ok(output) => [output.sparsity.qkv_input.fraction(), output.sparsity.ffn_hidden.fraction()],
        // The mismatches are reported above. The figures so far are still of interest.
        Err(_) if summary.mismatches > 0 => [0.0; 2],
        Err(error) => return Err(error).with_context(|| format!("seed {seed}, rerun: {}", made::rerun())),
    };
    written?;
    let agrees = summary.mismatches == 0;
    if agrees && backend.unit().flip_is_pending() {
        bail!("nothing in the layer holds the flipped bit");
    }
    let (cycles, model_cycles) = (summary.figures.cycles, backend.model_cycles());
    // A run that ended early at a mismatch has no final cycle to compare.
    let on_time = cycles == model_cycles || !agrees;
    let energy = CoreEnergy::new(&unit.energy, &mut backend)?;
    let sums = backend.sums();
    let stalls = StallBreakdown::new(&sums.counters, config.gemv().ranks())?;
    let shape = step.shape();
    let title = format!(
        "a layer of {}, {} heads, FFN {}, on {}, {batch} sequence(s), context {context}",
        step.hidden(),
        shape.heads,
        step.ffn(),
        config.name()
    );
    phases::write_chart(&sums.phases, chart, &title)?;
    let figures = figures! {
        "cycles_per_token" "per token" {Cycles} Head: "cycles / batch" = cycles / u64::from(*batch);
        "zeros" = json!({"qkv_input": zeros[0], "ffn_hidden": zeros[1]});
        "zeros.qkv_input" "zeros of the QKV input" {Share} Screen: "share of the inputs of Q, K and V that is 0";
        "zeros.ffn_hidden" "zeros of the FFN's hidden activations" {Share} Screen: "share of the FFN's hidden activations that is 0";
        "model_cycles" "cycle model" {Cycles} Verbose: "cycles by the cycle model, which receives the host's requests and no data except lists"
            = model_cycles;
        "layer" "layer" {Count} Verbose: "layer of the model; null for random weights" = args.hidden.is_none().then_some(args.layer.unwrap_or(0));
        "hidden" "hidden" {Count} Verbose: "width of the hidden state" = step.hidden();
        "heads" "heads" {Count} Verbose: "attention heads" = shape.heads;
        "kv_heads" "key and value heads" {Count} Verbose: "heads with keys and values of their own" = shape.kv_heads;
        "gated" "gated" {Text} Verbose: "whether a third matrix of the feed-forward block multiplies the outputs of the activation"
            = step.layer().experts.iter().any(|of| of.up.is_some());
        "activation" "activation" {Text} Verbose: "function of the feed-forward block" = shape.activation;
        "ffn" "FFN" {Count} Verbose: "width of the feed-forward block" = step.ffn();
        "context" "context" {Count} Verbose: "tokens that attention sees, the new one included" = *context;
        "batch" "batch" {Count} Verbose: "sequences" = *batch;
        "neurons" "neurons" {Text} Verbose: "neurons that take part: active or all" = *neurons;
        "weights" "weights" {Text} Verbose: "format of the weights" = args.weights;
        "seed" "seed" {Count} Verbose: "seed of everything that is random, and of the stalls" = *seed;
        "stalls_percent" "stalls" {Real("%", 0)} Verbose: "cycles in which the host is not ready" = unit.stalls;
    };
    let (holds, verdict) = summary.verdict();
    let verdict = if on_time {
        verdict
    } else {
        format!("the layer took {cycles} cycles in RTL and {model_cycles} in the cycle model; {verdict}")
    };
    let report = summary
        .mismatches(Report::checked("layer", holds && on_time, verdict), *seed)
        .reason(stalls.reason())
        .setting(format!(
            "{title}, {} neurons, {} weights, seed {seed}, {} % stalls",
            name(*neurons),
            args.weights,
            unit.stalls
        ))
        .figures(summary.outcome())
        .figures(summary.throughput())
        .figures(figures);
    let report = phases::show(&sums.phases, report, Level::Screen)
        .table("classes", "Products", classes(backend.classes()))
        .table_at(Level::Verbose, None, ("instructions", "Instructions"), instructions(&sums))
        .group(Level::Verbose, ("stalls", "Cycles of the multipliers' groups"), stalls.figures());
    Ok(energy
        .show(report, "energy", unit.energy.energy)
        .data("config", "the configuration (docs/configuration.md)", config)
        .data("tools", "versions of the tools", &Tools::new()))
}

/// Refuses options that several DIMMs do not support.
fn check_scaling(args: &Args) -> Result<()> {
    ensure!(args.neurons == Neurons::Active, "--neurons all is not available with --dimms; use --active 1");
    ensure!(
        args.scaling.activity != ActivitySource::Predicted,
        "--activity predicted needs a text; use `ndp generate --dimms`"
    );
    ensure!(args.unit.waves.is_none(), "--waves shows one DIMM: leave out --dimms");
    ensure!(!args.records.is_asked(), "--commands and --timeline show one DIMM: leave out --dimms");
    ensure!(args.chart.is_none(), "--chart shows one DIMM: leave out --dimms");
    ensure!(
        !args.unit.energy.energy,
        "--energy shows one DIMM: leave out --dimms, or run `ndp generate --dimms`"
    );
    let most = ndp_sim::cluster::lockstep::MOST as u32;
    if args.scaling.links == LinksChoice::Rtl
        && let Some(dimms) = args.scaling.dimms.iter().find(|dimms| **dimms > most)
    {
        bail!("--dimms {dimms} needs --links bandwidth: bridges have links for {most} DIMMs at most");
    }
    Ok(())
}
