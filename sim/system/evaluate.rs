//! One trace, all policies: the figures of Hermes' sections III, IV-C and V-C from a single pass.
//!
//! The last sequence of the trace is the text to generate, or the last ones are a batch; their prompts set the
//! predictor's states. The sequences before them are the offline profile, for placement and the table of parents.
//! Without such sequences the prompts are the profile. The host sees the union of a batch's active neurons.
//!
//! Each policy has a system of its own: a text's [`SystemBackend`] without data, where the same host gives modelled
//! cores the same programs ([`TracedText`]).

use super::backend::{ActivitySource, SystemBackend, SystemOptions};
use super::causes::Breakdown;
use super::energy::{EnergyBreakdown, EnergyCosts};
use super::event_log::Operation;
use super::figures::TokenFigures;
use super::flash::{FlashOptions, FlashSummary};
use super::links::LinkOptions;
use super::online_predictor::{OnlinePredictor, states_of};
use super::online_scheduler::{Known, OnlineScheduler, OnlineStart};
use super::text::TracedText;
use crate::gemv::{Estimated, GemvOptions, MergeFormat};
use ndp_config::{BlockKind, DesignConfig, LlmShape, SystemConfig, WeightFormat};
use ndp_energy::EnergyConstants;
use ndp_files::{Result, bail, ensure};
use ndp_hermes::placement::{Certificate, Instance, Options, Placement, place_structured};
use ndp_hermes::predictor::{Confusion, LayerTable, NeuronStates, Predictor, PredictorKind, PredictorRules};
use ndp_hermes::scheduler::session::WindowBalance;
use ndp_hermes::scheduler::{Policy, TokenRecord};
use ndp_traces::stats::Similarity;
use ndp_traces::{Activity, Counted, NeuronShape, Phase, Profile, TokenInfo, TraceSource};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

#[derive(Clone, Debug)]
pub struct EvaluateOptions {
    /// Policies in the order of the report.
    pub policies: Vec<Policy>,
    /// Most tokens of the profile from which parents are sampled; each takes memory for its bits.
    pub table_tokens: usize,
    /// Tokens per window of remapping.
    pub window: u32,
    pub seed: u64,
    pub rules: PredictorRules,
    pub activity: ActivitySource,
    pub merge: MergeFormat,
    /// Whether links are modelled; else their times follow from their bandwidth.
    pub linked: bool,
    /// Cores modelled in parallel; affects wall-clock time only.
    pub threads: usize,
    /// Tokens of the prompt before the traced ones. They have keys and values; the predictor does not see them.
    pub earlier: usize,
    /// Positions of the caches; by default the text's.
    pub positions: Option<usize>,
    /// Texts that run together.
    pub batch: u32,
    /// Most tokens to generate for each text.
    pub tokens: Option<u64>,
    /// Run this number of them, spread evenly over the text, and interpolate between them.
    pub exact: Option<u64>,
    /// Estimate the cycles of programs like those that ran before.
    pub fast: bool,
    pub flash: Option<FlashOptions>,
    /// Constants of energy; `None` counts none.
    pub energy: Option<EnergyConstants>,
    /// First placement of all policies except the random one; by default the offline method's.
    pub placement: Option<Placement>,
}

