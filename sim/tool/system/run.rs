//! One run of a text: its options and its outcome.

use super::args::{LinksChoice, PredictorChoice};
use crate::energy::CoreEnergy;
use crate::figures::classes;
use crate::generate::args::{Args, Job};
use crate::golden::{self, Comparison, verdict_text};
use crate::made;
use crate::prelude::*;
use crate::report::{Summary, listed};
use ndp_files::Result;
use ndp_hermes::predictor::{Confusion, Evaluation, LowRank};
use ndp_hermes::scheduler::{Policy, TokenRecord};
use ndp_model::{GemvBackend, Generation, Model, QuantisationError, SoftwareBackend, generate_tokens};
use ndp_numerics::SerialSteps;
use ndp_sim::gemv::{GemvOptions, MergeFormat};
use ndp_sim::recordings::{Moves, SystemTimeline};
use ndp_sim::system::{
    ActivitySource, Breakdown, EnergyBreakdown, EnergyCosts, FlashSummary, GpuNumerics, Knowledge,
    LinkOptions, LoneCore, OnlinePredictor, Perplexity, Power, PredictedSoftware, ProgramSums, Ran, Setup,
    SystemBackend, SystemOptions, perplexity,
};
use ndp_traces::capture::{Capture, shape_of};
use ndp_traces::{Activity, TokenInfo, TraceFileWriter, TraceHeader};
use serde::Serialize;
use std::time::{Duration, Instant};

/// The data that all runs share.
pub struct Host<'a> {
    pub args: &'a Args,
    pub job: &'a Job,
    pub model: &'a Model,
    /// Quantisation error of the weights; `None` for FP16 weights.
    pub quantisation: Option<QuantisationError>,
    pub prompt_tokens: usize,
    pub config: &'a DesignConfig,
    pub system: &'a SystemConfig,
    /// The model and the activity of another text; `None` if there is neither a GPU nor a trace.
    pub setup: Option<&'a Setup>,
    /// The text computed with exact sums in software.
    pub exact: &'a Generation,
    /// Roofline cycles of a core that computes everything; 0 with a GPU.
    pub work: u64,
    /// Number of cores that are simulated in parallel.
    pub threads: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Choice {
    pub dimms: u32,
    /// The scheduler's policy; `None` for one DIMM without a GPU.
    pub policy: Option<Policy>,
    pub merge: MergeFormat,
}

impl Choice {
    /// A single DIMM without a GPU.
    pub const ALONE: Self = Self { dimms: 1, policy: None, merge: MergeFormat::Exact };
}

#[derive(Clone, Copy, Debug, Serialize)]
pub struct Hits {
    #[serde(flatten)]
    counts: Confusion,
    /// Shares from 0 to 1; `None` if nothing was predicted, or nothing was active.
    pub accuracy: Option<f64>,
    pub precision: Option<f64>,
    pub recall: Option<f64>,
}

impl From<&Confusion> for Hits {
    fn from(counts: &Confusion) -> Self {
        let share = |share: f64| share.is_finite().then_some(share);
        Self {
            counts: *counts,
            accuracy: share(counts.accuracy()),
            precision: share(counts.precision()),
            recall: share(counts.recall()),
        }
    }
}

#[derive(Clone, Debug, Serialize)]
pub struct Predictions {
    pub attention: Hits,
    pub mlp: Hits,
    pub all: Hits,
    /// Hits of each generated token, for both kinds of blocks together.
    pub tokens: Vec<Hits>,
}

impl Predictions {
    fn new(evaluation: &Evaluation, tokens: &[Confusion]) -> Self {
        Self {
            attention: (&evaluation.attention).into(),
            mlp: (&evaluation.mlp).into(),
            all: (&evaluation.all()).into(),
            tokens: tokens.iter().map(Hits::from).collect(),
        }
    }
}

