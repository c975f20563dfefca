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
use crate::figures::{Class, Instructions, classes, instructions, print_classes, print_instructions};
use crate::gemv::name;
use crate::golden::{self, Comparison, verdict_text};
use crate::output::Records;
use crate::phases::{PhaseFigures, PhaseTable};
use crate::report::Summary;
use crate::rerun::Rerun;
use crate::stream::TextStream;
use crate::system;
use crate::tools::{Tools, grouped, load_model, quantisation_text, workspace_path};
use crate::verdict::Verdict;
use anyhow::Context;
use ndp_config::{DesignConfig, WeightFormat};
use ndp_files::{OutputFile, Progress};
use ndp_model::{Generation, LayerSparsity, QuantisationError, generate};
use ndp_numerics::SerialSteps;
use ndp_sim::backend::{CoreBackend, Neurons};
use ndp_sim::expected::Expected;
use ndp_sim::gemv::GemvOptions;
use ndp_sim::progress;
use serde::Serialize;

#[derive(Debug, Serialize)]
struct Report<'a> {
    command: &'static str,
    config: &'a DesignConfig,
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
    #[serde(flatten)]
    summary: Summary,
    classes: Vec<Class>,
    instructions: Vec<Instructions>,
    phases: Vec<PhaseFigures>,
    energy: CoreEnergy,
    sparsity: Vec<Layer>,
    prompt_cycles: u64,
    /// Of each token but the first, which comes out of the prompt's pass.
    token_cycles: &'a [u64],
    tokens_per_second: f64,
    golden: Option<Comparison>,
    rerun: &'a str,
    tools: Tools,
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
    unit.energy.check_effects(unit.json || args.html.is_some() || args.records.timeline.is_some())?;
    let files = args.records.files(unit.files()).optional("--chart", args.chart.as_ref());
    let own = workspace_path("golden/model");
    let files = files.optional("--html", args.html.as_ref()).optional("--trace", args.trace.as_ref());
    let files = args.placement.files(args.flash.files(files.configuration("the system", &args.system)));
    let files = files.input_folder("part of the model", args.model.as_ref().unwrap_or(&own));
    files.input_folder("a stored text", workspace_path("golden/generate")).check()?;
    let config = DesignConfig::load(&unit.config)?;
    let job = Job::new(args)?;
    let Job { prompt, options, .. } = &job;
    let seed = options.seed;
    check_weights(args.weights, &config)?;
    let model = load_model(&job.model)?;
    let (model, quantisation) = model.quantised(args.weights)?;
    quantisation.inspect(|error| note!("{}", quantisation_text(args.weights, error)));
    if args.dimms.is_empty() {
        args.placement.needs("--dimms")?;
    } else {
        return system::run(args, &job, (&model, &config));
    }
    ensure!(
        args.flash.flash_resident.is_none(),
        "--flash-resident needs --dimms: a single core holds all neurons"
    );
    let recorded_products = if args.records.is_asked() { args.timeline_products } else { 0 };
    let backend = CoreBackend::open(&config, &GemvOptions { recorded_products, ..unit.options(seed) })?;
    let mut backend = backend.with_neurons(args.neurons);
    let records = Records::create(&args.records)?;
    let chart = args.chart.as_deref().map(OutputFile::create).transpose()?;

    let mut rerun = Rerun::new("generate", unit);
    rerun.option("prompt", prompt);
    rerun.option("tokens", options.tokens);
    rerun.option("temperature", f64::from(options.temperature_percent) / 100.0);
    rerun.option("seed", seed);
    rerun.option("neurons", name(args.neurons));
    if args.weights != WeightFormat::Fp16 {
        rerun.option("weights", args.weights);
    }
    if !job.own_model {
        rerun.option("model", job.model.display());
    }

    let meter = backend.meter();
    // Cycles when each token was known. The first one comes out of the prompt's pass.
    let mut known_at = Vec::new();
    let mut expected = Expected::new(&config, args.neurons);
    generate(&model, &mut expected, prompt.as_bytes(), options, |_| {})?;
    let progress = Progress::watch(expected.work(), "cycles at the roofline", progress::work);
    let mut stream = TextStream::new(prompt, &model.vocabulary, progress, unit.json);
    let generation = generate(&model, &mut backend, prompt.as_bytes(), options, |token| {
        known_at.push(meter.cycles());
        stream.push(token.token);
    });
    let shown = stream.finish();
    let written = records.write(backend.unit_mut().take_recording().as_ref(), &unit.energy);
    backend.unit_mut().close_waves()?;
    let summary = Summary::new(&backend.total(), backend.mismatches(), backend.unit());
    summary.print_mismatches(seed, rerun.line());
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
        Err(error) => return Err(error).with_context(|| format!("seed {seed}, rerun: {}", rerun.line())),
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
    let rerun = rerun.line();
    if checked && !agrees {
        note!("MISMATCH {}; seed {seed}\nrerun: {rerun}", verdict_text(comparison.as_ref()));
    }
    let classes = classes(&backend);
    let instructions = instructions(&backend);
    let energy = CoreEnergy::new(&unit.energy, &mut backend)?;
    let phases = PhaseTable::new(backend.phases());
    phases.write_chart(
        chart,
        &format!("{}: {} tokens and their prompt", config.name(), generation.tokens.len()),
    )?;
    let prompt_cycles = known_at.first().copied().unwrap_or_default();
    let token_cycles: Vec<u64> = known_at.windows(2).map(|pair| pair[1] - pair[0]).collect();
    let decode_cycles = token_cycles.iter().sum::<u64>().max(1);
    let ghz = config.core().clock_ghz();
    let tokens_per_second = token_cycles.len() as f64 * ghz * 1e9 / decode_cycles as f64;

    if unit.json {
        let report = Report {
            command: "generate",
            config: &config,
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
            summary,
            classes,
            instructions,
            phases: phases.rows,
            energy,
            sparsity: generation.sparsity.iter().map(Layer::from).collect(),
            prompt_cycles,
            token_cycles: &token_cycles,
            tokens_per_second,
            golden: comparison,
            rerun,
            tools: Tools::new(),
        };
        say!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        say!("\n{}/ndp_core, seed {seed}, {} % stalls", config.name(), unit.stalls);
        print_classes(&classes);
        print_instructions(&instructions, summary.cycles);
        for (index, layer) in generation.sparsity.iter().enumerate() {
            let Layer { qkv_input, ffn_hidden } = Layer::from(layer);
            say!(
                "zeros, layer {index}     {:.1} % of the QKV input, {:.1} % of the FFN's hidden activations",
                100.0 * qkv_input,
                100.0 * ffn_hidden
            );
        }
        summary.print();
        say!(
            "speed at {} MHz  {tokens_per_second:.0} tokens/s after the prompt ({} cycles)",
            config.core().clock_mhz(),
            grouped(prompt_cycles)
        );
        if let (Some(least), Some(most)) = (token_cycles.iter().min(), token_cycles.iter().max()) {
            let mean = decode_cycles / token_cycles.len() as u64;
            say!("cycles per token   {} to {}, mean {}", grouped(*least), grouped(*most), grouped(mean));
        }
        if unit.energy.energy {
            energy.print();
        }
        phases.print("where the time goes");
        say!("golden             {}", verdict_text(comparison.as_ref()));
    }
    Ok(if agrees { Verdict::Agreed } else { Verdict::Differed })
}

impl From<&LayerSparsity> for Layer {
    fn from(layer: &LayerSparsity) -> Self {
        Self { qkv_input: layer.qkv_input.fraction(), ffn_hidden: layer.ffn_hidden.fraction() }
    }
}
