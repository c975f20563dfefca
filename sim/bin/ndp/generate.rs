//! `ndp generate`: a text, with all of the DIMM's work in RTL: linear layers with their biases, ReLU and residuals, the caches
//! of keys and values, and attention.
//!
//! Loads the model, runs the decoder on the checking backend, shows the text as it comes, and reports figures per class
//! of product, instruction and phase, and the comparison with the stored golden. LayerNorm, embeddings, sampling and the lists of
//! active neurons are reference numerics.

use crate::Verdict;
use crate::args::{TraceArgs, UnitArgs, temperature_percent};
use crate::figures::{Class, Instructions, classes, instructions, print_classes, print_instructions};
use crate::gemv::name;
use crate::golden::{self, Comparison, workspace_path};
use crate::output::Traces;
use crate::phases::{PhaseFigures, PhaseTable};
use crate::report::Summary;
use crate::rerun::Rerun;
use crate::stream::TextStream;
use crate::system;
use crate::system::args::{LinksChoice, PolicyChoice, PredictorChoice, bit_error_rate};
use crate::tools::{Tools, grouped};
use anyhow::{Context, bail};
use ndp_config::DesignConfig;
use ndp_cosim::backend::{Neurons, RtlBackend};
use ndp_cosim::expected::Expected;
use ndp_cosim::gemv::GemvOptions;
use ndp_cosim::gemv::MergeFormat;
use ndp_cosim::progress;
use ndp_cosim::system::{GpuNumerics, LinkFault};
use ndp_files::{OutputFile, Progress};
use ndp_model::{GenerateOptions, Generation, LayerSparsity, Model, generate};
use ndp_numerics::SerialSteps;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Generate text with the layers of a language model computed by the core from DRAM, attention and caches included
#[derive(clap::Args, Debug)]
#[command(after_long_help = "Examples:\n  \
        ndp generate\n  \
        ndp generate --config tiny --tokens 8 --stalls 20\n  \
        ndp generate --prompt \"Emma could not\" --temperature 0 --tokens 32 --json\n  \
        ndp generate --dimms 4 --tokens 8 --html system.html --timeline system.json\n  \
        ndp generate --config tiny --dimms 1,2,4,8 --policy all --tokens 8\n\n\
        If prompt, seed and temperature are those of a stored golden (golden/generate/*.json) and there are no more \
        tokens than it has, text and logits are compared with it.")]