impl Default for EvaluateOptions {
    fn default() -> Self {
        Self {
            policies: Policy::ALL.to_vec(),
            table_tokens: 512,
            window: ndp_hermes::scheduler::WINDOW_TOKENS,
            seed: 1,
            rules: PredictorRules::default(),
            activity: ActivitySource::Causal,
            merge: MergeFormat::Exact,
            linked: true,
            threads: 1,
            earlier: 0,
            positions: None,
            batch: 1,
            tokens: None,
            exact: None,
            fast: false,
            flash: None,
            energy: None,
            placement: None,
        }
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct PredictorResult {
    pub name: &'static str,
    pub accuracy: f64,
    /// [`Confusion::precision`] of all blocks.
    pub precision: f64,
    /// [`Confusion::recall`] of all blocks.
    pub recall: f64,
    pub attention: Confusion,
    pub mlp: Confusion,
    pub tokens: Vec<f64>,
    pub token_recall: Vec<f64>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PolicyResult {
    pub policy: Policy,
    /// Mean time of a token of each text in us.
    pub token_us: f64,
    pub tokens_per_second: f64,
    /// Mean time of all MLP blocks of a token in us, which Fig. 13 compares.
    pub mlp_us: f64,
    /// Mean time of a token by operation, in us.
    pub operation_us: BTreeMap<Operation, f64>,
    /// Core cycles of the slowest DIMM in a generated token, mean.
    pub operation_cycles: BTreeMap<Operation, f64>,
    pub prompt_us: f64,
    /// Share of the active neurons that the GPU computed.
    pub gpu_share: f64,
    /// Load of the fullest DIMM over the mean, averaged over tokens.
    pub imbalance: f64,
    pub windows: WindowBalance,
    /// Mean bytes copied to the GPU per token.
    pub upload_bytes_per_token: f64,
    /// Mean bytes that changed DIMMs per token.
    pub migration_bytes_per_token: f64,
    /// Moves planned but not made.
    pub migrations_dropped: u64,
    /// Counts and errors of estimates, if not all programs ran.
    pub estimated: Option<Estimated>,
    /// Set if not all tokens ran.
    pub interpolated: Option<Interpolated>,
    pub time: Breakdown,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flash: Option<FlashSummary>,
    pub energy: Option<EnergyBreakdown>,
    pub tokens: Vec<TokenFigures>,
    /// The scheduler's moves for each token.
    pub records: Vec<TokenRecord>,
}

/// Means of tokens that ran stand for all tokens.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interpolated {
    /// Tokens that ran.
    pub exact: u64,
    /// Tokens of the text.
    pub tokens: u64,
    /// Mean distance of a token's time from the line through its neighbours among those that ran, as a share of the
    /// mean time. The inner ones are left out in turn; `None` for fewer than three.
    pub error: Option<f64>,
}

impl Interpolated {
    fn new(tokens: u64, ran: &[TokenFigures]) -> Self {
        let line = |before: &TokenFigures, after: &TokenFigures, position: usize| {
            let part = (position - before.position) as f64 / (after.position - before.position) as f64;
            before.ns as f64 + part * (after.ns as f64 - before.ns as f64)
        };
        let distances = ran.windows(3).map(|three| {
            let [before, token, after] = [&three[0], &three[1], &three[2]];
            (token.ns as f64 - line(before, after, token.position)).abs()
        });
        let mean = ran.iter().map(|token| token.ns as f64).sum::<f64>() / ran.len().max(1) as f64;
        let inner = ran.len().saturating_sub(2);
        let error = (inner > 0).then(|| distances.sum::<f64>() / inner as f64 / mean);
        Self { exact: ran.len() as u64, tokens, error }
    }
}

/// Whether `token` of `all` is one of `exact` in the middles of equal parts of the text.
fn is_exact(token: u64, all: u64, exact: u64) -> bool {
    let exact = exact.min(all);
    (0..exact).any(|part| (2 * part + 1) * all / (2 * exact) == token)
}

/// Quality of the offline placement.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PlacementResult {
    /// Value of the objective.
    pub objective_us: f64,
    pub bound_us: f64,
    /// `objective / bound - 1`.
    pub gap: f64,
    /// Bytes of neurons on the GPU.
    pub gpu_bytes: u64,
    /// Given by the user, not computed by the offline method.
    pub given: bool,
}

/// A ratio of two policies' MLP times beside the paper's.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ablation {
    pub from: Policy,
    pub to: Policy,
    /// Time of `from` over time of `to`, MLP blocks.
    pub ratio: f64,
    /// From the paper (Fig. 13, section V-C).
    pub paper: f64,
}

