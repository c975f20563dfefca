//! What PowerInfer states from section 2.2 on, and in its evaluation (section 8).
//!
//! Tables 1 and 3 (sparsity) and the shares of Fig. 4a are inputs of the policies. Fig. 10, 11 and 13 have averages over models and lengths that the
//! text does not list; here they are over the lists below. Speed-ups are end to end unless an item says otherwise.

mod items;

pub use items::ITEMS;

use super::study::mean;
use super::{Bar, Study};
use crate::error::SystemsError;
use crate::machine::Workload;
use crate::policies::Policy;
use crate::run::{Device, Run};
use crate::{Key, machine::Machine};
use ndp_config::{BlockKind, LlmFamily, LlmShape, SystemConfig, WeightFormat};

/// Models of Fig. 10 and 12 on PC-High, FP16.
const HIGH: [&str; 4] = ["opt-30b", "opt-66b", "falcon-40b", "llama2-70b"];
/// Models of Fig. 11 and 12 on PC-Low, FP16.
const LOW: [&str; 5] = ["opt-6.7b", "opt-13b", "opt-30b", "llama2-13b", "bamboo-7b"];
/// Models of Fig. 13 on PC-High, INT4.
const HIGH_INT4: [&str; 3] = ["opt-66b", "llama2-70b", "opt-175b"];
/// Models of Fig. 13 on PC-Low, INT4.
const LOW_INT4: [&str; 3] = ["opt-30b", "falcon-40b", "llama2-70b"];
/// Tokens of the prompts of Fig. 10 to 13.
const PROMPTS: [u32; 2] = [64, 128];
/// Tokens that are generated in Fig. 10 to 13.
const OUTPUTS: [u32; 2] = [128, 512];
/// The longest of them, for single models.
const LONG: (u32, u32) = (64, 512);
/// Batches of Fig. 14 that are smaller than 32.
const BATCHES: [u32; 5] = [1, 2, 4, 8, 16];

type Value = Result<f64, SystemsError>;

/// A model by name; LLaMA2(SwiGLU)-13B has the sizes of LLaMA2-13B.
fn shape(name: &str) -> Result<LlmShape, SystemsError> {
    if name != "llama2-13b-swiglu" {
        return Ok(LlmShape::preset(name)?);
    }
    let family = LlmFamily { kv_heads: 40, gated: true, biased: false, tied_embeddings: false, rotary: true };
    Ok(LlmShape::opt_like(name, 40, 5120, 40, 13824, 32000)?.of_family(family)?)
}

/// A model with a length and a batch on a system.
#[derive(Clone, Copy)]
struct Case {
    system: &'static str,
    model: &'static str,
    length: (u32, u32),
    batch: u32,
    weights: WeightFormat,
}

const fn case(system: &'static str, model: &'static str) -> Case {
    Case { system, model, length: LONG, batch: 1, weights: WeightFormat::Fp16 }
}

impl Case {
    const fn length(self, prompt: u32, output: u32) -> Self {
        Self { length: (prompt, output), ..self }
    }

    const fn int4(self) -> Self {
        Self { weights: WeightFormat::Int4, ..self }
    }

    fn work(self) -> Result<Workload, SystemsError> {
        let (prompt, output) = self.length;
        Workload::new(&shape(self.model)?.with_weights(self.weights), prompt, output, self.batch)
    }

    fn run(self, study: &Study<'_>, policy: Policy) -> Result<Run, SystemsError> {
        study.run_on(&*study.system(self.system)?, "hermes", policy, &self.work()?)
    }

    /// Tokens a second, the prompt included.
    fn rate(self, study: &Study<'_>, policy: Policy) -> Value {
        Ok(self.run(study, policy)?.tokens_per_second())
    }

    /// PowerInfer's rate over another policy's.
    fn over(self, study: &Study<'_>, other: Policy) -> Value {
        Ok(self.rate(study, Policy::PowerInfer)? / self.rate(study, other)?)
    }

    /// Tokens a second without the prompt.
    fn decode(self, study: &Study<'_>, policy: Policy) -> Value {
        Ok(self.run(study, policy)?.decode_tokens_per_second())
    }

