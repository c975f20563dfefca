//! Low-rank predictors of the MLP, in a text that runs in software and in systems whose cores and GPU predict with
//! them: misses and extras of each layer, and the perplexity, beside Hermes' predictor. `-- --nocapture low_rank`
//! prints the tables of docs/predictor.md.

use common::causes::every_nanosecond_has_a_cause;
use common::energy::without_bus;
use common::{Outcome, some};
use ndp_config::{BlockKind, DesignConfig, SystemConfig, WeightFormat};
use ndp_hermes::predictor::{Confusion, Evaluation, LowRank};
use ndp_model::{GenerateOptions, Generation, Model, SoftwareBackend, generate};
use ndp_sim::core::{Backend, CoreOptions};
use ndp_sim::gemv::GemvOptions;
use ndp_sim::system::{
    Cause, Device, Event, Fault, Knowledge, LinkOptions, Load, NeuronMap, OnlinePredictor, Operation,
    Perplexity, PredictedSoftware, Resource, Setup, StaticPlaces, SystemBackend, SystemOptions, perplexity,
};
use ndp_traces::capture::shape_of;
use serde_json::Value;
use std::error::Error;
use std::path::{Path, PathBuf};

/// Options of the text that Hermes' parents come from.
const PROFILE: GenerateOptions = GenerateOptions::new(128, 70, 9);
/// LLM in a flash: rates among active, and among inactive neurons.
const FALSE_NEGATIVES: f64 = 0.05;
const FALSE_POSITIVES: f64 = 0.07;
const MODELS: [&str; 2] = ["model", "model-llama"];

fn golden(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("golden").join(file)
}

fn json(file: &str) -> Result<Value, Box<dyn Error>> {
    Ok(serde_json::from_slice(&std::fs::read(golden(file))?)?)
}

fn text<'a>(json: &'a Value, key: &str) -> Result<&'a str, Box<dyn Error>> {
    Ok(json[key].as_str().ok_or_else(|| format!("{key} is {}, expected a text", json[key]))?)
}

fn low_rank(name: &str, model: &Model) -> Result<LowRank, Box<dyn Error>> {
    Ok(LowRank::load(&golden(name).join("predictor.safetensors"), &shape_of(&model.config))?)
}

/// (missed of the active ones, predicted of the inactive ones).
fn rates(counts: &Confusion) -> (f64, f64) {
    let share = |part: u64, other: u64| part as f64 / (part + other) as f64;
    (
        share(counts.false_negatives, counts.true_positives),
        share(counts.false_positives, counts.true_negatives),
    )
}

struct Found {
    perplexity: Perplexity,
    live: OnlinePredictor,
}

impl Found {
    /// Mean over the layers' MLPs of [`rates`].
    fn mean(&self) -> (f64, f64) {
        let layers: Vec<_> = self.mlp().map(|counts| rates(&counts)).collect();
        let mean = |rate: fn(&(f64, f64)) -> f64| layers.iter().map(rate).sum::<f64>() / layers.len() as f64;
        (mean(|rates| rates.0), mean(|rates| rates.1))
    }

    fn mlp(&self) -> impl Iterator<Item = Confusion> {
        self.live.blocks().iter().skip(1).step_by(2).copied()
    }

    fn print(&self, name: &str) {
        let (missed, extra) = self.mean();
        let evaluation = self.live.evaluation();
        let recall = evaluation.attention.recall();
        let attention = if recall.is_nan() { "known".to_owned() } else { format!("{:.2} %", 100.0 * recall) };
        println!(
            "  {name:<9} perplexity {:.4} ({} of {} right), MLP: FN {:.2} %, FP {:.2} %, recall {:.2} %, \
             precision {:.2} %, magnitude missed {:.2} %; attention: recall {}",
            self.perplexity.per_token,
            self.perplexity.right,
            self.perplexity.tokens,
            100.0 * missed,
            100.0 * extra,
            100.0 * evaluation.mlp.recall(),
            100.0 * evaluation.mlp.precision(),
            100.0 * self.live.missed().share(),
            attention,
        );
        for (layer, counts) in self.mlp().enumerate() {
            let (missed, extra) = rates(&counts);
            println!("    layer {layer}: FN {:.2} %, FP {:.2} %", 100.0 * missed, 100.0 * extra);
        }
    }
}

