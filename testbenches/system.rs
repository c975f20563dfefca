//! Several cores and a GPU: does any bit of a text depend on where neurons live?

use ndp_config::{BlockKind, DesignConfig, LlmShape, SystemConfig};
use ndp_cosim::error::SimError;
use ndp_cosim::gemv::GemvOptions;
use ndp_cosim::system::{Device, Online, OnlineStart, Places, StaticPlaces, SystemBackend};
use ndp_model::{GenerateOptions, Generation, Model, ModelError, SoftwareBackend, generate};
use ndp_scheduler::Policy;
use ndp_traces::capture::{Capture, shape_of};
use std::error::Error;
use std::path::Path;

type Outcome = Result<(), Box<dyn Error>>;

const PROMPT: &str = "She";
const OPTIONS: GenerateOptions = GenerateOptions { tokens: 2, temperature_percent: 0, seed: 0 };

fn model() -> Result<Model, Box<dyn Error>> {
    Ok(Model::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/model"))?)
}

/// What the software alone generates.
fn reference(model: &Model) -> Result<Generation, Box<dyn Error>> {
    Ok(generate(model, &mut SoftwareBackend::new(), PROMPT.as_bytes(), &OPTIONS, |_| {})?)
}

fn open<P: Places>(dimms: u32, places: P) -> Result<SystemBackend<P>, Box<dyn Error>> {
    let options = GemvOptions { stall_percent: 3, predict: true, ..GemvOptions::default() };
    Ok(SystemBackend::open(&DesignConfig::preset("tiny")?, &options, dimms, places)?)
}

#[test]
fn text_and_logits_do_not_depend_on_devices() -> Outcome {
    let model = model()?;
    let expected = reference(&model)?;
    let mut sent = Vec::new();
    for (dimms, gpu_percent) in [(1, 0), (2, 30), (4, 10)] {
        let mut system = open(dimms, StaticPlaces::new(dimms, gpu_percent, 7))?;
        let generation = generate(&model, &mut system, PROMPT.as_bytes(), &OPTIONS, |_| {})?;
        assert_eq!(generation.text, expected.text, "{dimms} DIMMs");
        assert_eq!(generation.logits_digests, expected.logits_digests, "{dimms} DIMMs");
        let figures = system.figures();
        assert_eq!(figures.mismatches, 0);
        assert!(figures.outputs_checked > 10_000, "{figures:?}");
        for dimm in &figures.dimms {
            assert!(dimm.neurons > 100 && dimm.cycles > 0, "{figures:?}");
            assert_eq!(dimm.cycles, dimm.model_cycles, "the cycle model of each core");
            assert!(dimm.cycles <= figures.critical_cycles);
        }
        assert_eq!(figures.gpu_neurons > 0, gpu_percent > 0);
        sent.push(figures.dimms.iter().map(|dimm| dimm.sent_bytes).sum::<u64>());
    }
    assert!(sent[0] == 0 && 0 < sent[1] && sent[1] < sent[2], "{sent:?}");
    Ok(())
}

/// All neurons go from one DIMM to the next after every batch of tokens, and each tenth is on the GPU.
struct Wanderers {
    turn: u32,
}

impl Places for Wanderers {
    fn device(&self, layer: u32, _: BlockKind, neuron: u32) -> Device {
        let place = layer + neuron + self.turn;
        if place.is_multiple_of(10) { Device::Gpu } else { Device::Dimm(place % 3) }
    }

    fn end(&mut self, _tokens: u32) {
        self.turn += 1;
    }
}

#[test]
fn neurons_may_move_between_tokens() -> Outcome {
    let model = model()?;
    let expected = reference(&model)?;
    let mut system = open(3, Wanderers { turn: 0 })?;
    let generation = generate(&model, &mut system, PROMPT.as_bytes(), &OPTIONS, |_| {})?;
    assert_eq!((generation.text, generation.logits_digests), (expected.text, expected.logits_digests));
    assert!(system.places().turn >= OPTIONS.tokens as u32);
    Ok(())
}

#[test]
fn one_wrong_bit_on_the_way_ends_the_generation() -> Outcome {
    let model = model()?;
    let mut system = open(2, StaticPlaces::new(2, 0, 7))?.with_spoilt_sums();
    let generation = generate(&model, &mut system, PROMPT.as_bytes(), &OPTIONS, |_| {});
    let Err(ModelError::Backend { source, .. }) = generation else {
        return Err(format!("a wrong bit has passed: {generation:?}").into());
    };
    assert!(matches!(source.downcast_ref(), Some(SimError::Mismatch { .. })), "{source}");
    assert_eq!(system.mismatches().len(), 1);
    Ok(())
}

#[test]
fn a_system_without_a_core_is_refused() -> Outcome {
    let config = DesignConfig::preset("tiny")?;
    let system = SystemBackend::open(&config, &GemvOptions::default(), 0, StaticPlaces::new(1, 0, 0));
    let error = system.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(error.contains("dimms = 0"), "{error}");
    Ok(())
}

/// The text under a policy of the scheduler, with neurons that it moves; how many it has moved to the GPU and between DIMMs.
fn under(policy: Policy, model: &Model, expected: &Generation) -> Result<[u64; 2], Box<dyn Error>> {
    let design = DesignConfig::preset("tiny")?;
    let config = &model.config;
    let shape = LlmShape::opt_like(
        "model",
        config.num_hidden_layers() as u32,
        config.hidden_size() as u32,
        config.num_attention_heads() as u32,
        config.ffn_dim() as u32,
        config.vocab_size() as u32,
    )?;
    let mut profile = Vec::new();
    let mut observed = Capture::new(SoftwareBackend::new(), shape_of(config), |activity| {
        profile.push(activity.clone());
        Ok(())
    });
    let other = GenerateOptions { tokens: 24, temperature_percent: 70, seed: 9 };
    generate(model, &mut observed, PROMPT.as_bytes(), &other, |_| {})?;
    // The GPU has room for a fifth of the neurons.
    let gpu = (shape.resident_bytes() + shape.neurons_bytes() / 5) as f64 / 1e9;
    let system = SystemConfig::from_toml(&format!(
        "name = \"small\"
         gpu = {{ memory_gb = {gpu:.12}, workspace_gb = 0.0, bandwidth_gbps = 936.0, tflops = 330.0 }}
         bus = {{ bandwidth_gbps = 64.0, sync_us = 0.0 }}
         dimms = {{ count = 3, capacity_gb = 32.0, bandwidth_gbps = 102.4, link_gbps = 25.0 }}"
    ))?;
    let online = Online::new(&OnlineStart {
        design: &design,
        model: &shape,
        system: &system,
        policy,
        profile: &profile,
        prompt_tokens: PROMPT.len(),
        seed: 3,
    })?;
    let mut failed = Vec::new();
    let mut backend = Capture::new(open(3, online.clone())?, shape_of(config), |activity| {
        failed.extend(online.token(activity).err());
        Ok(())
    });
    let generation = generate(model, &mut backend, PROMPT.as_bytes(), &LONGER, |_| {})?;
    assert_eq!((&generation.text, &generation.logits_digests), (&expected.text, &expected.logits_digests));
    let figures = backend.into_inner().figures().clone();
    assert_eq!(figures.mismatches, 0);
    assert!(failed.is_empty(), "{failed:?}");
    assert!(figures.gpu_neurons > 0 && figures.dimms.iter().all(|dimm| dimm.cycles == dimm.model_cycles));
    let records = online.records();
    assert_eq!(records.len(), LONGER.tokens - 1);
    Ok([
        records.iter().map(|record| record.uploads).sum(),
        records.iter().map(|record| record.migrations).sum(),
    ])
}

/// Long enough for a window of remapping, and for its moves.
const LONGER: GenerateOptions = GenerateOptions { tokens: 8, temperature_percent: 0, seed: 0 };

#[test]
fn text_and_logits_do_not_depend_on_the_policy() -> Outcome {
    let model = model()?;
    let expected = generate(&model, &mut SoftwareBackend::new(), PROMPT.as_bytes(), &LONGER, |_| {})?;
    assert_eq!(under(Policy::Random, &model, &expected)?, [0, 0]);
    assert_eq!(under(Policy::Partition, &model, &expected)?, [0, 0]);
    let [uploads, migrations] = under(Policy::Adjustment, &model, &expected)?;
    assert!(uploads > 0 && migrations == 0, "{uploads}, {migrations}");
    let [uploads, migrations] = under(Policy::Hermes, &model, &expected)?;
    assert!(uploads > 0 && migrations > 0, "{uploads}, {migrations}");
    Ok(())
}