    /// Milliseconds of a token.
    fn token_ms(self, study: &Study<'_>, policy: Policy) -> Value {
        Ok(self.run(study, policy)?.token.ns() / 1e6)
    }

    /// Seconds from the first to the last token.
    fn seconds(self, study: &Study<'_>, policy: Policy) -> Value {
        Ok(self.run(study, policy)?.ns() / 1e9)
    }
}

/// OPT-30B on PC-High.
const OPT_30B: Case = case("pc-high", "opt-30b");
/// Falcon-40B on PC-High.
const FALCON: Case = case("pc-high", "falcon-40b");
/// Bamboo-7B on PC-Low.
const BAMBOO: Case = case("pc-low", "bamboo-7b");

/// The cases of a figure: models with prompts of two lengths, and these outputs.
fn grid(system: &'static str, models: &[&'static str], weights: WeightFormat, outputs: &[u32]) -> Vec<Case> {
    let lengths = PROMPTS.iter().flat_map(|&prompt| outputs.iter().map(move |&output| (prompt, output)));
    let of = |length| models.iter().map(move |&model| Case { length, weights, ..case(system, model) });
    lengths.flat_map(of).collect()
}

fn high() -> Vec<Case> {
    grid("pc-high", &HIGH, WeightFormat::Fp16, &OUTPUTS)
}

fn low() -> Vec<Case> {
    grid("pc-low", &LOW, WeightFormat::Fp16, &OUTPUTS)
}

fn high_int4() -> Vec<Case> {
    grid("pc-high", &HIGH_INT4, WeightFormat::Int4, &OUTPUTS)
}

fn low_int4() -> Vec<Case> {
    grid("pc-low", &LOW_INT4, WeightFormat::Int4, &OUTPUTS)
}

fn greatest(cases: &[Case], value: impl Fn(Case) -> Value) -> Value {
    cases.iter().try_fold(0.0, |most: f64, &case| Ok(most.max(value(case)?)))
}

fn least(cases: &[Case], value: impl Fn(Case) -> Value) -> Value {
    cases.iter().try_fold(f64::INFINITY, |most: f64, &case| Ok(most.min(value(case)?)))
}

fn powerinfer(study: &Study<'_>) -> impl Fn(Case) -> Value {
    |case| case.rate(study, Policy::PowerInfer)
}

fn over(study: &Study<'_>, other: Policy) -> impl Fn(Case) -> Value {
    move |case| case.over(study, other)
}

/// Of the work on active neurons and layers in percent, the GPU's share.
fn load(study: &Study<'_>, case: Case, policy: Policy) -> Value {
    let token = case.run(study, policy)?.token;
    let names: &[&str] = if policy == Policy::LlamaCpp {
        &["layers of the GPU", "layers of the host"]
    } else {
        &["attention", "MLP"]
    };
    let of = |device| names.iter().map(|name| token.bytes_of(name, device)).sum::<f64>();
    Ok(100.0 * of(Device::Gpu) / (of(Device::Gpu) + of(Device::Host)))
}

/// Percent by which a case is slower than vLLM on an A100.
fn behind(study: &Study<'_>, case: Case, policy: Policy) -> Value {
    let a100 = Case { system: "a100-80gb", ..case };
    Ok(100.0 - 100.0 * case.rate(study, policy)? / a100.rate(study, Policy::VLlm)?)
}

/// A prompt of one token, as in Fig. 18a.
const fn generation(model: &'static str) -> Case {
    case("pc-high", model).length(1, 512)
}

/// Table 4: 1,536 tokens in, 256 out.
const fn long_prompt(model: &'static str) -> Case {
    case("pc-high", model).length(1536, 256)
}

/// One step of Fig. 15 over llama.cpp.
fn step(study: &Study<'_>, case: Case, policy: Policy) -> Value {
    Ok(case.rate(study, policy)? / case.rate(study, Policy::LlamaCpp)?)
}

