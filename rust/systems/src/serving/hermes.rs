//! Iterations on Hermes' machine. A policy of `ndp-systems` has a prefill and a token for requests of one length. Here:
//!
//! - **Tokens**: a step with this number of requests and their *mean* context, to half a token. Reads of keys and
//!   values are proportional to contexts, and times of neurons depend only on requests, so nothing else is lost. With
//!   [`ExactTokens`], interpolated between the shortest and the longest context, and between powers of two of requests.
//! - **Prompts** of an iteration are one prefill of all their tokens: weights cross the bus once, hot neurons are
//!   reloaded. Logits beyond the first prompt's and, as in the policies, attention within prompts are left out.
//! - Prompts come before the tokens of the same iteration; they do not overlap.
//!
//! Active neurons are the union over independent sequences, as in `ndp compare`.

use crate::serving::step::{Chunk, KvMemory, StepCost, StepTimes, Use, tokens_of};
use crate::{Device, Machine, Policy, RunCosts, Steps, Workload};
use ndp_config::LlmShape;
use ndp_energy::Energy;
use ndp_files::{Result, bail};
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};

const GB: f64 = 1e9;

/// Tokens on the exact machine.
pub trait ExactTokens {
    /// A token of each of `batch` sequences that have `context` positions.
    fn token(&self, batch: u32, context: u32) -> Result<StepCost>;
}

/// Exact tokens, and the contexts at which they are computed.
struct Exact<'a> {
    tokens: Box<dyn ExactTokens + 'a>,
    contexts: [u32; 2],
    known: RefCell<BTreeMap<(u32, u32), StepCost>>,
}

impl Exact<'_> {
    /// Computes a token once.
    fn token(&self, batch: u32, context: u32) -> Result<StepCost> {
        if let Some(known) = self.known.borrow().get(&(batch, context)) {
            return Ok(known.clone());
        }
        let cost = self.tokens.token(batch, context)?;
        self.known.borrow_mut().insert((batch, context), cost.clone());
        Ok(cost)
    }

    fn at_context(&self, batch: u32, twice_mean: u64) -> Result<StepCost> {
        let [short, long] = self.contexts;
        let [from, to] = [short, long].map(|context| 2 * u64::from(context));
        let part = twice_mean.clamp(from, to) - from;
        if part == 0 {
            return self.token(batch, short);
        }
        Ok(between([self.token(batch, short)?, self.token(batch, long)?], part, to - from))
    }

    fn interpolated(&self, batch: u32, twice_mean: u64) -> Result<StepCost> {
        let above = batch.next_power_of_two();
        if above == batch {
            return self.at_context(batch, twice_mean);
        }
        let below = above / 2;
        let ends = [self.at_context(below, twice_mean)?, self.at_context(above, twice_mean)?];
        Ok(between(ends, u64::from(batch - below), u64::from(above - below)))
    }
}

/// `part` of `whole` of the way from one cost to another; times are rounded up.
fn between([from, to]: [StepCost; 2], part: u64, whole: u64) -> StepCost {
    let rest = whole - part;
    let energy = from.energy.zip(to.energy).map(|(from, to)| (from * rest + to * part).per(whole));
    let mean = |from: f64, to: f64| (from * rest as f64 + to * part as f64) / whole as f64;
    let uses = from.uses.iter().zip(&to.uses);
    StepCost {
        ns: (from.ns * rest + to.ns * part).div_ceil(whole),
        energy,
        uses: uses
            .map(|(from, to)| Use {
                busy_ns: mean(from.busy_ns, to.busy_ns),
                macs_ns: mean(from.macs_ns, to.macs_ns),
            })
            .collect(),
    }
}

pub struct HermesSteps<'a> {
    machine: Machine<'a>,
    policy: Policy,
    model: LlmShape,
    costs: RunCosts,
    kv: KvMemory,
    exact: Option<Exact<'a>>,
    /// By requests and twice the mean context, which is all that they depend on.
    tokens: HashMap<(u32, u64), StepCost>,
    prompts: HashMap<u32, StepCost>,
}

/// As many tokens as the policy takes, up to 2^20. Policies that copy weights from the host's memory do not check room:
/// they get that memory less the weights missing on the GPU.
fn kv_memory(machine: &Machine<'_>, policy: Policy, model: &LlmShape) -> Result<KvMemory> {
    let runs = |tokens| policy.run(machine, &Workload::new(model, tokens, 1, 1)?);
    // The policy reports what even one token lacks.
    runs(1)?;
    let (mut fits, mut too_many) = (1, Workload::MAX_TOKENS + 1);
    while too_many - fits > 1 {
        let middle = fits.midpoint(too_many);
        if runs(middle).is_ok() { fits = middle } else { too_many = middle }
    }
    let bytes_per_token = model.kv_bytes_per_token();
    let mut bytes = u64::from(fits) * bytes_per_token;
    if matches!(policy, Policy::Accelerate | Policy::FlexGen | Policy::DejaVu) {
        let all = (model.neurons_bytes() + model.resident_bytes()) as f64;
        let [has, weights] = [machine.system.host().memory_gb * GB, (all - machine.gpu_bytes()).max(0.0)];
        if has <= weights {
            let system = machine.system.name();
            bail!(
                "weights of {weights:.0} bytes leave no room for keys and values in the {has:.0} bytes of the host's memory of '{system}'"
            );
        }
        bytes = bytes.min((has - weights) as u64);
    }
    Ok(KvMemory { bytes, bytes_per_token })
}