fn compare(name: &str, text: &[u8], prompt: &[u8]) -> Result<(Perplexity, Found, Found), Box<dyn Error>> {
    let model = Model::load(&golden(name))?;
    let shape = shape_of(&model.config);
    let prompt_tokens = model.vocabulary.tokens(prompt)?.len();
    let with = |live: OnlinePredictor| -> Result<Found, Box<dyn Error>> {
        let mut software = PredictedSoftware::new(live);
        let perplexity = perplexity(&model, &mut software, text, prompt_tokens)?;
        Ok(Found { perplexity, live: software.live().clone() })
    };
    let exact = perplexity(&model, &mut SoftwareBackend::new(), text, prompt_tokens)?;
    let profile = Setup::profile(&model, &model.vocabulary.tokens(prompt)?, &PROFILE)?.profile;
    let found = with(OnlinePredictor::of_low_rank(&shape, low_rank(name, &model)?, prompt_tokens))?;
    let hermes = with(OnlinePredictor::new(&shape, &profile, prompt_tokens)?)?;
    let told = OnlinePredictor::new(&shape, &profile, prompt_tokens)?.with_knowledge(Knowledge::Everything);
    let told = with(told)?;
    let nothing = with(OnlinePredictor::exact(&shape, prompt_tokens))?;
    assert_eq!(nothing.perplexity, exact, "{name}: exact");
    assert_eq!(nothing.live.evaluation().all().total(), 0);
    println!("{name}: exact perplexity {:.4}, {} tokens", exact.per_token, exact.tokens);
    found.print("low-rank");
    hermes.print("hermes");
    told.print("hermes, told what was not computed");
    Ok((exact, found, hermes))
}

/// The bars of docs/predictor.md.
fn check(name: &str, exact: &Perplexity, found: &Found, hermes: &Found) {
    let (missed, extra) = found.mean();
    assert!(missed <= FALSE_NEGATIVES, "{name}: {missed} of the active neurons missed");
    assert!(extra <= FALSE_POSITIVES, "{name}: {extra} of the inactive neurons predicted");
    let change = found.perplexity.per_token / exact.per_token - 1.0;
    assert!(change.abs() <= 0.01, "{name}: {exact:?}, with predictions {:?}", found.perplexity);
    assert!(hermes.perplexity.per_token > found.perplexity.per_token, "{name}: {:?}", hermes.perplexity);
    // Attention's active inputs are known: nothing is predicted there.
    assert_eq!(found.live.evaluation().attention, Confusion::default());
    assert!(found.live.missed().share() < missed, "{name}: what is missed is small");
}

#[test]
fn held_out_text_stays_within_the_bars() -> Outcome {
    for name in some(&MODELS) {
        let stored = json(&format!("{name}/predictor.json"))?;
        let text = text(&stored, "held_out_text")?;
        let prompt = text.char_indices().nth(40).map_or(text, |(at, _)| &text[..at]);
        let (exact, found, hermes) = compare(name, text.as_bytes(), prompt.as_bytes())?;
        check(name, &exact, &found, &hermes);
    }
    Ok(())
}

#[test]
fn the_stored_text_stays_within_the_bars() -> Outcome {
    for &(name, file) in some(&[(MODELS[1], "llama-default.json"), (MODELS[0], "default.json")]) {
        let stored = json(&format!("generate/{file}"))?;
        let (text, prompt) = (text(&stored, "text_with_prompt")?, text(&stored, "prompt")?);
        let (exact, found, hermes) = compare(name, text.as_bytes(), prompt.as_bytes())?;
        check(name, &exact, &found, &hermes);
    }
    Ok(())
}

