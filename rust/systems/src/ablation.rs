//! Gain of each step of Hermes' scheduling (Hermes, Fig. 13) from a model of the scheduler only: a synthetic trace, MLP
//! times from the core's cycle model and the GPU's bandwidth. A setting takes seconds, unlike the whole machine
//! (`ndp evaluate`).

use ndp_config::{BlockKind, DesignConfig, LlmShape, SystemConfig};
use ndp_files::Result;
use ndp_hermes::placement::{Instance, Options, Placement, place_random, place_structured};
use ndp_hermes::predictor::{Evaluation, LayerTable, NeuronStates, Predictor, PredictorKind, PredictorRules};
use ndp_hermes::scheduler::session::Start;
use ndp_hermes::scheduler::{Load, Policy, Residency, Session, SystemTimes};
use ndp_traces::stats::Statistics;
use ndp_traces::synth::targets::Targets;
use ndp_traces::synth::{SynthOptions, Synthesizer};
use ndp_traces::{Activity, NeuronShape, Phase, Profile};
use serde::{Deserialize, Serialize};
use std::rc::Rc;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TraceOptions {
    pub profiled: u64,
    pub prompt: u64,
    /// Tokens generated after the prompt of the last text.
    pub tokens: u64,
    /// Seed of trace and random placement.
    pub seed: u64,
    /// Statistics of the trace; `None` for the model's family.
    pub targets: Option<Targets>,
    /// Neighbours in a block that a text favours together.
    pub cluster: u32,
    /// Whether each DIMM has a piece of every block, instead of the placement.
    pub contiguous: bool,
}

