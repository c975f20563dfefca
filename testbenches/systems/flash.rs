//! A model whose neurons are on an SSD, with slots for a part of them: does the text stay the same, and does a token
//! read exactly the neurons that it lacks?

use common::Outcome;
use common::causes::every_nanosecond_has_a_cause;
use common::energy::{all_energy_has_a_use, without_bus};
use ndp_config::{BlockKind, DesignConfig, Ssd, SystemConfig, WeightFormat};
use ndp_model::{GenerateOptions, Generation, Model, SoftwareBackend, generate};
use ndp_sim::core::{Backend, CoreOptions, HostStalls};
use ndp_sim::error::Mismatches;
use ndp_sim::gemv::{GemvOptions, MergeFormat};
use ndp_sim::system::{
    ActivitySource, Device, Event, Fault, FlashOptions, LinkOptions, Load, NeuronMap, OnlinePredictor,
    PredictedSoftware, Resource, Setup, StaticPlaces, SystemBackend, SystemFigures, SystemOptions,
};
use ndp_traces::Activity;
use ndp_traces::capture::{Capture, shape_of};
use std::collections::BTreeSet;
use std::error::Error;
use std::path::Path;

const PROMPT: &str = "Elizabeth was";

const SMALL: &str = include_str!("../../rust/config/presets/systems/small.toml");

fn model(path: &str) -> Result<Model, Box<dyn Error>> {
    Ok(Model::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join(path))?)
}

fn text(tokens: usize) -> GenerateOptions {
    GenerateOptions::new(tokens, 0, 0)
}

#[derive(Clone, Copy)]
struct Case {
    dimms: u32,
    linked: bool,
    backend: Backend,
    load: Load,
    activity: ActivitySource,
    tokens: usize,
    threads: usize,
    percent: u32,
    window: u32,
    ssd: &'static str,
}

const CASE: Case = Case {
    dimms: 2,
    linked: false,
    backend: Backend::Cycles,
    load: Load::Backdoor,
    activity: ActivitySource::Oracle,
    tokens: 10,
    threads: 1,
    percent: 50,
    window: 5,
    ssd: "flash-m1",
};

impl Case {
    fn options(&self, model: &Model) -> Result<SystemOptions, Box<dyn Error>> {
        let system = SystemConfig::preset("small")?.with_dimms(self.dimms)?.with_ssd(Ssd::preset(self.ssd)?);
        Ok(SystemOptions {
            prompt_on_gpu: model.vocabulary.tokens(PROMPT.as_bytes())?.len(),
            load: self.load,
            activity: self.activity,
            threads: self.threads,
            flash: Some(FlashOptions { resident_percent: self.percent, window: self.window.try_into()? }),
            ..SystemOptions::new(&system)
        })
    }

    fn open(&self, model: &Model) -> Result<SystemBackend<StaticPlaces>, Box<dyn Error>> {
        self.open_with(&self.options(model)?, model)
    }

    fn open_with(
        &self,
        options: &SystemOptions,
        model: &Model,
    ) -> Result<SystemBackend<StaticPlaces>, Box<dyn Error>> {
        let unit = GemvOptions {
            log_instructions: true,
            core: CoreOptions {
                predict: true,
                stalls: HostStalls::both(if self.linked { 3 } else { 0 }),
                backend: self.backend,
                ..CoreOptions::default()
            },
            ..GemvOptions::default()
        };
        let config = DesignConfig::preset("tiny")?;
        let places = StaticPlaces::new(self.dimms, 20, 7);
        let system = SystemBackend::open(&config, &unit, options, places, model)?;
        if self.linked {
            return Ok(system.with_links(&LinkOptions { seed: 5, ..LinkOptions::default() })?);
        }
        Ok(system)
    }

    /// Generates the text; checks invariants of figures and events that hold in every run.
    fn run(&self, model: &Model) -> Result<(Generation, SystemFigures, Vec<Event>), Box<dyn Error>> {
        self.complete(self.open(model)?, model)
    }