/// Effect of the predictor on a fixed text.
#[derive(Clone, Debug, Serialize)]
pub struct Quality {
    /// File of the text.
    pub text: String,
    pub prompt_tokens: usize,
    pub exact: Perplexity,
    /// Result if the predictor learns only from the computed neurons.
    pub predicted: Perplexity,
    pub predictions: Predictions,
    /// Result if the predictor also learns from the neurons that were not computed.
    pub told: Perplexity,
    pub told_predictions: Predictions,
}

impl Quality {
    /// Rows with the computed neurons, the result, and the quality of the predictions.
    pub fn rows(&self) -> [(&'static str, &Perplexity, Option<&Hits>); 3] {
        [
            ("exact", &self.exact, None),
            ("predicted", &self.predicted, Some(&self.predictions.all)),
            ("predicted, told the others", &self.told, Some(&self.told_predictions.all)),
        ]
    }
}

/// Figures that only a core without a GPU has.
pub struct Core {
    pub throughput: Values,
    pub classes: Values,
    pub energy: CoreEnergy,
}

impl Core {
    fn new(args: &Args, core: &mut LoneCore) -> anyhow::Result<Self> {
        Ok(Self {
            throughput: Summary::new(core).throughput(),
            classes: classes(core.classes()),
            energy: CoreEnergy::new(&args.unit.energy, core)?,
        })
    }
}

pub struct Outcome {
    pub choice: Choice,
    pub generation: Generation,
    /// Figures and records of all devices.
    pub ran: Ran,
    /// Sums over all programs, with the prompt.
    pub sums: ProgramSums,
    pub core: Option<Core>,
    /// Time of the generated tokens by device and cause.
    pub breakdown: Breakdown,
    pub energy: EnergyBreakdown,
    pub power: Vec<Power>,
    /// Each token after the prompt, by the time model of the scheduler.
    pub records: Vec<TokenRecord>,
    /// Activity of each token, prompt included; empty unless there is a trace to write.
    pub activities: Vec<Activity>,
    pub predictions: Option<Predictions>,
    pub quality: Option<Quality>,
    pub golden: Option<Comparison>,
    pub wall: Duration,
    pub failure: Option<String>,
    /// First token whose value or logits differ from exact sums in software.
    pub difference: Option<usize>,
    /// Whether all tokens equal those of exact sums in software.
    pub same_text: bool,
    bus_gbps: f64,
}

impl Outcome {
    /// Whether there is no mismatch, no broken rule, no difference from the cycle model, and, if everything is exact,
    /// no difference from the text of exact sums.
    pub fn is_sound(&self) -> bool {
        self.failure.is_none()
            && self.ran.figures.mismatches == 0
            && self.ran.violations == 0
            && self.ran.backdoor_accesses == 0
            && self.is_on_time()
            && (!self.must_be_exact() || self.difference.is_none())
            && self.golden.as_ref().is_none_or(|golden| !self.must_be_exact() || golden.agrees())
    }

    /// Use of the SSD; `None` without a flash tier.
    pub fn flash(&self) -> Option<FlashSummary> {
        FlashSummary::new(self.ran.figures.flash.as_ref(), &self.breakdown)
    }

    pub fn is_on_time(&self) -> bool {
        self.ran.figures.dimms.iter().all(|dimm| dimm.cycles == dimm.model_cycles)
    }

    fn must_be_exact(&self) -> bool {
        self.predictions.is_none() && self.ran.figures.differences.compared == 0
    }

    /// Moved neurons of each token.
    pub fn moves(&self) -> Vec<Moves> {
        if self.ran.figures.links.is_some() {
            // These moves are among the events.
            return Vec::new();
        }
        let positions = self.ran.figures.tokens.iter().map(|token| token.position);
        let moves = |(position, record): (usize, &TokenRecord)| Moves {
            position,
            uploads: record.uploads,
            upload_bytes: record.upload_bytes,
            upload_ns: (record.upload_bytes as f64 / self.bus_gbps).ceil() as u64,
            migrations: record.migrations,
            migration_bytes: record.migration_bytes,
            migration_ns: (record.link_us * 1e3).ceil() as u64,
        };
        positions.zip(&self.records).map(moves).collect()
    }

