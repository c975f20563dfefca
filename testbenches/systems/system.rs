//! Several cores and a GPU: does any bit of a text depend on where neurons live?

use super::{checkpoint, thresholded};
use common::causes::every_nanosecond_has_a_cause;
use common::{Outcome, some, whole};
use ndp_config::{BlockKind, DesignConfig, SystemConfig, WeightFormat};
use ndp_hermes::scheduler::Policy;
use ndp_isa::{Opcode, decode_fields};
use ndp_model::{Decoder, GenerateOptions, Generation, Model, SoftwareBackend, generate, logits_digest};
use ndp_sim::core::{Backend, CoreOptions, HostStalls};
use ndp_sim::error::Mismatches;
use ndp_sim::gemv::{GemvOptions, MergeFormat};
use ndp_sim::system::{
    ActivitySource, Device, Event, Fault, GpuNumerics, LinkOptions, Load, NeuronMap, OnlinePredictor,
    Operation, PredictedSoftware, Resource, Setup, StaticPlaces, SystemBackend, SystemOptions, check_model,
    perplexity,
};
use ndp_traces::capture::{Capture, shape_of};
use std::error::Error;
use std::path::Path;

const PROMPT: &str = "She";
const OPTIONS: GenerateOptions = GenerateOptions::new(2, 0, 0);
const OTHER: GenerateOptions = GenerateOptions::new(24, 70, 9);

