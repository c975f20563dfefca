//! Iterations on one or several NPUs with HBM-PIM: LibraPIM and its baselines.
//!
//! **Tokens** are steps of `offloading`'s planner with the exact contexts; nothing is rounded, averaged or cached.
//!
//! **Prompts** run on the NPU, as in the paper, which says no more. Those of an iteration share one product each with
//! Q, K and V, projection and FFN; attention goes prompt by prompt and head by head, `QK^T` and weighted values being
//! products of the arrays with causal zeros; logits are of last tokens. They precede the iteration's tokens without
//! overlap. As in the tokens' time model, new keys and values are not written.
//!
//! **Energy** is the steps' on all chips, with standby of waiting chips, without links.

use crate::serving::parallel::Parallel;
use crate::serving::step::{Chunk, KvMemory, StepCost, StepTimes, Use, tokens_of};
use ndp_config::LlmShape;
use ndp_energy::Energy;
use ndp_files::{Result, bail, ensure};
use ndp_librapim::offloading::npu::NpuTimes;
use ndp_librapim::offloading::step::Job;
use ndp_librapim::offloading::timeline::{Device, Event, Work};
use ndp_librapim::offloading::work::Matrix;
use ndp_librapim::offloading::{
    AnalyticTimes, Batch, DeviceTimes, Hardware, Mode, Model, Picos, Planner, Request, Rule, Step, StepCosts,
};

pub struct LibraPimSteps<'a> {
    part: Model,
    mode: Mode,
    parallel: Parallel,
    hardware: Hardware,
    planner: Planner<'a>,
    costs: StepCosts,
    npu: NpuTimes,
    prompts: AnalyticTimes,
    vocabulary: u32,
    kv: KvMemory,
    most_requests: u32,
}

fn yielding(chunks: &[Chunk]) -> u32 {
    chunks.iter().filter(|chunk| chunk.yields).count() as u32
}

/// Memory of all chips without the weights, or `given`. Fails if that is more than the weights leave, except with
/// `beyond`.
pub fn kv_memory(
    model: &LlmShape,
    parallel: &Parallel,
    memory_bytes: u64,
    given: Option<u64>,
    beyond: bool,
) -> Result<KvMemory> {
    let bytes_per_token = model.kv_bytes_per_token();
    let weights = model.neurons_bytes() + model.resident_bytes();
    let all = memory_bytes * u64::from(parallel.chips());
    let left = all.saturating_sub(weights);
    let bytes = given.unwrap_or(left);
    let memory = match parallel.chips() {
        1 => "one chip".to_owned(),
        count => format!("{count} chips"),
    };
    if left == 0 && !beyond {
        bail!("weights of {weights} bytes leave no room for keys and values in the {all} bytes of {memory}");
    }
    ensure!(
        beyond || bytes <= left,
        "{bytes} bytes for keys and values exceed the {left} bytes that the weights leave in {memory}"
    );
    Ok(KvMemory { bytes, bytes_per_token })
}

