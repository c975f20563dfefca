//! Iterations on Hermes' machine. A policy of `ndp-systems` has a prefill and a token for requests of one length. Here:
//!
//! - **Tokens**: a step with this number of requests and their *mean* context, to half a token. Reads of keys and
//!   values are proportional to contexts, and times of neurons depend only on requests, so nothing else is lost.
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
use std::collections::HashMap;

const GB: f64 = 1e9;

pub struct HermesSteps<'a> {
    machine: Machine<'a>,
    policy: Policy,
    model: LlmShape,
    costs: RunCosts,
    kv: KvMemory,
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
        Ok(Self { machine, policy, model: model.clone(), costs: costs.clone(), kv, tokens, prompts })
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
