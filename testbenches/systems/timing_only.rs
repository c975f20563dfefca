//! Does a system without data take exactly the same time as one with data? The same activity goes through both: cycles
//! of every program, bytes, times.

use common::{Outcome, energy, some};
use ndp_config::{DesignConfig, LlmFamily, LlmShape, Ssd, SystemConfig, WeightFormat};
use ndp_hermes::scheduler::Policy;
use ndp_model::{Activation, Decoder, GenerateOptions, Model, generate};
use ndp_sim::core::{Backend, CoreOptions};
use ndp_sim::gemv::{GemvOptions, MergeFormat};
use ndp_sim::layer::{LayerSizes, LayerStep};
use ndp_sim::system::{
    ActivitySource, Breakdown, Cause, FlashOptions, LinkOptions, Load, OnlinePredictor, Resource, Setup,
    StaticPlaces, SystemBackend, SystemFigures, SystemOptions, TracedText,
};
use ndp_traces::capture::{Capture, shape_of};
use ndp_traces::{Activity, NeuronShape};
use std::error::Error;
use std::num::NonZeroU32;
use std::path::Path;

const PROMPT: &str = "It was";

#[derive(Clone, Copy)]
struct Case {
    model: &'static str,
    config: &'static str,
    backend: Backend,
    dimms: u32,
    linked: bool,
    activity: ActivitySource,
    merge: MergeFormat,
    weights: WeightFormat,
    tokens: usize,
    /// Percent of the MLPs' neurons that have slots in the DIMMs, if an SSD has the others. None then moves to another
    /// device.
    flash: Option<u32>,
    /// Cores of the host, and picoseconds of one for each neuron that it predicts.
    host: (u32, u64),
}

const CASE: Case = Case {
    model: "golden/model",
    config: "tiny",
    backend: Backend::Cycles,
    dimms: 3,
    linked: true,
    activity: ActivitySource::Causal,
    merge: MergeFormat::Exact,
    weights: WeightFormat::Fp16,
    tokens: 8,
    flash: None,
    host: (1, 217),
};

fn system_of(case: Case) -> Result<SystemConfig, Box<dyn Error>> {
    let (cores, ps) = case.host;
    let text = include_str!("../../rust/config/presets/systems/small.toml");
    let text = text.replace("cores = 1 ", &format!("cores = {cores} "));
    Ok(SystemConfig::from_toml(&text.replace("per_neuron = 217", &format!("per_neuron = {ps}")))?)
}