    fn complete(
        &self,
        mut system: SystemBackend<StaticPlaces>,
        model: &Model,
    ) -> Result<(Generation, SystemFigures, Vec<Event>), Box<dyn Error>> {
        let generation = generate(model, &mut system, PROMPT.as_bytes(), &text(self.tokens), |_| {})?;
        system.count_links()?;
        let figures = system.figures().clone();
        assert_eq!((figures.mismatches, system.protocol_violations(), system.backdoor_accesses()), (0, 0, 0));
        assert!(figures.dimms.iter().all(|dimm| dimm.cycles == dimm.model_cycles));
        every_nanosecond_has_a_cause(&figures, system.events());
        all_energy_has_a_use(&DesignConfig::preset("tiny")?, &figures, system.events())?;
        accounts_agree(&figures, system.events())?;
        Ok((generation, figures, without_bus(system.events())))
    }
}

/// Events of the SSD add up to the figures; no device does two things at once, and the MLP begins when its neurons are
/// there.
fn accounts_agree(figures: &SystemFigures, events: &[Event]) -> Outcome {
    let flash = figures.flash.as_ref().ok_or("no figures of the SSD")?;
    let reads = || events.iter().filter(|event| event.place == Resource::Ssd);
    let loaded = flash.sum(|token| token.loaded);
    assert_eq!(reads().map(|event| event.bytes).sum::<u64>(), loaded * flash.bundle_bytes);
    assert_eq!(figures.bytes.ssd_bundles, loaded * flash.bundle_bytes);
    assert_eq!(
        reads().map(|event| event.end_ns - event.begin_ns).sum::<u64>(),
        flash.sum(|token| token.ssd_ns)
    );
    let writes = || {
        let of = |event: &&Event| event.what == "bundles" && matches!(event.place, Resource::Dimm(_));
        events.iter().filter(of)
    };
    assert_eq!(writes().map(|event| event.end_ns - event.begin_ns).sum::<u64>(), flash.port_cycles);
    for write in writes() {
        let same = |event: &&Event| (event.position, event.layer) == (write.position, write.layer);
        // No more is written than the SSD has read: all bundles of a layer take the same number of bytes of a channel.
        let over = |event: &&Event| same(event) && event.what == "bundles" && event.access.is_some();
        let written = |by: u64| -> u64 {
            events.iter().filter(over).filter(|event| event.begin_ns <= by).map(|event| event.bytes).sum()
        };
        let read = |by: u64| -> u64 {
            reads().filter(same).filter(|event| event.end_ns <= by).map(|event| event.bytes).sum()
        };
        let now = write.begin_ns;
        assert!(written(now) * read(u64::MAX) <= read(now) * written(u64::MAX), "{write:?}");
        let place = write.place;
        let others = events.iter().filter(|event| event.place == place && *event != write);
        for event in others.filter(|event| event.program.is_some() || event.what == "bundles") {
            let in_turn = event.end_ns <= write.begin_ns || write.end_ns <= event.begin_ns;
            assert!(in_turn, "{place} computes while it is written to: {event:?} {write:?}");
        }
    }
    assert_eq!(flash.tokens.len(), figures.tokens.len());
    Ok(())
}

#[test]
fn a_text_is_the_same_with_half_of_the_neurons_in_memory() -> Outcome {
    for path in ["golden/model", "golden/model-llama"] {
        for weights in [WeightFormat::Fp16, WeightFormat::Int8] {
            let (model, _) = model(path)?.quantised(weights)?;
            let expected =
                generate(&model, &mut SoftwareBackend::new(), PROMPT.as_bytes(), &text(10), |_| {})?;
            let mut runs = Vec::new();
            for case in [CASE, Case { threads: 3, ..CASE }] {
                let (found, figures, events) = case.run(&model)?;
                assert_eq!(
                    (&found.text, &found.logits_digests),
                    (&expected.text, &expected.logits_digests),
                    "{path} {weights}"
                );
                let flash = figures.flash.clone().ok_or("no figures of the SSD")?;
                // Places are random: half of the fullest DIMM's is a little more than half.
                assert!((0.5..0.6).contains(&flash.resident_share()), "{flash:?}");
                assert!(flash.hit_rate() > 0.2 && flash.hit_rate() < 1.0, "{flash:?}");
                assert!(flash.moves_without_holes > 0 && flash.tokens.len() == 9, "{flash:?}");
                runs.push((figures, events));
            }
            assert!(runs[0] == runs[1], "the number of threads shows");
        }
    }
    Ok(())
}

