//! Several cores on links in RTL and a GPU: does a text stay the same while neurons migrate over the links and the
//! links fail?

use common::causes::every_nanosecond_has_a_cause;
use common::energy::{all_energy_has_a_use, without_bus};
use common::{Outcome, some};
use ndp_config::{BlockKind, DesignConfig, SystemConfig, WeightFormat};
use ndp_model::{GenerateOptions, Generation, Model, SoftwareBackend, generate};
use ndp_sim::core::{Backend, CoreOptions, HostStalls};
use ndp_sim::error::Mismatches;
use ndp_sim::gemv::{GemvOptions, MergeFormat};
use ndp_sim::system::{
    Device, Fault, LinkFigures, LinkOptions, Load, NeuronMap, Resource, StaticPlaces, SystemBackend,
    SystemFigures, SystemOptions,
};
use std::error::Error;
use std::path::Path;

const PROMPT: &str = "She";
const OPTIONS: GenerateOptions = GenerateOptions::new(3, 0, 0);

fn model() -> Result<Model, Box<dyn Error>> {
    Ok(Model::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/model"))?)
}

fn reference(model: &Model) -> Result<Generation, Box<dyn Error>> {
    Ok(generate(model, &mut SoftwareBackend::new(), PROMPT.as_bytes(), &OPTIONS, |_| {})?)
}

fn options(dimms: u32) -> Result<SystemOptions, Box<dyn Error>> {
    // Neurons move while the GPU computes a projection: for 4 us, two synchronisations.
    let system = include_str!("../../rust/config/presets/systems/hermes.toml")
        .replace("sync_us = 10.0", "sync_us = 2.0");
    let system = SystemConfig::from_toml(&system)?.with_dimms(dimms)?;
    let prompt_on_gpu = PROMPT.len();
    Ok(SystemOptions { prompt_on_gpu, load: Load::Backdoor, ..SystemOptions::new(&system) })
}

fn open<P: NeuronMap>(
    model: &Model,
    options: &SystemOptions,
    links: &LinkOptions,
    places: P,
) -> ndp_files::Result<SystemBackend<P>> {
    open_as(Backend::Rtl, model, options, links, places)
}

fn open_as<P: NeuronMap>(
    backend: Backend,
    model: &Model,
    options: &SystemOptions,
    links: &LinkOptions,
    places: P,
) -> ndp_files::Result<SystemBackend<P>> {
    // A host that never stalls lets a modelled core leap to the end of a program.
    let stall_percent = if options.system.dimms().count == 5 { 0 } else { 3 };
    let unit = GemvOptions {
        log_instructions: true,
        core: CoreOptions {
            stalls: HostStalls::both(stall_percent),
            predict: true,
            backend,
            ..CoreOptions::default()
        },
        ..GemvOptions::default()
    };
    SystemBackend::open(&DesignConfig::preset("tiny")?, &unit, options, places, model)?.with_links(links)
}

/// One in twelve neurons moves to the next DIMM after each token, and one in ten is on the GPU, another one each time.
#[derive(Clone)]
pub(super) struct Wanderers {
    pub dimms: u32,
    pub turn: u32,
}

impl NeuronMap for Wanderers {
    fn device(&self, layer: u32, kind: BlockKind, neuron: u32) -> Device {
        let place = layer + neuron / 3;
        if place.wrapping_add(self.turn).is_multiple_of(10) {
            return Device::Gpu;
        }
        Device::Dimm(self.home(layer, kind, neuron))
    }

    fn home(&self, layer: u32, _: BlockKind, neuron: u32) -> u32 {
        let turns = if neuron.is_multiple_of(12) { self.turn } else { 0 };
        (layer + neuron / 3 + turns) % self.dimms
    }

    fn end(&mut self, _tokens: u32) {
        self.turn += 1;
    }
}

/// The text has to equal the one of exact sums.
fn run(
    model: &Model,
    options: &SystemOptions,
    links: &LinkOptions,
) -> Result<(SystemFigures, LinkFigures), Box<dyn Error>> {
    run_as(Backend::Rtl, model, &OPTIONS, options, links)
}

fn run_as(
    backend: Backend,
    model: &Model,
    tokens: &GenerateOptions,
    options: &SystemOptions,
    links: &LinkOptions,
) -> Result<(SystemFigures, LinkFigures), Box<dyn Error>> {
    let dimms = options.system.dimms().count;
    let mut system = open_as(backend, model, options, links, Wanderers { dimms, turn: 0 })?;
    let generation = generate(model, &mut system, PROMPT.as_bytes(), tokens, |_| {})?;
    let expected = generate(model, &mut SoftwareBackend::new(), PROMPT.as_bytes(), tokens, |_| {})?;
    assert_eq!((generation.text, generation.logits_digests), (expected.text, expected.logits_digests));
    system.count_links()?;
    assert_eq!(system.protocol_violations(), 0);
    let figures = system.figures().clone();
    every_nanosecond_has_a_cause(&figures, system.events());
    let links = figures.links.clone().ok_or("no figures of links")?;
    assert_eq!((figures.mismatches, links.counters.len()), (0, dimms as usize));
    assert!(figures.outputs_checked > 5_000, "{figures:?}");
    for dimm in &figures.dimms {
        assert_eq!(dimm.cycles, dimm.model_cycles, "the cycle model of all cores and links");
    }
    Ok((figures, links))
}

#[test]
fn neurons_wander_over_cables_and_bridges_and_modelled_cores_do_the_same() -> Outcome {
    wander(some(&[
        (2, MergeFormat::Exact, Load::Port, WeightFormat::Int4),
        (3, MergeFormat::Fp16, Load::Backdoor, WeightFormat::Fp16),
    ]))
}

#[test]
#[ignore = "a minute; run by `make exhaustive`"]
fn neurons_wander_over_five_dimms_too() -> Outcome {
    wander(&[
        (2, MergeFormat::Exact, Load::Port, WeightFormat::Fp16),
        (5, MergeFormat::Exact, Load::Backdoor, WeightFormat::Fp16),
    ])
}

/// Modelled cores take the same cycles for the same programs, instruction by instruction.
fn wander(cases: &[(u32, MergeFormat, Load, WeightFormat)]) -> Outcome {
    for &(dimms, merge, load, weights) in cases {
        let (model, _) = model()?.quantised(weights)?;
        let expected = reference(&model)?;
        let options = SystemOptions { merge, load, ..options(dimms)? };
        let links = LinkOptions { seed: 5, ..LinkOptions::default() };
        let run = |backend| -> Result<_, Box<dyn Error>> {
            let mut system = open_as(backend, &model, &options, &links, Wanderers { dimms, turn: 0 })?;
            let generation = generate(&model, &mut system, PROMPT.as_bytes(), &OPTIONS, |_| {})?;
            assert_eq!(merge == MergeFormat::Exact, generation.logits_digests == expected.logits_digests);
            system.count_links()?;
            assert_eq!((system.protocol_violations(), system.backdoor_accesses()), (0, 0));
            assert!(system.figures().dimms.iter().all(|dimm| dimm.cycles == dimm.model_cycles));
            let programs = system.events().iter().filter_map(|event| event.program.as_ref());
            assert!(
                programs.clone().count() > 200 && programs.clone().all(|program| !program.records.is_empty())
            );
            all_energy_has_a_use(&DesignConfig::preset("tiny")?, system.figures(), system.events())?;
            Ok((generation.logits_digests, system.figures().clone(), without_bus(system.events())))
        };
        let (rtl, modelled) = (run(Backend::Rtl)?, run(Backend::Cycles)?);
        every_nanosecond_has_a_cause(&rtl.1, &rtl.2);
        let (figures, links) = (&rtl.1, rtl.1.links.as_ref().ok_or("no figures of links")?);
        assert!(links.migrations > 50 && links.uploads > 20, "{dimms} DIMMs: {links:?}");
        assert_eq!((links.repeated, links.failed_moves, links.wrong_bits), (0, 0, 0), "{links:?}");
        // All sums that were handed over, and Q, K and V for other DIMMs' heads.
        assert!(links.messages > figures.merge.handed_over, "{links:?} {:?}", figures.merge);
        assert!(links.bytes >= figures.bytes.links(), "{links:?} {:?}", figures.bytes);
        assert!(links.counters.iter().all(|link| link.accepted > 100 && link.sent_again == 0), "{links:?}");
        assert_eq!((&modelled.0, &modelled.1), (&rtl.0, &rtl.1), "{dimms} DIMMs");
        for (own, expected) in modelled.2.iter().zip(&rtl.2) {
            assert_eq!(own, expected, "{dimms} DIMMs");
        }
        assert_eq!(modelled.2.len(), rtl.2.len());
    }
    Ok(())
}

#[test]
fn errors_of_links_are_no_business_of_the_model() -> Outcome {
    let model = model()?;
    for links in [
        LinkOptions { ber: 1e-6, ..LinkOptions::default() },
        LinkOptions { faults: vec!["cut@20000:1".parse()?], ..LinkOptions::default() },
    ] {
        let opened = open_as(Backend::Cycles, &model, &options(2)?, &links, StaticPlaces::new(2, 0, 0));
        let error = opened.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains("a link with errors needs a core in RTL"), "{error}");
    }
    Ok(())
}

