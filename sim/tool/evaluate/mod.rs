//! `ndp evaluate`: Hermes' scheduling on an activation trace.

mod report;

use crate::args::{check_weights, weight_format};
use crate::energy::EnergyArgs;
use crate::prelude::*;
use crate::system::args::{FlashArgs, LinksChoice, PlacementArg, PolicyChoice};
use crate::tools::{ASSUMED, note_dense_attention, traced_model};
use ndp_config::WeightFormat;
use ndp_sim::cluster::lockstep::MOST;
use ndp_sim::gemv::MergeFormat;
use ndp_sim::system::{ActivitySource, EvaluateOptions, evaluate};
use ndp_systems::Assumptions;
use ndp_traces::{NeuronShape, TraceReader};

/// Compare scheduling policies on an activation trace: predictor, placement, adjustment and remapping
///
/// The last sequence of the trace is the generated text, or the last ones are a batch. The sequences before are the profile. The host software
/// is that of `ndp generate --dimms --backend cycles`, without data: the same programs take the same cycles.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    ndp trace synth --llm relu-llama2-13b --tokens 256 --sequences 3 --out t.trace\n  \
    ndp evaluate --llm relu-llama2-13b --trace t.trace --html report.html\n  \
    ndp place --trace t.trace --profile --method greedy --out placement.json\n  \
    ndp evaluate --trace t.trace --placement placement.json --policy partition,hermes --fast\n  \
    ndp evaluate --llm relu-llama2-13b --trace t.trace --dimms 4 --policy partition,hermes --activity predicted --json > result.json\n  \
    ndp generate --config tiny --dimms 4 --system small --backend cycles --load backdoor --trace t.trace\n  \
    ndp evaluate --config tiny --dimms 4 --system small --gpu-percent 20 --trace t.trace --policy hermes --positions 256")]
pub struct Args {
    /// Model of the trace: a preset such as relu-llama2-7b (an unknown name lists them), a path ending in .toml, or a
    /// checkpoint's config.json [default: the model that the trace names; an unknown name selects an OPT with the sizes of the trace, and the
    /// first line says so]
    #[arg(long)]
    llm: Option<String>,
    /// Weight format: fp16, int8 or int4 [default: the format in the model's file, else fp16]
    #[arg(long, value_name = "FORMAT", value_parser = weight_format())]
    weights: Option<WeightFormat>,
    /// Activation trace, as `ndp trace synth` or `ndp generate --trace` writes it
    #[arg(long)]
    trace: PathBuf,
    /// System (GPU, bus, host and DIMMs): hermes, hermes-3090, hermes-t4 or a path ending in .toml
    #[arg(long, default_value = "hermes")]
    system: String,
    /// Number of DIMMs [default: that of the system]
    #[arg(long)]
    dimms: Option<u32>,
    /// NDP core of each DIMM: preset (hermes, tiny, ...) or path of a TOML file
    #[arg(long, default_value = "hermes")]
    config: String,
    /// Share of the neurons for which the GPU has memory, in percent (0..=100) [default: what its memory holds]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(0..=100))]
    gpu_percent: Option<u32>,
    /// Policies, separated by commas: random, partition, token-adjustment, layer-adjustment, adjustment, hermes or
    /// all
    #[arg(long, value_name = "POLICY,...", value_delimiter = ',', default_value = "all")]
    policy: Vec<PolicyChoice>,
    /// Initial placement of the neurons.
    #[command(flatten)]
    placement: PlacementArg,
    /// Which neurons to compute
    #[arg(long, value_enum, default_value_t = ActivitySource::Causal)]
    activity: ActivitySource,
    /// Format of the partial results that devices exchange
    #[arg(long, value_enum, default_value_t = MergeFormat::Exact)]
    merge: MergeFormat,
    /// Model of the DIMM-links: `rtl` models controllers and lanes (up to 8 DIMMs), `bandwidth` only counts bytes
    /// over their bandwidth and is about three times as fast
    #[arg(long, value_enum, default_value_t = LinksChoice::Rtl)]
    links: LinksChoice,
    /// Simulate a sample of the programs and estimate the cycles of similar ones, many times as fast; the report
    /// states the error
    #[arg(long)]
    fast: bool,
    /// Number of texts that run together: the last sequences of the trace (1..=16)
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=16))]
    batch: u32,
    /// Number of generated tokens of each text, at most those of the trace [default: all]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    tokens: Option<u64>,
    /// Run only this number of them, spread evenly over the text, and interpolate the others; the report states the
    /// error
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), conflicts_with = "flash_resident")]
    exact: Option<u64>,
    /// Efficiencies of the GPU, and the time of a synchronisation: a paper's set as in `ndp compare`, `stated` (those
    /// of the system), or a path ending in .toml
    #[arg(long, value_name = "SET|FILE.toml", default_value = "stated")]
    assume: String,
    /// Number of tokens of each text before the trace begins. Only attention sees them: their activity is
    /// unknown
    #[arg(long, value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=1 << 20))]
    earlier: u32,
    /// Number of positions for which the caches have room (1..=2^20) [default: the length of the text]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    positions: Option<u32>,
    /// Number of cores to model in parallel (1..=64); affects only the time that the command takes [default: one per
    /// processor]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    threads: Option<u32>,
    /// Number of tokens in a remapping window (1..=255)
    #[arg(long, default_value_t = ndp_hermes::scheduler::WINDOW_TOKENS, value_parser = clap::value_parser!(u32).range(1..=255))]
    window: u32,
    /// Largest number of profile tokens from which to sample correlated neurons (1..=2^20)
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    table_tokens: u32,
    /// Seed of the random placement
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Options of an SSD below the DIMMs.
    #[command(flatten)]
    flash: FlashArgs,
    /// Energy constants.
    #[command(flatten)]
    energy: EnergyArgs,
}

