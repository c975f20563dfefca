//! Policies on the exact machine: the host of `ndp evaluate`, on a trace.

use crate::kept::{Kept, cache};
use crate::prelude::*;
use ndp_energy::{Energy, EnergyConstants};
use ndp_hermes::placement::{Instance, Options, place_layers};
use ndp_hermes::scheduler;
use ndp_model::decoder::MAX_BATCH;
use ndp_sim::cluster::lockstep::MOST;
use ndp_sim::gemv::Estimated;
use ndp_sim::system::{ActivitySource, EvaluateOptions, Evaluation, Interpolated, Operation, evaluate};
use ndp_systems::{Key, Policy, RunCosts, Steps, Workload};
use ndp_traces::synth::SynthOptions;
use ndp_traces::synth::targets::Targets;
use ndp_traces::{DenseTrace, NeuronShape, SyntheticTrace, TraceReader};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// Number of tokens of a synthetic prompt that have activity, counted from its end: enough to set the states of neurons.
const SEEN: u32 = 128;

/// Most tokens of the profile from which parents of neurons are sampled: it takes as long as it has tokens.
const TABLE: usize = 128;

/// Generated tokens that run exactly.
pub const EXACT: u64 = 6;

/// The active neurons of each token.
#[derive(Clone, Copy, Debug)]
pub enum Text<'a> {
    /// A file. `earlier` tokens of the prompt are not in it.
    Traced { path: &'a Path, tokens: [u32; 2], earlier: u32 },
    /// Tokens of the prompt, and generated ones.
    Synthetic([u32; 2]),
    /// As synthetic; thresholds leave this share of a model's MLP neurons active.
    Thresholded([u32; 2], f64),
    /// All neurons are active.
    Dense([u32; 2]),
}

impl Text<'_> {
    /// Tokens of the prompt, and generated ones.
    pub fn tokens(self) -> [u32; 2] {
        match self {
            Self::Traced { tokens, .. }
            | Self::Synthetic(tokens)
            | Self::Thresholded(tokens, _)
            | Self::Dense(tokens) => tokens,
        }
    }
}

/// Everything that a run depends on, except the model and the policy.
#[derive(Clone, Copy)]
pub struct Machine<'a> {
    pub design: &'a DesignConfig,
    /// With the assumed efficiencies.
    pub system: &'a SystemConfig,
    pub text: Text<'a>,
    pub constants: &'a EnergyConstants,
    pub activity: ActivitySource,
    pub linked: Option<bool>,
    pub exact: u64,
    pub every_program: bool,
    /// Ignore kept results.
    pub fresh: bool,
    pub seed: u64,
    pub threads: usize,
    /// Whether the progress of the tokens is shown.
    pub shows: bool,
}

/// Means over the generated tokens.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Ran {
    pub batch: u32,
    pub tokens_per_second: f64,
    pub token_us: f64,
    pub operation_us: Vec<(String, f64)>,
    /// Core cycles of the slowest DIMM.
    pub operation_cycles: Vec<(String, f64)>,
    pub waits_us: Vec<(String, f64)>,
    /// Work of each kind of device, the mean of all devices of a kind.
    pub busy_us: Vec<(String, f64)>,
    pub joules: Vec<(String, Energy)>,
    pub gpu_bytes: u64,
    pub density: f64,
    pub prompt: u64,
    pub generated: u64,
    pub trace: String,
    pub linked: bool,
    pub interpolated: Option<Interpolated>,
    pub estimated: Option<Estimated>,
}

impl Ran {
    fn new(result: Evaluation, batch: u32, linked: bool, earlier: usize) -> Option<Self> {
        let of = result.policies.into_iter().next()?;
        let tokens = of.time.tokens.max(1) as f64;
        let named = |of: &BTreeMap<Operation, f64>| {
            of.iter().map(|(operation, value)| (operation.name().to_owned(), *value)).collect()
        };
        let waits = of.time.critical_groups().into_iter();
        let mut busy: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
        for device in &of.time.devices {
            let (sum, count) = busy.entry(device.place.group()).or_default();
            *sum += device.busy_ns.total() as f64 / 1e3 / tokens;
            *count += 1.0;
        }
        let energy = of.energy.as_ref();
        let joules = energy.map(|energy| {
            let each = energy.by(|place, _, _| place.group()).into_iter();
            each.map(|(device, sum)| (device.to_owned(), sum.per(energy.tokens * u64::from(batch)))).collect()
        });
        Some(Self {
            batch,
            tokens_per_second: of.tokens_per_second,
            token_us: of.token_us,
            operation_us: named(&of.operation_us),
            operation_cycles: named(&of.operation_cycles),
            waits_us: waits
                .map(|(device, shares)| (device.to_owned(), shares.total() as f64 / 1e3 / tokens))
                .filter(|(_, us)| *us > 0.0)
                .collect(),
            busy_us: busy.into_iter().map(|(device, (us, of))| (device.to_owned(), us / of)).collect(),
            joules: joules.unwrap_or_default(),
            gpu_bytes: result.placement.gpu_bytes,
            density: result.density,
            prompt: earlier as u64 + result.prompt_tokens,
            generated: result.generated_tokens,
            trace: result.trace,
            linked,
            interpolated: of.interpolated,
            estimated: of.estimated,
        })
    }

