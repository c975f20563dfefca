//! Do modelled cores give the same results as cores in RTL, in the same cycles, for the same host? `linked_system`
//! tests linked cores.

use common::check::Checks;
use common::{Outcome, amount};
use ndp_config::DesignConfig;
use ndp_energy::{DramUse, RankActivity};
use ndp_model::Activation;
use ndp_sim::core::{Backend, CoreOptions, HostStalls, NdpCore, ProgramRun};
use ndp_sim::ffi::WaveOptions;
use ndp_sim::gemv::GemvOptions;
use ndp_sim::layer::{LayerSizes, LayerStep};
use ndp_sim::system::{LoneCore, Neurons};
use ndp_testkit::{ProgramOptions, RandomPrograms};
use std::error::Error;

/// Use of the DRAM, without the bits on the bus.
fn without_bus(of: DramUse) -> DramUse {
    DramUse { bus: None, ..of }
}

/// Runs random programs on a core in RTL and on a modelled one.
fn random_programs(config: &str, seed: u64, count: usize, stalls: u32, options: ProgramOptions) -> Outcome {
    let config = DesignConfig::load(config)?;
    let stalls = HostStalls { request: stalls, response: stalls };
    let open =
        |backend| NdpCore::open(&config, &CoreOptions { seed, stalls, backend, ..CoreOptions::default() });
    let (mut rtl, mut modelled) = (open(Backend::Rtl)?, open(Backend::Cycles)?);
    assert_eq!((rtl.backend(), modelled.backend()), (Backend::Rtl, Backend::Cycles));
    modelled.begin_recording(false);
    rtl.begin_recording(false);
    let mut programs = RandomPrograms::with_options(&config, seed, options);
    let mut elements = 0;
    for index in 0..count {
        let program = programs.next_program();
        let mut run = |core: &mut NdpCore| -> Result<_, Box<dyn Error>> {
            let check = core.check_program(&program, |_| {})?;
            assert!(
                check.agrees(),
                "program {index}: {:?} {:?}\n{program}",
                check.mismatches,
                check.differences
            );
            elements += check.elements;
            // A model has no data bus.
            let is_rtl = core.backend() == Backend::Rtl;
            let moved = 512 * (check.run.dram.counts.commands.reads + check.run.dram.counts.commands.writes);
            let bits = check.run.dram.bus.map(|bus| bus.read.bits + bus.write.bits);
            assert_eq!(bits, is_rtl.then_some(moved), "program {index}");
            let run = ProgramRun { model_cycles: None, dram: without_bus(check.run.dram), ..check.run };
            let activity: Vec<RankActivity> =
                core.activity().into_iter().map(|rank| RankActivity { bus: None, ..rank }).collect();
            Ok((run, core.counters()?, core.parts(), core.cycle(), activity))
        };
        assert_eq!(run(&mut modelled)?, run(&mut rtl)?, "program {index}\n{program}");
    }
    assert_eq!(modelled.recorded(0), rtl.recorded(0));
    assert!(elements > 200 * count as u64 && rtl.recorded(0).len() > count);
    Ok(())
}

#[test]
fn random_programs_take_the_same_cycles() -> Outcome {
    let times = amount(15);
    let malformed = ProgramOptions { malformed_percent: 50, ..ProgramOptions::default() };
    random_programs("tiny", 21, 8 * times, 0, ProgramOptions::default())?;
    random_programs("tiny", 22, 5 * times, 20, ProgramOptions::default())?;
    random_programs("tiny", 23, 5 * times, 0, malformed)?;
    random_programs("testbenches/configs/variants.toml", 24, 3 * times, 0, ProgramOptions::default())
}

#[test]
fn a_layer_takes_the_same_cycles() -> Outcome {
    let config = DesignConfig::preset("tiny")?;
    let sizes = LayerSizes {
        hidden: 96,
        heads: 3,
        kv_heads: 3,
        ffn: 256,
        gated: false,
        activation: Activation::Relu,
        active: None,
    };
    for (neurons, batch, stall_percent) in
        [(Neurons::Active, 1, 0), (Neurons::All, 3, 0), (Neurons::Active, 2, 10)]
    {
        let step = LayerStep::random(&sizes, 40, batch, 7)?;
        let run = |backend| -> Result<_, Box<dyn Error>> {
            let options = GemvOptions::from(CoreOptions {
                stalls: HostStalls::both(stall_percent),
                predict: true,
                backend,
                ..CoreOptions::default()
            });
            let mut backend = LoneCore::open(&config, &options)?.with_neurons(neurons);
            let output = step.run(&mut backend)?;
            assert_eq!(backend.model_cycles(), backend.total().cycles);
            let sums = backend.sums();
            let dram: Vec<_> =
                sums.used.iter().map(|(operation, of)| (*operation, without_bus(of.0), of.1)).collect();
            assert!(dram.len() > 5 && dram.iter().all(|(_, of, _)| of.counts.commands.reads > 0));
            Ok((output, backend.total(), sums.phases.clone(), sums.counters, dram))
        };
        assert_eq!(run(Backend::Cycles)?, run(Backend::Rtl)?, "{neurons:?}, batch {batch}");
    }
    Ok(())
}

#[test]
fn what_only_rtl_has_is_refused() -> Outcome {
    let config = DesignConfig::preset("tiny")?;
    let options = CoreOptions { backend: Backend::Cycles, ..CoreOptions::default() };
    let refusal =
        |options: &CoreOptions| NdpCore::open(&config, options).map_err(|error| error.to_string()).err();
    let waves = CoreOptions { waves: Some(WaveOptions::new("waves.fst")), ..options.clone() };
    assert_eq!(
        refusal(&waves).as_deref(),
        Some("a file of waves needs a core in RTL: backend `rtl` instead of `cycles`")
    );
    assert!(
        refusal(&CoreOptions { record: true, ..options.clone() })
            .is_some_and(|e| e.contains("DRAM commands"))
    );
    assert!(
        refusal(&CoreOptions { phase_ps: Some(3), ..options.clone() }).is_some_and(|e| e.contains("phase"))
    );
    let error = NdpCore::open(&config, &options)?.reset().map_err(|error| error.to_string());
    assert!(error.is_err_and(|error| error.contains("a warm reset needs a core in RTL")));
    Ok(())
}