/// Ratios of Hermes, section V-C.
const PAPER: [(Policy, Policy, f64); 5] = [
    (Policy::Random, Policy::Partition, 1.63),
    (Policy::Partition, Policy::Adjustment, 1.33),
    (Policy::Adjustment, Policy::Hermes, 1.29),
    (Policy::Partition, Policy::TokenAdjustment, 1.08),
    (Policy::Partition, Policy::LayerAdjustment, 1.11),
];

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Evaluation {
    pub model: String,
    pub weights: WeightFormat,
    pub system: String,
    pub dimms: u32,
    pub trace: String,
    pub activity: ActivitySource,
    pub merge: MergeFormat,
    pub profiled_tokens: u64,
    /// Tokens of the prompt of the last sequence.
    pub prompt_tokens: u64,
    pub generated_tokens: u64,
    /// Share of active neurons.
    pub density: f64,
    /// Mean similarity of generated tokens at distance 1, 2, ...: `|A & B| / ((|A| + |B|) / 2)`.
    pub similarity: Vec<f64>,
    pub placement: PlacementResult,
    pub predictors: Vec<PredictorResult>,
    pub policies: Vec<PolicyResult>,
    pub ablation: Vec<Ablation>,
}

/// A predictor that runs beside the policies, and its result.
struct Judge {
    predictor: Predictor,
    result: PredictorResult,
}

impl Judge {
    fn token(&mut self, shape: &NeuronShape, activity: &Activity) -> Result<()> {
        let mut all = Confusion::default();
        let mut room = Vec::new();
        for (index, block) in shape.blocks().iter().enumerate() {
            let actual = activity.block(shape, index);
            room.resize(actual.len(), 0);
            self.predictor.predict(index, &mut room)?;
            let mut hits = Confusion::default();
            hits.count(block.neurons, &room, actual);
            all += hits;
            match block.kind {
                BlockKind::Attention => self.result.attention += hits,
                BlockKind::Mlp => self.result.mlp += hits,
            }
            self.predictor.observe(index, actual)?;
        }
        self.result.tokens.push(all.accuracy());
        self.result.token_recall.push(all.recall());
        Ok(())
    }

    fn finish(mut self) -> PredictorResult {
        let all = self.result.attention + self.result.mlp;
        let (accuracy, precision, recall) = (all.accuracy(), all.precision(), all.recall());
        self.result = PredictorResult { accuracy, precision, recall, ..self.result };
        self.result
    }
}

/// Everything known before the first generated token.
struct Prepared {
    known: Known,
    states: NeuronStates,
    /// By text.
    prompts: Vec<Vec<Activity>>,
    /// Generated tokens of all texts except the last, which is read on.
    generated: Vec<VecDeque<Activity>>,
}

struct Run {
    policy: Policy,
    online: OnlineScheduler,
    text: TracedText<OnlineScheduler>,
}

impl Run {
    /// Runs a token of each text, or passes over it; `all` is the union of their active neurons.
    fn token(&mut self, tokens: &[Activity], all: &Activity, is_exact: bool) -> Result<()> {
        if is_exact {
            self.text.token(tokens)?
        } else {
            self.text.skip(tokens)?
        }
        self.online.token(all)
    }

