//! One run of a system: what it is asked for, and what comes of it.

use super::args::{LinksChoice, PredictorChoice};
use crate::generate::args::{Args, Job};
use crate::golden::{self, Comparison, verdict_text};
use crate::made;
use crate::tools::workspace_path;
use anyhow::Context;
use ndp_config::{DesignConfig, SystemConfig};
use ndp_model::{Generation, Model, SoftwareBackend, generate};
use ndp_predictor::{Confusion, Evaluation, LowRank};
use ndp_scheduler::{Policy, TokenRecord};
use ndp_sim::core::Recording;
use ndp_sim::error::Mismatch;
use ndp_sim::gemv::{GemvOptions, MergeFormat};
use ndp_sim::recordings::{Moves, SystemTimeline};
use ndp_sim::system::{
    ActivitySource, Breakdown, EnergyBreakdown, EnergyCosts, Event, FlashSummary, GpuNumerics, Knowledge,
    LinkOptions, LivePredictor, Perplexity, Power, PredictedSoftware, Setup, SystemBackend, SystemFigures,
    SystemOptions, perplexity,
};
use ndp_traces::capture::{Capture, shape_of};
use ndp_traces::{Activity, TokenInfo, TraceFileWriter, TraceHeader};
use serde::Serialize;
use std::path::Path;
use std::time::{Duration, Instant};

/// Mismatches that are listed; the rest is only counted.
const LISTED: usize = 16;

/// What all runs have in common.
pub struct Host<'a> {
    pub args: &'a Args,
    pub job: &'a Job,
    pub model: &'a Model,
    /// Tokens of the prompt.
    pub prompt_tokens: usize,
    pub config: &'a DesignConfig,
    pub system: &'a SystemConfig,
    pub setup: &'a Setup,
    /// The text by exact sums in software.
    pub exact: &'a Generation,
    /// Cores that are simulated at the same time.
    pub threads: usize,
}

/// What distinguishes a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Choice {
    pub dimms: u32,
    pub policy: Policy,
    pub merge: MergeFormat,
}

/// How often predictions were right.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Hits {
    pub true_positives: u64,
    pub false_positives: u64,
    pub false_negatives: u64,
    pub true_negatives: u64,
    /// Shares, 0 to 1; none if nothing was predicted, or nothing active.
    pub accuracy: Option<f64>,
    pub precision: Option<f64>,
    pub recall: Option<f64>,
}

impl From<&Confusion> for Hits {
    fn from(counts: &Confusion) -> Self {
        let share = |share: f64| share.is_finite().then_some(share);
        Self {
            true_positives: counts.true_positives,
            false_positives: counts.false_positives,
            false_negatives: counts.false_negatives,
            true_negatives: counts.true_negatives,
            accuracy: share(counts.accuracy()),
            precision: share(counts.precision()),
            recall: share(counts.recall()),
        }
    }
}