fn both(case: Case) -> Result<([SystemFigures; 2], Breakdown), Box<dyn Error>> {
    let model = Model::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join(case.model))?;
    let (model, _) = model.quantised(case.weights)?;
    let prompt_tokens = model.vocabulary.tokens(PROMPT.as_bytes())?.len();
    let config = DesignConfig::preset(case.config)?;
    let text = GenerateOptions::new(24, 0, 3);
    let setup = Setup::profile(&model, &model.vocabulary.tokens(PROMPT.as_bytes())?, &text)?;
    let system = system_of(case)?.with_dimms(case.dimms)?.with_gpu_percent(&setup.shape, 20)?;
    let system = system.with_ssd(Ssd::preset("nvme-pcie4")?);
    let options = SystemOptions {
        prompt_on_gpu: prompt_tokens,
        merge: case.merge,
        load: Load::Backdoor,
        activity: case.activity,
        flash: case.flash.map(|resident_percent| FlashOptions { resident_percent, window: NonZeroU32::MIN }),
        ..SystemOptions::new(&system)
    };
    let unit = GemvOptions::from(CoreOptions { backend: case.backend, ..CoreOptions::default() });
    let shape = shape_of(&model.config);
    let policy = if case.flash.is_some() { Policy::Partition } else { Policy::Hermes };
    let online = || setup.online(&config, &system, policy, (prompt_tokens, 1));
    let complete = |mut system: SystemBackend<_>| -> Result<_, Box<dyn Error>> {
        if case.linked {
            system = system.with_links(&LinkOptions::default())?;
        }
        if case.activity == ActivitySource::Predicted {
            system = system.with_predictor(OnlinePredictor::new(&shape, &setup.profile, prompt_tokens)?)?;
        }
        Ok(system)
    };

    let host = online()?;
    let with_data = complete(SystemBackend::open(&config, &unit, &options, host.clone(), &model)?)?;
    let (mut activities, mut failed) = (Vec::<Activity>::new(), None);
    let mut capture = Capture::new(with_data, shape.clone(), |activity| {
        activities.push(activity.clone());
        failed = host.token(activity).err().or(failed.take());
        Ok(())
    });
    let text = GenerateOptions::new(case.tokens, 0, 0);
    generate(&model, &mut capture, PROMPT.as_bytes(), &text, |_| {})?;
    let mut with_data = capture.into_inner();
    failed.map_or(Ok(()), Err)?;
    with_data.count_links()?;

    let host = online()?;
    let timed = complete(SystemBackend::timing_only(&config, &unit, &options, host.clone(), &setup.shape)?)?;
    let positions = model.config.max_position_embeddings();
    let costs = energy::costs(&config, case.dimms)?;
    let mut timed = TracedText::new(timed, &setup.shape, (positions, 1)).with_energy(costs.clone());
    let (prompt, rest) = activities.split_at(prompt_tokens);
    timed.prompt(0, prompt)?;
    prompt.iter().try_for_each(|activity| host.token(activity))?;
    for activity in rest {
        timed.token(std::slice::from_ref(activity))?;
        host.token(activity)?;
    }
    timed.system_mut().count_links()?;
    let time = timed.breakdown().ok_or("no token")?;
    let ns: u64 = with_data.figures().tokens.iter().map(|token| token.ns).sum();
    assert_eq!((time.ns, time.unexplained_ns, time.tokens), (ns, 0, rest.len() as u64));
    let of_data = Breakdown::new(with_data.figures(), with_data.events());
    assert_eq!(time.critical_path_ns, of_data.critical_path_ns);
    // The energy is also the same, except for the bits on the bus, which only RTL has.
    let events = energy::without_bus(with_data.events());
    let of_events = energy::all_energy_has_a_use(&config, with_data.figures(), &events)?;
    assert_eq!(timed.energy(), Some(of_events));
    // The host predicts each block of each token, if predictions are used.
    let of_token: u64 = shape.blocks().iter().map(|block| block_ns(case.host, block.neurons)).sum();
    let predicted = if case.activity == ActivitySource::Oracle { 0 } else { of_token * time.tokens };
    for time in [time, &of_data] {
        let host = time.devices.iter().find(|device| device.place == Resource::Host);
        assert_eq!(host.map_or(0, |host| host.busy_ns.get(Cause::Prediction)), predicted);
    }
    Ok(([with_data.figures().clone(), timed.system().figures().clone()], of_data))
}

fn block_ns((cores, ps): (u32, u64), neurons: u32) -> u64 {
    (u64::from(neurons) * ps).div_ceil(1_000 * u64::from(cores))
}

fn awaited(time: &Breakdown) -> u64 {
    time.critical_path_ns.get(&Resource::Host).map_or(0, |shares| shares.total())
}

fn same_times(case: Case) -> Result<SystemFigures, Box<dyn Error>> {
    Ok(same_times_of_devices(case)?.0)
}

fn same_times_of_devices(case: Case) -> Result<(SystemFigures, Breakdown), Box<dyn Error>> {
    let ([data, timed], time) = both(case)?;
    assert!(data.outputs_checked > 1000 && data.mismatches == 0 && data.critical_cycles > 10_000);
    // Only the comparisons differ, and the predicted cycles of RTL.
    let without = |figures: &SystemFigures| {
        let mut figures =
            SystemFigures { outputs_checked: 0, differences: Default::default(), ..figures.clone() };
        figures.dimms.iter_mut().for_each(|dimm| dimm.model_cycles = 0);
        figures
    };
    assert_eq!(without(&timed), without(&data));
    Ok((timed, time))
}

#[test]
fn a_system_without_data_takes_the_time_of_one_with_data() -> Outcome {
    let linked = same_times(CASE)?;
    let links = linked.links.ok_or("no links")?;
    assert!(links.migrations > 0 && links.uploads > 0, "neurons have to move: {links:?}");
    for &case in some(&[
        Case { linked: false, ..CASE },
        Case { dimms: 1, linked: false, ..CASE },
        Case { activity: ActivitySource::Oracle, ..CASE },
        Case { merge: MergeFormat::Fp16, ..CASE },
    ]) {
        same_times(case)?;
    }
    Ok(())
}

