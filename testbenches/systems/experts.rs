//! Experts on several DIMMs and a GPU: do the weights' format, and moves of their neurons, change any bit?

use super::linked_system::Wanderers;
use common::{Outcome, some};
use ndp_config::{DesignConfig, SystemConfig, WeightFormat};
use ndp_model::{GenerateOptions, Generation, Model, SoftwareBackend, generate_tokens};
use ndp_sim::core::{Backend, CoreOptions};
use ndp_sim::gemv::GemvOptions;
use ndp_sim::system::{
    ActivitySource, LinkOptions, Load, NeuronMap, StaticPlaces, SystemBackend, SystemFigures, SystemOptions,
    check_model,
};
use std::error::Error;
use std::path::Path;

const PROMPT: [u32; 4] = [1, 5, 9, 2];

fn golden(name: &str) -> Result<Model, Box<dyn Error>> {
    Ok(Model::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/checkpoints").join(name))?)
}

fn unit(backend: Backend) -> GemvOptions {
    let core = CoreOptions { predict: backend == Backend::Rtl, backend, ..CoreOptions::default() };
    GemvOptions { core, ..GemvOptions::default() }
}

fn options(system: &SystemConfig) -> SystemOptions {
    let base = SystemOptions::new(system);
    SystemOptions { prompt_on_gpu: PROMPT.len(), load: Load::Backdoor, threads: 2, ..base }
}

fn in_software(model: &Model, text: &GenerateOptions) -> Result<Generation, Box<dyn Error>> {
    Ok(generate_tokens(model, &mut SoftwareBackend::new(), &PROMPT, text, |_| {})?)
}

#[test]
fn experts_of_every_weight_format_give_the_logits_of_the_software() -> Outcome {
    let text = GenerateOptions::new(3, 0, 0);
    for &(name, format, backend, linked) in some(&[
        ("mixtral", WeightFormat::Int8, Backend::Rtl, true),
        ("qwen3-moe", WeightFormat::Int4, Backend::Cycles, false),
        ("mixtral", WeightFormat::Int4, Backend::Cycles, false),
        ("qwen3-moe", WeightFormat::Int8, Backend::Cycles, true),
    ]) {
        let (model, _) = golden(name)?.quantised(format)?;
        let system = SystemConfig::preset("small")?.with_dimms(2)?;
        let (config, places) = (DesignConfig::preset("tiny")?, StaticPlaces::new(2, 20, 5));
        let mut backend = SystemBackend::open(&config, &unit(backend), &options(&system), places, &model)?;
        if linked {
            backend = backend.with_links(&LinkOptions::default())?;
        }
        let generation = generate_tokens(&model, &mut backend, &PROMPT, &text, |_| {})?;
        let expected = in_software(&model, &text)?;
        assert_eq!(generation.logits_digests, expected.logits_digests, "{name}, {format:?}");
        let figures = backend.figures();
        assert_eq!((figures.mismatches, backend.protocol_violations()), (0, 0), "{name}, {format:?}");
        assert!(figures.dimms.iter().all(|dimm| dimm.neurons > 0), "{name}: {:?}", figures.dimms);
    }
    Ok(())
}

/// The figures of a text whose neurons live there.
fn with_places(places: impl NeuronMap, model: &Model, linked: bool) -> Result<SystemFigures, Box<dyn Error>> {
    let text = GenerateOptions::new(9, 0, 0);
    let system = SystemConfig::preset("small")?.with_dimms(4)?;
    let config = DesignConfig::preset("tiny")?;
    let mut backend = SystemBackend::open(&config, &unit(Backend::Cycles), &options(&system), places, model)?;
    if linked {
        backend = backend.with_links(&LinkOptions::default())?;
    }
    let generation = generate_tokens(model, &mut backend, &PROMPT, &text, |_| {})?;
    assert_eq!(generation.logits_digests, in_software(model, &text)?.logits_digests);
    backend.count_links()?;
    assert_eq!((backend.figures().mismatches, backend.protocol_violations()), (0, 0));
    Ok(backend.figures().clone())
}

#[test]
fn experts_move_to_the_gpu_and_between_dimms_and_no_bit_changes() -> Outcome {
    for &(name, linked) in some(&[("qwen3-moe", true), ("mixtral", false)]) {
        let model = golden(name)?;
        let moving = with_places(Wanderers { dimms: 4, turn: 0 }, &model, linked)?;
        let fixed = with_places(StaticPlaces::new(4, 10, 5), &model, linked)?;
        if let Some(links) = &moving.links {
            assert!(links.migrations > 10 && links.uploads > 10, "{name}: {links:?}");
        }
        assert_eq!(moving.links.is_some(), linked);
        let neurons =
            |of: &SystemFigures| of.gpu_neurons + of.dimms.iter().map(|dimm| dimm.neurons).sum::<u64>();
        assert_eq!(neurons(&moving), neurons(&fixed), "{name}: places decide where, never which");
    }
    Ok(())
}

#[test]
fn neurons_of_experts_are_not_predicted() -> Outcome {
    let model = golden("mixtral")?;
    check_model(&model, ActivitySource::Causal)?;
    let error = check_model(&model, ActivitySource::Predicted).err().ok_or("accepted")?.to_string();
    assert!(error.starts_with("the model's activation = silu: all its neurons are active"), "{error}");
    Ok(())
}