#[test]
fn bit_errors_cost_time_and_nothing_else_and_threads_change_nothing() -> Outcome {
    let model = model()?;
    let tokens = GenerateOptions { tokens: 2, ..OPTIONS };
    let quiet = run_as(Backend::Cycles, &model, &tokens, &options(2)?, &LinkOptions::default())?.1;
    // On a cable, and around a bridge.
    for &(dimms, ber) in some(&[(2, 1e-4), (3, 3e-5)]) {
        let options = options(dimms)?;
        let noisy = LinkOptions { ber, seed: 3, ..LinkOptions::default() };
        let one = run_as(Backend::Rtl, &model, &tokens, &options, &noisy)?;
        let threads = SystemOptions { threads: 2, ..options };
        assert_eq!(run_as(Backend::Rtl, &model, &tokens, &threads, &noisy)?, one);
        let links = one.1;
        let again: u32 = links.counters.iter().map(|link| link.sent_again).sum();
        assert!(links.wrong_bits > 100 && again > 10, "{links:?}");
        assert_eq!((links.repeated, links.failed_moves), (0, 0), "the links repeat flits, not messages");
        if dimms == 2 {
            assert!(links.cycles > quiet.cycles, "{links:?} {quiet:?}");
        }
    }
    Ok(())
}

#[test]
fn rounded_parts_go_over_links_too() -> Outcome {
    let model = model()?;
    let options = SystemOptions { merge: MergeFormat::Fp16, ..options(3)? };
    let mut system = open(&model, &options, &LinkOptions::default(), StaticPlaces::new(3, 20, 7))?;
    let generation = generate(&model, &mut system, PROMPT.as_bytes(), &OPTIONS, |_| {})?;
    let mut unlinked = SystemBackend::open(
        &DesignConfig::preset("tiny")?,
        &GemvOptions::default(),
        &options,
        StaticPlaces::new(3, 20, 7),
        &model,
    )?;
    let expected = generate(&model, &mut unlinked, PROMPT.as_bytes(), &OPTIONS, |_| {})?;
    assert_eq!((generation.text, generation.logits_digests), (expected.text, expected.logits_digests));
    assert_eq!(system.figures().differences, unlinked.figures().differences);
    Ok(())
}