#[test]
fn neurons_from_an_ssd_take_the_time_that_they_take_with_data() -> Outcome {
    let flash = Case { activity: ActivitySource::Oracle, flash: Some(60), ..CASE };
    for &case in some(&[
        Case { backend: Backend::Rtl, dimms: 2, tokens: 2, ..flash },
        Case { dimms: 1, linked: false, weights: WeightFormat::Int4, ..flash },
        Case { activity: ActivitySource::Predicted, ..flash },
        Case { flash: Some(2), ..flash },
        Case { model: "golden/model-llama", tokens: 4, ..flash },
        flash,
    ]) {
        let found = same_times(case)?.flash.ok_or("no figures of the SSD")?;
        assert!(found.sum(|token| token.loaded) > 10 && found.port_cycles > 0, "{found:?}");
    }
    Ok(())
}

#[test]
fn that_is_the_time_of_rtl() -> Outcome {
    let rtl = Case { backend: Backend::Rtl, dimms: 2, tokens: 3, ..CASE };
    same_times(rtl)?;
    same_times(Case { activity: ActivitySource::Predicted, ..rtl })?;
    Ok(())
}

#[test]
fn a_token_waits_for_what_the_host_predicts() -> Outcome {
    let predicted = Case { activity: ActivitySource::Predicted, ..CASE };
    let blocks = [192, 768].map(|neurons| [predicted.host, (8, 217)].map(|host| block_ns(host, neurons)));
    assert_eq!(blocks, [[42, 6], [167, 21]]);
    let (one, time) = same_times_of_devices(predicted)?;
    let eight = same_times(Case { host: (8, 217), ..predicted })?;
    // Each token is faster by this, in each of four layers.
    for (one, eight) in one.tokens.iter().zip(&eight.tokens) {
        assert_eq!(one.ns - eight.ns, 4 * (42 + 167 - 6 - 21), "{one:?} {eight:?}");
        assert_eq!(one.dimm_cycles, eight.dimm_cycles);
    }
    assert_eq!(awaited(&time), 4 * (42 + 167) * one.tokens.len() as u64);
    Ok(())
}

#[test]
fn the_scheduler_s_predictions_run_beside_the_devices() -> Outcome {
    let [one, eight] = [(1, 217), (8, 217)].map(|host| both(Case { host, ..CASE }));
    let ((one, time), (eight, _)) = (one?, eight?);
    assert_eq!((&one, awaited(&time)), (&eight, 0));
    // If a token does not take as long as they do, it ends with them.
    let slow = Case { host: (1, 1_000_000), ..CASE };
    let (slow, time) = same_times_of_devices(slow)?;
    for (slow, token) in slow.tokens.iter().zip(&one[0].tokens) {
        let of_host = 4 * 960_000;
        assert!((of_host..of_host + token.ns).contains(&slow.ns), "{slow:?}");
    }
    assert!(awaited(&time) > 9 * time.ns / 10, "{time:?}");
    Ok(())
}

#[test]
fn a_gate_and_rotated_keys_take_the_time_that_they_take_with_data() -> Outcome {
    // Only cores of one configuration keep the outputs of a gate.
    let llama = Case { model: "golden/model-llama", tokens: 4, ..CASE };
    let hermes = Case { config: "hermes", dimms: 2, ..llama };
    for &case in some(&[
        llama,
        hermes,
        Case { backend: Backend::Rtl, dimms: 2, tokens: 2, ..llama },
        Case { linked: false, ..hermes },
        Case { activity: ActivitySource::Oracle, ..llama },
        Case { weights: WeightFormat::Int4, ..llama },
        Case { activity: ActivitySource::Predicted, ..llama },
        Case { flash: Some(60), activity: ActivitySource::Oracle, ..llama },
    ]) {
        same_times(case)?;
    }
    Ok(())
}