impl<'a> HermesSteps<'a> {
    /// K and V have the room that the policy finds, or `given` bytes. Fails if weights do not fit or leave no room, or
    /// as the policy.
    pub fn new(
        machine: Machine<'a>,
        policy: Policy,
        model: &LlmShape,
        costs: &RunCosts,
        given: Option<u64>,
    ) -> Result<Self> {
        let mut kv = kv_memory(&machine, policy, model)?;
        kv.bytes = given.unwrap_or(kv.bytes);
        let (tokens, prompts) = (HashMap::new(), HashMap::new());
        Ok(Self {
            machine,
            policy,
            model: model.clone(),
            costs: costs.clone(),
            kv,
            exact: None,
            tokens,
            prompts,
        })
    }

    /// Tokens take exact times, for requests with these contexts.
    #[must_use]
    pub fn exactly(
        self,
        tokens: Box<dyn ExactTokens + 'a>,
        contexts: impl Iterator<Item = u32> + Clone,
    ) -> Self {
        let contexts = [contexts.clone().min(), contexts.max()].map(Option::unwrap_or_default);
        let exact = Exact { tokens, contexts, known: RefCell::default() };
        Self { exact: Some(exact), ..self }
    }

    /// Number of exact tokens computed so far.
    pub fn exact_tokens(&self) -> usize {
        self.exact.as_ref().map_or(0, |exact| exact.known.borrow().len())
    }

    /// Time of a token in ns, interpolated and exact; `None` without exact tokens.
    pub fn check(&self, batch: u32, context: u32) -> Result<Option<[u64; 2]>> {
        let Some(exact) = &self.exact else { return Ok(None) };
        let interpolated = exact.interpolated(batch, 2 * u64::from(context))?.ns;
        Ok(Some([interpolated, exact.tokens.token(batch, context)?.ns]))
    }

    fn cost(&self, steps: &Steps) -> StepCost {
        let energy = self.costs.of(&self.machine, steps).into_iter().map(|(_, energy)| energy);
        let busy = |device| Use { busy_ns: steps.busy_ns(device), macs_ns: 0.0 };
        StepCost {
            ns: steps.ns().ceil() as u64,
            energy: Some(energy.sum::<Energy>()),
            uses: Device::ALL.map(busy).to_vec(),
        }
    }

    fn prompt_cost(&mut self, tokens: u32) -> Result<StepCost> {
        if let Some(known) = self.prompts.get(&tokens) {
            return Ok(known.clone());
        }
        let work = Workload::new(&self.model, tokens, 1, 1)?;
        let cost = self.cost(&self.policy.run(&self.machine, &work)?.prefill);
        self.prompts.insert(tokens, cost.clone());
        Ok(cost)
    }

    fn token_cost(&mut self, batch: u32, twice_mean: u64) -> Result<StepCost> {
        if let Some(known) = self.tokens.get(&(batch, twice_mean)) {
            return Ok(known.clone());
        }
        if let Some(exact) = &self.exact {
            let cost = exact.interpolated(batch, twice_mean)?;
            self.tokens.insert((batch, twice_mean), cost.clone());
            return Ok(cost);
        }
        // A token in the middle of `output` tokens has `prompt + output / 2` positions.
        let output = if twice_mean % 2 == 1 { 1 } else { 2 };
        let prompt = (twice_mean - output) / 2;
        let work = Workload::new(&self.model, prompt as u32, output as u32, batch)?;
        let cost = self.cost(&self.policy.run(&self.machine, &work)?.token);
        self.tokens.insert((batch, twice_mean), cost.clone());
        Ok(cost)
    }
}

impl StepTimes for HermesSteps<'_> {
    fn devices(&self) -> Vec<&'static str> {
        Device::ALL.map(Device::name).to_vec()
    }

    fn kv(&self) -> KvMemory {
        self.kv
    }

    fn most_requests(&self) -> u32 {
        Workload::MAX_BATCH
    }

    fn step(&mut self, prompts: &[Chunk], tokens: &[Chunk]) -> Result<StepCost> {
        let mut cost = StepCost::nothing(Device::ALL.len());
        if !prompts.is_empty() {
            cost += self.prompt_cost(tokens_of(prompts))?;
        }
        if !tokens.is_empty() {
            let count = tokens.len() as u64;
            let sum = tokens.iter().map(|one| u64::from(one.context())).sum::<u64>();
            // To the nearest half; a prompt has at least one token.
            let twice_mean = ((2 * sum + count / 2) / count).max(3);
            cost += self.token_cost(tokens.len() as u32, twice_mean)?;
        }
        Ok(cost)
    }
}
