//! What PowerInfer states from section 2.2 on, and in its evaluation (section 8).
//!
//! Tables 1 and 3 (sparsity) and the shares of Fig. 4a are inputs of the policies. Fig. 10, 11 and 13 have averages over models and lengths that the
//! text does not list; here they are over the lists below. Speed-ups are end to end unless an item says otherwise.

use super::measured::Skewed;
use super::study::mean;
use super::{Bound, Item, Study};
use crate::error::SystemsError;
use crate::machine::Workload;
use crate::policies::Policy;
use crate::run::{Device, Run};
use crate::{Key, machine::Machine};
use ndp_config::{BlockKind, LlmFamily, LlmShape, WeightFormat};

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
    let names: &[&str] =
        if policy == Policy::LlamaCpp { &["layers of the GPU", "layers of the host"] } else { &["attention", "MLP"] };
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
    mean(&[("opt-13b", 0.88), ("opt-66b", 3.23), ("falcon-40b", 3.63), ("llama2-70b", 5.66)], |(model, billions)| {
        predictor_ratio(model, billions)
    })
}

/// A token of Bamboo-7B with 20 % of active neurons, the most that section 8.3.2 has, in place of 17 %.
fn dense_token_ms(study: &Study<'_>) -> Value {
    let now = study.assumptions().get(Key::FalsePositives);
    study.with(Key::FalsePositives, now + 0.03 / 0.83, |study| BAMBOO.token_ms(study, Policy::PowerInfer))
}