    /// Writes the profiled text and this one as a trace.
    pub fn write_trace(&self, host: &Host<'_>, path: &Path) -> anyhow::Result<()> {
        let Some(Setup { shape, profile, .. }) = host.setup else { return Ok(()) };
        let prompt = host.prompt_tokens as u64;
        let tokens = (profile.len() + self.activities.len()) as u64;
        let header = TraceHeader {
            sequences: 2,
            seed: host.job.options.seed,
            source: match self.choice.policy {
                None => "generate: one DIMM without a GPU".to_owned(),
                Some(policy) => format!("generate: {} DIMM(s), policy {policy}", self.choice.dimms),
            },
            ..TraceHeader::new(shape, tokens, 2 * prompt)
        };
        let mut writer = TraceFileWriter::create(path, header)?;
        for text in [profile, &self.activities] {
            for (position, activity) in (0..).zip(text) {
                writer.write(TokenInfo::at(position, prompt), activity)?;
            }
        }
        writer.finish()
    }

    pub fn timeline<'a>(&'a self, host: &'a Host<'_>, moves: &'a [Moves]) -> SystemTimeline<'a> {
        SystemTimeline {
            name: host.config.name(),
            core_ps: host.config.core().clock_ps(),
            dimms: self.choice.dimms,
            events: &self.ran.events,
            path: &self.breakdown.path,
            moves,
            power: &self.power,
        }
    }

    /// Sum over all tokens after the prompt.
    pub fn sum(&self, value: fn(&TokenRecord) -> u64) -> u64 {
        self.records.iter().map(value).sum()
    }

    /// Core cycles, and time of the system in ns, per pass after the prompt; `None` without such a pass.
    pub fn per_token(&self) -> Option<(f64, f64)> {
        let (tokens, cycles, ns) = self.ran.figures.generated();
        (tokens > 0).then(|| (cycles as f64 / tokens as f64, ns as f64 / tokens as f64))
    }