    fn summary(mut self, batch: u32) -> Result<PolicyResult> {
        self.text.system_mut().count_links()?;
        let records = self.online.records();
        let figures = self.text.system().figures();
        let (count, _, ns) = figures.generated();
        let count = count.max(1) as f64;
        let per_token = |ns: u64| ns as f64 / 1e3 / count;
        let operation_us: BTreeMap<Operation, f64> =
            figures.operation_ns.iter().map(|(operation, ns)| (*operation, per_token(*ns))).collect();
        let cycles = figures.operation_cycles.iter();
        let operation_cycles =
            cycles.map(|(operation, cycles)| (*operation, *cycles as f64 / count)).collect();
        let of = |operation| operation_us.get(&operation).copied().unwrap_or(0.0);
        let all = records.len().max(1) as f64;
        let mean = |value: fn(&TokenRecord) -> f64| records.iter().map(value).sum::<f64>() / all;
        let gpu: u64 = figures.tokens.iter().map(|token| token.gpu_neurons).sum();
        let cold: u64 = figures.tokens.iter().flat_map(|token| &token.dimm_neurons).sum();
        let token_us = per_token(ns);
        let time = self.text.breakdown().cloned().unwrap_or_default();
        Ok(PolicyResult {
            policy: self.policy,
            token_us,
            tokens_per_second: if token_us > 0.0 { f64::from(batch) * 1e6 / token_us } else { 0.0 },
            mlp_us: of(Operation::Fc1) + of(Operation::Fc2),
            operation_us,
            operation_cycles,
            prompt_us: figures.prompt_ns as f64 / 1e3,
            gpu_share: ratio(gpu, gpu + cold),
            imbalance: mean(|token| token.imbalance),
            windows: self.online.balance(),
            upload_bytes_per_token: mean(|token| token.upload_bytes as f64),
            migration_bytes_per_token: mean(|token| token.migration_bytes as f64),
            migrations_dropped: self.online.migrations_dropped(),
            estimated: self.text.system().estimated(),
            interpolated: (records.len() > figures.tokens.len())
                .then(|| Interpolated::new(records.len() as u64, &figures.tokens)),
            flash: FlashSummary::new(figures.flash.as_ref(), &time),
            time,
            energy: self.text.energy(),
            tokens: figures.tokens.clone(),
            records,
        })
    }
}