#[test]
fn an_mlp_that_exceeds_its_slots_is_computed_in_rounds() -> Outcome {
    for path in ["golden/model", "golden/model-llama"] {
        for weights in [WeightFormat::Fp16, WeightFormat::Int8] {
            let (model, _) = model(path)?.quantised(weights)?;
            let expected =
                generate(&model, &mut SoftwareBackend::new(), PROMPT.as_bytes(), &text(5), |_| {})?;
            for (percent, dimms, merge) in
                [(2, 2, MergeFormat::Exact), (1, 1, MergeFormat::Exact), (2, 3, MergeFormat::Fp16)]
            {
                let case = Case { percent, dimms, tokens: 5, ..CASE };
                let options = SystemOptions { merge, ..case.options(&model)? };
                let (found, figures, events) = case.complete(case.open_with(&options, &model)?, &model)?;
                if merge == MergeFormat::Exact {
                    let same = (&found.text, &found.logits_digests);
                    assert_eq!(
                        same,
                        (&expected.text, &expected.logits_digests),
                        "{path} {weights} {percent}"
                    );
                }
                let flash = figures.flash.ok_or("no figures of the SSD")?;
                let (rounds, mlps) = (flash.sum(|token| token.further_rounds), 4 * flash.tokens.len() as u64);
                assert!(rounds > mlps / 2, "{rounds} further rounds of {mlps} MLPs");
                // Nothing is read that has a slot when the token begins, and nothing twice.
                assert!(flash.tokens.iter().all(|token| token.loaded <= token.needed), "{flash:?}");
                // A round's sums are over before bundles come into the slots of its neurons.
                let waits = events
                    .iter()
                    .filter(|event| event.place == Resource::Ssd && event.asked_ns < event.begin_ns);
                assert!(waits.count() > 0, "no round has been read behind another one");
            }
        }
    }
    Ok(())
}

#[test]
fn rounds_take_the_cycles_of_rtl() -> Outcome {
    for (path, linked) in [("golden/model", true), ("golden/model-llama", false)] {
        let model = model(path)?;
        let expected = generate(&model, &mut SoftwareBackend::new(), PROMPT.as_bytes(), &text(2), |_| {})?;
        let case = Case { linked, tokens: 2, percent: 2, ..CASE };
        let (rtl, modelled) = (Case { backend: Backend::Rtl, ..case }.run(&model)?, case.run(&model)?);
        for (found, ..) in [&rtl, &modelled] {
            assert_eq!((&found.text, &found.logits_digests), (&expected.text, &expected.logits_digests));
        }
        assert_eq!((&rtl.1, &rtl.2), (&modelled.1, &modelled.2));
        assert!(rtl.1.flash.is_some_and(|flash| flash.sum(|token| token.further_rounds) > 2));
    }
    Ok(())
}

#[test]
fn modelled_cores_take_the_cycles_of_rtl() -> Outcome {
    let model = model("golden/model")?;
    let expected = generate(&model, &mut SoftwareBackend::new(), PROMPT.as_bytes(), &text(3), |_| {})?;
    for (linked, load) in [(false, Load::Backdoor), (true, Load::Port)] {
        let case = Case { linked, load, tokens: 3, ..CASE };
        let rtl = Case { backend: Backend::Rtl, ..case }.run(&model)?;
        let modelled = case.run(&model)?;
        for (found, ..) in [&rtl, &modelled] {
            assert_eq!((&found.text, &found.logits_digests), (&expected.text, &expected.logits_digests));
        }
        assert_eq!(rtl.1, modelled.1);
        assert_eq!(rtl.2, modelled.2);
        let flash = rtl.1.flash.ok_or("no figures of the SSD")?;
        assert!(flash.sum(|token| token.loaded) > 100 && flash.port_cycles > 1_000, "{flash:?}");
    }
    Ok(())
}

