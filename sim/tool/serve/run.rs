//! Serves a trace in several modes or with several policies.

use super::machine::{Chips, Kind, LibraPimArgs, measured_contexts};
use super::report;
use crate::given::Given;
use crate::ignored::{COMPARE, COMPARE_LINKS, Ignored, SERVE};
use crate::output::OutputArgs;
use crate::prelude::*;
use crate::tools::ASSUMED;
use crate::tools::check_banks;
use ndp_config::WeightFormat;
use ndp_energy::EnergyConstants;
use ndp_librapim::host::{Extent, Sizes, groups_of};
use ndp_librapim::offloading::Mode;
use ndp_model::decoder::MAX_BATCH;
use ndp_systems::serving::librapim::kv_memory;
use ndp_systems::serving::{
    Chunk, HermesSteps, Iteration, KvMemory, Request, Rules, Served, StepTimes, Summary, request, serve,
    texts,
};
use ndp_systems::{Assumptions, DimmModel, Machine, Policy, RunCosts, dense_note};
use serde::Serialize;
use std::collections::HashSet;

const MAX_BYTES: u64 = 1 << 30;

/// Serve a trace of requests with continuous batching: rates, latencies, utilisation and energy
///
/// Requests are lines of JSON, or columns, in the form that LLMServingSim reads. The batch is decided anew for each
/// iteration. Keys and values are paged, and use the memory that the weights leave free. docs/serving.md explains how
/// times are computed, and the assumptions.
#[derive(clap::Args, Debug)]
#[command(after_help = "Examples:\n  \
    ndp serve synth --requests 1000 --rate 20 --out alpaca.jsonl\n  \
    ndp serve alpaca.jsonl --llm llama2-7b\n  \
    ndp serve alpaca.jsonl --llm llama3-70b --tp 8 --pp 2 --modes serial,neupims,dex+dbo --html serve.html\n  \
    ndp serve few.jsonl --rtl --memory librapim-small --hardware librapim-small-npu --modes serial,dex\n  \
    ndp serve alpaca.jsonl --machine hermes --llm relu-llama2-70b --policies hermes,flexgen --max-batch 16\n  \
    ndp serve export --llm llama2-7b --out tables")]
pub struct Args {
    /// Names of the options on the command line.
    #[command(flatten)]
    given: Given,
    /// Requests: lines of JSON, or columns separated by tabs, with input_toks, output_toks and arrival_time_ns
    #[arg(required = true, value_name = "TRACE")]
    trace: Option<PathBuf>,
    /// Machine that serves the requests
    #[arg(long, value_enum, default_value = "librapim")]
    machine: Kind,
    /// Model: a preset such as llama2-7b (an unknown name lists them), a path ending in .toml, or a checkpoint's config.json
    #[cfg_attr(feature = "rtl", arg(long, required_unless_present = "rtl"))]
    #[cfg_attr(not(feature = "rtl"), arg(long, required = true))]
    llm: Option<String>,
    /// Serve the repository's small model: channels in RTL generate its texts, their clocks give the time, and the
    /// texts are compared with software. Every iteration must take the clocks of --clocked; the times of the tables
    /// are compared as well
    #[cfg(feature = "rtl")]
    #[arg(long, conflicts_with_all = ["llm", "html"])]
    rtl: bool,
    /// Largest number of requests in an iteration [default: 128; with --machine hermes 16, the most that a core
    /// multiplies at once: with more, and with --formula, hermes and hermes-base are estimates]
    #[arg(long, value_name = "N")]
    max_batch: Option<u32>,
    /// Number of tokens in a block of keys and values
    #[arg(long, value_name = "TOKENS", default_value_t = Rules::default().block_tokens)]
    block: u32,
    /// Largest number of prompt tokens in an iteration; a longer prompt has an iteration of its own
    #[arg(long, value_name = "TOKENS", default_value_t = Rules::default().max_prefill)]
    max_prefill: u32,
    /// Cut prompts so that an iteration has at most this number of prompt tokens, instead of --max-prefill (chunked
    /// prefill)
    #[arg(long, value_name = "TOKENS", conflicts_with = "max_prefill")]
    prefill_chunk: Option<u32>,
    /// Memory for keys and values in GB (1e-6 to 1e9) [default: the memory that the weights leave free]
    #[arg(long, value_name = "GB")]
    kv_gb: Option<f64>,
    /// With --machine librapim: serve even if weights and --kv-gb exceed the memory of all chips
    #[arg(long, requires = "kv_gb")]
    beyond_capacity: bool,
    #[command(flatten, next_help_heading = "Output")]
    pub form: OutputArgs,
    // A heading applies to all later options, so the options of one machine come last.
    /// Modes, separated by commas [default: dex+dbo]
    #[arg(long, value_enum, value_name = "MODE,...", value_delimiter = ',')]
    #[arg(help_heading = "Options of --machine librapim")]
    pub modes: Vec<Mode>,
    #[command(flatten, next_help_heading = "Options of --machine librapim")]
    pub chips: LibraPimArgs,
    #[command(flatten, next_help_heading = "Options of --machine hermes")]
    dimms: HermesArgs,
}