    /// Failures of the run, one line each.
    pub fn failures(&self, host: &Host<'_>) -> Vec<String> {
        let seed = host.job.options.seed;
        let mut all: Vec<String> = Vec::new();
        if self.is_sound() {
            return all;
        }
        let mismatches = &self.ran.mismatches;
        all.extend(listed(mismatches.iter(), mismatches.len() as u64, seed));
        if self.ran.backdoor_accesses > 0 {
            let bursts = self.ran.backdoor_accesses;
            all.push(format!("VIOLATION {bursts} bursts of DRAM were accessed by backdoor; seed {seed}"));
        }
        if self.ran.violations > 0 {
            let rules = self.ran.violations;
            all.push(format!("VIOLATION {rules} rules of DRAM timing were broken; seed {seed}"));
        }
        for (index, dimm) in self.ran.figures.dimms.iter().enumerate() {
            if dimm.cycles != dimm.model_cycles {
                all.push(format!(
                    "MISMATCH cycles of DIMM {index}: expected {} by the cycle model, actual {}; seed {seed}",
                    dimm.model_cycles, dimm.cycles
                ));
            }
        }
        if let (Some(at), true, true) = (self.difference, self.must_be_exact(), self.failure.is_none()) {
            all.push(format!(
                "MISMATCH text or logits: expected those of exact sums, different from token {at} on; seed {seed}"
            ));
        }
        if let Some(golden) = self.golden.as_ref().filter(|golden| self.must_be_exact() && !golden.agrees()) {
            all.push(format!("MISMATCH {}; seed {seed}", verdict_text(Some(golden))));
        }
        all
    }
}

/// Refuses unusable options of links.
pub fn check_links(args: &Args) -> anyhow::Result<()> {
    let most = ndp_sim::cluster::lockstep::MOST as u32;
    if args.links == LinksChoice::Bandwidth {
        ensure!(
            args.ber == 0.0,
            "--ber {} needs --links rtl: without simulated links there are no bit errors",
            args.ber
        );
        if let Some(fault) = args.faults.first() {
            bail!("--fault {fault} needs --links rtl: without simulated links there are no faults");
        }
        return Ok(());
    }
    if let Some(dimms) = args.dimms.iter().find(|dimms| **dimms > most) {
        bail!("--dimms {dimms} needs --links bandwidth: bridges have links for {most} DIMMs at most");
    }
    for fault in &args.faults {
        if let Some(dimms) = args.dimms.iter().find(|dimms| fault.dimm >= **dimms as usize || **dimms < 2) {
            bail!(
                "--fault {fault} names the link of DIMM {}, but the system has only {dimms} DIMM(s), numbered from 0",
                fault.dimm
            );
        }
    }
    Ok(())
}

/// Result of a system that has stopped.
struct Ended {
    text: Text,
    ran: Ran,
    core: Option<Core>,
    records: Vec<TokenRecord>,
    predictions: Option<Predictions>,
}

/// Simulates one choice. Calls `show` with each token as soon as it is known.
pub fn simulate(host: &Host<'_>, choice: Choice, show: impl FnMut(u32)) -> anyhow::Result<Outcome> {
    let Host { args, job, config, exact, .. } = *host;
    let options = &job.options;
    let begin = Instant::now();
    let recorded_products = if args.records.commands.is_some() { args.timeline_products } else { 0 };
    let mut unit = GemvOptions {
        log_instructions: args.records.timeline.is_some(),
        recorded_products,
        recorded_from: args.shown_program,
        ..args.unit.options(options.seed)
    };
    unit.core.predict = true;
    let system = host.system.clone().with_dimms(choice.dimms)?;
    let constants = args.unit.energy.constants(config, system.name())?;
    let costs = EnergyCosts::new(config, &system, &constants);
    let (costs, ended) = match choice.policy {
        None => (costs.without_gpu(), alone(host, &system, &unit, show)?),
        Some(policy) => (costs, beside_gpu(host, (&system, choice, policy), &unit, show)?),
    };
    let Ended { text: (generation, failure, activities), ran, core, records, predictions } = ended;
    let pairs = |generation: &Generation| -> Vec<(u32, u64)> {
        generation.tokens.iter().copied().zip(generation.logits_digests.iter().copied()).collect()
    };
    let (own, expected) = (pairs(&generation), pairs(exact));
    let difference = (0..expected.len()).find(|&index| own.get(index) != Some(&expected[index]));
    // The stored texts were computed with full significands.
    let comparable = failure.is_none() && config.gemv().serial_steps() == SerialSteps::FULL.get();
    let stored = match job.stored_as.filter(|_| comparable) {
        Some(model) => golden::find((model, args.weights), &job.prompt, options)?,
        None => None,
    };
    Ok(Outcome {
        choice,
        sums: ProgramSums::of(&ran.events),
        breakdown: Breakdown::new(&ran.figures, &ran.events),
        energy: EnergyBreakdown::new(&costs, &ran.figures, &ran.events),
        power: costs.power(&ran.events),
        ran,
        core,
        records,
        activities,
        predictions,
        quality: None,
        golden: stored.map(|(file, golden)| golden::compare(&file, &golden, &generation)),
        generation,
        wall: begin.elapsed(),
        failure,
        difference,
        same_text: own.len() == expected.len()
            && own.iter().zip(&expected).all(|(own, expected)| own.0 == expected.0),
        bus_gbps: system.bus().bandwidth_gbps,
    })
}

/// Runs the text on one DIMM without a GPU.
fn alone(
    host: &Host<'_>,
    system: &SystemConfig,
    unit: &GemvOptions,
    show: impl FnMut(u32),
) -> anyhow::Result<Ended> {
    let core = LoneCore::open_in(system, host.config, unit)?
        .with_neurons(host.args.neurons)
        .with_prompt(host.prompt_tokens);
    let (mut core, decoded) = Decoded::new(host, core, |_| {}, show);
    let closed = core.unit_mut().close_waves();
    let text = decoded.text(host, core.figures().mismatches)?;
    closed?;
    let figures = Core::new(host.args, &mut core)?;
    Ok(Ended { text, ran: core.into_ran(), core: Some(figures), records: Vec::new(), predictions: None })
}

/// Runs the text on DIMMs next to a GPU.
fn beside_gpu(
    host: &Host<'_>,
    (system, choice, policy): (&SystemConfig, Choice, Policy),
    unit: &GemvOptions,
    show: impl FnMut(u32),
) -> anyhow::Result<Ended> {
    let Host { args, job, model, prompt_tokens, config, threads, .. } = *host;
    let seed = job.options.seed;
    let setup = host.setup.context("a system with a GPU needs a profile")?;
    let system = system.clone().with_gpu_percent(&setup.shape, args.gpu_percent)?;
    let flash = args.flash.options();
    let placed = flash.map_or_else(|| system.clone(), |flash| flash.for_placement(&system, &setup.shape));
    let online = setup
        .online(config, &placed, policy, (prompt_tokens, seed))
        .with_context(|| format!("cannot place the neurons{}", args.placement.context()))?;
    let asked = SystemOptions {
        threads,
        prompt_on_gpu: prompt_tokens,
        gpu_numerics: args.gpu_numerics,
        merge: choice.merge,
        load: args.load,
        activity: args.activity,
        flash,
        observed_dimm: args.shown_dimm as usize,
        ..SystemOptions::new(&system)
    };
    let mut backend = SystemBackend::open(config, unit, &asked, online.clone(), model)?;
    if args.links == LinksChoice::Rtl && choice.dimms > 1 {
        let links = LinkOptions { ber: args.ber, faults: args.faults.clone(), seed };
        backend = backend.with_links(&links)?;
    }
    if args.activity == ActivitySource::Predicted {
        backend = backend.with_predictor(live_predictor(host, setup, prompt_tokens)?)?;
    }
    let mut failed = None;
    let learn = |activity: &Activity| {
        if let Err(error) = online.token(activity) {
            failed.get_or_insert(error);
        }
    };
    let (mut backend, decoded) = Decoded::new(host, backend, learn, show);
    let counted = if decoded.generation.is_ok() { backend.count_links() } else { Ok(()) };
    let closed = backend.close_waves();
    let text = decoded.text(host, backend.figures().mismatches)?;
    closed?;
    counted?;
    if let Some(error) = failed {
        return Err(error);
    }
    let predictions = backend.live().map(|live| Predictions::new(live.evaluation(), live.tokens()));
    Ok(Ended { text, ran: backend.into_ran(), core: None, records: online.records(), predictions })
}

/// A text up to its end, the reason of an early end, and the active neurons of each token if there is a trace to
/// write.
type Text = (Generation, Option<String>, Vec<Activity>);

/// The result of the decoder before it is known whether an error is a mismatch.
struct Decoded {
    generation: Result<Generation>,
    /// Tokens and digests of their logits, up to an error.
    tokens: Vec<(u32, u64)>,
    activities: Vec<Activity>,
}

impl Decoded {
    /// Calls `learn` with the activity of each token, and `show` with each token.
    fn new<B: GemvBackend>(
        host: &Host<'_>,
        backend: B,
        mut learn: impl FnMut(&Activity),
        mut show: impl FnMut(u32),
    ) -> (B, Self) {
        let Host { args, job, model, .. } = *host;
        let (mut tokens, mut activities) = (Vec::new(), Vec::new());
        let mut backend = Capture::new(backend, shape_of(&model.config), |activity| {
            if args.trace.is_some() {
                activities.push(activity.clone());
            }
            learn(activity);
            Ok(())
        });
        let generation = generate_tokens(model, &mut backend, &job.prompt_ids, &job.options, |token| {
            tokens.push((token.token, token.logits_digest));
            show(token.token);
        });
        let backend = backend.into_inner();
        (backend, Self { generation, tokens, activities })
    }