#[test]
fn a_token_reads_what_the_last_ones_did_not_need() -> Outcome {
    let model = model("golden/model")?;
    let shape = shape_of(&model.config);
    for (window, dimms) in [(1, 1), (3, 2)] {
        // With a slot for every neuron of a DIMM nothing has to leave early.
        let case = Case { percent: 100, window, dimms, ..CASE };
        let mut activities: Vec<Activity> = Vec::new();
        let mut system = Capture::new(case.open(&model)?, shape.clone(), |activity| {
            activities.push(activity.clone());
            Ok(())
        });
        generate(&model, &mut system, PROMPT.as_bytes(), &text(case.tokens), |_| {})?;
        let figures = system.into_inner().figures().clone();
        let places = StaticPlaces::new(dimms, 20, 7);
        let needed = |token: usize| -> BTreeSet<(u32, u32)> {
            let of = |layer: u32| {
                let bits = activities[token].block(&shape, BlockKind::Mlp.block(layer)).to_vec();
                (0..768).filter(move |n| bits[*n as usize / 64] >> (n % 64) & 1 == 1).map(move |n| (layer, n))
            };
            let cold =
                |(layer, neuron): &(u32, u32)| places.device(*layer, BlockKind::Mlp, *neuron) != Device::Gpu;
            (0..4).flat_map(of).filter(cold).collect()
        };
        let flash = figures.flash.ok_or("no figures of the SSD")?;
        assert_eq!((flash.neurons, flash.bundle_bytes), (4 * 768, 2 * 2 * 192));
        assert_eq!(activities.len(), PROMPT.len() + flash.tokens.len());
        for found in &flash.tokens {
            let now = needed(found.position);
            let last = |token: usize| (1..=window as usize).map(move |k| token - k);
            let before: BTreeSet<_> = last(found.position).flat_map(&needed).collect();
            let stay: BTreeSet<_> = last(found.position + 1).flat_map(&needed).collect();
            let loaded = now.difference(&before).count() as u64;
            assert_eq!((found.needed, found.loaded), (now.len() as u64, loaded), "{found:?}");
            assert_eq!(found.deleted, before.difference(&stay).count() as u64, "{found:?}");
        }
        assert!(flash.hit_rate() > 0.3, "{flash:?}");
    }
    Ok(())
}

#[test]
fn predicted_neurons_are_read_before_they_are_computed() -> Outcome {
    let model = model("golden/model")?;
    let shape = shape_of(&model.config);
    let profile = Setup::profile(&model, &model.vocabulary.tokens(PROMPT.as_bytes())?, &text(40))?.profile;
    let live = || OnlinePredictor::new(&shape, &profile, PROMPT.len());
    let case = Case { activity: ActivitySource::Predicted, ..CASE };
    let mut software = PredictedSoftware::new(live()?);
    let expected = generate(&model, &mut software, PROMPT.as_bytes(), &text(case.tokens), |_| {})?;
    let (found, figures, events) = case.complete(case.open(&model)?.with_predictor(live()?)?, &model)?;
    assert_eq!((&found.text, &found.logits_digests), (&expected.text, &expected.logits_digests));
    // The SSD begins after the host's prediction, while Q, K and V are computed.
    let read = events.iter().find(|event| event.place == Resource::Ssd).ok_or("nothing was read")?;
    let same = |event: &&Event| (event.position, event.layer) == (read.position, read.layer);
    let host = events.iter().filter(same).filter(|event| event.place == Resource::Host);
    assert_eq!(host.map(|event| event.end_ns).max(), Some(read.asked_ns));
    assert!(figures.flash.is_some_and(|flash| flash.sum(|token| token.loaded) > 0));
    Ok(())
}