// A GPU, a host and NDP-DIMMs.
#[derive(clap::Args, Debug)]
struct HermesArgs {
    /// Policies, separated by commas [default: hermes]
    #[arg(long, value_enum, value_name = "POLICY,...", value_delimiter = ',')]
    policies: Vec<Policy>,
    /// System (GPU, bus, host and DIMMs): hermes, hermes-3090, hermes-t4, pc-high, pc-low, a100x5 or a path ending in
    /// .toml
    #[arg(long, default_value = "hermes")]
    system: String,
    /// NDP core of each DIMM: preset (hermes, tiny, ...) or path of a TOML file
    #[arg(long, default_value = "hermes")]
    config: String,
    /// Assumptions beyond the system file: a paper's set, `stated` (none), or a path ending in .toml, whose keys
    /// override those of the set that its key `base` names (without that key: hermes)
    #[arg(long, value_name = "SET|FILE.toml", default_value = ASSUMED)]
    assume: String,
    /// Weight format: fp16, int8 or int4 [default: the format in the model's file, else fp16]
    #[arg(long, value_name = "FORMAT", value_parser = |name: &str| WeightFormat::named(name).ok_or("expected fp16, int8 or int4"))]
    weights: Option<WeightFormat>,
}

/// Result of a mode or policy on the trace.
#[derive(Serialize)]
pub struct Entry {
    pub name: &'static str,
    pub kv: KvMemory,
    #[serde(flatten)]
    pub summary: Summary,
    /// Error of the tables of times, if it can be measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tables: Option<Tables>,
    /// Error of the interpolation between exact tokens, if the entry has such.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub interpolated: Option<Interpolated>,
    pub served: Vec<Served>,
}

/// Most layers of [`Tables`]. All layers are alike.
const LAYERS: u32 = 4;

/// Times of an iteration without prompts, of median length: some layers and the head, from tables and clock by clock.
#[derive(Serialize)]
pub struct Tables {
    pub requests: usize,
    pub layers: u32,
    pub table_ns: u64,
    /// Measured on the device model of one channel.
    pub clocked_ns: u64,
}

/// Times of the median token: between exact tokens, and on the machine.
#[derive(Serialize)]
pub struct Interpolated {
    pub requests: u32,
    pub context: u32,
    /// Batches and contexts that ran on the machine.
    pub exact: usize,
    pub interpolated_ns: u64,
    pub exact_ns: u64,
}

pub struct Outcome {
    pub machine: Kind,
    pub model: String,
    /// Chips or system that served.
    pub on: String,
    /// Limits of the batches.
    pub rules: Rules,
    /// One entry per mode or policy.
    pub entries: Vec<Entry>,
    /// Policies that the machine cannot run, with the reason.
    pub refused: Vec<(&'static str, String)>,
}

pub fn run(args: &Args) -> Result<Report> {
    // clap requires both.
    let Some(path) = &args.trace else { bail!("a trace is needed") };
    refuse_the_other_machines(args)?;
    let files = FileSet::new().input("the trace", path);
    let files = args
        .llm
        .iter()
        .fold(files, |files, llm| files.configuration("the model", llm))
        .configuration("the system", &args.dimms.system)
        .configuration("the configuration", &args.dimms.config)
        .configuration("the assumptions", &args.dimms.assume);
    args.form.files(args.chips.files(files)).check()?;
    let text =
        ndp_files::read_text(path, MAX_BYTES).with_context(|| format!("cannot read '{}'", path.display()))?;
    let (requests, unknown) =
        request::parse_with_unknown(&text).with_context(|| format!("in '{}'", path.display()))?;
    if !unknown.is_empty() {
        let keys = unknown.into_iter().join(", ");
        note!("warning: serve ignores these keys of the requests in '{}': {keys}", path.display());
    }
    let kv_bytes = args.kv_gb.map(|gb| {
        ensure!((1e-6..=1e9).contains(&gb), "--kv-gb {gb} must be in 0.000001..=1000000000");
        Ok((gb * 1e9) as u64)
    });
    let kv_bytes = kv_bytes.transpose()?;
    let Args { block: block_tokens, max_prefill, prefill_chunk, .. } = *args;
    let max_batch = args.max_batch.unwrap_or(match args.machine {
        Kind::Librapim => Rules::default().max_batch,
        Kind::Hermes => MAX_BATCH as u32,
    });
    let rules = Rules { max_batch, block_tokens, max_prefill, prefill_chunk };
    let job = Job { args, requests: &requests, rules, kv_bytes };
    #[cfg(feature = "rtl")]
    if args.rtl {
        ensure!(args.machine == Kind::Librapim, "--rtl needs --machine librapim");
        return super::texts::run(&job);
    }
    let Some(llm) = &args.llm else { bail!("--llm is needed") };
    let model = LlmShape::load(llm)?;
    model.check_experts("serving machines")?;
    let (report, dense) = match args.machine {
        Kind::Librapim => (report::report(&librapim(&job, &model)?)?, None),
        Kind::Hermes => (report::report(&hermes(&job, &model)?)?, dense_note(&model, &args.dimms.policies)),
    };
    let longest =
        requests.iter().map(|request| request.input.saturating_add(request.output)).max().unwrap_or(0);
    Ok(dense.into_iter().chain(model.window_note(longest)).fold(report, Report::note))
}

/// A trace of requests, and the limits for serving it.
pub struct Job<'a> {
    pub args: &'a Args,
    pub requests: &'a [Request],
    pub rules: Rules,
    /// Bytes for keys and values from --kv-gb; `None`: all memory that the weights leave free.
    pub kv_bytes: Option<u64>,
}