/// What the predictor did.
#[derive(Clone, Debug, Serialize)]
pub struct Predictions {
    pub attention: Hits,
    pub mlp: Hits,
    pub all: Hits,
    /// Each generated token's, both kinds of blocks together.
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

/// What the predictor does to a fixed text.
#[derive(Clone, Debug, Serialize)]
pub struct Quality {
    /// The file that the text is from.
    pub text: String,
    /// Tokens of its prompt.
    pub prompt_tokens: usize,
    /// All neurons that are active.
    pub exact: Perplexity,
    /// Those that are predicted by what the machine knows, and how good predictions were.
    pub predicted: Perplexity,
    pub predictions: Predictions,
    /// The same, were the predictor told of the neurons that were not computed too.
    pub told: Perplexity,
    pub told_predictions: Predictions,
}

impl Quality {
    /// Which neurons were computed, what came of it, and how good predictions were.
    pub fn rows(&self) -> [(&'static str, &Perplexity, Option<&Hits>); 3] {
        [
            ("exact", &self.exact, None),
            ("predicted", &self.predicted, Some(&self.predictions.all)),
            ("predicted, told the others", &self.told, Some(&self.told_predictions.all)),
        ]
    }
}

/// What came of a run.
pub struct Outcome {
    pub choice: Choice,
    pub generation: Generation,
    pub figures: SystemFigures,
    pub events: Vec<Event>,
    /// Where the time of the generated tokens went.
    pub breakdown: Breakdown,
    /// Where their energy went.
    pub energy: EnergyBreakdown,
    /// What devices drew.
    pub power: Vec<Power>,
    /// What the scheduler's time model says of each token behind the prompt.
    pub records: Vec<TokenRecord>,
    pub violations: u64,
    /// What was active in each token, the prompt's included.
    pub activities: Vec<Activity>,
    /// Bursts that were read or written by backdoor access after loading.
    pub backdoor_accesses: u64,
    pub mismatches: Vec<Mismatch>,
    pub predictions: Option<Predictions>,
    pub quality: Option<Quality>,
    pub golden: Option<Comparison>,
    pub recording: Option<Recording>,
    pub flip_is_pending: bool,
    pub wall: Duration,
    /// Why it ended early.
    pub failure: Option<String>,
    /// First token whose value or logits are not those of exact sums in software.
    pub difference: Option<usize>,
    /// Whether all tokens are the same nevertheless.
    pub same_text: bool,
    /// Whether the cycle model was asked.
    pub predicted: bool,
    bus_gbps: f64,
}

impl Outcome {
    /// Whether the hardware did what it should: no mismatch, no broken rule, no cycle apart from the model, and, if everything is exact, the
    /// text of exact sums.
    pub fn is_sound(&self) -> bool {
        self.failure.is_none()
            && self.figures.mismatches == 0
            && self.violations == 0
            && self.backdoor_accesses == 0
            && self.is_on_time()
            && (!self.must_be_exact() || self.difference.is_none())
            && self.golden.as_ref().is_none_or(|golden| !self.must_be_exact() || golden.agrees())
    }

    /// What came from the SSD, if the DIMMs do not hold all neurons.
    pub fn flash(&self) -> Option<FlashSummary> {
        FlashSummary::new(self.figures.flash.as_ref(), &self.breakdown)
    }

    /// Whether every core takes the cycles that the cycle model says.
    pub fn is_on_time(&self) -> bool {
        !self.predicted || self.figures.dimms.iter().all(|dimm| dimm.cycles == dimm.model_cycles)
    }

    fn must_be_exact(&self) -> bool {
        self.predictions.is_none() && self.figures.differences.compared == 0
    }

