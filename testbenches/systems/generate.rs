//! Text generation with the decoder's layers in RTL, on the small unit: equal to the reference to the last logit.
//!
//! `ndp generate` does the same with the full unit; here few tokens have to do, with stalls on every handshake.

use super::checkpoint;
use common::rtl::design_config;
use common::{Outcome, amount, some};
use ndp_config::{DesignConfig, WeightFormat};
use ndp_isa::Opcode;
use ndp_model::{Decoder, GemvClass, GenerateOptions, Model, generate, logits_digest};
use ndp_sim::core::{CoreOptions, HostStalls};
use ndp_sim::error::Mismatches;
use ndp_sim::gemv::{BitFlip, GemvOptions};
use ndp_sim::system::{LoneCore, Neurons};
use std::error::Error;
use std::path::Path;

fn model() -> Result<Model, Box<dyn Error>> {
    Ok(Model::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/model"))?)
}

fn stored(name: &str) -> Result<serde_json::Value, Box<dyn Error>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/generate").join(name);
    Ok(serde_json::from_str(&std::fs::read_to_string(path)?)?)
}

/// In `make exhaustive` more than the longest prompt has.
fn positions() -> usize {
    amount(24)
}

/// Some tokens of a golden text together, then a single one: the logits after both have to be the stored ones.
fn logits_are_stored(
    model: &Model,
    backend: &mut LoneCore,
    golden: &serde_json::Value,
    positions: usize,
) -> Outcome {
    let numbers = |key: &str| golden[key].as_array().into_iter().flatten();
    let tokens = numbers("prompt_tokens").chain(numbers("generated_tokens")).take(positions);
    let tokens: Vec<u32> = tokens.filter_map(|token| Some(token.as_u64()? as u32)).collect();
    let (last, first) = tokens.split_last().ok_or("no tokens")?;
    let mut decoder = Decoder::new(model);
    let mut logits = decoder.prefill(backend, first)?;
    logits.extend(decoder.step(backend, *last)?);
    let digests = logits.chunks(model.config.vocab_size()).map(logits_digest);
    let digests: Vec<String> = digests.map(|digest| format!("{digest:016x}")).collect();
    assert_eq!(digests, golden["logits_fnv1a64"].as_array().ok_or("digests")?[positions - 2..positions]);
    Ok(())
}

#[test]
fn logits_equal_the_stored_golden() -> Outcome {
    let [all, active] = [Neurons::All, Neurons::Active].map(|neurons| stored_logits("tiny", neurons));
    let (all, active) = (all?, active?);
    // Only products with zeros are left out: less work for the same outputs, by other instructions.
    assert_eq!(all.total().outputs_checked, active.total().outputs_checked);
    for (class, figures) in all.classes() {
        let less = active.classes()[class];
        let after_relu = matches!(class, GemvClass::Qkv | GemvClass::Fc2);
        assert!(if after_relu { less.macs < figures.macs } else { less.macs == figures.macs }, "{class:?}");
    }
    let opcodes = |backend: &LoneCore| backend.sums().opcodes.keys().copied().collect::<Vec<_>>();
    // Attention has an AXPY in any case; lists name active neurons.
    let dense =
        [Opcode::Load, Opcode::Store, Opcode::Append, Opcode::Zero, Opcode::Dot, Opcode::Axpy, Opcode::Round];
    assert_eq!(opcodes(&all), dense);
    let sparse = [&dense[..2], &[Opcode::List], &dense[2..]].concat();
    assert_eq!(opcodes(&active), sparse);
    for backend in [&all, &active] {
        assert!(backend.sums().activation.count > 0 && backend.sums().activation.cycles > 0);
        assert_eq!(backend.sums().phases.total(), backend.total().cycles);
    }
    for (opcode, figures) in &active.sums().opcodes {
        assert!(figures.count > 0 && figures.cycles > figures.count, "{opcode:?}: {figures:?}");
        assert!(figures.cycles < active.total().cycles, "{opcode:?}: {figures:?}");
    }
    Ok(())
}

#[test]
fn parallel_multipliers_give_the_stored_logits_too() -> Outcome {
    let backend = stored_logits("variants", Neurons::Active)?;
    assert_eq!(backend.unit().core().protocol_violations(), 0);
    Ok(())
}

fn stored_logits(config: &str, neurons: Neurons) -> Result<LoneCore, Box<dyn Error>> {
    let stalls = GemvOptions::from(CoreOptions { stalls: HostStalls::both(5), ..CoreOptions::default() });
    let mut backend = LoneCore::open(&design_config(config)?, &stalls)?.with_neurons(neurons);
    let model = model()?;
    logits_are_stored(&model, &mut backend, &stored("greedy.json")?, positions())?;
    let (total, positions) = (backend.total(), positions() as u64);
    let config = &model.config;
    let layers = config.num_hidden_layers() as u64;
    let (d, f) = (config.hidden_size() as u64, config.ffn_dim() as u64);
    for (class, per_position) in [
        (GemvClass::Qkv, layers * 3 * d),
        (GemvClass::Proj, layers * d),
        (GemvClass::Fc1, layers * f),
        (GemvClass::Fc2, layers * d),
        (GemvClass::Context, layers * d),
    ] {
        assert_eq!(backend.classes()[&class].outputs_checked, positions * per_position, "{class:?}");
    }
    // Beside them the rows of the caches.
    let products: u64 = backend.classes().values().map(|class| class.outputs_checked).sum();
    assert_eq!(total.outputs_checked, products + positions * layers * 2 * d);
    assert_eq!(backend.classes()[&GemvClass::Head].outputs_checked, 2 * config.vocab_size() as u64);
    assert!(backend.mismatches().is_empty());
    assert!(total.efficiency() > 0.0 && total.efficiency() <= 1.0, "{}", total.efficiency());
    assert_eq!(backend.figures().critical_cycles, total.cycles);
    Ok(backend)
}