#[test]
fn bundles_are_written_while_the_ssd_reads_the_next_ones() -> Outcome {
    let model = model("golden/model")?;
    // Bundles of 768 bytes arrive one by one at 1 GB/s, long after the projection has begun.
    let slow = "name = \"slow\"\nbandwidth_gbps = 0.1\nlatency_us = 20.0\nstream_gbps = 1.0\nthreads = 16\nqueue_depth = 4\n";
    let options = CASE.options(&model)?;
    let options = SystemOptions { system: options.system.with_ssd(Ssd::from_toml(slow)?), ..options };
    let (_, figures, events) = CASE.complete(CASE.open_with(&options, &model)?, &model)?;
    let mut overlaps = 0;
    for write in
        events.iter().filter(|event| event.what == "bundles" && matches!(event.place, Resource::Dimm(_)))
    {
        let reads = |event: &&Event| event.place == Resource::Ssd && event.layer == write.layer;
        let own = events.iter().filter(reads).filter(|event| event.position == write.position);
        overlaps += own.filter(|read| read.begin_ns < write.end_ns && write.begin_ns < read.end_ns).count();
    }
    assert!(overlaps > 5 * 4 * figures.tokens.len(), "{overlaps}");
    Ok(())
}

#[test]
fn what_the_ssd_takes_may_hide_behind_the_projection() -> Outcome {
    let model = model("golden/model")?;
    let ns = |ssd| -> Result<(u64, u64), Box<dyn Error>> {
        let (_, figures, _) = Case { ssd, ..CASE }.run(&model)?;
        let (tokens, _, ns) = figures.generated();
        Ok((ns / tokens, figures.flash.map_or(0, |flash| flash.sum(|token| token.ssd_ns)) / tokens))
    };
    let (slow, slow_ssd) = ns("flash-m1")?;
    let (fast, fast_ssd) = ns("nvme-pcie4")?;
    // Each layer waits for the latency of a read: 184 and 44.3 us.
    assert!(slow_ssd > 4 * 184_000 && (4 * 44_300..5 * 44_300).contains(&fast_ssd), "{slow_ssd} {fast_ssd}");
    assert!(slow > fast && slow < slow_ssd + fast, "{slow} {fast}");
    Ok(())
}

#[test]
fn a_wrong_bit_in_a_bundle_ends_the_generation() -> Outcome {
    let model = model("golden/model")?;
    for (backend, percent) in [(Backend::Cycles, 50), (Backend::Cycles, 2), (Backend::Rtl, 50)] {
        let case = Case { backend, percent, tokens: 2, ..CASE };
        let mut system = case.open(&model)?.with_fault(Fault::Bundles);
        let generation = generate(&model, &mut system, PROMPT.as_bytes(), &text(case.tokens), |_| {});
        let Err(source) = generation else {
            return Err(format!("a wrong bit has passed: {generation:?}").into());
        };
        assert!(source.is::<Mismatches>(), "{source:#}");
    }
    Ok(())
}

#[test]
fn what_cannot_be_is_refused() -> Outcome {
    let model = model("golden/model")?;
    let refused = |case: Case, places: bool| -> Result<String, Box<dyn Error>> {
        let (config, unit) = (DesignConfig::preset("tiny")?, GemvOptions::default());
        let options = case.options(&model)?;
        if places {
            let system = SystemBackend::open(&config, &unit, &options, Learners, &model);
            return Ok(system.err().map(|error| error.to_string()).unwrap_or_default());
        }
        let mut system =
            match SystemBackend::open(&config, &unit, &options, StaticPlaces::new(2, 20, 7), &model) {
                Ok(system) => system,
                Err(error) => return Ok(error.to_string()),
            };
        let generation = generate(&model, &mut system, PROMPT.as_bytes(), &text(2), |_| {});
        Ok(generation.err().map(|error| format!("{error:#}")).unwrap_or_default())
    };
    let causal = refused(Case { activity: ActivitySource::Causal, ..CASE }, false)?;
    assert!(causal.contains("the activity is causal") && causal.contains("oracle or predicted"), "{causal}");
    let policy = refused(CASE, true)?;
    assert!(policy.contains("moves neurons") && policy.contains("random or partition"), "{policy}");
    Ok(())
}

struct Learners;

impl NeuronMap for Learners {
    fn device(&self, _: u32, _: BlockKind, neuron: u32) -> Device {
        Device::Dimm(neuron % 2)
    }