#[test]
fn a_link_that_fails_for_a_while_changes_no_bit() -> Outcome {
    failing(some(&[
        // Long enough for the link to become faulty: the host makes it continue, and sends messages again.
        (2, "cut@20000:0=40000"),
        (2, "burst@20000:0=300 burst@24000:1=50 burst@31000:0=2000"),
    ]))
}

#[test]
#[ignore = "a minute; run by `make exhaustive`"]
fn nor_does_one_of_several() -> Outcome {
    failing(&[(3, "cut@20000:2=10000"), (3, "cut@20000:1=40000"), (4, "full@8000:2=20000 burst@30000:3=600")])
}

fn failing(cases: &[(u32, &str)]) -> Outcome {
    let model = model()?;
    for &(dimms, faults) in cases {
        let faults: Vec<_> = faults.split(' ').map(str::parse).collect::<Result<_, _>>()?;
        let (_, links) =
            run(&model, &options(dimms)?, &LinkOptions { faults: faults.clone(), ..LinkOptions::default() })?;
        let sum = |of: fn(&ndp_sim::system::LinkCounters) -> u32| links.counters.iter().map(of).sum::<u32>();
        let disturbed = sum(|l| l.wrong_crc + l.sent_again + l.without_credit) > 0 || links.repeated > 0;
        assert!(disturbed, "{faults:?} did nothing: {links:?}");
    }
    Ok(())
}