    /// Neurons that were moved, token by token.
    pub fn moves(&self) -> Vec<Moves> {
        if self.figures.links.is_some() {
            // They are among the events.
            return Vec::new();
        }
        let positions = self.figures.tokens.iter().map(|token| token.position);
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

    /// Writes the activity of the profiled text and of this one as a trace.
    pub fn write_trace(&self, host: &Host<'_>, path: &Path) -> anyhow::Result<()> {
        let (profile, prompt) = (&host.setup.profile, host.prompt_tokens as u64);
        let tokens = (profile.len() + self.activities.len()) as u64;
        let header = TraceHeader {
            sequences: 2,
            seed: host.job.options.seed,
            source: format!("generate: {} DIMM(s), policy {}", self.choice.dimms, self.choice.policy),
            ..TraceHeader::new(&host.setup.shape, tokens, 2 * prompt)
        };
        let mut writer = TraceFileWriter::create(path, header)?;
        for text in [profile, &self.activities] {
            for (position, activity) in (0..).zip(text) {
                writer.write(TokenInfo::at(position, prompt), activity)?;
            }
        }
        Ok(writer.finish()?)
    }

    /// The timeline.
    pub fn timeline<'a>(&'a self, host: &'a Host<'_>, moves: &'a [Moves]) -> SystemTimeline<'a> {
        SystemTimeline {
            name: host.config.name(),
            core_ps: host.config.core().clock_ps(),
            dimms: self.choice.dimms,
            events: &self.events,
            path: &self.breakdown.path,
            moves,
            power: &self.power,
        }
    }

    /// A sum over all tokens behind the prompt.
    pub fn sum(&self, value: fn(&TokenRecord) -> u64) -> u64 {
        self.records.iter().map(value).sum()
    }

    /// Core cycles, and nanoseconds of the whole system, for each pass after the prompt; none without such a pass.
    pub fn per_token(&self) -> Option<(f64, f64)> {
        let (tokens, cycles, ns) = self.figures.generated();
        (tokens > 0).then(|| (cycles as f64 / tokens as f64, ns as f64 / tokens as f64))
    }

    /// What went wrong, a line each.
    pub fn failures(&self, host: &Host<'_>) -> Vec<String> {
        let seed = host.job.options.seed;
        let mut all: Vec<String> = Vec::new();
        if self.is_sound() {
            return all;
        }
        all.extend(
            self.mismatches.iter().take(LISTED).map(|mismatch| format!("MISMATCH {mismatch}; seed {seed}")),
        );
        if self.mismatches.len() > LISTED {
            all.push(format!("and {} more", self.mismatches.len() - LISTED));
        }
        if self.backdoor_accesses > 0 {
            let bursts = self.backdoor_accesses;
            all.push(format!("VIOLATION {bursts} bursts of DRAM were accessed by backdoor; seed {seed}"));
        }
        if self.violations > 0 {
            let rules = self.violations;
            all.push(format!("VIOLATION {rules} rules of DRAM timing were broken; seed {seed}"));
        }
        for (index, dimm) in self.figures.dimms.iter().enumerate() {
            if self.predicted && dimm.cycles != dimm.model_cycles {
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

/// What is wrong with the options of links, if anything is.
pub fn check_links(args: &Args) -> anyhow::Result<()> {
    let most = ndp_sim::cluster::lockstep::MOST as u32;
    if args.links == LinksChoice::Bandwidth {
        ensure!(args.ber == 0.0, "--ber {} needs --links rtl: without links there are no errors", args.ber);
        if let Some(fault) = args.faults.first() {
            bail!("--fault {fault} needs --links rtl: without links nothing can go wrong with them");
        }
        return Ok(());
    }
    if let Some(dimms) = args.dimms.iter().find(|dimms| **dimms > most) {
        bail!("--dimms {dimms} needs --links bandwidth: bridges have links for {most} DIMMs at most");
    }
    for fault in &args.faults {
        if let Some(dimms) = args.dimms.iter().find(|dimms| fault.dimm >= **dimms as usize || **dimms < 2) {
            bail!("--fault {fault} is of the link of DIMM {}, and {dimms} DIMM(s) are asked for", fault.dimm);
        }
    }
    Ok(())
}

/// Generates the text; `show` gets each token as it is known.
pub fn simulate(host: &Host<'_>, choice: Choice, mut show: impl FnMut(u32)) -> anyhow::Result<Outcome> {
    let Host { args, job, model, prompt_tokens, config, setup, exact, threads, .. } = *host;
    let (prompt, options) = (&job.prompt, &job.options);
    let begin = Instant::now();
    let system =
        host.system.clone().with_dimms(choice.dimms)?.with_gpu_percent(&setup.shape, args.gpu_percent)?;
    let flash = args.flash.options();
    let placed = flash.map_or_else(|| system.clone(), |flash| flash.for_placement(&system, &setup.shape));
    let online = setup
        .online(config, &placed, choice.policy, (prompt_tokens, options.seed))
        .with_context(|| format!("cannot place the neurons{}", args.placement.context()))?;
    let recorded_products = if args.records.commands.is_some() { args.timeline_products } else { 0 };
    let linked = args.links == LinksChoice::Rtl && choice.dimms > 1;
    let unit = GemvOptions {
        predict: true,
        log_instructions: args.records.timeline.is_some(),
        recorded_products,
        recorded_from: args.shown_program,
        ..args.unit.options(options.seed)
    };
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
    let constants = args.unit.energy.constants(config, system.name())?;
    let costs = EnergyCosts::new(config, &system, &constants);
    let mut backend = SystemBackend::open(config, &unit, &asked, online.clone(), model)?;
    if linked {
        let links = LinkOptions { ber: args.ber, faults: args.faults.clone(), seed: options.seed };
        backend = backend.with_links(&links)?;
    }
    if args.activity == ActivitySource::Predicted {
        backend = backend.with_predictor(live_predictor(host, prompt_tokens)?)?;
    }
    let (mut failed, mut activities) = (None, Vec::new());
    let mut backend = Capture::new(backend, shape_of(&model.config), |activity| {
        if args.trace.is_some() {
            activities.push(activity.clone());
        }
        if let Err(error) = online.token(activity) {
            failed.get_or_insert(error);
        }
        Ok(())
    });
    let mut tokens = Vec::new();
    let generation = generate(model, &mut backend, prompt.as_bytes(), options, |token| {
        tokens.push((token.token, token.logits_digest));
        show(token.token);
    });
    let mut backend = backend.into_inner();
    let counted = if generation.is_ok() { backend.count_links() } else { Ok(()) };
    let recording = backend.take_recording();
    let closed = backend.close_waves();
    let (generation, failure) = match generation {
        Ok(generation) => (generation, None),
        // What was found up to there is still of interest.
        Err(error) if backend.figures().mismatches > 0 => {
            let (tokens, logits_digests): (Vec<u32>, Vec<u64>) = tokens.into_iter().unzip();
            let bytes: Vec<u8> = tokens.iter().map(|&token| token as u8).collect();
            let text = String::from_utf8_lossy(&bytes).into_owned();
            let generation = Generation { tokens, text, logits_digests, sparsity: Vec::new() };
            (generation, Some(format!("{:#}", anyhow::Error::from(error))))
        }
        Err(error) => {
            let context = format!("seed {}, rerun: {}", options.seed, made::rerun());
            return Err(error).context(context);
        }
    };
    closed?;
    counted?;
    if let Some(error) = failed {
        return Err(error.into());
    }
    let pairs = |generation: &Generation| -> Vec<(u32, u64)> {
        generation.tokens.iter().copied().zip(generation.logits_digests.iter().copied()).collect()
    };
    let (own, expected) = (pairs(&generation), pairs(exact));
    let difference = (0..expected.len()).find(|&index| own.get(index) != Some(&expected[index]));
    let stored = match job.stored_as.filter(|_| failure.is_none()) {
        Some(model) => golden::find(
            (model, args.weights),
            prompt,
            options.temperature_percent,
            options.seed,
            options.tokens,
        )?,
        None => None,
    };
    Ok(Outcome {
        choice,
        figures: backend.figures().clone(),
        events: backend.events().to_vec(),
        breakdown: Breakdown::new(backend.figures(), backend.events()),
        energy: EnergyBreakdown::new(&costs, backend.figures(), backend.events()),
        power: costs.power(backend.events()),
        records: online.records(),
        activities,
        violations: backend.protocol_violations(),
        backdoor_accesses: backend.backdoor_accesses(),
        mismatches: backend.mismatches().to_vec(),
        predictions: backend.live().map(|live| Predictions::new(live.evaluation(), live.tokens())),
        quality: None,
        golden: stored.map(|(file, golden)| golden::compare(&file, &golden, &generation)),
        generation,
        recording,
        flip_is_pending: args.unit.flip.is_some() && backend.flip_is_pending(),
        wall: begin.elapsed(),
        failure,
        difference,
        same_text: own.len() == expected.len()
            && own.iter().zip(&expected).all(|(own, expected)| own.0 == expected.0),
        predicted: unit.predict,
        bus_gbps: system.bus().bandwidth_gbps,
    })
}

/// What the live predictor does to the text that `golden/generate` has for the default prompt, if the predictor is asked for: the text is
/// run token by token, in software, once with all active neurons and once with those that are predicted.
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
    let live = live_predictor(host, prompt_tokens)?;
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

/// The predictor that is asked for.
fn live_predictor(host: &Host<'_>, prompt_tokens: usize) -> anyhow::Result<LivePredictor> {
    let shape = shape_of(&host.model.config);
    Ok(match host.args.predictor {
        PredictorChoice::Hermes => LivePredictor::new(&shape, &host.setup.profile, prompt_tokens)?,
        PredictorChoice::LowRank => {
            let path = host.job.model.join("predictor.safetensors");
            LivePredictor::of_low_rank(&shape, LowRank::load(&path, &shape)?, prompt_tokens)
        }
    })
}

/// Whether the GPU's numbers or the form of partial results let results differ from exact sums.
pub fn is_exact(host: &Host<'_>, choice: Choice) -> bool {
    host.args.gpu_numerics == GpuNumerics::Exact && choice.merge == MergeFormat::Exact
}