impl Job<'_> {
    /// Contexts up to the longest request; empty unless times are measured.
    pub fn contexts(&self) -> Result<Vec<u32>> {
        let longest = self.requests.iter().map(Request::most_kv_tokens).max().unwrap_or(1);
        if self.args.chips.is_measured() { measured_contexts(longest) } else { Ok(Vec::new()) }
    }

    /// Serves the trace. Calls `each` for every iteration.
    pub fn serve(
        &self,
        machine: &mut dyn StepTimes,
        shown: &mut Shown,
        mut each: impl FnMut(&Iteration<'_>),
    ) -> Result<ndp_systems::serving::Outcome> {
        shown.begin();
        serve(self.requests, &self.rules, machine, &mut |one| {
            each(one);
            shown.iterated(one);
        })
    }

    fn entry(
        &self,
        name: &'static str,
        machine: &mut dyn StepTimes,
        shown: &mut Shown,
    ) -> Result<(Entry, Steps)> {
        let mut steps = Vec::new();
        let outcome = self.serve(machine, shown, |one| {
            if one.prefilled.is_empty() {
                steps.push((one.decoded.iter().map(Chunk::context).collect(), one.end_ns - one.start_ns));
            }
        })?;
        Ok((Entry::new(name, machine, outcome), steps))
    }
}

impl Entry {
    pub fn new(name: &'static str, machine: &dyn StepTimes, outcome: ndp_systems::serving::Outcome) -> Self {
        let summary = Summary::of(&outcome, machine);
        Self { name, kv: machine.kv(), summary, tables: None, interpolated: None, served: outcome.served }
    }
}

/// Refuses options of the machine that does not serve.
fn refuse_the_other_machines(args: &Args) -> Result<()> {
    if args.machine == Kind::Librapim && args.chips.is_single() {
        args.given.only_with("several chips (--tp or --pp)", ["link_gbps", "link_ns"])?;
    }
    if args.machine == Kind::Hermes {
        args.given.only_with("--machine librapim", ["beyond_capacity"])?;
    }
    let other = match args.machine {
        Kind::Librapim => "--machine hermes",
        Kind::Hermes => "--machine librapim",
    };
    let heading = format!("Options of {other}");
    let command = <Args as clap::Args>::augment_args(clap::Command::new("serve"));
    let of_other = command.get_arguments().filter(|option| option.get_help_heading() == Some(&heading));
    args.given.only_with(other, of_other.map(|option| option.get_id().as_str()))
}

/// The modes on the command line, or the default. The memory has to support all of them.
pub fn modes(args: &Args) -> Result<Vec<Mode>> {
    let modes = if args.modes.is_empty() { vec![Mode::DexDbo] } else { args.modes.clone() };
    let memory = args.chips.memory()?;
    modes.iter().try_for_each(|&mode| check_banks(&memory, mode))?;
    if !modes.iter().any(|mode| mode.offloads()) {
        args.given.only_with("a mode that offloads, such as --modes dex+dbo", ["rule"])?;
    }
    Ok(modes)
}