#[test]
fn quantised_models_give_the_stored_logits() -> Outcome {
    for &(folder, name, neurons) in some(&[
        ("model", "int4-greedy", Neurons::Active),
        ("model-llama", "llama-int4-default", Neurons::Active),
        ("model-llama", "llama-int8-greedy", Neurons::All),
    ]) {
        let golden = stored(&format!("{name}.json"))?;
        let weights = golden["weights"].as_str().and_then(WeightFormat::named).ok_or("weights")?;
        let model = Model::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("golden").join(folder))?;
        let (model, error) = model.quantised(weights)?;
        assert!(error.is_some_and(|error| error.mean_share > 0.0 && error.largest_share < 0.1), "{error:?}");
        let unit = GemvOptions::from(CoreOptions {
            stalls: HostStalls::both(5),
            predict: true,
            ..CoreOptions::default()
        });
        let mut backend = LoneCore::open(&DesignConfig::preset("tiny")?, &unit)?.with_neurons(neurons);
        logits_are_stored(&model, &mut backend, &golden, positions()).map_err(|e| format!("{name}: {e}"))?;
        assert_eq!(
            (backend.mismatches().len(), backend.unit().core().protocol_violations()),
            (0, 0),
            "{name}"
        );
        assert_eq!(backend.model_cycles(), backend.total().cycles, "{name}");
    }
    Ok(())
}

#[test]
fn checkpoints_of_transformers_give_the_logits_of_the_reference() -> Outcome {
    for (name, neurons) in [
        ("opt", Neurons::Active),
        ("llama", Neurons::All),
        ("llama-bias", Neurons::Active),
        ("llama-bias", Neurons::All),
        ("mistral", Neurons::Active),
        ("falcon-new", Neurons::Active),
        ("falcon-mq", Neurons::All),
        ("qwen3", Neurons::Active),
        ("phi3", Neurons::All),
        ("olmo2", Neurons::Active),
        ("gemma3", Neurons::Active),
        ("mistral-window", Neurons::Active),
        ("qwen2-window", Neurons::All),
        ("gemma2", Neurons::Active),
        ("mixtral", Neurons::Active),
        ("qwen3-moe", Neurons::All),
    ] {
        let (model, tokens, expected) = checkpoint(name)?;
        let options = GemvOptions::from(CoreOptions {
            stalls: HostStalls::both(5),
            predict: true,
            ..CoreOptions::default()
        });
        let config = DesignConfig::preset("tiny")?;
        let mut backend = LoneCore::open(&config, &options)?.with_neurons(neurons);
        let mut decoder = Decoder::new(&model);
        let (last, prompt) = tokens.split_last().ok_or("tokens")?;
        let mut logits = decoder.prefill_all_logits(&mut backend, prompt)?;
        logits.extend(decoder.step(&mut backend, *last)?);
        let digests = logits.chunks(model.config.vocab_size()).map(logits_digest);
        let digests: Vec<String> = digests.map(|digest| format!("{digest:016x}")).collect();
        assert_eq!(digests, expected, "{name}");
        assert_eq!(backend.model_cycles(), backend.total().cycles, "{name}");
        assert!(backend.total().outputs_checked > 2000, "{name}: {}", backend.total().outputs_checked);
        let has_up = backend.classes().contains_key(&GemvClass::Up);
        assert_eq!(has_up, model.config.is_gated(), "{name}");
    }
    Ok(())
}

#[test]
fn one_wrong_bit_ends_the_generation() -> Outcome {
    let flip = Some(BitFlip::Result { row: 100, batch: 0, bit: 0 });
    let mut backend =
        LoneCore::open(&DesignConfig::preset("tiny")?, &GemvOptions { flip, ..GemvOptions::default() })?;
    let options = GenerateOptions::new(1, 0, 0);
    let failed = generate(&model()?, &mut backend, b"E", &options, |_| {});
    let Err(source) = failed else {
        return Err("the bit was not found".into());
    };
    assert_eq!(source.to_string(), "layers.0.q_proj: the backend failed");
    assert_eq!(source.downcast_ref::<Mismatches>().map(|found| found.count), Some(1), "{source:#}");
    assert_eq!(backend.mismatches().len(), 1);
    assert_eq!((backend.mismatches()[0].row, backend.mismatches()[0].batch), (100, 0));
    Ok(())
}