pub struct Args {
    /// Hardware.
    #[command(flatten)]
    pub unit: UnitArgs,
    /// Text to continue [default: that of golden/generate/default.json]
    #[arg(long)]
    pub prompt: Option<String>,
    /// Tokens (bytes) to generate; with the prompt at most the model's positions
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..))]
    pub tokens: u32,
    /// Directory with config.json and model.safetensors [default: golden/model]
    #[arg(long, value_name = "DIR")]
    pub model: Option<PathBuf>,
    /// Sampling temperature, 0 (greedy) to 10, two decimals [default: that of golden/generate/default.json]
    #[arg(long, value_name = "T", value_parser = temperature_percent)]
    pub temperature: Option<u32>,
    /// Seed of the sampler and of the stalls [default: that of golden/generate/default.json]
    #[arg(long)]
    pub seed: Option<u64>,
    /// Neurons that take part
    #[arg(long, value_enum, default_value_t = Neurons::Active)]
    pub neurons: Neurons,
    /// Several DIMMs, each with a core in RTL, and a GPU in software, with the host's scheduler in the loop (1..=16). With several
    /// numbers, policies or forms of partial results all combinations are run, and shown in one table
    #[arg(long, value_name = "N,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=16),
        conflicts_with = "chart")]
    pub dimms: Vec<u32>,
    /// With --dimms: what is done about placement: random, partition, token-adjustment, layer-adjustment, adjustment, hermes or all
    #[arg(
        long,
        value_name = "POLICY,...",
        value_delimiter = ',',
        default_value = "hermes",
        requires = "dimms"
    )]
    pub policy: Vec<PolicyChoice>,
    /// With --dimms: which neurons are computed: exactly the active ones, or those that the live predictor says
    #[arg(long, value_enum, default_value_t = PredictorChoice::Exact, requires = "dimms")]
    pub predictor: PredictorChoice,
    /// With --dimms: how the GPU adds
    #[arg(long, value_enum, default_value_t = GpuNumerics::Exact, requires = "dimms")]
    pub gpu_numerics: GpuNumerics,
    /// With --dimms: in which form partial results go from device to device
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [MergeFormat::Exact], requires = "dimms")]
    pub merge: Vec<MergeFormat>,
    /// With --dimms: whether the links between DIMMs are simulated (up to 8 DIMMs), or take bytes over their bandwidth
    #[arg(long, value_enum, default_value_t = LinksChoice::Rtl, requires = "dimms")]
    pub links: LinksChoice,
    /// With --dimms: bit error rate of all lanes of the links (0 to 0.001)
    #[arg(long, value_name = "RATE", default_value_t = 0.0, requires = "dimms", value_parser = bit_error_rate)]
    pub ber: f64,
    /// With --dimms: what happens to the link of a DIMM, in a cycle counted from the beginning: cut@CYCLE:DIMM=CYCLES (no lane works for a
    /// while), burst@CYCLE:DIMM=CYCLES (noise on all lanes), dead-lane@CYCLE:DIMM=LANE or full@CYCLE:DIMM=CYCLES (the DIMM takes
    /// nothing for a while, so that all queues are full)
    #[arg(long = "fault", value_name = "KIND@CYCLE:DIMM=NUMBER", requires = "dimms")]
    pub faults: Vec<LinkFault>,
    /// With --dimms: cores that are simulated at the same time; changes nothing but the time that it takes [default: one for each
    /// processor]
    #[arg(long, value_name = "N", requires = "dimms", value_parser = clap::value_parser!(u32).range(1..=64))]
    pub threads: Option<u32>,
    /// With --dimms: report as a single HTML file
    #[arg(long, value_name = "FILE", requires = "dimms")]
    pub html: Option<PathBuf>,
    /// With --dimms: the DIMM of which --waves and --trace show something
    #[arg(long, value_name = "DIMM", default_value_t = 0, requires = "dimms")]
    pub trace_dimm: u32,
    /// With --dimms: the program of that DIMM from which on --trace shows --timeline-products ones
    #[arg(long, value_name = "PROGRAM", default_value_t = 0, requires = "dimms")]
    pub trace_program: u64,
    /// With --dimms: how many percent of the neurons the GPU has room for
    #[arg(long, value_name = "PERCENT", default_value_t = 20, requires = "dimms",
        value_parser = clap::value_parser!(u32).range(0..=100))]
    pub gpu_percent: u32,
    /// Chart of where the time goes, as SVG
    #[arg(long, value_name = "FILE.svg")]
    pub chart: Option<PathBuf>,
    /// Recordings.
    #[command(flatten)]
    pub traces: TraceArgs,
    /// Products that --trace and --timeline show, the first ones; with --dimms --timeline shows all of them
    #[arg(long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..))]
    pub timeline_products: u32,
}

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
    stalls_percent: u32,
    #[serde(flatten)]
    summary: Summary,
    classes: Vec<Class>,
    instructions: Vec<Instructions>,
    phases: Vec<PhaseFigures>,
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

/// Arguments with the defaults filled in.
pub struct Job {
    /// Text to continue.
    pub prompt: String,
    /// How.
    pub options: GenerateOptions,
    /// Directory of the model.
    pub model: PathBuf,
    /// Whether it is the repository's own, of which texts are stored.
    pub own_model: bool,
}

impl Job {
    fn new(args: &Args) -> anyhow::Result<Self> {
        let default = workspace_path("golden/generate/default.json");
        let needed = args.prompt.is_none() || args.temperature.is_none() || args.seed.is_none();
        let stored = if needed {
            let context = || "--prompt, --temperature and --seed were not all given, and their defaults are stored there";
            Some(golden::read(&default).with_context(context)?)
        } else {
            None
        };
        let stored = stored.as_ref();
        let prompt = args.prompt.clone().or(stored.map(|stored| stored.prompt.clone())).unwrap_or_default();
        let options = GenerateOptions {
            tokens: args.tokens as usize,
            temperature_percent: args
                .temperature
                .or(stored.map(|s| s.temperature_percent))
                .unwrap_or_default(),
            seed: args.seed.or(stored.map(|stored| stored.seed)).unwrap_or_default(),
        };
        let own = workspace_path("golden/model");
        let model = args.model.clone().unwrap_or_else(|| own.clone());
        let canonical = |path: &Path| path.canonicalize().ok();
        let own_model = canonical(&model).is_some() && canonical(&model) == canonical(&own);
        Ok(Self { prompt, options, model, own_model })
    }
}