#[test]
fn a_text_with_low_rank_predictions_has_another_digest_and_the_same_prompt() -> Outcome {
    for name in MODELS {
        let model = Model::load(&golden(name))?;
        let shape = shape_of(&model.config);
        let options = GenerateOptions::new(4, 0, 0);
        let exact = generate(&model, &mut SoftwareBackend::new(), b"She was", &options, |_| {})?;
        let prompt_tokens = model.vocabulary.tokens(b"She was")?.len();
        let live = OnlinePredictor::of_low_rank(&shape, low_rank(name, &model)?, prompt_tokens);
        // The prompt is exact; after it the MLP cannot be predicted without its input, and attention needs no
        // prediction.
        assert_eq!(live.predict(0, BlockKind::Mlp)?, None);
        let mut software = PredictedSoftware::new(live);
        let found = generate(&model, &mut software, b"She was", &options, |_| {})?;
        assert_eq!(found.logits_digests[0], exact.logits_digests[0]);
        assert_ne!(found.logits_digests[1], exact.logits_digests[1]);
        let live = software.live();
        assert_eq!(live.predict(0, BlockKind::Attention)?, None);
        let error = live.predict(0, BlockKind::Mlp).err().ok_or("predicted without an input")?;
        assert!(error.to_string().contains("needs the input"), "{error}");
        assert_eq!(live.tokens().len(), 3);
        assert_eq!(
            live.evaluation().all().total(),
            3 * (model.config.num_hidden_layers() * model.config.ffn_dim()) as u64
        );
    }
    Ok(())
}

struct Job {
    model: Model,
    live: OnlinePredictor,
    prompt_tokens: usize,
    expected: Generation,
    evaluation: Evaluation,
}

const PROMPT: &[u8] = b"She was";
const TOKENS: GenerateOptions = GenerateOptions::new(3, 0, 0);

impl Job {
    fn new(name: &str, weights: WeightFormat) -> Result<Self, Box<dyn Error>> {
        let (model, _) = Model::load(&golden(name))?.quantised(weights)?;
        let prompt_tokens = model.vocabulary.tokens(PROMPT)?.len();
        let predictor = low_rank(name, &model)?;
        let live = OnlinePredictor::of_low_rank(&shape_of(&model.config), predictor, prompt_tokens);
        let mut software = PredictedSoftware::new(live.clone());
        let expected = generate(&model, &mut software, PROMPT, &TOKENS, |_| {})?;
        let evaluation = *software.live().evaluation();
        Ok(Self { model, live, prompt_tokens, expected, evaluation })
    }

    fn open<P: NeuronMap>(
        &self,
        config: &str,
        backend: Backend,
        places: P,
        (dimms, load): (u32, Load),
    ) -> Result<SystemBackend<P>, Box<dyn Error>> {
        let system = SystemConfig::preset("hermes")?.with_dimms(dimms)?;
        let asked = SystemOptions { prompt_on_gpu: self.prompt_tokens, load, ..SystemOptions::new(&system) };
        let unit = GemvOptions::from(CoreOptions { predict: true, backend, ..CoreOptions::default() });
        Ok(SystemBackend::open(&DesignConfig::preset(config)?, &unit, &asked, places, &self.model)?)
    }

    /// Text, logits and predictions equal the software's, cycles the model's.
    fn check<P: NeuronMap>(&self, mut system: SystemBackend<P>) -> Result<SystemBackend<P>, Box<dyn Error>> {
        system = system.with_predictor(self.live.clone())?;
        let found = generate(&self.model, &mut system, PROMPT, &TOKENS, |_| {})?;
        assert_eq!(
            (&found.text, &found.logits_digests),
            (&self.expected.text, &self.expected.logits_digests)
        );
        let figures = system.figures();
        assert_eq!((figures.mismatches, system.protocol_violations(), system.backdoor_accesses()), (0, 0, 0));
        assert!(figures.dimms.iter().all(|dimm| dimm.cycles > 0 && dimm.cycles == dimm.model_cycles));
        assert_eq!(system.live().ok_or("no predictor")?.evaluation(), &self.evaluation);
        every_nanosecond_has_a_cause(figures, system.events());
        Ok(system)
    }
}

