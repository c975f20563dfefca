//! Experts on several DIMMs and a GPU: do the weights' format, and moves of their neurons, change any bit?

use common::{Outcome, some};
use ndp_config::{DesignConfig, SystemConfig, WeightFormat};
use ndp_hermes::scheduler::Policy;
use ndp_model::{GenerateOptions, Generation, Model, SoftwareBackend, generate_tokens};
use ndp_sim::core::{Backend, CoreOptions};
use ndp_sim::gemv::GemvOptions;
use ndp_sim::system::{
    ActivitySource, LinkOptions, Load, OnlineScheduler, Setup, StaticPlaces, SystemBackend, SystemFigures,
    SystemOptions, check_model,
};
use ndp_traces::capture::{Capture, shape_of};
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

/// A text under a policy: the figures, and the neurons that moved to the GPU and between DIMMs.
fn under(
    policy: Policy,
    (model, setup): (&Model, &Setup),
    linked: bool,
) -> Result<(SystemFigures, [u64; 2]), Box<dyn Error>> {
    let text = GenerateOptions::new(9, 0, 0);
    let system = SystemConfig::preset("small")?.with_dimms(4)?.with_gpu_percent(&setup.shape, 20)?;
    let config = DesignConfig::preset("tiny")?;
    let online: OnlineScheduler = setup.online(&config, &system, policy, (PROMPT.len(), 3))?;
    let options = options(&system);
    let mut backend = SystemBackend::open(&config, &unit(Backend::Cycles), &options, online.clone(), model)?;
    if linked {
        backend = backend.with_links(&LinkOptions::default())?;
    }
    let mut failed = Vec::new();
    let mut backend = Capture::new(backend, shape_of(&model.config), |activity| {
        failed.extend(online.token(activity).err());
        Ok(())
    });
    let generation = generate_tokens(model, &mut backend, &PROMPT, &text, |_| {})?;
    assert_eq!(generation.logits_digests, in_software(model, &text)?.logits_digests, "{policy:?}");
    let figures = backend.into_inner().figures().clone();
    assert_eq!(figures.mismatches, 0);
    assert!(failed.is_empty(), "{failed:?}");
    let records = online.records();
    let uploads = records.iter().map(|record| record.uploads).sum();
    Ok((figures, [uploads, records.iter().map(|record| record.migrations).sum()]))
}

#[test]
fn experts_move_to_the_gpu_and_between_dimms_and_no_bit_changes() -> Outcome {
    let profile = GenerateOptions::new(24, 70, 9);
    for &(name, linked) in some(&[("qwen3-moe", true), ("mixtral", false)]) {
        let model = golden(name)?;
        let setup = Setup::profile(&model, &PROMPT, &profile)?;
        let mixture = model.config.extras().mixture.ok_or("no experts")?;
        // A token computes the neurons of its experts, and no others.
        let used = mixture.used * model.config.ffn_dim() * model.config.num_hidden_layers();
        for profiled in &setup.profile {
            let shape = shape_of(&model.config);
            let mlps = (1..shape.blocks().len()).step_by(2).map(|block| profiled.block(&shape, block));
            assert_eq!(mlps.flatten().map(|word| word.count_ones() as usize).sum::<usize>(), used, "{name}");
        }
        let (moving, moved) = under(Policy::Hermes, (&model, &setup), linked)?;
        assert!(moved[0] > 0, "{name}: nothing was copied to the GPU");
        let (fixed, none) = under(Policy::Random, (&model, &setup), linked)?;
        assert_eq!(none, [0, 0]);
        let neurons =
            |of: &SystemFigures| of.gpu_neurons + of.dimms.iter().map(|dimm| dimm.neurons).sum::<u64>();
        assert_eq!(neurons(&moving), neurons(&fixed), "{name}: policies decide where, never which");
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