/// Progress in tokens of all machines, including prompts; requests would all end late. The first step with a new
/// number of requests runs a cycle model and may take longer than thousands of other steps, so the measurement of
/// speed then restarts.
pub struct Shown {
    progress: Progress,
    of_one: u64,
    total: u64,
    /// Tokens that earlier machines have served.
    before: u64,
    /// Number of tokens at the start of the measurement of speed.
    begun: u64,
    /// Numbers of concurrent requests that have occurred.
    sizes: HashSet<usize>,
}

impl Shown {
    /// Creates the progress of `machines` machines that serve these requests.
    pub fn new(requests: &[Request], machines: usize) -> Self {
        let of_one = requests.iter().map(|request| u64::from(request.input + request.output)).sum();
        let total = of_one * machines as u64;
        let progress = Progress::new(total, "tokens");
        Self { progress, of_one, total, before: 0, begun: 0, sizes: HashSet::new() }
    }

    pub fn begin(&mut self) {
        self.before += if self.sizes.is_empty() { 0 } else { self.of_one };
        self.sizes.clear();
    }

    pub fn iterated(&mut self, one: &Iteration<'_>) {
        let done = self.before + one.done;
        if self.sizes.insert(one.decoded.len()) {
            self.begun = done;
            self.progress = Progress::new(self.total.saturating_sub(done), "tokens");
        }
        self.progress.set(done - self.begun);
    }
}

fn librapim(job: &Job<'_>, shape: &LlmShape) -> Result<Outcome> {
    let Job { args, requests, rules, kv_bytes } = *job;
    let modes = modes(args)?;
    let (chips, kv) = args.chips.chips(shape, Some((kv_bytes, args.beyond_capacity)), job.contexts()?)?;
    if let Some(mode) = modes.iter().find(|mode| args.chips.clocked && mode.offloads()) {
        bail!(
            "--clocked: a single channel that represents all cannot offload; mode {} needs tables, so leave it out",
            mode.name()
        );
    }
    let mut shown = Shown::new(requests, modes.len());
    let mut entries = Vec::new();
    for mode in modes {
        if args.chips.clocked {
            let sizes = Sizes::of_channel(&chips.model, &chips.memory(mode)).context("--clocked")?;
            let extents = texts::extents(requests);
            let mut machine =
                chips.clocked(mode, &sizes, (&extents, true), Some(kv.bytes)).context("--clocked")?;
            entries.push(job.entry(mode.name(), &mut machine, &mut shown)?.0);
            continue;
        }
        let mut machine = chips.serving(&chips.model, mode, kv)?;
        let (entry, steps) = job.entry(mode.name(), &mut machine, &mut shown)?;
        let tables = if args.chips.is_measured() { tables(&chips, mode, steps)? } else { None };
        entries.push(Entry { tables, ..entry });
    }
    drop(shown);
    let parallel = chips.parallel;
    let mut on = match parallel.chips() {
        1 => "one NPU with HBM-PIM".to_owned(),
        count => format!(
            "{count} NPUs with HBM-PIM, tp {} x pp {}, {} GB/s links",
            parallel.tp, parallel.pp, parallel.link_gbps
        ),
    };
    if kv_memory(shape, &parallel, chips.memory.bytes(), kv_bytes, false).is_err() {
        on += ", beyond the capacity of its memory";
    }
    let machine = args.machine;
    Ok(Outcome { machine, model: shape.name().to_owned(), on, rules, entries, refused: Vec::new() })
}

/// Contexts and time in ns of each iteration without prompts.
type Steps = Vec<(Vec<u32>, u64)>;

/// Error of the tables in the median iteration, for modes that run on one channel of the host of `ndp generate pim`.
fn tables(chips: &Chips, mode: Mode, mut steps: Steps) -> Result<Option<Tables>> {
    let sizes = Sizes::of_channel(&chips.model, &chips.memory(mode));
    let can = chips.parallel.chips() == 1 && !mode.offloads() && groups_of(mode).is_ok() && sizes.is_ok();
    steps.sort_by_key(|&(_, ns)| ns);
    let (true, Some((contexts, _))) = (can, steps.get(steps.len() / 2)) else { return Ok(None) };
    let model = chips.model.clone().with_layers(chips.model.layers.min(LAYERS))?;
    let sizes = Sizes::of_channel(&model, &chips.memory(mode))?;
    let extent = |&context: &u32| Extent { prompt: context as usize - 1, generate: 1, is_prefilled: true };
    let extents: Vec<Extent> = contexts.iter().map(extent).collect();
    let chunks: Vec<Chunk> = (0..)
        .zip(contexts)
        .map(|(place, context)| Chunk { place, history: context - 1, tokens: 1, yields: true })
        .collect();
    let by_tables =
        chips.serving(&model, mode, KvMemory { bytes: 0, bytes_per_token: 1 })?.step(&[], &chunks)?;
    let mut machine = chips.clocked(mode, &sizes, (&extents, true), None)?;
    let clocked_ns = machine.step(&[], &chunks)?.ns;
    let (requests, layers, table_ns) = (contexts.len(), model.layers, by_tables.ns);
    Ok(Some(Tables { requests, layers, table_ns, clocked_ns }))
}