/// A golden checkpoint with a window, and its sizes in place of its weights.
#[test]
fn a_window_takes_the_time_that_it_takes_with_data() -> Outcome {
    let (model, tokens, _) = super::checkpoint("mistral-window")?;
    let sizes = LlmShape::from_toml(
        "name = 'window'\nlayers = 2\nhidden = 32\nheads = 4\nkv_heads = 2\nffn = 48\nmlp_matrices = 3\nvocabulary = 64\n\
         activation = 'silu'\ntied_embeddings = false\nbiased = false\nrotary = true\nwindow = 7",
    )?;
    let system = SystemConfig::preset("hermes")?.with_dimms(2)?;
    let (config, unit) = (DesignConfig::preset("tiny")?, GemvOptions::default());
    let options = SystemOptions { prompt_on_gpu: 4, load: Load::Backdoor, ..SystemOptions::new(&system) };
    let places = || StaticPlaces::new(2, 20, 7);
    let mut backend = SystemBackend::open(&config, &unit, &options, places(), &model)?;
    let mut decoder = Decoder::new(&model);
    decoder.prefill(&mut backend, &tokens[..4])?;
    for token in &tokens[4..12] {
        decoder.step(&mut backend, *token)?;
    }
    let timed = SystemBackend::timing_only(&config, &unit, &options, places(), &sizes)?;
    let mut text = TracedText::new(timed, &sizes, (model.config.max_position_embeddings(), 1));
    let shape = NeuronShape::of(&sizes);
    let mut all = Activity::new(&shape);
    for block in 0..shape.blocks().len() {
        let neurons = shape.blocks()[block].neurons as usize;
        all.block_mut(&shape, block).iter_mut().enumerate().for_each(|(word, bits)| {
            *bits = u64::MAX >> (64 - (neurons - 64 * word).min(64));
        });
    }
    text.prompt(0, &vec![all.clone(); 4])?;
    (4..12).try_for_each(|_| text.token(std::slice::from_ref(&all)))?;
    let [found, expected] = [text.system().figures(), backend.figures()];
    assert!(expected.bytes.channel_data > 0 && expected.operation_cycles.len() > 4);
    assert_eq!(found.operation_cycles, expected.operation_cycles);
    assert_eq!(found.bytes, expected.bytes);
    Ok(())
}

#[test]
fn gates_and_shared_keys_take_their_time_on_every_device() -> Outcome {
    // Two layers of LLaMA2-70B's form, at a sixteenth of its width. A small buffer does not hold a gate's outputs.
    let [tiny, hermes] = ["tiny", "hermes"].map(DesignConfig::preset);
    let (tiny, hermes) = (tiny?, hermes?);
    let system = SystemConfig::preset("hermes")?.with_dimms(2)?;
    let model = |kv_heads: u32, mlp_matrices: u32| {
        LlmShape::from_toml(&format!(
            "name = 'narrow'\nlayers = 2\nhidden = 512\nheads = 16\nkv_heads = {kv_heads}\nffn = 1792\n\
             mlp_matrices = {mlp_matrices}\nvocabulary = 256\nactivation = 'relu'\ntied_embeddings = false\nbiased = false"
        ))
    };
    let shape = NeuronShape::of(&model(4, 3)?);
    let run = |config: &DesignConfig,
               kv_heads: u32,
               mlp_matrices: u32,
               linked: bool|
     -> Result<SystemFigures, Box<dyn Error>> {
        let model = model(kv_heads, mlp_matrices)?;
        let options = SystemOptions { prompt_on_gpu: 2, ..SystemOptions::new(&system) };
        let places = ndp_sim::system::StaticPlaces::new(2, 10, 4);
        let mut timed =
            SystemBackend::timing_only(config, &GemvOptions::default(), &options, places, &model)?;
        if linked {
            timed = timed.with_links(&LinkOptions::default())?;
        }
        let mut text = TracedText::new(timed, &model, (16, 1));
        let mut activity = Activity::new(&shape);
        for block in 0..shape.blocks().len() {
            activity.block_mut(&shape, block).fill(0x0101_0101_0101_0101);
        }
        text.prompt(0, &[activity.clone(), activity.clone()])?;
        (0..2).try_for_each(|_| text.token(std::slice::from_ref(&activity)))?;
        Ok(text.system().figures().clone())
    };
    use ndp_sim::system::Operation::{Fc1, Fc2, K};
    let of = |figures: &SystemFigures, operation| figures.operation_cycles.get(&operation).copied();
    for linked in [false, true] {
        let [gated, plain] = [run(&hermes, 4, 3, linked)?, run(&hermes, 4, 2, linked)?];
        // The factor of a gate is computed after it, for an eighth of the neurons.
        let cycles =
            |operation| [of(&gated, operation), of(&plain, operation)].map(Option::unwrap_or_default);
        let [gate, no_gate] = cycles(Fc1);
        assert!(10 * gate < 12 * no_gate, "one matrix is read, and not two: {gate} {no_gate}");
        let [gate, no_gate] = cycles(Fc2);
        assert!(gate > no_gate, "{gate} {no_gate}");
        let [gated, plain] = [run(&tiny, 4, 3, linked)?, run(&tiny, 4, 2, linked)?];
        let [both, one] = [of(&gated, Fc1), of(&plain, Fc1)].map(Option::unwrap_or_default);
        assert!((11 * one..13 * one).contains(&(10 * both)), "an eighth of another matrix: {both} {one}");
        // A quarter of the keys.
        assert!(of(&gated, K) < of(&run(&tiny, 16, 3, linked)?, K));
    }
    Ok(())
}