impl<'a> LibraPimSteps<'a> {
    /// Each chip has `part` of a model ([`Parallel::part`]), with times on ordinary and on sliced banks. Fails as
    /// [`Parallel::part`].
    pub fn new(
        model: &Model,
        (parallel, kv): (Parallel, KvMemory),
        hardware: &Hardware,
        costs: impl Fn(&Model) -> StepCosts,
        [plain, sliced]: [&'a dyn DeviceTimes; 2],
        (mode, rule): (Mode, Rule),
    ) -> Result<Self> {
        let part = parallel.part(model)?;
        let is_sliced = mode.sliced();
        let limits = if is_sliced { sliced.limits() } else { plain.limits() };
        Ok(Self {
            planner: Planner::new(&part, hardware, plain, sliced).with_rule(rule),
            costs: costs(&part),
            npu: NpuTimes::new(hardware, is_sliced),
            prompts: AnalyticTimes::new(&part, hardware, is_sliced),
            vocabulary: model.vocabulary,
            hardware: *hardware,
            most_requests: limits.0.min(1 << 16),
            part,
            mode,
            parallel,
            kv,
        })
    }

    /// The NPU's attention in one layer of `tokens` of a prompt over `keys`, these tokens included.
    pub(crate) fn attention_of_chunk(npu: &NpuTimes, model: &Model, tokens: u32, keys: u32) -> Picos {
        let width = model.head_width;
        let scores = Matrix { inputs: width, outputs: keys };
        let values = Matrix { inputs: keys, outputs: width };
        let vectors = tokens.saturating_mul(model.group());
        let head = npu.gemm(scores, vectors).total() + npu.gemm(values, vectors).total();
        let all = u64::from(model.heads) * u64::from(tokens) * u64::from(keys);
        head * u64::from(model.kv_heads) + npu.softmax(all)
    }

    fn prompt_step(&self, prompts: &[Chunk]) -> Step {
        let model = &self.part;
        let tokens = tokens_of(prompts);
        let count = yielding(prompts);
        let layers = u64::from(model.layers);
        let of_layer = [Work::Qkv, Work::Projection, Work::Ffn];
        let matrices: Picos =
            of_layer.map(|work| self.prompts.npu(work, tokens, 1).total()).into_iter().sum();
        // The NPU computes scores of all keys that a token of the chunk sees.
        let keys = |chunk: &Chunk, layer| {
            let first = chunk.context() - chunk.tokens + 1;
            chunk.context() - first + model.seen(layer, first)
        };
        let attention_of = |chunk: &Chunk| -> Picos {
            let of = |layer| Self::attention_of_chunk(&self.npu, model, chunk.tokens, keys(chunk, layer));
            if model.windows.is_empty() { of(0) * layers } else { (0..model.layers).map(of).sum() }
        };
        let attention: Picos = prompts.iter().map(attention_of).sum();
        let head = if count > 0 { self.prompts.npu(Work::Head, count, 1).total() } else { Picos::ZERO };
        let span = matrices * layers + attention + head;
        let weights: u64 = of_layer.map(|work| model.weights(work)).iter().sum();
        let contexts = |layer| prompts.iter().map(move |chunk| keys(chunk, layer)).collect::<Vec<u32>>();
        let mut jobs = of_layer.map(|work| (Job::Matrix { work, npu: tokens, pim: 0 }, layers)).to_vec();
        let mut macs = layers * weights * u64::from(tokens) + model.head().weights() * u64::from(count);
        for layer in 0..model.layers {
            let contexts = contexts(layer);
            let of_attention =
                |(chunk, keys): (&Chunk, &u32)| model.attention_macs(*keys) * u64::from(chunk.tokens);
            macs += prompts.iter().zip(&contexts).map(of_attention).sum::<u64>();
            let job = Job::Attention { device: Device::Npu, contexts };
            match jobs.iter_mut().find(|(known, _)| *known == job) {
                Some((_, times)) => *times += 1,
                None => jobs.push((job, 1)),
            }
        }
        let event = Event {
            device: Device::Npu,
            work: Work::Ffn,
            group: 0,
            layer: 0,
            requests: prompts.len() as u32,
            start: Picos::ZERO,
            end: span,
        };
        jobs.push((Job::Matrix { work: Work::Head, npu: count, pim: 0 }, u64::from(count > 0)));
        let mut step = Step { npu_macs: macs, ..Step::alone(self.mode, span, jobs) };
        step.timeline.events.push(event);
        step
    }

    /// Micro-batches through all stages, with vectors (`tokens`) and `logits` of each. Prompts find the pipeline empty.
    fn through_stages(&self, steps: &[(Step, u64, u64)], begins_empty: bool) -> StepCost {
        let mut cost = StepCost::nothing(2);
        let Some(longest) = steps
            .iter()
            .map(|(step, vectors, logits)| {
                let logits = (*logits, self.vocabulary);
                let messages = self.parallel.stage_ns(self.part.hidden, self.part.layers, *vectors, logits);
                step.timeline.span.0 as f64 / 1e3 + messages
            })
            .reduce(f64::max)
        else {
            return cost;
        };
        let (pp, micro) = (u64::from(self.parallel.pp), steps.len() as u64);
        let times = if begins_empty { pp + micro - 1 } else { pp.max(micro) };
        cost.ns = (times as f64 * longest).ceil() as u64;
        let (mut energy, mut worked) = (Energy::default(), Picos::ZERO);
        for (step, ..) in steps {
            energy += self.costs.of(step).total;
            worked += step.timeline.span;
            let rates = [
                (Device::Npu, step.npu_macs, self.hardware.npu_macs_per_second()),
                (Device::Pim, step.pim_macs, self.hardware.pim_macs_per_second(self.mode.sliced())),
            ];
            for (sum, (device, macs, rate)) in cost.uses.iter_mut().zip(rates) {
                let busy_ns = step.timeline.busy(device).0 as f64 / 1e3;
                *sum += Use { busy_ns, macs_ns: macs as f64 / rate * 1e9 };
            }
        }
        let waits = Picos(cost.ns.saturating_mul(1000)).saturating_sub(worked);
        energy += self.costs.of(&Step::alone(self.mode, waits, Vec::new())).total;
        cost.energy = Some(energy * u64::from(self.parallel.chips()));
        cost
    }
}

impl StepTimes for LibraPimSteps<'_> {
    fn devices(&self) -> Vec<&'static str> {
        vec!["NPU", "PIM"]
    }

    fn counts_macs(&self) -> bool {
        true
    }

    fn kv(&self) -> KvMemory {
        self.kv
    }

    fn most_requests(&self) -> u32 {
        self.most_requests
    }

    fn step(&mut self, prompts: &[Chunk], tokens: &[Chunk]) -> Result<StepCost> {
        let prefills: Vec<_> = self
            .parallel
            .micro_batches(prompts)
            .iter()
            .map(|micro| (self.prompt_step(micro), u64::from(tokens_of(micro)), yielding(micro).into()))
            .collect();
        let mut longest_first: Vec<u32> = tokens.iter().map(Chunk::context).collect();
        longest_first.sort_unstable_by_key(|&context| std::cmp::Reverse(context));
        let mut decodes = Vec::new();
        for micro in self.parallel.micro_batches(&longest_first) {
            let requests: Vec<Request> =
                micro.iter().map(|&context| Request { context, remaining: 1 }).collect();
            let count = micro.len() as u64;
            decodes.push((self.planner.step(&Batch::new(&requests)?, self.mode)?, count, count));
        }
        let mut cost = self.through_stages(&prefills, true);
        cost += self.through_stages(&decodes, false);
        Ok(cost)
    }
}