/// Whether the tokens of a policy run on the machine of `ndp evaluate`.
fn is_exact(args: &Args, policy: Policy, rules: Rules, system: &SystemConfig) -> bool {
    #[cfg(feature = "rtl")]
    return !args.chips.formula && crate::machine::runs(policy, rules.max_batch, system);
    #[cfg(not(feature = "rtl"))]
    {
        let _ = (args, policy, rules, system);
        false
    }
}

/// Error of the interpolation between exact tokens in the median token.
fn median(steps: &HermesSteps<'_>, mut tokens: Steps) -> Result<Option<Interpolated>> {
    tokens.sort_by_key(|&(_, ns)| ns);
    let Some((contexts, _)) = tokens.get(tokens.len() / 2) else { return Ok(None) };
    let requests = contexts.len() as u32;
    let context = contexts.iter().sum::<u32>() / requests.max(1);
    #[cfg(feature = "rtl")]
    let context = context.max(super::tokens::LEAST);
    let Some([interpolated_ns, exact_ns]) = steps.check(requests, context)? else { return Ok(None) };
    let exact = steps.exact_tokens();
    Ok(Some(Interpolated { requests, context, exact, interpolated_ns, exact_ns }))
}

fn hermes(job: &Job<'_>, shape: &LlmShape) -> Result<Outcome> {
    let Job { args, requests, rules, kv_bytes } = *job;
    let HermesArgs { policies, system, config, assume, weights } = &args.dimms;
    let model = weights.map_or(shape.clone(), |weights| shape.clone().with_weights(weights));
    let policies = if policies.is_empty() { vec![Policy::Hermes] } else { policies.clone() };
    let file = system;
    let system = SystemConfig::load(file)?;
    let exact: Vec<Policy> =
        policies.iter().copied().filter(|&policy| is_exact(args, policy, rules, &system)).collect();
    // The machine takes all keys, the formulas do not.
    let ignored: Vec<Ignored> = match exact.len() == policies.len() {
        true => vec![SERVE],
        false => [&COMPARE[..], &[COMPARE_LINKS, SERVE]].concat(),
    };
    crate::ignored::warn("serve", file, &ignored)?;
    let design = DesignConfig::load(config)?;
    let assumptions = Assumptions::chosen(assume, ASSUMED).context("--assume")?;
    let constants = EnergyConstants::load(&design, system.name(), [None; 3])?;
    let costs = RunCosts::new(&design, &constants);
    let dimms = DimmModel::new(&design);
    let machine = Machine { system: &system, assumptions: &assumptions, dimms: &dimms };
    let mut shown = Shown::new(requests, policies.len());
    let (mut entries, mut refused) = (Vec::new(), Vec::new());
    for policy in policies {
        let name = policy.name();
        let mut steps = match HermesSteps::new(machine, policy, &model, &costs, kv_bytes) {
            Ok(steps) => steps,
            Err(error) => {
                refused.push((name, format!("{error:#}")));
                continue;
            }
        };
        #[cfg(feature = "rtl")]
        if exact.contains(&policy) {
            let system = assumptions.on(&system)?;
            let tokens = super::tokens::Tokens {
                design: &design,
                system,
                model: &model,
                policy,
                constants: &constants,
            };
            let contexts = requests.iter().flat_map(|one| [one.input, one.input + one.output]);
            let contexts = contexts.map(|context| context.max(super::tokens::LEAST));
            steps = steps.exactly(Box::new(tokens), contexts);
        }
        let (entry, tokens) = job.entry(name, &mut steps, &mut shown)?;
        entries.push(Entry { interpolated: median(&steps, tokens)?, ..entry });
    }
    drop(shown);
    if let Some((name, reason)) = refused.first().filter(|_| entries.is_empty()) {
        bail!("{name} does not serve {} on '{}': {reason}", model.name(), system.name());
    }
    let on = format!("{}, {} weights", system.name(), model.weights());
    let machine = args.machine;
    Ok(Outcome { machine, model: model.name().to_owned(), on, rules, entries, refused })
}