/// Cycles by operation of a layer with data, and of the only layer of a model in a trace; every neuron is active, and
/// the GPU has none.
fn layer_and_trace(
    config: &str,
    (dimms, linked, batch): (u32, bool, u32),
    context: usize,
    (gated, activation): (bool, Activation),
) -> Result<[SystemFigures; 2], Box<dyn Error>> {
    let config = DesignConfig::preset(config)?;
    let active = Some(1.0);
    let sizes = LayerSizes { hidden: 256, heads: 4, kv_heads: 4, ffn: 768, gated, activation, active };
    let step = LayerStep::random(&sizes, context, batch as usize, 1)?.alone();
    let family = LlmFamily {
        kv_heads: 4,
        head_width: None,
        gated,
        activation,
        biased: true,
        tied_embeddings: true,
        rotary: false,
    };
    let model = LlmShape::opt_like("layer", 1, 256, 4, 768, 1)?.of_family(family)?;
    let system = SystemConfig::preset("small")?.with_dimms(dimms)?.with_gpu_percent(&model, 0)?;
    let options = SystemOptions {
        activity: ActivitySource::Oracle,
        load: Load::Backdoor,
        ..SystemOptions::new(&system)
    };
    let unit = GemvOptions::from(CoreOptions { backend: Backend::Cycles, ..CoreOptions::default() });
    let places = || StaticPlaces::new(dimms, 0, 1);
    let layers = std::slice::from_ref(step.layer());
    let mut with_data = SystemBackend::of_layers(&config, &unit, &options, places(), (&model, layers))?;
    let mut timed = SystemBackend::timing_only(&config, &unit, &options, places(), &model)?;
    if linked {
        with_data = with_data.with_links(&LinkOptions::default())?;
        timed = timed.with_links(&LinkOptions::default())?;
    }
    step.run(&mut with_data)?;
    let mut text = TracedText::new(timed, &model, (context, batch as usize));
    text.precede(context - 1);
    let shape = NeuronShape::of(&model);
    let mut all = Activity::new(&shape);
    (0..shape.blocks().len()).for_each(|block| all.fill(&shape, block));
    text.token(&vec![all; batch as usize])?;
    Ok([with_data.figures(), text.system().figures()].map(Clone::clone))
}

#[test]
fn a_layer_takes_the_cycles_of_a_token_in_a_trace() -> Outcome {
    let relu = (false, Activation::Relu);
    for (case, context, block) in [
        ((1, false, 1), 40, relu),
        ((3, true, 1), 40, relu),
        ((3, false, 2), 65, relu),
        ((4, true, 4), 9, relu),
        ((2, false, 2), 9, (true, Activation::Relu)),
        ((3, true, 1), 40, (true, Activation::Silu)),
        ((2, false, 3), 9, (true, Activation::Silu)),
        // Outputs of four vectors do not stay in the buffer.
        ((2, true, 16), 9, (true, Activation::Silu)),
        ((4, true, 2), 9, (false, Activation::Gelu)),
    ] {
        let [layer, token] = layer_and_trace("tiny", case, context, block)?;
        assert!(layer.mismatches == 0 && layer.operation_cycles.len() > 5, "{layer:?}");
        for (operation, cycles) in &layer.operation_cycles {
            assert_eq!(token.operation_cycles.get(operation), Some(cycles), "{operation:?} {case:?}");
        }
    }
    Ok(())
}