/// Runs the job.
pub fn run(args: &Args) -> anyhow::Result<Verdict> {
    let unit = &args.unit;
    let files = args.traces.files(unit.files()).optional("--chart", args.chart.as_ref());
    let own = workspace_path("golden/model");
    let files = files.optional("--html", args.html.as_ref());
    let files = files.input_folder("part of the model", args.model.as_ref().unwrap_or(&own));
    files.input_folder("a stored text", workspace_path("golden/generate")).check()?;
    let config = DesignConfig::load(&unit.config)?;
    let job = Job::new(args)?;
    let Job { prompt, options, .. } = &job;
    let seed = options.seed;
    let model =
        Model::load(&job.model).with_context(|| format!("cannot load model {}", job.model.display()))?;
    if !args.dimms.is_empty() {
        return system::run(args, &job, (&model, &config));
    }
    let traced_products = if args.traces.is_asked() { args.timeline_products } else { 0 };
    let backend = RtlBackend::open(&config, &GemvOptions { traced_products, ..unit.options(seed) })?;
    let mut backend = backend.with_neurons(args.neurons);
    let traces = Traces::create(&args.traces)?;
    let chart = args.chart.as_deref().map(OutputFile::create).transpose()?;

    let mut rerun = Rerun::new("generate", unit);
    rerun.option("prompt", prompt);
    rerun.option("tokens", options.tokens);
    rerun.option("temperature", f64::from(options.temperature_percent) / 100.0);
    rerun.option("seed", seed);
    rerun.option("neurons", name(args.neurons));
    if !job.own_model {
        rerun.option("model", job.model.display());
    }

    let meter = backend.meter();
    // Cycles when each token was known. The first one comes out of the prompt's pass.
    let mut known_at = Vec::new();
    let mut expected = Expected::new(&config, args.neurons);
    generate(&model, &mut expected, prompt.as_bytes(), options, |_| {})?;
    let progress = Progress::watch(expected.work(), "cycles at the roofline", progress::work);
    let mut stream = TextStream::new(prompt, progress, unit.json);
    let generation = generate(&model, &mut backend, prompt.as_bytes(), options, |token| {
        known_at.push(meter.cycles());
        stream.push(token.token as u8);
    });
    let shown = stream.finish();
    let written = traces.write(backend.unit_mut().take_recording().as_ref());
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

    // The stored texts are those of the repository's own model with full significands.
    let comparable = checked && job.own_model && config.gemv().serial_steps() == SerialSteps::FULL.get();
    let stored = if comparable {
        golden::find(prompt, options.temperature_percent, seed, options.tokens)?
    } else {
        None
    };
    let comparison = stored.map(|(file, golden)| golden::compare(&file, &golden, &generation));
    let agrees = checked && comparison.as_ref().is_none_or(Comparison::agrees);
    let rerun = rerun.line();
    if checked && !agrees {
        note!("MISMATCH {}; seed {seed}\nrerun: {rerun}", verdict_text(comparison.as_ref()));
    }
    let classes = classes(&backend);
    let instructions = instructions(&backend);
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
            stalls_percent: unit.stalls,
            summary,
            classes,
            instructions,
            phases: phases.rows,
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

pub fn verdict_text(comparison: Option<&Comparison>) -> String {
    match comparison {
        None => "none stored for this model, prompt, temperature and seed".to_owned(),
        Some(c) if c.agrees() => format!("{}: all {} tokens and logits are equal", c.file, c.tokens),
        Some(c) => {
            let at = c.first_difference.unwrap_or(0);
            format!(
                "{}: differs from token {at} on (text equal: {}, logits equal: {})",
                c.file, c.text_equal, c.logits_equal
            )
        }
    }
}