pub fn run(args: &Shown<Args>) -> Result<Report> {
    let files = FileSet::new().input("the trace", &args.trace).configuration("the system", &args.system);
    let files = files.configuration("the configuration", &args.config);
    let files = files.configuration("the assumptions", &args.assume);
    let files = args.llm.iter().fold(files, |files, model| files.configuration("the model", model));
    let files = args.placement.files(args.energy.files(args.flash.files(files)));
    args.form.files(files).check()?;
    let design = DesignConfig::load(&args.config)?;
    let mut system = args.flash.with_ssd(SystemConfig::load(&args.system)?.having_dimms()?)?;
    crate::ignored::warn("evaluate", &args.system, &crate::ignored::HOST)?;
    if let Some(dimms) = args.dimms {
        system = system.with_dimms(dimms)?;
    }
    let assumptions = Assumptions::chosen(&args.assume, ASSUMED).context("--assume")?;
    system = assumptions.on(&system)?;
    let path = args.trace.display();
    let reader = TraceReader::open(&args.trace)?;
    let header = reader.header();
    let (model, assumed) = match &args.llm {
        Some(name) => (LlmShape::load(name)?, None),
        None => traced_model(header)?,
    };
    note_dense_attention(header, model.hidden());
    let model = args.weights.map_or(model.clone(), |weights| model.with_weights(weights));
    check_weights(model.weights(), &design)?;
    if let Some(percent) = args.gpu_percent {
        system = system.with_gpu_percent(&model, percent)?;
    }
    let (linked, dimms) = (args.links == LinksChoice::Rtl, system.dimms().count);
    ensure!(
        !linked || dimms as usize <= MOST,
        "{dimms} DIMMs need --links bandwidth: bridges have links for {MOST} DIMMs at most"
    );
    let policies = PolicyChoice::policies(&args.policy);
    args.placement.check(&policies)?;
    let processors = || std::thread::available_parallelism().map_or(1, usize::from);
    let options = EvaluateOptions {
        policies,
        window: args.window,
        table_tokens: args.table_tokens as usize,
        seed: args.seed,
        activity: args.activity,
        merge: args.merge,
        linked,
        threads: args.threads.map_or_else(processors, |threads| threads as usize),
        earlier: args.earlier as usize,
        positions: args.positions.map(|positions| positions as usize),
        batch: args.batch,
        tokens: args.tokens,
        exact: args.exact,
        fast: args.fast,
        flash: args.flash.options(),
        energy: Some(args.energy.constants(&design, system.name())?),
        placement: args.placement.load(&NeuronShape::of(&model), dimms, &args.flash)?,
        ..EvaluateOptions::default()
    };
    // Printed first, before tables as well as JSON.
    assumed.inspect(|assumed| note!("{assumed}"));
    let mut reader = reader.with_dense_attention(model.hidden());
    // The length of the text is known after the profile.
    let mut progress = None;
    let result = evaluate(&mut reader, &design, &model, &system, &options, |token, all| {
        progress.get_or_insert_with(|| Progress::new(all, "tokens")).set(token);
    })
    .with_context(|| format!("cannot evaluate '{path}'{}", args.placement.context()))?;
    drop(progress);
    report::report(&result, &assumptions.name, args.energy.energy)
}
