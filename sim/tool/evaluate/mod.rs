//! `ndp evaluate`: Hermes' scheduling on an activation trace.

mod report;

use crate::args::{check_weights, weight_format};
use crate::energy::EnergyArgs;
use crate::prelude::*;
use crate::system::args::{FlashArgs, LinksChoice, PlacementArg, PolicyChoice};
use crate::tools::{note_dense_attention, traced_model};
use ndp_config::WeightFormat;
use ndp_sim::cluster::lockstep::MOST;
use ndp_sim::gemv::MergeFormat;
use ndp_sim::system::{ActivitySource, EvaluateOptions, evaluate};
use ndp_traces::{NeuronShape, TraceReader};

/// Evaluate predictor, placement, adjustment and remapping on an activation trace
///
/// The last sequence of the trace is the text that is generated, those before it are the profile. The host is that of `ndp generate --dimms
/// --backend cycles`, without data: the same programs take the same cycles.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    ndp trace synth --llm llama2-13b --tokens 256 --sequences 3 --out t.trace\n  \
    ndp evaluate --llm llama2-13b --trace t.trace --html report.html\n  \
    ndp place --trace t.trace --profile --method greedy --out placement.json\n  \
    ndp evaluate --trace t.trace --placement placement.json --policy partition,hermes --fast\n  \
    ndp evaluate --llm llama2-13b --trace t.trace --dimms 4 --policy partition,hermes --activity predicted --json > result.json\n  \
    ndp generate --config tiny --dimms 4 --system small --backend cycles --load backdoor --trace t.trace\n  \
    ndp evaluate --config tiny --dimms 4 --system small --gpu-percent 20 --trace t.trace --policy hermes --positions 256")]
pub struct Args {
    /// Model of the trace: opt-6.7b, opt-13b, opt-30b, opt-66b, opt-175b, llama2-7b, llama2-13b, llama2-70b, falcon-7b, falcon-40b, llama3-70b,
    /// gpt3-175b, bamboo-7b, qwen1.5-4b, yi-34b or a path ending in .toml.
    /// The one that the trace names if left out. An unknown name selects an OPT shape with the trace's sizes, and the first line says so.
    #[arg(long)]
    llm: Option<String>,
    /// What the matrices of the layers are made of; FP16, or what the model's file says, if left out.
    #[arg(long, value_name = "FORMAT", value_parser = weight_format())]
    weights: Option<WeightFormat>,
    /// Activation trace.
    #[arg(long)]
    trace: PathBuf,
    /// System: hermes, hermes-3090, hermes-t4 or a path ending in .toml.
    #[arg(long, default_value = "hermes")]
    system: String,
    /// Number of DIMMs. That of the system if left out.
    #[arg(long)]
    dimms: Option<u32>,
    /// Core of the DIMMs: a preset or a path ending in .toml.
    #[arg(long, default_value = "hermes")]
    config: String,
    /// How many percent of the neurons the GPU has room for. As many as its memory holds if left out.
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(0..=100))]
    gpu_percent: Option<u32>,
    /// Policies, separated by commas: random, partition, token-adjustment, layer-adjustment, adjustment, hermes or all.
    #[arg(long, value_name = "POLICY,...", value_delimiter = ',', default_value = "all")]
    policy: Vec<PolicyChoice>,
    /// Where neurons are at first.
    #[command(flatten)]
    placement: PlacementArg,
    /// From what it is known which neurons are computed.
    #[arg(long, value_enum, default_value_t = ActivitySource::Causal)]
    activity: ActivitySource,
    /// In which form partial results go from device to device.
    #[arg(long, value_enum, default_value_t = MergeFormat::Exact)]
    merge: MergeFormat,
    /// Whether the links between DIMMs are modelled (up to 8 DIMMs), or take bytes over their bandwidth, which is about twice as fast.
    #[arg(long, value_enum, default_value_t = LinksChoice::Rtl)]
    links: LinksChoice,
    /// Estimate the cycles of programs like those that have run: many times as fast. Says how far the estimates are off.
    #[arg(long)]
    fast: bool,
    /// Tokens that are generated, at most those of the trace. All if left out.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    tokens: Option<u64>,
    /// Positions for which caches have room. Those of the text if left out.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    positions: Option<u32>,
    /// Cores that are modelled at the same time; changes nothing but the time that it takes. One for each processor if left out.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=64))]
    threads: Option<u32>,
    /// Tokens in a window of remapping.
    #[arg(long, default_value_t = ndp_hermes::scheduler::WINDOW_TOKENS, value_parser = clap::value_parser!(u32).range(1..=255))]
    window: u32,
    /// Tokens of the profile from which correlated neurons are sampled, at most.
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u32).range(1..=1 << 20))]
    table_tokens: u32,
    /// Seed of the random placement.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Neurons on an SSD.
    #[command(flatten)]
    flash: FlashArgs,
    /// Energy.
    #[command(flatten)]
    energy: EnergyArgs,
}

pub fn run(args: &Shown<Args>) -> Result<Report> {
    let files = FileSet::new().input("the trace", &args.trace).configuration("the system", &args.system);
    let files = files.configuration("the configuration", &args.config);
    let files = args.llm.iter().fold(files, |files, model| files.configuration("the model", model));
    let files = args.placement.files(args.energy.files(args.flash.files(files)));
    args.form.files(files).check()?;
    let design = DesignConfig::load(&args.config)?;
    let mut system = args.flash.with_ssd(SystemConfig::load(&args.system)?.having_dimms()?)?;
    crate::ignored::warn("evaluate", &args.system, &crate::ignored::HOST)?;
    if let Some(dimms) = args.dimms {
        system = system.with_dimms(dimms)?;
    }
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
        positions: args.positions.map(|positions| positions as usize),
        tokens: args.tokens,
        fast: args.fast,
        flash: args.flash.options(),
        energy: Some(args.energy.constants(&design, system.name())?),
        placement: args.placement.load(&NeuronShape::of(&model), dimms, &args.flash)?,
        ..EvaluateOptions::default()
    };
    // Before everything else, tables as well as JSON.
    assumed.inspect(|assumed| note!("{assumed}"));
    let mut reader = reader.with_dense_attention(model.hidden());
    // The trace has the text's length after its profile.
    let mut progress = None;
    let result = evaluate(&mut reader, &design, &model, &system, &options, |token, all| {
        progress.get_or_insert_with(|| Progress::new(all, "tokens")).set(token);
    })
    .with_context(|| format!("cannot evaluate '{path}'{}", args.placement.context()))?;
    drop(progress);
    report::report(&result, args.energy.energy)
}