    fn learns(&self) -> bool {
        true
    }
}

/// Random, with two of three neurons of an MLP in the DIMMs at first.
struct Tiers(StaticPlaces);

impl NeuronMap for Tiers {
    fn device(&self, layer: u32, kind: BlockKind, neuron: u32) -> Device {
        self.0.device(layer, kind, neuron)
    }

    fn resident(&self, _: u32, neuron: u32) -> Option<bool> {
        Some(!neuron.is_multiple_of(3))
    }
}

#[test]
fn a_placement_says_what_is_in_the_dimms_at_first() -> Outcome {
    let model = model("golden/model")?;
    let (config, shape) = (DesignConfig::preset("tiny")?, shape_of(&model.config));
    let unit = GemvOptions::from(CoreOptions { backend: Backend::Cycles, ..CoreOptions::default() });
    let places = || Tiers(StaticPlaces::new(2, 20, 7));
    // Slots for a tenth of the neurons are fewer than the placement has residents.
    let case = Case { percent: 10, ..CASE };
    let options = case.options(&model)?;
    let mut activities: Vec<Activity> = Vec::new();
    let system = SystemBackend::open(&config, &unit, &options, places(), &model)?;
    let mut system = Capture::new(system, shape.clone(), |activity| {
        activities.push(activity.clone());
        Ok(())
    });
    let found = generate(&model, &mut system, PROMPT.as_bytes(), &text(3), |_| {})?;
    let flash = system.into_inner().figures().flash.clone().ok_or("no figures of the SSD")?;
    let expected = generate(&model, &mut SoftwareBackend::new(), PROMPT.as_bytes(), &text(3), |_| {})?;
    assert_eq!((&found.text, &found.logits_digests), (&expected.text, &expected.logits_digests));
    // Two thirds of the neurons outside the GPU, which has a fifth.
    assert!(flash.resident_share() > 0.5, "{flash:?}");
    let first = flash.tokens[0];
    let (mut needed, mut loaded) = (0, 0);
    for layer in 0..4 {
        let bits = activities[first.position].block(&shape, BlockKind::Mlp.block(layer));
        for neuron in (0..768).filter(|n| bits[*n as usize / 64] >> (n % 64) & 1 == 1) {
            let cold = places().device(layer, BlockKind::Mlp, neuron) != Device::Gpu;
            needed += u64::from(cold);
            loaded += u64::from(cold && neuron % 3 == 0);
        }
    }
    assert_eq!((first.needed, first.loaded), (needed, loaded));
    assert!(loaded > 20, "{loaded}");
    let without = SystemOptions { flash: None, ..options };
    let refused = SystemBackend::open(&config, &unit, &without, places(), &model);
    let error = refused.err().map(|error| error.to_string()).unwrap_or_default();
    assert!(error.contains("the placement is one with neurons on an SSD"), "{error}");
    Ok(())
}