#[test]
fn a_link_that_is_dead_is_named() -> Outcome {
    let model = model()?;
    for &(dimms, fault, name) in some(&[
        (2, "dead-lane@20000:1=2", "the link of DIMM"),
        (3, "dead-lane@20000:2=0", "the link of DIMM 2"),
    ]) {
        let links = LinkOptions { faults: vec![fault.parse()?], ..LinkOptions::default() };
        let mut system = open(&model, &options(dimms)?, &links, Wanderers { dimms, turn: 0 })?;
        let generation = generate(&model, &mut system, PROMPT.as_bytes(), &OPTIONS, |_| {});
        let Err(source) = generation else {
            return Err(format!("{fault}: {generation:?}").into());
        };
        let text = format!("{source:#}");
        assert!(text.contains("the link of DIMM ") && text.contains(name), "{text}");
    }
    Ok(())
}

#[test]
fn a_wrong_bit_in_a_neuron_that_moves_is_noticed() -> Outcome {
    let model = model()?;
    let links = LinkOptions::default();
    let mut system =
        open(&model, &options(2)?, &links, Wanderers { dimms: 2, turn: 0 })?.with_fault(Fault::Moves);
    // Neurons that move while the second token is computed are needed for the third.
    let longer = GenerateOptions { tokens: 6, ..OPTIONS };
    let generation = generate(&model, &mut system, PROMPT.as_bytes(), &longer, |_| {});
    let Err(source) = generation else {
        return Err(format!("a wrong bit has passed: {generation:?}").into());
    };
    assert!(source.is::<Mismatches>(), "{source:#}");
    Ok(())
}

#[test]
fn links_that_do_not_exist_are_refused() -> Outcome {
    let model = model()?;
    let error = |dimms, fault: &str| -> Result<String, Box<dyn Error>> {
        let faults = if fault.is_empty() { Vec::new() } else { vec![fault.parse()?] };
        let links = LinkOptions { faults, ..LinkOptions::default() };
        let opened = open(&model, &options(dimms)?, &links, StaticPlaces::new(dimms, 0, 0));
        Ok(opened.err().map(|error| error.to_string()).unwrap_or_default())
    };
    assert!(error(1, "")?.contains("linked cores = 1 must be in 2..=8"));
    assert!(error(9, "")?.contains("linked cores = 9 must be in 2..=8"));
    assert!(error(2, "cut@0:2")?.contains("DIMM of a fault = 2 must be in 0..=1"));
    assert!(error(2, "dead-lane@0:1=5")?.contains("lane of a fault = 5 must be in 0..=3"));
    Ok(())
}

#[test]
fn nobody_does_two_things_at_once() -> Outcome {
    let model = model()?;
    let faults = vec!["cut@20000:1=40000".parse()?];
    let links = LinkOptions { faults, ..LinkOptions::default() };
    let mut system = open(&model, &options(3)?, &links, Wanderers { dimms: 3, turn: 0 })?;
    generate(&model, &mut system, PROMPT.as_bytes(), &OPTIONS, |_| {})?;
    let events = system.events();
    let mut places: Vec<Resource> = events.iter().map(|event| event.place).collect();
    places.sort();
    places.dedup();
    assert_eq!(
        places.len(),
        3 + 2 + 3 + 3,
        "GPU, bus both ways, two channels, DIMMs, links to them: {places:?}"
    );
    for place in places {
        let mut own: Vec<_> = events.iter().filter(|event| event.place == place).collect();
        own.sort_by_key(|event| (event.begin_ns, event.end_ns));
        for pair in own.windows(2) {
            assert!(pair[0].end_ns <= pair[1].begin_ns, "{place} does two things at once: {pair:?}");
        }
    }
    let figures = system.figures();
    for (dimm, of) in (0..).zip(&figures.dimms) {
        let own = events.iter().filter(|event| event.place == Resource::Dimm(dimm));
        let programs: Vec<_> = own.filter_map(|event| event.program.as_ref()).collect();
        assert_eq!(programs.len() as u64, of.programs);
        assert_eq!(programs.iter().map(|program| program.cycles).sum::<u64>(), of.cycles);
        let mut numbers: Vec<u64> = programs.iter().map(|program| program.number).collect();
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(0..of.programs));
    }
    Ok(())
}