/// Every seventh neuron changes its DIMM after each token.
struct Wanderers {
    dimms: u32,
    turn: u32,
}

impl NeuronMap for Wanderers {
    fn device(&self, layer: u32, _: BlockKind, neuron: u32) -> Device {
        let turn = if neuron.is_multiple_of(7) { self.turn } else { 0 };
        if neuron % 5 == 1 { Device::Gpu } else { Device::Dimm((layer + neuron + turn) % self.dimms) }
    }

    fn end(&mut self, _tokens: u32) {
        self.turn += 1;
    }
}

#[test]
fn a_system_predicts_and_computes_what_the_software_does() -> Outcome {
    for name in MODELS {
        let job = Job::new(name, WeightFormat::Fp16)?;
        let of = |system: &SystemBackend<_>| (system.figures().clone(), without_bus(system.events()));
        let places = || StaticPlaces::new(2, 20, 7);
        let rtl = job.check(job.open("tiny", Backend::Rtl, places(), (2, Load::Backdoor))?)?;
        let modelled = job.check(job.open("tiny", Backend::Cycles, places(), (2, Load::Backdoor))?)?;
        assert!(of(&rtl) == of(&modelled), "{name}: RTL and models differ");
        // Every device predicts its own neurons only, before it computes them.
        let (figures, events) = of(&rtl);
        let gpu =
            |what| events.iter().filter(move |event| event.place == Resource::Gpu && event.what == what);
        let layers = job.model.config.num_hidden_layers();
        assert_eq!(gpu("prediction").count(), layers * figures.tokens.len());
        assert!(gpu("prediction").all(|event| event.shares.get(Cause::Prediction) > 0));
        let evaluation = job.evaluation.all();
        let predicted = evaluation.true_positives + evaluation.false_positives;
        let fc1 = |event: &&Event| event.operation == Operation::Fc1 && event.what == "neurons";
        let computed: usize = events.iter().filter(fc1).map(|event| event.neurons.len()).sum();
        assert_eq!(computed as u64, predicted, "{name}");
        for (config, dimms) in [("tiny", 1), ("tiny", 4), ("hermes", 2)] {
            let places = StaticPlaces::new(dimms, 20, 7);
            job.check(job.open(config, Backend::Cycles, places, (dimms, Load::Port))?)?;
        }
    }
    Ok(())
}

#[test]
fn predictors_move_with_their_neurons() -> Outcome {
    for (name, weights) in MODELS.into_iter().zip([WeightFormat::Fp16, WeightFormat::Int4]) {
        let job = Job::new(name, weights)?;
        for linked in [false, true] {
            let places = Wanderers { dimms: 2, turn: 0 };
            let mut system = job.open("tiny", Backend::Cycles, places, (2, Load::Backdoor))?;
            if linked {
                system = system.with_links(&LinkOptions::default())?;
            }
            let mut system = job.check(system)?;
            system.count_links()?;
            let moved = system.figures().links.as_ref().map(|links| links.migrations);
            assert!(moved.is_none_or(|moved| moved > 20) && moved.is_some() == linked, "{moved:?}");
        }
    }
    Ok(())
}

#[test]
fn one_wrong_bit_of_a_predictor_ends_the_generation() -> Outcome {
    let job = Job::new("model", WeightFormat::Fp16)?;
    for (fault, label) in [(Fault::Prediction, "prediction of"), (Fault::Activity, "activity of")] {
        let system = job.open("tiny", Backend::Rtl, StaticPlaces::new(2, 20, 7), (2, Load::Backdoor))?;
        let mut system = system.with_predictor(job.live.clone())?.with_fault(fault);
        let Err(error) = generate(&job.model, &mut system, PROMPT, &TOKENS, |_| {}) else {
            return Err(format!("{fault:?} has passed").into());
        };
        let first = system.mismatches().first().ok_or("no mismatch")?;
        assert!(first.label.starts_with(label), "{fault:?}: {first:?}, {error}");
    }
    Ok(())
}