#[test]
fn the_tool_places_on_three_tiers_and_runs_it() -> Outcome {
    let dir = tempfile::tempdir()?;
    let [trace, system, placement] = ["t.trace", "s.toml", "p.json"].map(|name| dir.path().join(name));
    let [trace, system, placement] = [&trace, &system, &placement].map(|path| path.display().to_string());
    // Two DIMMs with room for keys and values and 1.5 MB of the model's 3.5 MB of neurons.
    let small = SMALL.replace("capacity_gb = 32.0", "capacity_gb = 0.00075");
    std::fs::write(&system, small)?;
    let run = |line: String| -> Result<std::process::Output, Box<dyn Error>> {
        let output = ndp(&line)?;
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(output)
    };
    run(format!(
        "generate --config tiny --dimms 2 --backend cycles --load backdoor --tokens 8 --trace {trace}"
    ))?;
    let place =
        format!("place --trace {trace} --profile --system {system} --dimms 2 --kv-tokens 1 --gpu-percent 20");
    let refused = ndp(&place)?;
    let error = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(2) && error.contains("do not fit in 2 DIMMs"), "{error}");
    let placed = run(format!("{place} --ssd nvme-pcie4 --out {placement} --json"))?;
    let placed: serde_json::Value = serde_json::from_slice(&placed.stdout)?;
    let ssd = placed["tiers"]["ssd_bytes"].as_u64().unwrap_or_default();
    assert!(ssd > 500_000, "{placed}");
    let generate = format!(
        "generate --config tiny --dimms 2 --backend cycles --load backdoor --tokens 8 --activity oracle --policy partition \
         --gpu-percent 20 --placement {placement}"
    );
    let output = run(format!("{generate} --flash-resident 10 --ssd nvme-pcie4 --json"))?;
    let report: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    assert_eq!((&report["text_identical"], &report["logits_identical"]), (&true.into(), &true.into()));
    assert!(
        report["flash"]["resident_share"].as_f64().is_some_and(|share| share > 0.2),
        "{}",
        report["flash"]
    );
    let evaluate = format!(
        "evaluate --trace {trace} --config tiny --system {system} --dimms 2 --policy partition --placement {placement}"
    );
    for line in [generate, evaluate] {
        let refused = ndp(&line)?;
        let error = String::from_utf8_lossy(&refused.stderr);
        let advice = format!("--placement {placement} has neurons on an SSD: it needs --flash-resident");
        assert!(refused.status.code() == Some(2) && error.contains(&advice), "{error}");
    }
    let refused = ndp(&format!("{place} --ssd nvme-pcie4 --method greedy"))?;
    let error = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(2) && error.contains("--ssd needs --method structured"), "{error}");
    Ok(())
}

/// 84 MB of neurons in MLPs and 6 MB in attention.
const WIDE: &str = "name = \"wide\"\nlayers = 4\nhidden = 512\nheads = 8\nkv_heads = 8\nffn = 10240\nmlp_matrices = 2\nvocabulary = 256\n\
                    tied_embeddings = true\nbiased = true\nactivation = \"relu\"\n";

#[test]
fn a_placement_that_fills_the_dimms_is_run() -> Outcome {
    let dir = tempfile::tempdir()?;
    let path = |name: &str| dir.path().join(name).display().to_string();
    let [model, design, system, trace, placement] =
        ["m.toml", "d.toml", "s.toml", "t.trace", "p.json"].map(path);
    std::fs::write(&model, WIDE)?;
    // A DIMM has two ranks of 16.8 MB, the smallest possible.
    let tiny = include_str!("../../rust/config/presets/tiny.toml");
    std::fs::write(&design, format!("{tiny}\n[dram]\nrow_bits = 8\n"))?;
    std::fs::write(&system, SMALL.replace("capacity_gb = 32.0", "capacity_gb = 0.0333"))?;
    let run = |line: String| -> Result<serde_json::Value, Box<dyn Error>> {
        let output = ndp(&line)?;
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(serde_json::from_slice(&output.stdout).unwrap_or_default())
    };
    run(format!("trace synth --llm {model} --tokens 20 --prompt-tokens 16 --sequences 3 --out {trace}"))?;
    let common = format!(
        "--llm {model} --trace {trace} --system {system} --dimms 2 --gpu-percent 10 --ssd nvme-pcie4"
    );
    let placed = run(format!("place {common} --profile --kv-tokens 256 --out {placement} --json"))?;
    let bytes = |value: &serde_json::Value| value.as_u64().unwrap_or_default();
    let fullest = placed["dimm_bytes"].as_array().into_iter().flatten().map(bytes).max();
    let capacity = bytes(&placed["dimm_capacity_bytes"]);
    assert!(fullest.is_some_and(|fullest| fullest * 1000 > capacity * 995), "{fullest:?} of {capacity}");
    assert!(bytes(&placed["tiers"]["ssd_bytes"]) > 10_000_000, "{placed}");
    let report = run(format!(
        "evaluate {common} --config {design} --activity oracle --policy partition --flash-resident 1 --placement {placement} \
         --fast --links bandwidth --tokens 2 --json"
    ))?;
    assert!(report["policies"][0]["tokens_per_second"].as_f64().is_some_and(|rate| rate > 0.0));
    // As many slots as there are residents, except for a row of all ranks in each MLP.
    let flash = &report["policies"][0]["flash"];
    let [slots, bundle] = ["slots", "bundle_bytes"].map(|key| bytes(&flash[key]));
    let attention = 4 * 512 * 3 * 512 * 2;
    assert!(slots * bundle + attention <= 2 * capacity + 4 * 2 * 2 * bundle, "{flash}");
    Ok(())
}