impl Default for TraceOptions {
    fn default() -> Self {
        Self { profiled: 4, prompt: 128, tokens: 128, seed: 1, targets: None, cluster: 1, contiguous: false }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PolicyTimes {
    pub policy: Policy,
    /// Time of the MLPs for a token.
    pub mlp_us: f64,
    /// The most loaded DIMM over the mean.
    pub imbalance: f64,
    /// Imbalance over windows of remapping: as computed, and if their moves had been made before.
    pub windows: [f64; 2],
    /// Bytes per token that changed DIMMs.
    pub migrated: f64,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TraceStudy {
    /// In the order of Fig. 13.
    pub policies: Vec<PolicyTimes>,
    /// Time of the MLPs for a token, with the best neurons on the GPU for each token (the oracle of section III-B).
    pub oracle_us: f64,
    /// Similarity of adjacent tokens, and of tokens at a distance of 11.
    pub similarity: [f64; 2],
    /// Share of the hot neurons that cease to be hot.
    pub hot_change: f64,
    /// Chance that a neuron is active if its most correlated one of the layer before is.
    pub layer: f64,
    /// Share of right predictions.
    pub accuracy: f64,
}

impl TraceStudy {
    pub fn ratio(&self, from: Policy, to: Policy) -> f64 {
        let us = |policy| {
            self.policies.iter().find(|found| found.policy == policy).map_or(f64::NAN, |found| found.mlp_us)
        };
        us(from) / us(to)
    }

    pub fn policy(&self, policy: Policy) -> Option<&PolicyTimes> {
        self.policies.iter().find(|found| found.policy == policy)
    }
}

/// Gives each DIMM a piece of every block.
pub fn in_pieces(placement: &mut Placement, shape: &NeuronShape, dimms: u32) {
    for (index, block) in shape.blocks().iter().enumerate() {
        let dimm = |n: usize| n as u64 * u64::from(dimms) / u64::from(block.neurons);
        placement.dimms_mut(index).iter_mut().enumerate().for_each(|(n, of)| *of = dimm(n) as u8);
    }
}

/// Generates the trace and runs all policies. Fails if the model does not fit the system, or the DIMMs cannot compute
/// it.
pub fn study(
    design: &DesignConfig,
    model: &LlmShape,
    system: &SystemConfig,
    options: &TraceOptions,
) -> Result<TraceStudy> {
    let TraceOptions { profiled, prompt, tokens, seed, targets, cluster, contiguous } = *options;
    let sequence_tokens = prompt + tokens;
    let synth =
        SynthOptions { seed, prompt_tokens: prompt, sequence_tokens, first_sequence: 0, targets, cluster };
    let mut trace = Synthesizer::new(model, synth)?;
    let shape = trace.shape().clone();
    let mut activity = Activity::new(&shape);
    let (mut profile, mut sampled) = (Profile::new(&shape), Vec::new());
    let mut statistics = Statistics::new(&shape);
    for index in 0..profiled * sequence_tokens {
        let info = trace.next(&mut activity);
        profile.add(&activity);
        statistics.add(info, &activity);
        if index < 512 {
            sampled.push(activity.clone());
        }
    }
    let (mut counted, mut text) = (Profile::new(&shape), Vec::new());
    let mut last = Activity::new(&shape);
    for _ in 0..sequence_tokens {
        let info = trace.next(&mut activity);
        statistics.add(info, &activity);
        if info.phase == Phase::Generated {
            text.push(activity.clone());
        } else {
            counted.add(&activity);
            last.clone_from(&activity);
        }
    }
    let table = Rc::new(LayerTable::sample(&shape, sampled.into_iter())?);
    let flat: Vec<f64> = counted.frequencies().into_iter().flatten().map(f64::from).collect();
    let states = NeuronStates::from_frequencies(&shape, &flat)?;
    let instance = Instance::new(model, system, &profile.frequencies(), &Options::default())?;
    let mut times = SystemTimes::new(design, model, system, seed);
    let mut policies = Vec::new();
    for policy in Policy::ALL {
        let placement = match policy {
            Policy::Random => place_random(&instance, seed),
            _ => place_structured(&instance).map(|found| found.0),
        };
        let mut placement = placement?;
        if contiguous && policy != Policy::Random {
            in_pieces(&mut placement, &shape, system.dimms().count);
        }
        let residency = Residency::new(model, system, placement)?;
        let start = Start {
            model,
            residency,
            states: states.clone(),
            table: Rc::clone(&table),
            rules: PredictorRules::default(),
            last: &last,
            window: ndp_hermes::scheduler::WINDOW_TOKENS,
        };
        let mut session = Session::new(policy, start)?;
        let (mut us, mut imbalance, mut migrated) = (0.0, 0.0, 0);
        for activity in &text {
            let record = session.token_with(&mut times, activity, |times, block, load| {
                if shape.blocks()[block].kind == BlockKind::Mlp {
                    us += times.block_us(BlockKind::Mlp, load)?;
                }
                Ok(())
            })?;
            imbalance += record.imbalance;
            migrated += record.migration_bytes;
        }
        let (count, balance) = (text.len().max(1) as f64, session.balance());
        policies.push(PolicyTimes {
            policy,
            mlp_us: us / count,
            imbalance: imbalance / count,
            windows: [balance.before, balance.planned],
            migrated: migrated as f64 / count,
        });
    }
    let report = statistics.report();
    Ok(TraceStudy {
        policies,
        oracle_us: oracle_us(&mut times, &shape, model, system, &text)?,
        similarity: [1, 11].map(|distance: usize| {
            report.similarity.get(distance - 1).copied().flatten().unwrap_or(f64::NAN)
        }),
        hot_change: report.hot_change.unwrap_or(f64::NAN),
        layer: report.layer.unwrap_or(f64::NAN),
        accuracy: accuracy(&shape, &states, &table, &last, &text)?,
    })
}

/// Time of the MLP blocks if for each token the GPU has those active neurons with which GPU and DIMMs end together, as
/// far as they fit, and the others are evenly on the DIMMs.
fn oracle_us(
    times: &mut SystemTimes,
    shape: &NeuronShape,
    model: &LlmShape,
    system: &SystemConfig,
    text: &[Activity],
) -> Result<f64> {
    let capacity = system.gpu_weight_bytes().saturating_sub(model.resident_bytes()) as f64;
    let dimms = system.dimms().count;
    let mut us = 0.0;
    for activity in text {
        let active: Vec<u32> = (0..shape.blocks().len())
            .map(|block| activity.block(shape, block).iter().map(|word| word.count_ones()).sum())
            .collect();
        let bytes =
            |block: usize| f64::from(active[block]) * model.neuron_bytes(shape.blocks()[block].kind) as f64;
        let all: f64 = (0..active.len()).map(bytes).sum();
        // In proportion to the block's needs.
        let room = (capacity / all).min(1.0);
        for (block, &count) in active.iter().enumerate() {
            if shape.blocks()[block].kind != BlockKind::Mlp {
                continue;
            }
            let even =
                |cold: u32| (0..dimms).map(|dimm| cold / dimms + u32::from(dimm < cold % dimms)).collect();
            let best = times.room_on_gpu(BlockKind::Mlp, &Load { gpu: 0, dimms: even(count) })?;
            let gpu = best.min((f64::from(count) * room) as u32);
            us += times.block_us(BlockKind::Mlp, &Load { gpu, dimms: even(count - gpu) })?;
        }
    }
    Ok(us / text.len().max(1) as f64)
}

/// Share of right predictions over all tokens of the text.
fn accuracy(
    shape: &NeuronShape,
    states: &NeuronStates,
    table: &LayerTable,
    last: &Activity,
    text: &[Activity],
) -> Result<f64> {
    let run = || {
        let rules = PredictorRules::default();
        let mut predictor = Predictor::new(states.clone(), table, rules, PredictorKind::Both)?;
        predictor.set_last(shape, last)?;
        Evaluation::of(shape, &mut predictor, text.iter())
    };
    Ok(run()?.all().accuracy())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small(options: &TraceOptions, gpu_percent: u32) -> TraceStudy {
        let design = DesignConfig::preset("tiny").unwrap();
        let model = LlmShape::opt_like("small", 4, 256, 4, 1024, 256).unwrap();
        let system = SystemConfig::preset("small").unwrap().with_dimms(4).unwrap();
        study(&design, &model, &system.with_gpu_percent(&model, gpu_percent).unwrap(), options).unwrap()
    }

    #[test]
    fn placement_helps_and_nothing_beats_the_oracle() {
        let options = TraceOptions { prompt: 32, tokens: 16, ..TraceOptions::default() };
        let found = small(&options, 20);
        assert_eq!(found, small(&options, 20), "twice the same");
        assert!(found.ratio(Policy::Random, Policy::Partition) > 1.05, "{found:?}");
        assert!(found.policies.iter().all(|policy| policy.mlp_us >= 0.99 * found.oracle_us), "{found:?}");
        assert!((0.85..0.97).contains(&found.similarity[0]), "{found:?}");
        assert!(found.policy(Policy::Hermes).unwrap().migrated > 0.0);
        assert_eq!(found.policy(Policy::Partition).unwrap().migrated, 0.0);
    }

    #[test]
    fn neurons_that_a_text_favours_together_load_dimms_unevenly() {
        let of = |cluster| {
            let options =
                TraceOptions { prompt: 32, tokens: 16, cluster, contiguous: true, ..TraceOptions::default() };
            small(&options, 0).policy(Policy::Partition).unwrap().imbalance
        };
        assert!(of(64) > 1.1 * of(1), "{} {}", of(64), of(1));
    }
}