    /// Activity, links, and the errors of interpolation and estimates.
    pub fn note(&self, policy: Policy, activity: ActivitySource) -> String {
        let Self { density, trace, linked, interpolated, estimated, .. } = self;
        let mut note =
            format!("{} on the machine: {:.1} % of the neurons are active", policy.name(), 100.0 * density);
        if policy == Policy::Hermes {
            let known = match activity {
                ActivitySource::Causal => "all outputs of FC1 are computed",
                ActivitySource::Predicted => "the predicted ones are computed",
                ActivitySource::Oracle => "all of them are known before",
            };
            note += &format!(", {known}");
        }
        note += if *linked { "; links in RTL's cycles" } else { "; links by their bandwidth" };
        if let Some(Interpolated { exact, tokens, error }) = interpolated {
            note += &format!("; {exact} of {tokens} tokens ran, the others are interpolated");
            if let Some(error) = error {
                note += &format!(", off by {:.1} % in the tokens that were left out to see", 100.0 * error);
            }
        }
        if let Some(of) = estimated {
            note +=
                &format!("; {} of {} programs ran, the others are estimated", of.run, of.run + of.estimated);
            if of.checked > 0 {
                note += &format!(", off by {:.2} % in {} that ran to see", 100.0 * of.error(), of.checked);
            }
        }
        note + &format!("; trace: {trace}")
    }

    /// The prompt and its part of the energy, by the formulas of the machine's GPU and bus.
    pub fn with_prompt(
        &self,
        machine: &ndp_systems::Machine<'_>,
        model: &LlmShape,
        costs: &RunCosts,
    ) -> Result<Whole> {
        let tokens = [self.prompt, self.generated].map(|tokens| tokens as u32);
        let work = Workload::new(model, tokens[0], tokens[1], self.batch)?;
        let prefill = ndp_systems::prefill(machine, &work, self.gpu_bytes as f64);
        let all = self.generated * u64::from(self.batch);
        let of_prompt = costs.of(machine, &prefill);
        let joules = self.joules.iter().map(|(device, energy)| {
            let own = of_prompt.iter().filter(|(other, _)| other.name() == device);
            (device.clone(), own.fold(*energy, |sum, (_, energy)| sum + energy.per(all)))
        });
        Ok(Whole {
            joules: joules.collect(),
            resident: (self.gpu_bytes + model.resident_bytes()) as f64 / work.weight_bytes(),
            with_prompt: all as f64 / (prefill.ns() + self.generated as f64 * self.token_us * 1e3) * 1e9,
            prefill,
        })
    }
}

/// A run with its prompt.
pub struct Whole {
    pub prefill: Steps,
    /// Tokens per second, the prompt's time included.
    pub with_prompt: f64,
    /// Energy of a token by device, the prompt's share included.
    pub joules: Vec<(String, Energy)>,
    /// Share of the weights in the GPU's memory.
    pub resident: f64,
}

/// Whether a policy runs on the machine: with DIMMs, and a batch that a core multiplies at once.
pub fn runs(policy: Policy, batch: u32, system: &SystemConfig) -> bool {
    batch as usize <= MAX_BATCH
        && system.dimms().count > 0
        && matches!(policy, Policy::Hermes | Policy::HermesBase)
}

/// Whether the machine, or the formula of its prefill, uses an assumption ([`ndp_systems::Assumptions::on`]).
pub fn takes(key: Key) -> bool {
    use Key::{BusStream, Gpu3090, GpuBandwidth, GpuCompute, GpuReserve, Sync};
    matches!(key, GpuBandwidth | GpuCompute | GpuReserve | Gpu3090 | Sync | BusStream)
}

impl<'a> Machine<'a> {
    /// Predicted neurons and six tokens; the links are RTL where there is a model of them.
    pub fn new(
        (design, system): (&'a DesignConfig, &'a SystemConfig),
        text: Text<'a>,
        constants: &'a EnergyConstants,
    ) -> Self {
        Self {
            design,
            system,
            text,
            constants,
            activity: ActivitySource::Predicted,
            linked: None,
            exact: EXACT,
            every_program: false,
            fresh: false,
            seed: 1,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            shows: false,
        }
    }