fn ndp(line: &str) -> Result<std::process::Output, Box<dyn Error>> {
    Ok(std::process::Command::new(env!("CARGO_BIN_EXE_ndp")).args(line.split_whitespace()).output()?)
}

#[test]
fn the_tool_reports_what_came_from_the_ssd() -> Outcome {
    let dir = tempfile::tempdir()?;
    let html = dir.path().join("report.html");
    let line = "generate --config tiny --dimms 2 --backend cycles --load backdoor --tokens 5 --activity oracle \
                --policy partition --flash-resident 50 --ssd nvme-pcie4";
    let output = ndp(&format!("{line} --json --html {}", html.display()))?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: serde_json::Value = serde_json::from_slice(&output.stdout)?;
    assert_eq!((&report["text_identical"], &report["logits_identical"]), (&true.into(), &true.into()));
    let flash = &report["flash"];
    let number = |value: &serde_json::Value| value.as_u64().unwrap_or_default();
    let sum = |key: &str| {
        flash["tokens"].as_array().into_iter().flatten().map(|token| number(&token[key])).sum::<u64>()
    };
    let [needed, loaded, ns] = ["needed", "loaded", "ssd_ns"].map(sum);
    assert!(0 < loaded && loaded < needed, "{flash}");
    assert_eq!(flash["hit_rate"], 1.0 - loaded as f64 / needed as f64);
    assert_eq!(flash["bundles_per_token"], loaded as f64 / 4.0);
    assert_eq!(number(&report["bytes"]["ssd_bundles"]), loaded * number(&flash["bundle_bytes"]));
    let operations = report["operations"].as_array().into_iter().flatten();
    assert_eq!(operations.map(|operation| number(&operation["ssd_ns"])).sum::<u64>(), ns);
    let on_path: u64 = report["time"]["critical_path_ns"]["SSD"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(_, ns)| number(ns))
        .sum();
    assert_eq!(flash["ssd_critical_share"], on_path as f64 / number(&report["time"]["ns"]) as f64);
    assert!(
        report["rerun"].as_str().is_some_and(|rerun| rerun.contains("--flash-resident 50 --ssd nvme-pcie4"))
    );
    let text = std::fs::read_to_string(html)?;
    assert!(text.contains("Bundles that the SSD reads") && text.contains("SSD ns"));
    let output = ndp(line)?;
    let text = String::from_utf8(output.stdout)?;
    assert!(text.contains("\nNeurons on an SSD\n") && text.contains("\nSSD        transfer "), "{text}");
    for (line, named) in [
        ("generate --flash-resident 50 --tokens 2", "--flash-resident needs --dimms"),
        ("generate --dimms 2 --flash-window 3 --tokens 2", "--flash-resident"),
        ("generate --dimms 2 --flash-resident 101 --tokens 2", "101 is not in 1..=100"),
        ("generate --dimms 2 --flash-resident 50 --ssd disk --tokens 2", "unknown SSD 'disk'"),
        (
            "generate --config tiny --dimms 2 --backend cycles --flash-resident 50 --tokens 2",
            "the activity is causal",
        ),
        (
            "generate --config tiny --dimms 2 --backend cycles --activity oracle --flash-resident 50 --tokens 2",
            "the policy is one that moves neurons",
        ),
        (
            "generate --config tiny --dimms 2 --backend cycles --load backdoor --activity predicted --predictor low-rank \
             --policy partition --flash-resident 50 --tokens 2",
            "the predictor is low-rank",
        ),
    ] {
        let output = ndp(line)?;
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.code() == Some(2) && error.contains(named), "{line}: {error}");
    }
    Ok(())
}