/// `progress` gets the tokens so far and their total after every token of a policy.
///
/// # Errors
/// A broken trace, one of another model or without generated tokens; a model or placement that does not fit; else as
/// [`SystemBackend::timing_only`] and its operations.
pub fn evaluate(
    reader: &mut impl TraceSource,
    design: &DesignConfig,
    model: &LlmShape,
    system: &SystemConfig,
    options: &EvaluateOptions,
    mut progress: impl FnMut(u64, u64),
) -> Result<Evaluation> {
    let header = reader.header().clone();
    let shape = NeuronShape::of(model);
    if reader.shape() != &shape {
        let sizes = format!("{} layers of {} and {} neurons", header.layers, header.attention, header.mlp);
        let mlp = model.block_neurons(BlockKind::Mlp);
        let expected = format!("{} layers of {} and {mlp}", model.layers(), model.hidden());
        bail!("the trace is of {} with {sizes}, not {expected}", header.model);
    }
    let (mut prepared, mut pending) = prepare(reader, &shape, options)?;
    // The rest of the trace is the rest of the text.
    let profiled: u64 = prepared.known.profile.tokens().into();
    let prompt_tokens = prepared.prompts.iter().map(Vec::len).max().unwrap_or(0) as u64;
    let before: usize = prepared.prompts.iter().map(Vec::len).sum::<usize>()
        + prepared.generated.iter().map(VecDeque::len).sum::<usize>();
    let own_profile = if header.sequences == u64::from(options.batch) { 0 } else { profiled };
    let all = header.tokens.saturating_sub(own_profile + before as u64);
    let others = prepared.generated.iter().map(|tokens| tokens.len() as u64).min().unwrap_or(u64::MAX);
    let all = all.min(others).min(options.tokens.unwrap_or(u64::MAX)).max(1);

    let frequencies = prepared.known.profile.frequencies();
    let placed = options.flash.map_or_else(|| system.clone(), |flash| flash.for_placement(system, model));
    let instance = Instance::new(model, &placed, &frequencies, &Options::default())?;
    let (placement, certificate) = match &options.placement {
        Some(given) => Certificate::of(&instance, given).map(|certificate| (given.clone(), certificate)),
        None => place_structured(&instance),
    }?;

    let positions = options.positions.unwrap_or(options.earlier + (prompt_tokens + all) as usize);
    let mut runs = Vec::new();
    for &policy in &options.policies {
        let devices = (design, model, [system, &placed]);
        runs.push(begin(&prepared, devices, (policy, positions, &placement), options)?);
    }
    let mut judges = judges(&prepared, &shape, options)?;
    let mut similarity = Similarity::default();
    let (mut active, mut generated) = (0u64, 0u64);
    while let Some((info, activity)) = pending.take().filter(|_| generated < all) {
        let mut tokens: Vec<Activity> =
            prepared.generated.iter_mut().filter_map(VecDeque::pop_front).collect();
        tokens.push(activity.clone());
        active += tokens.iter().map(Activity::count).sum::<u64>();
        let mut union = activity.clone();
        tokens.iter().for_each(|token| union.add(token));
        let exact = options.exact.is_none_or(|exact| is_exact(generated, all, exact));
        similarity.add(info, &activity);
        for judge in &mut judges {
            judge.token(&shape, &activity)?;
        }
        for (index, run) in (0..).zip(&mut runs) {
            run.token(&tokens, &union, exact)?;
            progress(
                generated * options.policies.len() as u64 + index + 1,
                all * options.policies.len() as u64,
            );
        }
        generated += 1;
        pending = reader.read()?.map(|(info, next)| (info, next.clone()));
    }
    let policies: Vec<PolicyResult> =
        runs.into_iter().map(|run| run.summary(options.batch)).collect::<Result<_, _>>()?;
    let ablation = ablation(&policies);
    Ok(Evaluation {
        model: model.name().to_owned(),
        weights: model.weights(),
        system: system.name().to_owned(),
        dimms: system.dimms().count,
        trace: header.source,
        activity: options.activity,
        merge: options.merge,
        profiled_tokens: profiled,
        prompt_tokens,
        generated_tokens: generated,
        density: active as f64 / (generated * u64::from(options.batch) * shape.neurons()) as f64,
        similarity: similarity.means().into_iter().flatten().collect(),
        placement: PlacementResult {
            objective_us: certificate.objective_us,
            bound_us: certificate.bound_us,
            gap: certificate.gap,
            gpu_bytes: certificate.gpu_bytes,
            given: options.placement.is_some(),
        },
        predictors: judges.into_iter().map(Judge::finish).collect(),
        policies,
        ablation,
    })
}

/// Makes a policy's system and runs the prompt.
fn begin(
    prepared: &Prepared,
    (design, model, [system, placed]): (&DesignConfig, &LlmShape, [&SystemConfig; 2]),
    (policy, positions, placement): (Policy, usize, &Placement),
    options: &EvaluateOptions,
) -> Result<Run> {
    let Prepared { known, prompts, .. } = prepared;
    let seen = prompts.iter().map(Vec::len).sum();
    let online = OnlineScheduler::new(&OnlineStart {
        design,
        model,
        system: placed,
        policy,
        known,
        placement: Some(placement),
        prompt_tokens: seen,
        seed: options.seed,
        window: options.window,
        rules: options.rules,
    })?;
    let asked = SystemOptions {
        threads: options.threads,
        prompt_on_gpu: options.earlier * prompts.len() + seen,
        merge: options.merge,
        activity: options.activity,
        flash: options.flash,
        ..SystemOptions::new(system)
    };
    let unit = GemvOptions { estimate: options.fast, ..GemvOptions::default() };
    let mut backend = SystemBackend::timing_only(design, &unit, &asked, online.clone(), model)?;
    if options.linked && system.dimms().count > 1 {
        backend = backend.with_links(&LinkOptions { seed: options.seed, ..LinkOptions::default() })?;
    }
    if options.activity == ActivitySource::Predicted {
        let shape = NeuronShape::of(model);
        backend = backend.with_predictor(OnlinePredictor::of_table(&shape, (*known.table).clone(), seen))?;
    }
    let mut text = TracedText::new(backend, model, (positions, prompts.len()));
    if let Some(constants) = &options.energy {
        text = text.with_energy(EnergyCosts::new(design, system, constants).for_model(model));
    }
    text.precede(options.earlier);
    for (index, prompt) in prompts.iter().enumerate() {
        text.prompt(index, prompt)?;
    }
    for activity in prompts.iter().flatten() {
        online.token(activity)?;
    }
    Ok(Run { policy, online, text })
}