    /// Result of a policy, computed or kept from an earlier run.
    pub fn run(&self, model: &LlmShape, policy: Policy, batch: u32) -> Result<Ran> {
        let dimms = self.system.dimms().count as usize;
        let linked = self.linked.unwrap_or(dimms <= MOST) && dimms > 1;
        let text = match self.text {
            Text::Traced { path, earlier, .. } => {
                let bytes =
                    std::fs::read(path).with_context(|| format!("cannot read '{}'", path.display()))?;
                [&Sha256::digest(bytes)[..], &earlier.to_le_bytes()].concat()
            }
            Text::Synthetic(_) | Text::Thresholded(..) | Text::Dense(_) => {
                format!("{:?}", self.text).into_bytes()
            }
        };
        let key = (
            (self.design, model, self.system, text, policy.name(), batch),
            (self.activity, linked, self.exact, self.every_program, self.seed),
            self.constants,
        );
        // Without a folder each run computes everything.
        let kept = cache().and_then(|folder| Kept::open(folder, self.fresh).ok());
        let name = serde_json::to_string(&key)?;
        if let Some(known) = kept.as_ref().and_then(|kept| kept.get(&name)) {
            return Ok(known);
        }
        let ran = self.compute(model, policy, batch, linked)?;
        if let Some(kept) = kept
            && let Err(error) = kept.keep(&name, &ran)
        {
            // The result counts, even if the next run has to compute it again.
            note!("warning: the result is not kept: {error:#}");
        }
        Ok(ran)
    }

    fn compute(&self, model: &LlmShape, policy: Policy, batch: u32, linked: bool) -> Result<Ran> {
        let Self { design, system, .. } = *self;
        let mut options = EvaluateOptions {
            policies: vec![scheduler::Policy::Hermes],
            seed: self.seed,
            activity: self.activity,
            batch,
            table_tokens: TABLE,
            linked,
            threads: self.threads,
            exact: Some(self.exact),
            fast: !self.every_program,
            energy: Some(self.constants.clone()),
            ..EvaluateOptions::default()
        };
        if policy == Policy::HermesBase {
            let shape = NeuronShape::of(model);
            let all: Vec<_> = shape.blocks().iter().map(|block| vec![1.0; block.neurons as usize]).collect();
            let instance = Instance::new(model, system, &all, &Options::default())?;
            options.policies = vec![scheduler::Policy::Partition];
            options.placement = Some(place_layers(&instance)?);
        }
        let mut progress = None;
        let show = |token, all| {
            if self.shows {
                progress.get_or_insert_with(|| Progress::new(all, "tokens")).set(token);
            }
        };
        let dense = |options: EvaluateOptions, prompt: u32, output: u32, show| {
            // Nothing has to be predicted.
            let options = EvaluateOptions { activity: ActivitySource::Oracle, ..options };
            let mut trace = DenseTrace::new(model, batch.into(), [1, output.into()]);
            let options = EvaluateOptions { earlier: prompt.saturating_sub(1) as usize, ..options };
            evaluate(&mut trace, design, model, system, &options, show)
        };
        let is_base = policy == Policy::HermesBase;
        let (earlier, result) = match self.text {
            Text::Traced { path, earlier, .. } if !is_base => {
                options.earlier = earlier as usize;
                let mut reader = TraceReader::open(path)?.with_dense_attention(model.hidden());
                (options.earlier, evaluate(&mut reader, design, model, system, &options, show)?)
            }
            Text::Synthetic([prompt, output]) | Text::Thresholded([prompt, output], _)
                if !is_base && (!model.is_dense() || matches!(self.text, Text::Thresholded(..))) =>
            {
                let targets = match self.text {
                    Text::Thresholded(_, share) => Some(Targets::thresholded(share)?),
                    _ => None,
                };
                let seen = prompt.min(SEEN);
                options.earlier = (prompt - seen) as usize;
                let (seen, output) = (u64::from(seen), u64::from(output));
                let synth = SynthOptions {
                    prompt_tokens: seen,
                    sequence_tokens: seen + output,
                    targets,
                    ..SynthOptions::default()
                };
                let mut trace = SyntheticTrace::new(model, synth, u64::from(batch) + 1)?;
                (options.earlier, evaluate(&mut trace, design, model, system, &options, show)?)
            }
            text => {
                let [prompt, output] = text.tokens();
                (prompt.saturating_sub(1) as usize, dense(options, prompt, output, show)?)
            }
        };
        Ran::new(result, batch, linked, earlier).context("no policy ran")
    }
}
