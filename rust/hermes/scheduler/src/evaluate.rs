//! One trace, all policies: the figures of Hermes' sections III, IV-C and V-C from a single pass.
//!
//! The last sequence of the trace is the text that is generated; its prompt sets the states of the predictor. The sequences before it
//! are what was profiled offline: placement and the table of parents come from them. A trace with a single sequence is profiled with
//! its own prompt.

use crate::SchedulerError;
use crate::policy::Policy;
use crate::residency::Residency;
use crate::session::{Session, Start, TokenRecord, WindowBalance};
use crate::system_time::SystemTimes;
use ndp_config::{BlockKind, DesignConfig, LlmShape, SystemConfig};
use ndp_placement::{Instance, Options, Placement, place_random, place_structured};
use ndp_predictor::{Confusion, LayerTable, NeuronStates, Predictor, PredictorKind, PredictorRules};
use ndp_traces::stats::Similarity;
use ndp_traces::{Activity, NeuronShape, Phase, Profile, TokenInfo, TraceReader};
use serde::Serialize;
use std::io::Read;
use std::rc::Rc;

/// What is evaluated, and how.
#[derive(Clone, Debug)]
pub struct EvaluateOptions {
    /// Policies, in the order of the report.
    pub policies: Vec<Policy>,
    /// Tokens of the profile from which parents are sampled, at most; each takes memory for its bits.
    pub table_tokens: usize,
    /// Tokens in a window of remapping.
    pub window: u32,
    /// Seed of the random placement and of the rows of lists.
    pub seed: u64,
    /// The predictor's numbers.
    pub rules: PredictorRules,
}

impl Default for EvaluateOptions {
    fn default() -> Self {
        Self {
            policies: Policy::ALL.to_vec(),
            table_tokens: 512,
            window: crate::WINDOW_TOKENS,
            seed: 1,
            rules: PredictorRules::default(),
        }
    }
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// One way of predicting.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PredictorResult {
    /// What it goes by.
    pub name: &'static str,
    /// All neurons.
    pub accuracy: f64,
    /// See [`Confusion::precision`].
    pub precision: f64,
    /// See [`Confusion::recall`].
    pub recall: f64,
    /// Neurons in front of attention.
    pub attention: Confusion,
    /// Neurons of the MLP.
    pub mlp: Confusion,
    /// Accuracy of each token.
    pub tokens: Vec<f64>,
    /// Recall of each token.
    pub token_recall: Vec<f64>,
}

/// One policy.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PolicyResult {
    /// Its name.
    pub policy: Policy,
    /// Mean time of a token in microseconds.
    pub token_us: f64,
    /// Tokens per second.
    pub tokens_per_second: f64,
    /// Mean time of all MLP blocks of a token in microseconds: what Fig. 13 compares.
    pub mlp_us: f64,
    /// Share of the active neurons that the GPU computed.
    pub gpu_share: f64,
    /// Most loaded DIMM over the mean, mean over tokens.
    pub imbalance: f64,
    /// The same over windows.
    pub windows: WindowBalance,
    /// Mean bytes copied to the GPU per token.
    pub upload_bytes_per_token: f64,
    /// Mean bytes that changed DIMMs per token.
    pub migration_bytes_per_token: f64,
    /// Moves that were planned and not made.
    pub migrations_dropped: u64,
    /// Share of the projections' time in which the busiest link was busy: below 1 migration is hidden.
    pub link_share: f64,
    /// Every token.
    pub tokens: Vec<TokenRecord>,
}

/// How well the offline placement solves its problem.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PlacementResult {
    /// Time of the objective, in microseconds.
    pub objective_us: f64,
    /// Bound of the linear relaxation.
    pub bound_us: f64,
    /// `objective / bound - 1`.
    pub gap: f64,
    /// Bytes of neurons on the GPU.
    pub gpu_bytes: u64,
}

/// A ratio of two policies' MLP times beside the paper's.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ablation {
    /// The slower policy.
    pub from: Policy,
    /// The faster one.
    pub to: Policy,
    /// Time of `from` over time of `to`, MLP blocks.
    pub ratio: f64,
    /// The paper's (Fig. 13, section V-C).
    pub paper: f64,
}

/// Ratios that the paper gives (section V-C).
const PAPER: [(Policy, Policy, f64); 5] = [
    (Policy::Random, Policy::Partition, 1.63),
    (Policy::Partition, Policy::Adjustment, 1.33),
    (Policy::Adjustment, Policy::Hermes, 1.29),
    (Policy::Partition, Policy::TokenAdjustment, 1.08),
    (Policy::Partition, Policy::LayerAdjustment, 1.11),
];