const fn item(
    figure: &'static str,
    item: &'static str,
    unit: &'static str,
    paper: f64,
    value: fn(&Study<'_>) -> Value,
) -> Item {
    Item {
        figure,
        item,
        unit,
        paper,
        bound: Bound::Exact,
        value,
        contradiction: None,
        known: None,
        tried: None,
    }
}

const fn at_most(item: Item) -> Item {
    Item { bound: Bound::AtMost, ..item }
}

const fn at_least(item: Item) -> Item {
    Item { bound: Bound::AtLeast, ..item }
}

const fn contradicted(item: Item, why: &'static str) -> Item {
    Item { contradiction: Some(why), ..item }
}

/// Contradiction of absolute times on PC-High.
const STATES: &str = "OPT-30B takes 600 ms with llama.cpp in Fig. 3 and 55 ms with PowerInfer in Fig. 18 (45 ms / 0.82), but 909 and 83 ms in Table 8: \
     the machine was in another state, about 1.5 times as slow";
/// Contradiction of PowerInfer's rate for OPT-30B.
const FASTEST: &str =
    "82 % of an A100 that takes 45 ms are 18.2 tokens/s, Table 8 has 12.0, and the greatest of Fig. 10 is 16.06";
/// Contradiction of Falcon-40B's load.
const FALCON_FULL: &str = "attention, predictors (Table 6) and head of Falcon-40B take all of the GPU's memory, so no hot neurons of its MLP fit";

/// Contradiction of Bamboo-7B's activity.
const SPARSE: &str = "Table 3 has 90 % of inactive neurons for Bamboo-7B, section 8.3.2 has 80 to 86 %";

/// All of them.
pub const ITEMS: &[Item] = &[
    item("section 2.2", "llama.cpp, OPT-30B, a token", "ms", 600.0, |s| OPT_30B.token_ms(s, Policy::LlamaCpp)),
    item("section 2.2", "vLLM on an A100, OPT-30B, a token", "ms", 45.0, |s| Case { system: "a100-80gb", ..OPT_30B }.token_ms(s, Policy::VLlm)),
    item("section 2.2", "OPT-30B's layers on the GPU with llama.cpp", "%", 37.0, |s| load(s, OPT_30B, Policy::LlamaCpp)),
    item("Fig. 3b", "llama.cpp's time on the host", "%", 98.0, |s| { let token = OPT_30B.run(s, Policy::LlamaCpp)?.token; Ok(100.0 * token.ns_waiting_for(Device::Host) / token.ns()) }),
    at_least(item("Fig. 3b", "FlexGen's time on the bus, OPT-30B", "%", 99.5, |s| { let token = OPT_30B.run(s, Policy::FlexGen)?.token; Ok(100.0 * token.busy_ns(Device::Bus) / token.ns()) })),
    item("Fig. 4a", "neurons of a block with 80 % of the activations, OPT-30B, synthetic trace", "%", 26.0, |_| Ok(100.0 * Skewed::Opt.skew().block)),
    item("Fig. 4a", "neurons of a block with 80 % of the activations, LLaMA2(ReGLU)-70B, synthetic trace", "%", 43.0, |_| Ok(100.0 * Skewed::ReGlu.skew().block)),
    item("Fig. 4a", "neurons of a block with 80 % of the activations, LLaMA2(SwiGLU)-70B, synthetic trace", "%", 69.0, |_| Ok(100.0 * Skewed::SwiGlu.skew().block)),
    item("Fig. 4b", "neurons of the model with 80 % of the activations, OPT-30B, synthetic trace", "%", 17.0, |_| Ok(100.0 * Skewed::Opt.skew().model)),
    item("Fig. 4b", "neurons of the model with 80 % of the activations, LLaMA2(ReGLU)-70B, synthetic trace", "%", 26.0, |_| Ok(100.0 * Skewed::ReGlu.skew().model)),
    item("Fig. 4b", "neurons of the model with 80 % of the activations, LLaMA2(SwiGLU)-70B, synthetic trace", "%", 75.0, |_| Ok(100.0 * Skewed::SwiGlu.skew().model)),
    at_most(item("Fig. 5a", "active neurons of OPT-30B's first 24 layers, synthetic trace", "%", 1.0, |_| Ok(100.0 * Skewed::Opt.skew().first_half))),
    item("Fig. 5b", "overlap of the most active 20 % of the neurons between tasks", "%", 90.0, |_| Err(SystemsError::NotComputed("needs a model and texts of several domains"))),
    item("Fig. 6a", "vectors from which copying is faster, 10 % of the MLP of OPT-30B", "vectors", 32.0, |s| crossover(s, 0.1, BlockKind::Mlp)),
    item("Fig. 6b", "vectors from which copying is faster, 60 % of attention of OPT-30B", "vectors", 32.0, |s| crossover(s, 0.6, BlockKind::Attention)),
    item("section 5.1", "accuracy of a predictor of 480 MB", "%", 92.0, |_| Err(SystemsError::NotComputed("needs a model and trained predictors"))),
    item("section 5.1", "accuracy of a predictor of 320 MB", "%", 84.0, |_| Err(SystemsError::NotComputed("needs a model and trained predictors"))),
    item("section 5.1", "predictors of fixed size for OPT-175B", "GB", 27.0, |_| Err(SystemsError::NotComputed("the paper does not give their size"))),
    item("section 5.2", "neuron tables of OPT-175B, 16 bits for each neuron of the MLP", "MB", 9.0, |_| { let model = LlmShape::preset("opt-175b")?; Ok(2e-6 * f64::from(model.layers()) * f64::from(model.ffn())) }),
    item("section 5.2", "OPT-175B, FP16", "GB", 350.0, |_| Ok(case("pc-high", "opt-175b").work()?.weight_bytes() / 1e9)),
    item("section 1", "OPT-66B, 4 bits", "GB", 40.0, |_| Ok(case("pc-high", "opt-66b").int4().work()?.weight_bytes() / 1e9)),
    item("section 6.3.3", "time of the solver", "s", 10.0, |_| Err(SystemsError::NotComputed("a measurement of the placement solver, not of this model"))),
    item("section 8.2", "active neurons of OPT-30B, heads and MLP", "% of the bytes", 20.0, |s| { let run = OPT_30B.run(s, Policy::PowerInfer)?; let read = |name| run.token.bytes_of(name, Device::Gpu) + run.token.bytes_of(name, Device::Host); Ok(100.0 * (read("attention") + read("MLP")) / OPT_30B.work()?.layer_bytes()) }),
    item("Fig. 10", "PowerInfer, PC-High, FP16, mean", "tokens/s", 8.32, |s| mean(&high(), powerinfer(s))),
    contradicted(item("Fig. 10", "PowerInfer, PC-High, FP16, greatest", "tokens/s", 16.06, |s| greatest(&high(), powerinfer(s))), FASTEST),
    item("Fig. 10", "PowerInfer over llama.cpp, PC-High, FP16, mean", "x", 7.23, |s| mean(&high(), over(s, Policy::LlamaCpp))),
    item("Fig. 10", "PowerInfer over SpecInfer, PC-High, FP16, mean", "x", 6.19, |s| mean(&high(), over(s, Policy::SpecInfer))),
    item("Fig. 10", "PowerInfer over llama.cpp, Falcon-40B", "x", 11.69, |s| FALCON.over(s, Policy::LlamaCpp)),
    at_least(item("section 8.2", "SpecInfer's time on the bus", "%", 95.0, |s| { let token = OPT_30B.run(s, Policy::SpecInfer)?.token; Ok(100.0 * token.ns_waiting_for(Device::Bus) / token.ns()) })),
    item("Fig. 11", "PowerInfer over llama.cpp, PC-Low, FP16, mean", "x", 4.71, |s| mean(&low(), over(s, Policy::LlamaCpp))),
    item("Fig. 11", "PowerInfer over llama.cpp, PC-Low, FP16, greatest", "x", 7.06, |s| greatest(&low(), over(s, Policy::LlamaCpp))),
    item("Fig. 11", "PowerInfer over SpecInfer, PC-Low, FP16, mean", "x", 5.97, |s| mean(&low(), over(s, Policy::SpecInfer))),
    item("Fig. 11", "PowerInfer over SpecInfer, PC-Low, FP16, greatest", "x", 7.47, |s| greatest(&low(), over(s, Policy::SpecInfer))),
    item("Fig. 12a", "work on the GPU with llama.cpp, PC-High, mean", "%", 20.0, |s| mean(&HIGH, |model| load(s, case("pc-high", model), Policy::LlamaCpp))),
    contradicted(item("Fig. 12a", "work on the GPU with PowerInfer, PC-High, mean", "%", 70.0, |s| mean(&HIGH, |model| load(s, case("pc-high", model), Policy::PowerInfer))), FALCON_FULL),
    item("Fig. 12b", "work on the GPU with PowerInfer, OPT-30B on PC-Low", "%", 42.0, |s| load(s, case("pc-low", "opt-30b"), Policy::PowerInfer)),
    item("section 8.2", "PowerInfer over llama.cpp, 8 tokens out, least", "x", 1.07, |s| least(&[grid("pc-high", &HIGH, WeightFormat::Fp16, &[8]), grid("pc-low", &LOW, WeightFormat::Fp16, &[8])].concat(), over(s, Policy::LlamaCpp))),
    item("section 8.2", "PowerInfer over llama.cpp, 8 tokens out, greatest", "x", 4.0, |s| greatest(&[grid("pc-high", &HIGH, WeightFormat::Fp16, &[8]), grid("pc-low", &LOW, WeightFormat::Fp16, &[8])].concat(), over(s, Policy::LlamaCpp))),
    item("Table 4", "llama.cpp, LLaMA(ReGLU)-13B, 1,536 in and 256 out", "s", 49.91, |s| long_prompt("llama2-13b").seconds(s, Policy::LlamaCpp)),
    item("Table 4", "PowerInfer, LLaMA(ReGLU)-13B, 1,536 in and 256 out", "s", 14.38, |s| long_prompt("llama2-13b").seconds(s, Policy::PowerInfer)),
    item("Table 4", "PowerInfer over llama.cpp, LLaMA(ReGLU)-13B", "x", 3.47, |s| long_prompt("llama2-13b").over(s, Policy::LlamaCpp)),
    item("Table 4", "llama.cpp, Falcon-40B, 1,536 in and 256 out", "s", 321.63, |s| long_prompt("falcon-40b").seconds(s, Policy::LlamaCpp)),
    item("Table 4", "PowerInfer, Falcon-40B, 1,536 in and 256 out", "s", 56.48, |s| long_prompt("falcon-40b").seconds(s, Policy::PowerInfer)),
    item("Table 4", "PowerInfer over llama.cpp, Falcon-40B", "x", 5.69, |s| long_prompt("falcon-40b").over(s, Policy::LlamaCpp)),
    item("Table 4", "llama.cpp, LLaMA(ReGLU)-70B, INT4, 1,536 in and 256 out", "s", 92.76, |s| long_prompt("llama2-70b").int4().seconds(s, Policy::LlamaCpp)),
    item("Table 4", "PowerInfer, LLaMA(ReGLU)-70B, INT4, 1,536 in and 256 out", "s", 37.17, |s| long_prompt("llama2-70b").int4().seconds(s, Policy::PowerInfer)),
    item("Table 4", "PowerInfer over llama.cpp, LLaMA(ReGLU)-70B, INT4", "x", 2.50, |s| long_prompt("llama2-70b").int4().over(s, Policy::LlamaCpp)),
    item("Fig. 13", "PowerInfer, PC-High, INT4, mean", "tokens/s", 13.2, |s| mean(&high_int4(), powerinfer(s))),
    item("Fig. 13", "PowerInfer, PC-High, INT4, greatest", "tokens/s", 29.08, |s| greatest(&high_int4(), powerinfer(s))),
    item("Fig. 13", "PowerInfer over llama.cpp, PC-High, INT4, mean", "x", 2.89, |s| mean(&high_int4(), over(s, Policy::LlamaCpp))),
    contradicted(item("Fig. 13", "PowerInfer over llama.cpp, PC-High, INT4, greatest", "x", 4.28, |s| greatest(&high_int4(), over(s, Policy::LlamaCpp))), "the abstract has 8.00x on an RTX 4090, section 8.2 has 4.28x there and 8.00x on PC-Low"),
    item("Fig. 13", "PowerInfer over llama.cpp, PC-Low, INT4, mean", "x", 5.01, |s| mean(&low_int4(), over(s, Policy::LlamaCpp))),
    item("Fig. 13", "PowerInfer over llama.cpp, PC-Low, INT4, greatest", "x", 8.0, |s| greatest(&low_int4(), over(s, Policy::LlamaCpp))),
    item("section 8.2", "PowerInfer, OPT-175B, INT4, PC-High", "tokens/s", 2.0, |s| case("pc-high", "opt-175b").int4().rate(s, Policy::PowerInfer)),
    item("section 8.2", "PowerInfer over llama.cpp, OPT-175B, INT4, PC-High", "x", 2.66, |s| case("pc-high", "opt-175b").int4().over(s, Policy::LlamaCpp)),
    item("Fig. 14", "PowerInfer over llama.cpp, Falcon-40B, mean over batches below 32", "x", 6.08, |s| mean(&BATCHES, |batch| Case { batch, ..FALCON }.over(s, Policy::LlamaCpp))),
    item("Fig. 14", "PowerInfer over llama.cpp, Falcon-40B, batch 32", "x", 4.38, |s| Case { batch: 32, ..FALCON }.over(s, Policy::LlamaCpp)),
    item("Fig. 15", "+PO over llama.cpp, Falcon-40B on PC-High", "x", 3.32, |s| step(s, FALCON, Policy::PowerInferOperators)),
    item("Fig. 15", "+Engine over llama.cpp, Falcon-40B on PC-High", "x", 7.80, |s| step(s, FALCON, Policy::PowerInferEngine)),
    item("Fig. 15", "+Policy over llama.cpp, Falcon-40B on PC-High", "x", 11.69, |s| step(s, FALCON, Policy::PowerInfer)),
    item("Fig. 15", "+PO over llama.cpp, Bamboo-7B on PC-Low", "x", 1.87, |s| step(s, BAMBOO, Policy::PowerInferOperators)),
    item("Fig. 15", "+Engine over llama.cpp, Bamboo-7B on PC-Low", "x", 2.60, |s| step(s, BAMBOO, Policy::PowerInferEngine)),
    item("Fig. 15", "+Policy over llama.cpp, Bamboo-7B on PC-Low", "x", 3.62, |s| step(s, BAMBOO, Policy::PowerInfer)),
    contradicted(item("Table 5", "a token of Bamboo-7B on PC-Low, mean, STEM", "ms", 38.05, |s| BAMBOO.token_ms(s, Policy::PowerInfer)), SPARSE),
    contradicted(item("Table 5", "a token of Bamboo-7B on PC-Low, mean, HumanEval", "ms", 36.71, |s| BAMBOO.token_ms(s, Policy::PowerInfer)), SPARSE),
    contradicted(item("Table 5", "a token of Bamboo-7B on PC-Low, mean, Roleplay", "ms", 37.08, |s| BAMBOO.token_ms(s, Policy::PowerInfer)), SPARSE),
    contradicted(item("Table 5", "a token of Bamboo-7B on PC-Low, mean, Table-Extraction", "ms", 37.42, |s| BAMBOO.token_ms(s, Policy::PowerInfer)), SPARSE),
    contradicted(item("Table 5", "a token of Bamboo-7B on PC-Low, 95th percentile, STEM", "ms", 40.75, dense_token_ms), SPARSE),
    contradicted(item("Table 5", "a token of Bamboo-7B on PC-Low, 95th percentile, HumanEval", "ms", 40.48, dense_token_ms), SPARSE),
    contradicted(item("Table 5", "a token of Bamboo-7B on PC-Low, 95th percentile, Roleplay", "ms", 40.61, dense_token_ms), SPARSE),
    contradicted(item("Table 5", "a token of Bamboo-7B on PC-Low, 95th percentile, Table-Extraction", "ms", 40.74, dense_token_ms), SPARSE),
    item("Table 5", "a token of Bamboo-7B on PC-Low, 99th percentile, STEM", "ms", 42.33, |_| Err(SystemsError::NotComputed("needs the distribution of sparsity over tokens, of which the paper gives the limits"))),
    item("Table 5", "a token of Bamboo-7B on PC-Low, 99th percentile, HumanEval", "ms", 42.37, |_| Err(SystemsError::NotComputed("needs the distribution of sparsity over tokens, of which the paper gives the limits"))),
    item("Table 5", "a token of Bamboo-7B on PC-Low, 99th percentile, Roleplay", "ms", 43.87, |_| Err(SystemsError::NotComputed("needs the distribution of sparsity over tokens, of which the paper gives the limits"))),
    item("Table 5", "a token of Bamboo-7B on PC-Low, 99th percentile, Table-Extraction", "ms", 42.93, |_| Err(SystemsError::NotComputed("needs the distribution of sparsity over tokens, of which the paper gives the limits"))),
    item("section 8.3.2", "95th percentile over mean, Bamboo-7B on PC-Low", "x", 1.1, |s| Ok(dense_token_ms(s)? / BAMBOO.token_ms(s, Policy::PowerInfer)?)),
    item("Fig. 16", "sparsity from which PyTorch's sparse operator beats the dense one on the CPU", "%", 87.0, |_| Err(SystemsError::NotComputed("a property of that library"))),
    at_most(item("Fig. 16", "sparsity from which PowerInfer's operator beats the dense one on the CPU", "%", 10.0, |s| Ok(100.0 - 100.0 * s.assumptions().get(Key::HostBandwidth) / s.assumptions().get(Key::HostDense)))),
    at_most(item("Fig. 17", "time of predictors on PC-Low, mean", "%", 10.0, predictor_share)),
    item("Table 6", "parameters of the predictors, OPT-13B", "billions", 0.88, |_| Err(SystemsError::NotComputed("the result of training them; an input of the policies"))),
    item("Table 6", "predictors over the model, OPT-13B", "%", 6.71, |_| predictor_ratio("opt-13b", 0.88)),
    item("Table 6", "parameters of the predictors, OPT-66B", "billions", 3.23, |_| Err(SystemsError::NotComputed("the result of training them; an input of the policies"))),
    item("Table 6", "predictors over the model, OPT-66B", "%", 4.88, |_| predictor_ratio("opt-66b", 3.23)),
    item("Table 6", "parameters of the predictors, Falcon(ReLU)-40B", "billions", 3.63, |_| Err(SystemsError::NotComputed("the result of training them; an input of the policies"))),
    item("Table 6", "predictors over the model, Falcon(ReLU)-40B", "%", 8.68, |_| predictor_ratio("falcon-40b", 3.63)),
    item("Table 6", "parameters of the predictors, LLaMA(ReGLU)-70B", "billions", 5.66, |_| Err(SystemsError::NotComputed("the result of training them; an input of the policies"))),
    item("Table 6", "predictors over the model, LLaMA(ReGLU)-70B", "%", 8.08, |_| predictor_ratio("llama2-70b", 5.66)),
    contradicted(item("section 8.3.4", "predictors over the model, mean", "%", 7.09, |_| mean_predictor_ratio()), "section 5.1 has 6 %, section 8.3.4 has 7.09 %"),
    item("Fig. 18a", "llama.cpp on PC-High behind vLLM on an A100, OPT-30B, 1 token in", "%", 93.0, |s| behind(s, generation("opt-30b"), Policy::LlamaCpp)),
    contradicted(item("Fig. 18a", "PowerInfer's rate over vLLM's on an A100, OPT-30B, 1 token in", "%", 82.0, |s| Ok(100.0 - behind(s, generation("opt-30b"), Policy::PowerInfer)?)), FASTEST),
    contradicted(item("Fig. 18b", "PowerInfer's rate over vLLM's on an A100, OPT-30B, 64 tokens in", "%", 72.0, |s| Ok(100.0 - behind(s, case("pc-high", "opt-30b"), Policy::PowerInfer)?)), FASTEST),
    item("Fig. 18a", "llama.cpp on PC-High behind vLLM on an A100, Falcon-40B, 1 token in", "%", 92.0, |s| behind(s, generation("falcon-40b"), Policy::LlamaCpp)),
    contradicted(item("Fig. 18a", "PowerInfer's rate over vLLM's on an A100, Falcon-40B, 1 token in", "%", 77.0, |s| Ok(100.0 - behind(s, generation("falcon-40b"), Policy::PowerInfer)?)), FALCON_FULL),
    contradicted(item("Fig. 18b", "PowerInfer's rate over vLLM's on an A100, Falcon-40B, 64 tokens in", "%", 71.0, |s| Ok(100.0 - behind(s, case("pc-high", "falcon-40b"), Policy::PowerInfer)?)), FALCON_FULL),
    item("Table 7", "mean accuracy with PowerInfer less the one without, OPT-7B", "percentage points", -0.02, |_| Err(SystemsError::NotComputed("needs the model and its tasks, as all numbers of this table do"))),
    item("Table 7", "mean accuracy with PowerInfer less the one without, OPT-13B", "percentage points", 0.27, |_| Err(SystemsError::NotComputed("needs the model and its tasks, as all numbers of this table do"))),
    item("Table 7", "mean accuracy with PowerInfer less the one without, LLaMA(ReGLU)-13B", "percentage points", -0.94, |_| Err(SystemsError::NotComputed("needs the model and its tasks, as all numbers of this table do"))),
    item("Table 7", "mean accuracy with PowerInfer less the one without, Falcon-40B", "percentage points", -0.28, |_| Err(SystemsError::NotComputed("needs the model and its tasks, as all numbers of this table do"))),
    item("Table 7", "mean accuracy with PowerInfer less the one without, LLaMA(ReGLU)-70B", "percentage points", -0.42, |_| Err(SystemsError::NotComputed("needs the model and its tasks, as all numbers of this table do"))),
    contradicted(item("Table 8", "PowerInfer, Yi(SwiGLU)-34B, PC-High", "tokens/s", 1.7, |s| case("pc-high", "yi-34b").decode(s, Policy::PowerInfer)), STATES),
    contradicted(item("Table 8", "llama.cpp, Yi(SwiGLU)-34B, PC-High", "tokens/s", 1.0, |s| case("pc-high", "yi-34b").decode(s, Policy::LlamaCpp)), STATES),
    item("Table 8", "PowerInfer over llama.cpp, Yi(SwiGLU)-34B, PC-High", "x", 1.7, |s| Ok(case("pc-high", "yi-34b").decode(s, Policy::PowerInfer)? / case("pc-high", "yi-34b").decode(s, Policy::LlamaCpp)?)),
    item("Table 8", "PowerInfer, LLaMA(SwiGLU)-2-13B, PC-Low", "tokens/s", 3.1, |s| case("pc-low", "llama2-13b-swiglu").decode(s, Policy::PowerInfer)),
    item("Table 8", "llama.cpp, LLaMA(SwiGLU)-2-13B, PC-Low", "tokens/s", 2.1, |s| case("pc-low", "llama2-13b-swiglu").decode(s, Policy::LlamaCpp)),
    item("Table 8", "PowerInfer over llama.cpp, LLaMA(SwiGLU)-2-13B, PC-Low", "x", 1.5, |s| Ok(case("pc-low", "llama2-13b-swiglu").decode(s, Policy::PowerInfer)? / case("pc-low", "llama2-13b-swiglu").decode(s, Policy::LlamaCpp)?)),
    contradicted(item("Table 8", "PowerInfer, OPT-30B, PC-High", "tokens/s", 12.0, |s| case("pc-high", "opt-30b").decode(s, Policy::PowerInfer)), STATES),
    contradicted(item("Table 8", "llama.cpp, OPT-30B, PC-High", "tokens/s", 1.1, |s| case("pc-high", "opt-30b").decode(s, Policy::LlamaCpp)), STATES),
    item("Table 8", "PowerInfer over llama.cpp, OPT-30B, PC-High", "x", 10.9, |s| Ok(case("pc-high", "opt-30b").decode(s, Policy::PowerInfer)? / case("pc-high", "opt-30b").decode(s, Policy::LlamaCpp)?)),
    item("section 8.5", "accuracy of the predictors", "%", 95.0, |_| Err(SystemsError::NotComputed("needs a model and trained predictors"))),
    item("section 8.5", "effect of mispredictions on a layer's output, OPT-7B", "%", 0.4, |_| Err(SystemsError::NotComputed("needs the model"))),
    item("Table 9", "a token of Qwen1.5-4B, dense, in the GPU of PC-High", "ms", 10.83, |s| case("pc-high", "qwen1.5-4b").token_ms(s, Policy::LlamaCpp)),
    item("Table 9", "a token of Bamboo-7B with PowerInfer, PC-High", "ms", 11.85, |s| case("pc-high", "bamboo-7b").token_ms(s, Policy::PowerInfer)),
    item("Table 9", "a token of Bamboo-7B, dense, in the GPU of PC-High", "ms", 18.54, |s| case("pc-high", "bamboo-7b").token_ms(s, Policy::LlamaCpp)),
    item("Table 9", "mean accuracy, Qwen1.5-4B", "%", 52.23, |_| Err(SystemsError::NotComputed("needs the model and its tasks, as the table's single tasks do"))),
    item("Table 9", "mean accuracy, Bamboo-7B with PowerInfer", "%", 65.65, |_| Err(SystemsError::NotComputed("needs the model and its tasks, as the table's single tasks do"))),
    item("Table 9", "mean accuracy, Bamboo-7B, dense", "%", 65.49, |_| Err(SystemsError::NotComputed("needs the model and its tasks, as the table's single tasks do"))),
    contradicted(item("abstract", "speed-up with INT4, RTX 4090", "x", 8.0, |s| greatest(&high_int4(), over(s, Policy::LlamaCpp))), "section 8.2 has 4.28x on the RTX 4090; 8.00x is PC-Low's"),
];