/// The number of vectors from which copying weights to the GPU takes less time than their products on the host (Fig. 6).
fn crossover(study: &Study<'_>, share: f64, kind: BlockKind) -> Value {
    let work = OPT_30B.work()?;
    let projection = if kind == BlockKind::Attention { work.projection_bytes() } else { 0.0 };
    let bytes = share * (work.block_bytes(kind) + projection) / f64::from(work.model.layers());
    let faster = |machine: &Machine<'_>, batch: u32| {
        let work = Workload { batch, ..work.clone() };
        machine.bus_ns(bytes, Key::BusStream) + machine.gpu_product_ns(&work, bytes)
            < machine.host_neurons_ns(&work, bytes, bytes)
    };
    study.on(&*study.system("pc-high")?, "hermes", |machine| {
        let found = (1..=Workload::MAX_BATCH).find(|&batch| faster(machine, batch));
        Ok(found.map_or(f64::INFINITY, f64::from))
    })
}

/// Percent of the time of a token that predictors take, mean over models.
fn predictor_share(study: &Study<'_>) -> Value {
    mean(&LOW, |model| {
        let token = case("pc-low", model).run(study, Policy::PowerInfer)?.token;
        Ok(100.0 * token.ns_of("predictor") / token.ns())
    })
}

/// Table 6's parameters, in billions, over those of the model, in percent.
fn predictor_ratio(model: &str, billions: f64) -> Value {
    let work = Workload::new(&LlmShape::preset(model)?, 1, 1, 1)?;
    Ok(100.0 * billions * 2e9 / work.weight_bytes())
}

/// Mean of Table 6's ratios.
fn mean_predictor_ratio() -> Value {
    mean(
        &[("opt-13b", 0.88), ("opt-66b", 3.23), ("falcon-40b", 3.63), ("llama2-70b", 5.66)],
        |(model, billions)| predictor_ratio(model, billions),
    )
}

/// A token of Bamboo-7B with 20 % of active neurons, the most that section 8.3.2 has, in place of 17 %.
fn dense_token_ms(study: &Study<'_>) -> Value {
    let now = study.assumptions().get(Key::FalsePositives);
    study.with(Key::FalsePositives, now + 0.03 / 0.83, |study| BAMBOO.token_ms(study, Policy::PowerInfer))
}

/// Price of a system's GPU.
fn price(system: &str) -> Value {
    Ok(SystemConfig::preset(system)?.price().map_or(f64::NAN, |price| price.gpu_usd))
}

/// The bars of Fig. 10 to 18 and of Table 8.
pub fn bars() -> Vec<Bar> {
    use Policy::{LlamaCpp, PowerInfer, PowerInferEngine, PowerInferOperators, SpecInfer, VLlm};
    let mut all = Vec::new();
    let mut add = |figure, case: Case, policies: &[Policy]| {
        let format = if case.weights == WeightFormat::Fp16 { "" } else { ", INT4" };
        all.extend(policies.iter().map(|&policy| Bar {
            figure,
            system: format!("{} on {}", policy.name(), case.system),
            model: format!("{}{format}", case.model),
            prompt: case.length.0,
            output: case.length.1,
            batch: case.batch,
            cost: Box::new(move |study| {
                study.token_cost(&*study.system(case.system)?, "hermes", policy, &case.work()?)
            }),
        }));
    };
    let both = [LlamaCpp, PowerInfer];
    for model in HIGH {
        add("Fig. 10", case("pc-high", model), &[LlamaCpp, SpecInfer, PowerInfer]);
    }
    for model in LOW {
        add("Fig. 11", case("pc-low", model), &[LlamaCpp, SpecInfer, PowerInfer]);
    }
    for (system, models) in [("pc-high", HIGH_INT4), ("pc-low", LOW_INT4)] {
        for model in models {
            add("Fig. 13", case(system, model).int4(), &both);
        }
    }
    add("Fig. 14", Case { batch: 32, ..FALCON }, &both);
    for case in [FALCON, BAMBOO] {
        add("Fig. 15", case, &[PowerInferOperators, PowerInferEngine]);
    }
    for model in ["opt-30b", "falcon-40b"] {
        add("Fig. 18a", generation(model), &both);
        add("Fig. 18a", Case { system: "a100-80gb", ..generation(model) }, &[VLlm]);
    }
    for model in ["opt-30b", "falcon-40b"] {
        add("Fig. 18b", case("a100-80gb", model), &[VLlm]);
    }
    add("Table 8", case("pc-high", "yi-34b"), &both);
    add("Table 8", case("pc-low", "llama2-13b-swiglu"), &both);
    all
}