fn model() -> Result<Model, Box<dyn Error>> {
    Ok(Model::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/model"))?)
}

fn reference(model: &Model, options: &GenerateOptions) -> Result<Generation, Box<dyn Error>> {
    Ok(generate(model, &mut SoftwareBackend::new(), PROMPT.as_bytes(), options, |_| {})?)
}

fn system(dimms: u32) -> Result<SystemConfig, Box<dyn Error>> {
    Ok(SystemConfig::preset("hermes")?.with_dimms(dimms)?)
}

fn open<P: NeuronMap>(
    model: &Model,
    options: &SystemOptions,
    places: P,
) -> Result<SystemBackend<P>, Box<dyn Error>> {
    open_on(Backend::Rtl, model, options, places)
}

/// For questions about the host: cores in RTL in `make exhaustive`, else modelled ones, which give the same bits in the
/// same cycles.
fn open_for_host<P: NeuronMap>(
    model: &Model,
    options: &SystemOptions,
    places: P,
) -> Result<SystemBackend<P>, Box<dyn Error>> {
    open_on(if whole() { Backend::Rtl } else { Backend::Cycles }, model, options, places)
}

fn open_on<P: NeuronMap>(
    backend: Backend,
    model: &Model,
    options: &SystemOptions,
    places: P,
) -> Result<SystemBackend<P>, Box<dyn Error>> {
    let stalls = HostStalls::both(3);
    let unit = GemvOptions {
        log_instructions: true,
        core: CoreOptions { stalls, predict: backend == Backend::Rtl, backend, ..CoreOptions::default() },
        ..GemvOptions::default()
    };
    Ok(SystemBackend::open(&DesignConfig::preset("tiny")?, &unit, options, places, model)?)
}

#[test]
fn weights_are_the_same_however_they_are_loaded() -> Outcome {
    let model = model()?;
    let tokens = GenerateOptions { tokens: 2, ..OPTIONS };
    let load = |load| -> Result<_, Box<dyn Error>> {
        let options = SystemOptions { load, ..behind_the_prompt(2)? };
        let mut system = open(&model, &options, StaticPlaces::new(2, 20, 7))?;
        let generation = generate(&model, &mut system, PROMPT.as_bytes(), &tokens, |_| {})?;
        assert_eq!(system.backdoor_accesses(), 0, "after loading");
        Ok((generation.text, system))
    };
    let (by_port, by_backdoor) = (load(Load::Port)?, load(Load::Backdoor)?);
    assert_eq!(by_port.0, by_backdoor.0);
    let mut weights = 0;
    for dimm in 0..2 {
        for (port, backdoor) in by_port.1.ranks(dimm).iter().zip(by_backdoor.1.ranks(dimm)) {
            for burst in 0..40_000 {
                let data = port.read_burst(burst);
                assert_eq!(data, backdoor.read_burst(burst), "burst {burst} of a rank of DIMM {dimm}");
                weights += u64::from(data != [0; 8]);
            }
        }
    }
    // Of 1,622,016 weights, 32 to a burst, rows of 192 being six bursts.
    assert!(weights >= 50_688, "{weights} bursts");
    Ok(())
}

fn behind_the_prompt(dimms: u32) -> Result<SystemOptions, Box<dyn Error>> {
    let prompt_on_gpu = PROMPT.len();
    Ok(SystemOptions { prompt_on_gpu, load: Load::Backdoor, ..SystemOptions::new(&system(dimms)?) })
}

#[test]
fn text_and_logits_do_not_depend_on_devices() -> Outcome {
    let model = model()?;
    let expected = reference(&model, &OPTIONS)?;
    let mut sent = Vec::new();
    for &(dimms, gpu_percent) in some(&[(2, 30), (1, 0), (4, 10)]) {
        let options = SystemOptions { load: Load::Backdoor, ..SystemOptions::new(&system(dimms)?) };
        let mut system = open(&model, &options, StaticPlaces::new(dimms, gpu_percent, 7))?;
        let generation = generate(&model, &mut system, PROMPT.as_bytes(), &OPTIONS, |_| {})?;
        assert_eq!(generation.text, expected.text, "{dimms} DIMMs");
        assert_eq!(generation.logits_digests, expected.logits_digests, "{dimms} DIMMs");
        let figures = system.figures();
        assert_eq!((figures.mismatches, system.protocol_violations()), (0, 0));
        assert!(figures.outputs_checked > 10_000, "{figures:?}");
        for dimm in &figures.dimms {
            assert!(dimm.neurons > 100 && dimm.cycles > 0, "{figures:?}");
            assert_eq!(dimm.cycles, dimm.model_cycles, "the cycle model of each core");
            assert!(dimm.cycles <= figures.critical_cycles);
        }
        assert_eq!(figures.gpu_neurons > 0, gpu_percent > 0);
        assert_eq!(
            (figures.prompt_ns, figures.tokens.len()),
            (0, 2),
            "a pass of the prompt and one behind it"
        );
        sent.push((dimms, figures.dimms.iter().map(|dimm| dimm.sent_bytes).sum::<u64>()));
        assert_eq!(sent[sent.len() - 1].1, figures.bytes.link_sums);
    }
    sent.sort();
    assert!(sent.windows(2).all(|pair| pair[0].1 < pair[1].1), "{sent:?}");
    assert!(sent.iter().all(|(dimms, bytes)| (*bytes > 0) == (*dimms > 1)), "{sent:?}");
    Ok(())
}

#[test]
fn the_prompt_may_be_the_gpus_and_threads_change_nothing() -> Outcome {
    let model = model()?;
    let tokens = GenerateOptions { tokens: 3, ..OPTIONS };
    let expected = reference(&model, &tokens)?;
    let mut runs = Vec::new();
    for threads in [1, 2, 5] {
        let options = SystemOptions { threads, ..behind_the_prompt(3)? };
        let mut system = open_for_host(&model, &options, StaticPlaces::new(3, 20, 7))?;
        let generation = generate(&model, &mut system, PROMPT.as_bytes(), &tokens, |_| {})?;
        assert_eq!(
            (&generation.text, &generation.logits_digests),
            (&expected.text, &expected.logits_digests)
        );
        runs.push((system.figures().clone(), system.events().to_vec()));
    }
    let (figures, events) = &runs[0];
    assert!(runs.iter().all(|run| run == &runs[0]), "the number of threads shows");
    // One pass of all layers after the prompt for each token but the first; keys and values of the prompt were handed
    // over.
    assert_eq!(figures.tokens.iter().map(|token| token.position).collect::<Vec<_>>(), [3, 4]);
    let sizes = &model.config;
    let cache = 2 * 2 * PROMPT.len() * sizes.num_hidden_layers() * sizes.hidden_size();
    assert_eq!(figures.bytes.bus_prompt_cache, cache as u64);
    assert!(figures.prompt_ns > 0);
    accounts_agree(&system(3)?, figures, events);
    Ok(())
}

/// Events add up to the figures, and no device does two things at once.
fn accounts_agree(system: &SystemConfig, figures: &ndp_sim::system::SystemFigures, events: &[Event]) {
    for dimm in 0..system.dimms().count {
        let of = &figures.dimms[dimm as usize];
        let own: Vec<&Event> = events.iter().filter(|event| event.place == Resource::Dimm(dimm)).collect();
        let programs: Vec<_> = own.iter().filter_map(|event| event.program.as_ref()).collect();
        assert_eq!(programs.len() as u64, of.programs);
        assert!(programs.iter().enumerate().all(|(index, program)| program.number == index as u64));
        assert_eq!(programs.iter().map(|program| program.cycles).sum::<u64>(), of.cycles);
        assert!(own.iter().map(|event| event.neurons.len() as u64).sum::<u64>() >= of.neurons);
        for program in &programs {
            // As many records as instructions, and the fillers of the last burst; each within the program.
            assert!(
                (program.instructions as usize..program.instructions as usize + 4)
                    .contains(&program.records.len())
            );
            let last = program.first_cycle + program.cycles;
            let inside = |cycle: u64| program.first_cycle <= cycle && cycle <= last;
            for record in program.records.iter().take(program.instructions as usize) {
                assert!(inside(record.taken) && record.started.is_some_and(inside), "{record:?}");
                assert!(record.ended.is_some_and(inside), "{record:?}");
            }
        }
        assert!(programs.windows(2).all(|p| p[0].first_cycle + p[0].cycles <= p[1].first_cycle));
    }
    let mut places: Vec<Resource> = events.iter().map(|event| event.place).collect();
    places.sort();
    places.dedup();
    for place in places {
        let mut own: Vec<_> = events.iter().filter(|event| event.place == place).collect();
        own.sort_by_key(|event| event.begin_ns);
        assert!(
            own.windows(2).all(|pair| pair[0].end_ns <= pair[1].begin_ns),
            "{place} does two things at once"
        );
    }
    let bytes = |wanted: fn(Resource) -> bool| -> u64 {
        events.iter().filter(|event| wanted(event.place)).map(|event| event.bytes).sum()
    };
    assert_eq!(bytes(|place| matches!(place, Resource::BusUp | Resource::BusDown)), figures.bytes.bus());
    assert_eq!(bytes(|place| matches!(place, Resource::Channel(_))), figures.bytes.channels());
    assert!(figures.bytes.channels() > figures.bytes.bus(), "the bus has no instructions");
    assert_eq!(
        bytes(|place| matches!(place, Resource::LinkIn(_) | Resource::LinkOut(_))),
        figures.bytes.links()
    );
    let end = events.iter().map(|event| event.end_ns).max().unwrap_or(0);
    let (_, critical, ns) = figures.generated();
    assert_eq!(end, figures.prompt_ns + ns);
    assert!(critical <= ns && critical == figures.critical_cycles);
    every_nanosecond_has_a_cause(figures, events);
}

/// After every batch of tokens all neurons move to the next DIMM, and each tenth is on the GPU.
struct Wanderers {
    turn: u32,
}

impl NeuronMap for Wanderers {
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
    for &weights in some(&[WeightFormat::Int8, WeightFormat::Fp16]) {
        let (model, _) = model()?.quantised(weights)?;
        let expected = reference(&model, &OPTIONS)?;
        let mut system = open_for_host(&model, &behind_the_prompt(3)?, Wanderers { turn: 0 })?;
        let generation = generate(&model, &mut system, PROMPT.as_bytes(), &OPTIONS, |_| {})?;
        assert_eq!((generation.text, generation.logits_digests), (expected.text, expected.logits_digests));
        assert!(system.places().turn >= 2);
    }
    Ok(())
}

#[test]
fn one_wrong_bit_on_the_way_ends_the_generation() -> Outcome {
    let model = model()?;
    for (gpu_numerics, merge) in [
        (GpuNumerics::Exact, MergeFormat::Exact),
        (GpuNumerics::Exact, MergeFormat::Fp16),
        (GpuNumerics::Fp32, MergeFormat::Exact),
    ] {
        let options = SystemOptions { gpu_numerics, merge, threads: 2, ..behind_the_prompt(2)? };
        let mut system = open(&model, &options, StaticPlaces::new(2, 30, 7))?.with_fault(Fault::Sums);
        let generation = generate(&model, &mut system, PROMPT.as_bytes(), &OPTIONS, |_| {});
        let Err(source) = generation else {
            return Err(format!("a wrong bit has passed: {generation:?}").into());
        };
        assert!(source.is::<Mismatches>(), "{source:#}");
        assert_eq!(system.mismatches().len(), 1);
    }
    Ok(())
}

/// Places that follow from the neurons' activity, so that the host asks the cores.
struct Learners(StaticPlaces);

impl NeuronMap for Learners {
    fn device(&self, layer: u32, kind: BlockKind, neuron: u32) -> Device {
        self.0.device(layer, kind, neuron)
    }

    fn learns(&self) -> bool {
        true
    }
}

#[test]
fn the_host_learns_from_the_cores_which_neurons_were_active() -> Outcome {
    let model = model()?;
    let expected = reference(&model, &OPTIONS)?;
    let options = behind_the_prompt(2)?;
    let places = || StaticPlaces::new(2, 20, 7);
    let mut without = open(&model, &options, places())?;
    generate(&model, &mut without, PROMPT.as_bytes(), &OPTIONS, |_| {})?;
    let mut system = open(&model, &options, Learners(places()))?;
    let generation = generate(&model, &mut system, PROMPT.as_bytes(), &OPTIONS, |_| {})?;
    assert_eq!((generation.text, generation.logits_digests), (expected.text, expected.logits_digests));
    // One bit for each neuron of a DIMM, layer and token, in whole bursts.
    let read: Vec<u64> =
        system.events().iter().filter(|event| event.what == "activity").map(|event| event.bytes).collect();
    let [tokens, layers] = [OPTIONS.tokens - 1, model.layers.len()];
    assert_eq!(read.len(), 2 * layers * tokens);
    assert!(read.iter().all(|bytes| *bytes == 64), "{read:?}");
    let [more, less] = [system.figures(), without.figures()].map(|figures| figures.bytes.channel_data);
    assert_eq!(more - less, read.iter().sum::<u64>());

    let mut system = open(&model, &options, Learners(places()))?.with_fault(Fault::Activity);
    let error = generate(&model, &mut system, PROMPT.as_bytes(), &OPTIONS, |_| {}).err();
    let Some(source) = error else {
        return Err(format!("a wrong bit has passed: {error:?}").into());
    };
    assert!(format!("{source:#}").contains("activity of layers."), "{source:#}");
    Ok(())
}

#[test]
fn rounding_on_the_way_is_checked_to_the_bit_and_its_differences_are_counted() -> Outcome {
    let model = model()?;
    let expected = reference(&model, &OPTIONS)?;
    let products = 4 * model.config.num_hidden_layers() as u64;
    let run = |gpu_numerics, merge| -> Result<_, Box<dyn Error>> {
        let options = SystemOptions { gpu_numerics, merge, ..behind_the_prompt(3)? };
        let mut system = open_for_host(&model, &options, StaticPlaces::new(3, 25, 7))?;
        let generation = generate(&model, &mut system, PROMPT.as_bytes(), &OPTIONS, |_| {})?;
        let figures = system.figures().clone();
        assert_eq!((figures.mismatches, generation.tokens.len()), (0, OPTIONS.tokens));
        assert!(figures.outputs_checked > 5_000, "{figures:?}");
        assert!(figures.dimms.iter().all(|dimm| dimm.cycles == dimm.model_cycles));
        let merge = figures.merge;
        // Q, K, V and FC2 of each layer; each of three cores hands over, and finishes a third of the columns.
        assert_eq!((merge.meetings, merge.handed_over), (3 * products, 3 * products));
        assert_eq!(
            (merge.link_bytes, merge.bus_bytes),
            (figures.bytes.link_sums, figures.bytes.bus_gpu_sums)
        );
        Ok((figures, generation))
    };
    let (exact, generation) = run(GpuNumerics::Exact, MergeFormat::Exact)?;
    assert_eq!(generation.logits_digests, expected.logits_digests);
    assert_eq!(exact.differences.compared, 0);
    let (fp16, generation) = run(GpuNumerics::Exact, MergeFormat::Fp16)?;
    // The first token comes out of the prompt's pass, which only the GPU computes.
    assert_eq!(generation.logits_digests[0], expected.logits_digests[0]);
    assert!(fp16.differences.different > 0, "{:?}", fp16.differences);
    // 2 bytes for each value that two of three cores send, not the 16 of an exact sum. Cores also add them faster.
    assert_eq!(fp16.merge.link_bytes, 2 * 2 * products * model.config.hidden_size() as u64);
    assert!(exact.merge.link_bytes >= 8 * fp16.merge.link_bytes, "{:?} {:?}", fp16.merge, exact.merge);
    assert!(fp16.merge.meet_cycles < exact.merge.meet_cycles, "{:?} {:?}", fp16.merge, exact.merge);
    let (fp32, _) = run(GpuNumerics::Fp32, MergeFormat::Exact)?;
    let share = fp32.differences.different as f64 / fp32.differences.compared as f64;
    assert!(fp32.differences.different > 0 && share < 0.2, "{:?}", fp32.differences);
    Ok(())
}

#[test]
fn a_live_predictor_decides_what_is_computed() -> Outcome {
    let model = model()?;
    let setup = Setup::profile(&model, &model.vocabulary.tokens(PROMPT.as_bytes())?, &OTHER)?;
    let live = OnlinePredictor::new(&shape_of(&model.config), &setup.profile, PROMPT.len())?;
    let tokens = GenerateOptions { tokens: 4, ..OPTIONS };
    let exact = reference(&model, &tokens)?;
    let mut software = PredictedSoftware::new(live.clone());
    let expected = generate(&model, &mut software, PROMPT.as_bytes(), &tokens, |_| {})?;
    assert_ne!(expected.logits_digests, exact.logits_digests, "nothing was left out");
    assert_eq!(expected.logits_digests[0], exact.logits_digests[0], "the prompt is exact");

    let mut system =
        open(&model, &behind_the_prompt(3)?, StaticPlaces::new(3, 25, 7))?.with_predictor(live.clone())?;
    let generation = generate(&model, &mut system, PROMPT.as_bytes(), &tokens, |_| {})?;
    assert_eq!((&generation.text, &generation.logits_digests), (&expected.text, &expected.logits_digests));
    let figures = system.figures();
    assert_eq!(figures.mismatches, 0);
    let found = system.live().ok_or("no predictor")?;
    assert_eq!(found.evaluation(), software.live().evaluation());
    let all = found.evaluation().all();
    let shape = shape_of(&model.config);
    assert_eq!(all.total(), 3 * shape.neurons());
    assert!(all.false_negatives > 0 && all.true_positives > 0 && all.false_positives > 0, "{all:?}");
    assert_eq!(found.tokens().len(), 3);
    // Each predicted neuron is computed, even if it turns out inactive; the MLP's active ones a second time, in FC2. Q,
    // K and V have the same neurons.
    let computed = figures.gpu_neurons + figures.dimms.iter().map(|dimm| dimm.neurons).sum::<u64>();
    let (attention, mlp) = (found.evaluation().attention, found.evaluation().mlp);
    let predicted = attention.true_positives + attention.false_positives;
    let mlp = 2 * mlp.true_positives + mlp.false_positives;
    assert_eq!(computed, 3 * predicted + mlp);

    let text = b"She could not be";
    let own = perplexity(&model, &mut SoftwareBackend::new(), text, PROMPT.len())?;
    let predicted = perplexity(&model, &mut PredictedSoftware::new(live), text, PROMPT.len())?;
    assert_eq!((own.tokens, predicted.tokens), (13, 13));
    assert!(own.per_token > 1.0 && predicted.per_token > own.per_token, "{own:?} {predicted:?}");
    assert!(perplexity(&model, &mut SoftwareBackend::new(), text, text.len()).is_err());
    Ok(())
}

#[test]
fn fc2_needs_nothing_that_the_machine_does_not_know() -> Outcome {
    let model = model()?;
    let tokens = GenerateOptions { tokens: 3, ..OPTIONS };
    let expected = reference(&model, &tokens)?;
    let (layers, ffn) = (model.config.num_hidden_layers() as u64, model.config.ffn_dim() as u64);
    let run = |activity| -> Result<_, Box<dyn Error>> {
        let options = SystemOptions { activity, ..behind_the_prompt(3)? };
        let mut system = open_for_host(&model, &options, StaticPlaces::new(3, 25, 7))?;
        let generation = generate(&model, &mut system, PROMPT.as_bytes(), &tokens, |_| {})?;
        assert_eq!(
            (&generation.text, &generation.logits_digests),
            (&expected.text, &expected.logits_digests),
            "{activity:?}"
        );
        let (mut computed, mut selected) = (0, 0);
        for event in system.events().iter().filter(|event| event.position >= PROMPT.len()) {
            match (event.operation, event.place, event.what) {
                (Operation::Fc1, _, "neurons") => computed += event.neurons.len() as u64,
                (Operation::Fc2, Resource::BusDown, what) => {
                    assert!(["sums of the GPU", "residual"].contains(&what), "the host sends {what}");
                }
                (Operation::Fc2, Resource::Dimm(_), "partial sums") => {
                    let program = event.program.as_ref().ok_or("no program")?;
                    let opcodes: Vec<_> = program
                        .records
                        .iter()
                        .filter_map(|record| decode_fields(record.word).ok())
                        .map(|instruction| instruction.opcode())
                        .collect();
                    assert!(!opcodes.contains(&Opcode::Load), "the core has the values: {opcodes:?}");
                    assert!(opcodes.contains(&Opcode::Select) && opcodes.contains(&Opcode::Axpy));
                    selected += 1;
                }
                _ => {}
            }
        }
        assert_eq!(selected, 2 * layers * 3, "two tokens, three DIMMs");
        Ok(computed)
    };
    assert_eq!(run(ActivitySource::Causal)?, 2 * layers * ffn, "all neurons");
    let known = run(ActivitySource::Oracle)?;
    assert!(0 < known && known < layers * ffn, "an oracle computes less than half of them: {known}");
    Ok(())
}

#[test]
fn the_perplexity_of_a_text_is_that_of_its_digests() -> Outcome {
    // Greedy text: every token has the largest logit.
    let model = model()?;
    let tokens = GenerateOptions { tokens: 5, ..OPTIONS };
    let generation = reference(&model, &tokens)?;
    let text = [PROMPT.as_bytes(), generation.text.as_bytes()].concat();
    let found = perplexity(&model, &mut SoftwareBackend::new(), &text, PROMPT.len())?;
    assert_eq!((found.tokens, found.right), (5, 5));
    assert!((1.0..10.0).contains(&found.per_token), "{found:?}");
    Ok(())
}

#[test]
fn systems_that_do_not_exist_are_refused() -> Outcome {
    let model = model()?;
    let config = DesignConfig::preset("tiny")?;
    let options = SystemOptions { observed_dimm: 2, ..SystemOptions::new(&system(2)?) };
    let system =
        SystemBackend::open(&config, &GemvOptions::default(), &options, StaticPlaces::new(2, 0, 0), &model);
    let error = system.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(error.contains("shown-dimm = 2 must be in 0..=1"), "{error}");
    // Weights with fewer bits on the DIMMs than on the GPU would be two models.
    let narrow =
        include_str!("../../rust/config/presets/tiny.toml").replace("[gemv]", "[gemv]\nserial_steps = 8");
    let narrow = DesignConfig::from_toml(&narrow)?;
    let options = SystemOptions::new(&self::system(2)?);
    let system =
        SystemBackend::open(&narrow, &GemvOptions::default(), &options, StaticPlaces::new(2, 0, 0), &model);
    let error = system.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(error.contains("serial_steps = 8 must be in 11..=11"), "{error}");
    Ok(())
}

/// Long enough for a window of remapping, and for its moves.
const LONGER: GenerateOptions = GenerateOptions::new(8, 0, 0);

/// The text under a policy of the scheduler; how many neurons it has moved to the GPU and between DIMMs.
fn under(
    policy: Policy,
    (model, setup): (&Model, &Setup),
    tokens: &GenerateOptions,
) -> Result<[u64; 2], Box<dyn Error>> {
    // The GPU has room for a fifth of the neurons.
    let system = SystemConfig::preset("small")?.with_dimms(3)?.with_gpu_percent(&setup.shape, 20)?;
    let online = setup.online(&DesignConfig::preset("tiny")?, &system, policy, (PROMPT.len(), 3))?;
    let options = SystemOptions { threads: 2, system, ..behind_the_prompt(3)? };
    let mut failed = Vec::new();
    let mut backend =
        Capture::new(open(model, &options, online.clone())?, shape_of(&model.config), |activity| {
            failed.extend(online.token(activity).err());
            Ok(())
        });
    let generation = generate(model, &mut backend, PROMPT.as_bytes(), tokens, |_| {})?;
    let expected = reference(model, tokens)?;
    assert_eq!((generation.text, generation.logits_digests), (expected.text, expected.logits_digests));
    let figures = backend.into_inner().figures().clone();
    assert_eq!(figures.mismatches, 0);
    assert!(failed.is_empty(), "{failed:?}");
    assert!(figures.gpu_neurons > 0 && figures.dimms.iter().all(|dimm| dimm.cycles == dimm.model_cycles));
    let records = online.records();
    assert_eq!(records.len(), tokens.tokens - 1);
    Ok([
        records.iter().map(|record| record.uploads).sum(),
        records.iter().map(|record| record.migrations).sum(),
    ])
}

#[test]
fn text_and_logits_do_not_depend_on_the_policy() -> Outcome {
    let model = model()?;
    let setup = Setup::profile(&model, &model.vocabulary.tokens(PROMPT.as_bytes())?, &OTHER)?;
    // Which neurons move. If none does, the text needs no window of remapping.
    for &(policy, tokens, moves) in some(&[
        (Policy::Hermes, &LONGER, [true, true]),
        (Policy::Adjustment, &LONGER, [true, false]),
        (Policy::Partition, &OPTIONS, [false, false]),
        (Policy::Random, &OPTIONS, [false, false]),
    ]) {
        let moved = under(policy, (&model, &setup), tokens)?;
        assert_eq!(moved.map(|count| count > 0), moves, "{policy:?}: {moved:?}");
    }
    Ok(())
}

/// Rotated heads, shared keys, a gate, biases (of `up_proj` too), heads that are together wider than the hidden state,
/// blocks in parallel, norms of queries and keys and after blocks, factors, windows, soft caps, experts; SiLU, GELU, GELU
/// with tanh, and ReLU.
#[test]
fn checkpoints_give_the_logits_of_the_reference_on_several_dimms() -> Outcome {
    for (name, backend, (dimms, gpu_percent, linked)) in [
        ("llama", Backend::Rtl, (2, 20, false)),
        ("llama", Backend::Cycles, (4, 0, true)),
        ("llama-bias", Backend::Cycles, (2, 30, false)),
        ("llama-bias", Backend::Rtl, (2, 0, true)),
        ("mistral", Backend::Cycles, (3, 20, true)),
        ("falcon-new", Backend::Cycles, (4, 20, true)),
        ("falcon-mq", Backend::Cycles, (2, 20, false)),
        ("opt", Backend::Cycles, (4, 20, true)),
        ("opt-350m", Backend::Cycles, (3, 20, true)),
        ("llama3-rope", Backend::Cycles, (3, 20, false)),
        ("qwen2", Backend::Cycles, (4, 20, true)),
        ("qwen3", Backend::Rtl, (2, 20, true)),
        ("phi3", Backend::Cycles, (4, 0, true)),
        ("olmo2", Backend::Cycles, (2, 20, true)),
        ("granite", Backend::Cycles, (3, 20, false)),
        ("gemma", Backend::Cycles, (2, 20, true)),
        ("gemma3", Backend::Cycles, (4, 20, true)),
        ("mistral-window", Backend::Rtl, (2, 20, true)),
        ("qwen2-window", Backend::Cycles, (4, 0, true)),
        ("gemma2", Backend::Cycles, (4, 20, true)),
        ("gemma2", Backend::Rtl, (2, 30, false)),
        ("mixtral", Backend::Rtl, (2, 20, true)),
        ("mixtral", Backend::Cycles, (4, 0, false)),
        ("qwen3-moe", Backend::Rtl, (2, 0, false)),
        ("qwen3-moe", Backend::Cycles, (4, 20, true)),
    ] {
        let (mut model, tokens, dense) = checkpoint(name)?;
        // Without thresholds, then with them.
        let mut runs = vec![(None, dense)];
        runs.extend(thresholded(name)?.map(|(thresholds, digests)| (Some(thresholds), digests)));
        for (thresholds, expected) in runs {
            for (layer, threshold) in model.layers.iter_mut().zip(thresholds.into_iter().flatten()) {
                layer.threshold = Some(threshold);
            }
            let options = SystemOptions { load: Load::Backdoor, ..SystemOptions::new(&system(dimms)?) };
            let mut system = open_on(backend, &model, &options, StaticPlaces::new(dimms, gpu_percent, 7))?;
            if linked {
                system = system.with_links(&LinkOptions::default())?;
            }
            let mut decoder = Decoder::new(&model);
            let mut logits = decoder.prefill_all_logits(&mut system, &tokens[..4])?;
            for token in &tokens[4..] {
                logits.extend(decoder.step(&mut system, *token)?);
            }
            let digests = logits.chunks(model.config.vocab_size()).map(logits_digest);
            let digests: Vec<String> = digests.map(|digest| format!("{digest:016x}")).collect();
            assert_eq!(digests, expected[..tokens.len()], "{name}");
            let figures = system.figures();
            assert_eq!((figures.mismatches, system.protocol_violations()), (0, 0), "{name}");
            assert!(figures.outputs_checked > 1000, "{name}: {}", figures.outputs_checked);
            assert!(figures.dimms.iter().all(|dimm| dimm.neurons > 20), "{name}: {:?}", figures.dimms);
        }
    }
    Ok(())
}

#[test]
fn neurons_that_are_all_active_are_not_predicted() -> Outcome {
    let model = Model::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/checkpoints/llama"))?;
    check_model(&model, ActivitySource::Causal)?;
    let error = check_model(&model, ActivitySource::Predicted).err().ok_or("accepted")?.to_string();
    assert!(error.starts_with("the model's activation = silu: all its neurons are active"), "{error}");
    Ok(())
}