    /// An error after a mismatch counts as a failure of the run, and the text ends there.
    fn text(self, host: &Host<'_>, mismatches: u64) -> anyhow::Result<Text> {
        let Self { generation, tokens, activities } = self;
        let error = match generation {
            Ok(generation) => return Ok((generation, None, activities)),
            Err(error) => error,
        };
        if mismatches == 0 {
            let context = format!("seed {}, rerun: {}", host.job.options.seed, made::rerun());
            return Err(error).context(context);
        }
        let (tokens, logits_digests): (Vec<u32>, Vec<u64>) = tokens.into_iter().unzip();
        let vocabulary = &host.model.vocabulary;
        let text = vocabulary.continuation(&host.job.prompt_ids, &tokens)?;
        let generation = Generation { tokens, text, logits_digests, sparsity: Vec::new() };
        Ok((generation, Some(format!("{:#}", error)), activities))
    }
}

/// Effect of the live predictor, if it is used, on the stored text of the default prompt. The text runs token by
/// token in software, with all active neurons and with the predicted ones.
pub fn quality(host: &Host<'_>) -> anyhow::Result<Option<Quality>> {
    if host.args.activity != ActivitySource::Predicted {
        return Ok(None);
    }
    let file = if host.job.stored_as == Some("golden/model-llama") { "llama-default" } else { "default" };
    let path = workspace_path(&format!("golden/generate/{file}.json"));
    let golden = golden::read(&path)?;
    let text = golden.text_with_prompt.as_bytes();
    let prompt_tokens = host.model.vocabulary.tokens(golden.prompt.as_bytes())?.len();
    let cannot = || format!("cannot run the text of {}", path.display());
    let exact =
        perplexity(host.model, &mut SoftwareBackend::new(), text, prompt_tokens).with_context(cannot)?;
    let setup = host.setup.context("a predictor needs a profile")?;
    let live = live_predictor(host, setup, prompt_tokens)?;
    let with = |knowledge| -> anyhow::Result<(Perplexity, Predictions)> {
        let mut software = PredictedSoftware::new(live.clone().with_knowledge(knowledge));
        let found = perplexity(host.model, &mut software, text, prompt_tokens).with_context(cannot)?;
        let live = software.live();
        Ok((found, Predictions::new(live.evaluation(), live.tokens())))
    };
    let (predicted, predictions) = with(Knowledge::Computed)?;
    let (told, told_predictions) = with(Knowledge::Everything)?;
    let text = path.display().to_string();
    Ok(Some(Quality { text, prompt_tokens, exact, predicted, predictions, told, told_predictions }))
}

fn live_predictor(host: &Host<'_>, setup: &Setup, prompt_tokens: usize) -> anyhow::Result<OnlinePredictor> {
    let shape = shape_of(&host.model.config);
    Ok(match host.args.predictor {
        PredictorChoice::Hermes => OnlinePredictor::new(&shape, &setup.profile, prompt_tokens)?,
        PredictorChoice::LowRank => {
            let model = &host.job.model;
            // A GGUF file has its predictor beside it.
            let folder = if model.is_file() { model.parent().unwrap_or(model) } else { model };
            let path = folder.join("predictor.safetensors");
            OnlinePredictor::of_low_rank(&shape, LowRank::load(&path, &shape)?, prompt_tokens)
        }
    })
}

/// Whether neither the GPU's numerics nor the merge format allow differences from exact sums.
pub fn is_exact(host: &Host<'_>, choice: Choice) -> bool {
    host.args.gpu_numerics == GpuNumerics::Exact && choice.merge == MergeFormat::Exact
}