/// Everything that one run finds out.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Evaluation {
    /// Name of the model.
    pub model: String,
    /// Name of the system.
    pub system: String,
    /// DIMMs.
    pub dimms: u32,
    /// What made the trace.
    pub trace: String,
    /// Tokens profiled, of the prompt, and generated.
    pub profiled_tokens: u64,
    /// Tokens of the prompt of the last sequence.
    pub prompt_tokens: u64,
    /// Tokens generated.
    pub generated_tokens: u64,
    /// Share of neurons that were active.
    pub density: f64,
    /// Mean similarity of generated tokens at distance 1, 2, ...: `|A & B| / ((|A| + |B|) / 2)`.
    pub similarity: Vec<f64>,
    /// The offline placement.
    pub placement: PlacementResult,
    /// Predictors.
    pub predictors: Vec<PredictorResult>,
    /// Policies.
    pub policies: Vec<PolicyResult>,
    /// Ratios of policies.
    pub ablation: Vec<Ablation>,
}

/// A predictor that runs beside the policies, and how it fares.
struct Judge {
    predictor: Predictor,
    result: PredictorResult,
}

impl Judge {
    fn token(&mut self, shape: &NeuronShape, activity: &Activity) -> Result<(), SchedulerError> {
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

/// What the first part of a trace gives: everything that is known before the first generated token.
struct Prepared {
    profile: Profile,
    table: Rc<LayerTable>,
    states: NeuronStates,
    last: Activity,
    prompt_tokens: u64,
}

/// Reads a trace and evaluates all policies on it. `progress` is called after every token with its number and the number of all.
///
/// # Errors
/// [`SchedulerError::Trace`] for a broken trace, [`SchedulerError::Unfit`] for one of another model or with nothing generated,
/// [`SchedulerError::Placement`] for a model that does not fit the system, and what sessions return.
pub fn evaluate<R: Read>(
    reader: &mut TraceReader<R>,
    design: &DesignConfig,
    model: &LlmShape,
    system: &SystemConfig,
    options: &EvaluateOptions,
    mut progress: impl FnMut(u64, u64),
) -> Result<Evaluation, SchedulerError> {
    let header = reader.header().clone();
    let shape = NeuronShape::of(model);
    if reader.shape() != &shape {
        let sizes = format!("{} layers of {} and {} neurons", header.layers, header.attention, header.mlp);
        let expected = format!("{} layers of {} and {}", model.layers(), model.hidden(), model.ffn());
        return Err(SchedulerError::Unfit { what: format!("{} with {sizes}", header.model), expected });
    }
    let mut read = 0;
    let mut tick = || {
        read += 1;
        progress(read, header.tokens);
    };
    let (prepared, mut pending) = prepare(reader, &shape, options, &mut tick)?;

    let frequencies: Vec<Vec<f32>> = (0..shape.blocks().len())
        .map(|block| {
            let counts = prepared.profile.counts(block);
            counts.iter().map(|&count| count as f32 / prepared.profile.tokens().max(1) as f32).collect()
        })
        .collect();
    let instance = Instance::new(model, system, &frequencies, &Options::default())?;
    let (placement, certificate) = place_structured(&instance)?;
    let random = place_random(&instance, options.seed)?;

    let mut times = SystemTimes::new(design, model, system, options.seed);
    let mut sessions = Vec::new();
    for &policy in &options.policies {
        let placement = if policy == Policy::Random { &random } else { &placement };
        let start = Start {
            model,
            residency: residency(model, system, placement)?,
            states: prepared.states.clone(),
            table: Rc::clone(&prepared.table),
            rules: options.rules,
            last: &prepared.last,
            window: options.window,
        };
        sessions.push((Session::new(policy, start)?, Vec::new()));
    }
    let mut judges = judges(&prepared, &shape, options)?;
    let mut similarity = Similarity::default();
    let (mut active, mut context) = (0u64, prepared.prompt_tokens as u32);
    let mut generated = 0u64;
    while let Some((info, activity)) = pending.take() {
        context += 1;
        generated += 1;
        active += activity.count();
        similarity.add(info, &activity);
        for judge in &mut judges {
            judge.token(&shape, &activity)?;
        }
        for (session, records) in &mut sessions {
            records.push(session.token(&mut times, &activity, context)?);
        }
        tick();
        pending = reader.read()?.map(|(info, next)| (info, next.clone()));
    }
    let policies: Vec<PolicyResult> =
        sessions.into_iter().map(|(session, records)| summary(&session, records)).collect();
    let ablation = ablation(&policies);
    Ok(Evaluation {
        model: model.name().to_owned(),
        system: system.name().to_owned(),
        dimms: system.dimms().count,
        trace: header.source,
        profiled_tokens: prepared.profile.tokens().into(),
        prompt_tokens: prepared.prompt_tokens,
        generated_tokens: generated,
        density: active as f64 / (generated * shape.neurons()) as f64,
        similarity: similarity.means().into_iter().flatten().collect(),
        placement: PlacementResult {
            objective_us: certificate.objective_us,
            bound_us: certificate.bound_us,
            gap: certificate.gap,
            gpu_bytes: certificate.gpu_bytes,
        },
        predictors: judges.into_iter().map(Judge::finish).collect(),
        policies,
        ablation,
    })
}

/// Reads profile and prompt; returns the first generated token of the last sequence too.
fn prepare<R: Read>(
    reader: &mut TraceReader<R>,
    shape: &NeuronShape,
    options: &EvaluateOptions,
    tick: &mut impl FnMut(),
) -> Result<(Prepared, Option<(TokenInfo, Activity)>), SchedulerError> {
    let sequences = reader.header().sequences;
    let mut profile = Profile::new(shape);
    let mut prompt = Profile::new(shape);
    let mut sampled: Vec<Activity> = Vec::new();
    let mut last = Activity::new(shape);
    let mut sequence = 0;
    let first = loop {
        let Some((info, activity)) = reader.read()? else {
            return Err(SchedulerError::Unfit {
                what: "a trace whose last sequence has no generated token".to_owned(),
                expected: "at least one".to_owned(),
            });
        };
        sequence += u64::from(info.first);
        let own = sequence == sequences;
        if own && info.phase == Phase::Generated {
            break (info, activity.clone());
        }
        if own {
            prompt.add(activity);
            last.clone_from(activity);
        }
        if !own || sequences == 1 {
            profile.add(activity);
            if sampled.len() < options.table_tokens {
                sampled.push(activity.clone());
            }
        }
        tick();
    };
    let table = Rc::new(LayerTable::sample(shape, sampled.into_iter())?);
    let frequencies: Vec<f64> = (0..shape.blocks().len())
        .flat_map(|block| prompt.counts(block).iter().map(|&count| f64::from(count)))
        .map(|count| count / f64::from(prompt.tokens().max(1)))
        .collect();
    let states = NeuronStates::from_frequencies(shape, &frequencies)?;
    let prompt_tokens = prompt.tokens().into();
    Ok((Prepared { profile, table, states, last, prompt_tokens }, Some(first)))
}

fn residency(
    model: &LlmShape,
    system: &SystemConfig,
    placement: &Placement,
) -> Result<Residency, SchedulerError> {
    let blocks = NeuronShape::of(model).blocks().len();
    let dimms = (0..blocks).map(|block| placement.dimms(block).to_vec()).collect();
    Residency::new(model, system, placement.gpu().clone(), dimms)
}

fn judges(
    prepared: &Prepared,
    shape: &NeuronShape,
    options: &EvaluateOptions,
) -> Result<Vec<Judge>, SchedulerError> {
    let kinds = [
        ("token and layer", PredictorKind::Both),
        ("token only", PredictorKind::TokenOnly),
        ("layer only", PredictorKind::LayerOnly),
    ];
    kinds
        .into_iter()
        .map(|(name, kind)| {
            let mut predictor =
                Predictor::new(prepared.states.clone(), &prepared.table, options.rules, kind)?;
            for block in 0..shape.blocks().len() {
                predictor.set_activity(block, prepared.last.block(shape, block))?;
            }
            let result = PredictorResult {
                name,
                accuracy: 0.0,
                precision: 0.0,
                recall: 0.0,
                attention: Confusion::default(),
                mlp: Confusion::default(),
                tokens: Vec::new(),
                token_recall: Vec::new(),
            };
            Ok(Judge { predictor, result })
        })
        .collect()
}

fn summary(session: &Session, tokens: Vec<TokenRecord>) -> PolicyResult {
    let count = tokens.len().max(1) as f64;
    let mean = |value: fn(&TokenRecord) -> f64| tokens.iter().map(value).sum::<f64>() / count;
    let token_us = mean(TokenRecord::us);
    let gpu: u64 = tokens.iter().map(|token| token.gpu_neurons).sum();
    let cold: u64 = tokens.iter().flat_map(|token| &token.dimm_neurons).sum();
    PolicyResult {
        policy: session.policy(),
        token_us,
        tokens_per_second: if token_us > 0.0 { 1e6 / token_us } else { 0.0 },
        mlp_us: mean(|token| token.mlp_us),
        gpu_share: ratio(gpu, gpu + cold),
        imbalance: mean(|token| token.imbalance),
        windows: session.balance(),
        upload_bytes_per_token: mean(|token| token.upload_bytes as f64),
        migration_bytes_per_token: mean(|token| token.migration_bytes as f64),
        migrations_dropped: session.migration().dropped,
        link_share: mean(|token| token.link_us) / mean(|token| token.projection_us).max(f64::MIN_POSITIVE),
        tokens,
    }
}

fn ablation(policies: &[PolicyResult]) -> Vec<Ablation> {
    let mlp = |policy| policies.iter().find(|result| result.policy == policy).map(|result| result.mlp_us);
    PAPER
        .into_iter()
        .filter_map(|(from, to, paper)| Some(Ablation { from, to, ratio: mlp(from)? / mlp(to)?, paper }))
        .collect()
}