/// Also returns the first generated token of the last text.
fn prepare(
    reader: &mut impl TraceSource,
    shape: &NeuronShape,
    options: &EvaluateOptions,
) -> Result<(Prepared, Option<(TokenInfo, Activity)>)> {
    let (sequences, batch) = (reader.header().sequences, u64::from(options.batch));
    ensure!(
        batch <= sequences,
        "batch = {batch}, but the trace has {sequences} sequences: expected 1..={sequences}"
    );
    let first_text = sequences - batch + 1;
    let mut profile = Profile::new(shape);
    let (mut prompts, mut generated) = (vec![Vec::new(); batch as usize], Vec::new());
    let mut counted = Profile::new(shape);
    let mut sampled: Vec<Activity> = Vec::new();
    let mut sequence = 0;
    let first = loop {
        let Some((info, activity)) = reader.read()? else {
            bail!("the last sequence of the trace has no generated token, at least one is needed");
        };
        sequence += u64::from(info.first);
        let generates = info.phase == Phase::Generated;
        if sequence == sequences && generates {
            break (info, activity.clone());
        }
        if let Some(text) = sequence.checked_sub(first_text) {
            if generates {
                generated.resize(text as usize + 1, VecDeque::new());
                let most = options.tokens.unwrap_or(u64::MAX);
                if (generated[text as usize].len() as u64) < most {
                    generated[text as usize].push_back(activity.clone());
                }
            } else {
                counted.add(activity);
                prompts[text as usize].push(activity.clone());
            }
        }
        if Counted::Profiled.includes(sequence, info.phase, first_text) {
            profile.add(activity);
            if sampled.len() < options.table_tokens {
                sampled.push(activity.clone());
            }
        }
    };
    ensure!(
        prompts.iter().all(|prompt| !prompt.is_empty()),
        "a text of the trace has no prompt, at least one token is needed"
    );
    ensure!(
        generated.len() as u64 + 1 == batch,
        "a text of the trace has no generated token, at least one is needed"
    );
    let table = Rc::new(LayerTable::sample(shape, sampled.into_iter())?);
    let states = states_of(shape, &counted)?;
    let known = Known { shape: shape.clone(), profile, table };
    Ok((Prepared { known, states, prompts, generated }, Some(first)))
}

fn judges(prepared: &Prepared, shape: &NeuronShape, options: &EvaluateOptions) -> Result<Vec<Judge>> {
    let kinds = [
        ("token and layer", PredictorKind::Both),
        ("token only", PredictorKind::TokenOnly),
        ("layer only", PredictorKind::LayerOnly),
    ];
    kinds
        .into_iter()
        .map(|(name, kind)| {
            let mut predictor =
                Predictor::new(prepared.states.clone(), &prepared.known.table, options.rules, kind)?;
            for (block, last) in
                (0..shape.blocks().len()).zip(std::iter::repeat(prepared.prompts.iter().flatten().last()))
            {
                predictor.set_activity(block, last.map_or(&[], |last| last.block(shape, block)))?;
            }
            Ok(Judge { predictor, result: PredictorResult { name, ..PredictorResult::default() } })
        })
        .collect()
}

fn ablation(policies: &[PolicyResult]) -> Vec<Ablation> {
    let mlp = |policy| policies.iter().find(|result| result.policy == policy).map(|result| result.mlp_us);
    PAPER
        .into_iter()
        .filter_map(|(from, to, paper)| Some(Ablation { from, to, ratio: mlp(from)? / mlp(to)?, paper }))
        .collect()
}
