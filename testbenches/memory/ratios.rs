//! Does the core execute its programs correctly, in the cycles that the model predicts, whatever the ratio and the
//! phase of its clocks?
//!
//! The clocks are nowhere in the Verilog, so one model of `tiny` is simulated at every ratio. Bits are compared with
//! the functional model, cycles, answers and commands with the cycle model, and the device checks every time between
//! commands. No tolerance.

use common::check::Checks;
use common::clocks::{RATIOS, at};
use common::rank::{Bench, Request, Segment, Stalls};
use common::replay::compare;
use common::traffic::Traffic;
use common::{Outcome, amount};
use ndp_config::DesignConfig;
use ndp_isa::machine::SparseMemory;
use ndp_numerics::SplitMix64;
use ndp_sim::core::{CoreOptions, HostStalls, NdpCore, Recording};
use ndp_sim::ffi::{Clocks, Edge, rtl};
use ndp_testkit::{ProgramOptions, RandomPrograms};
use std::error::Error;
use std::io::Write;

/// The recording of a session that was right in all bits and cycles, and the DRAM's contents before each program.
type Session = (Recording, Vec<(u64, SparseMemory)>);

/// Random programs on a core of `config`; the host stalls in `stalls` percent of cycles and has a request in one of
/// `every`.
fn session(
    config: &DesignConfig,
    (seed, programs): (u64, usize),
    phase_ps: Option<u64>,
    (stalls, every): (u32, u64),
) -> Result<Session, Box<dyn Error>> {
    let options = CoreOptions {
        stalls: HostStalls { request: stalls, response: stalls },
        seed,
        random_contents: Some(seed as u32),
        watchdog_cycles: 1 << 20,
        record: true,
        predict: true,
        phase_ps,
        ..CoreOptions::default()
    };
    let mut core = NdpCore::open(config, &options)?;
    // The edges lie differently after each reset.
    for _ in 0..seed % 7 {
        core.step()?;
    }
    core.reset()?;
    let mut traffic = Traffic::new(config, seed, every);
    let (mut memory, mut memories) = (SparseMemory::new(), Vec::new());
    let options = ProgramOptions { malformed_percent: 10, ..ProgramOptions::default() };
    for program in RandomPrograms::with_options(config, seed, options).take(programs) {
        for data in &program.data {
            ndp_isa::machine::write_data(config, data, &mut memory)?;
        }
        memories.push((core.cycle(), memory.clone()));
        let check = core.check_program(&program, |core| traffic.cycle(core))?;
        if let Some((burst, element, expected, actual)) = check.mismatches.first() {
            let all = check.mismatches.len();
            return Err(format!(
                "{all} elements differ, the first in burst {burst:#x}, element {element}: expected {expected:#06x}, actual \
                 {actual:#06x}\n{program}"
            )
            .into());
        }
        assert!(check.agrees() && check.elements > 0, "{:?}\n{program}", check.differences);
        assert_eq!(Some(check.run.cycles), check.run.model_cycles, "cycles of a program\n{program}");
    }
    core.check_protocol()?;
    assert_eq!(every > 0, traffic.reads > 0, "traffic, one in {every}");
    Ok((core.take_recording().ok_or("nothing was recorded")?, memories))
}

/// Sessions of `length` programs at each of some ratios and `phases` random phases, with another host each.
fn at_every_ratio(seed: u64, phases: u64, length: usize) -> Outcome {
    let mut random = SplitMix64::new(seed);
    for (index, ratio) in RATIOS.into_iter().enumerate() {
        let config = at("tiny", ratio)?;
        let (mut cycles, mut commands) = (0, 0);
        for round in 0..phases {
            let phase = (round > 0).then(|| random.next_u64() % config.dram().clock_ps());
            let host = [(0, 0), (20, 16), (0, 3), (60, 8)][(index + round as usize) % 4];
            let seed = 100 * seed + 10 * index as u64 + round;
            let run = session(&config, (seed, length), phase, host)
                .and_then(|(recording, mut memories)| compare(&recording, &mut memories));
            let compared =
                run.map_err(|e| format!("{ratio:?}, phase {phase:?}, host {host:?}, seed {seed}: {e}"))?;
            cycles += compared.cycles;
            commands += compared.commands;
        }
        let _ = writeln!(
            std::io::stderr(),
            "tiny, {} : {} ps: {} programs at {phases} phases, {cycles} cycles, {commands} commands, all equal",
            config.core().clock_ps(),
            config.dram().clock_ps(),
            phases * length as u64
        );
    }
    Ok(())
}

#[test]
fn programs_take_the_predicted_cycles_at_every_ratio_and_phase() -> Outcome {
    at_every_ratio(1, amount(8), amount(16))
}

#[test]
#[ignore = "minutes; run by `make exhaustive`"]
fn many_programs_do_so() -> Outcome {
    (2..8).try_for_each(|seed| at_every_ratio(seed, 12, 10))
}

#[test]
fn a_model_with_another_period_or_phase_is_caught() -> Outcome {
    for ratio in RATIOS {
        let config = at("tiny", ratio)?;
        let (recording, mut memories) = session(&config, (5, 3), None, (10, 30))?;
        compare(&recording, &mut memories)?;
        let (core, dram) = (config.core().clock_ps(), config.dram().clock_ps());
        // A picosecond more of either, and DRAM edges a clock later.
        let mut wrong = [Clocks::new(core + 1, dram), Clocks::new(core, dram + 1), recording.clocks]
            .map(|clocks| Recording { clocks, ..recording.clone() });
        wrong[2].dram_origin += 1;
        for changed in wrong {
            let Recording { clocks, dram_origin, .. } = changed;
            let outcome = compare(&changed, &mut memories);
            assert!(outcome.is_err(), "{ratio:?} with {clocks:?} from {dram_origin} on was not found");
        }
    }
    Ok(())
}

#[test]
fn a_rank_s_queues_hold_at_every_ratio() -> Outcome {
    let hermes = DesignConfig::preset("hermes")?;
    for (seed, (core_mhz, speed)) in (1..).zip(RATIOS) {
        let config = at("tiny", (core_mhz, speed))?;
        let clocks = Clocks::new(config.core().clock_ps(), config.dram().clock_ps());
        for phase in [0, 100 * seed, 333] {
            let mut bench =
                Bench::open_at(&rtl(&hermes, "rank_port")?, hermes.dram(), seed, clocks.with_phase(phase))?;
            bench.stalls = Stalls { segment: 20, request: 20, beat: 20, response: 20 };
            let half = bench.rank.config().bursts() / 2;
            for round in 0..400 {
                let address = half + 4096 * bench.below(64) + 16 * bench.below(16);
                let bursts = 1 + bench.below(16);
                bench.segments.push_back(Segment { address, bursts, tag: round % 16 });
                for _ in 0..6 {
                    let address = 1024 * bench.below(8) + bench.below(256);
                    // Consecutive writes, so that all places for their data are used.
                    let write = (round % 8 < 5).then(|| bench.draw_burst());
                    bench.requests.push_back(Request { address, write, tag: round % 512 });
                }
            }
            let outcome = bench.drain().and_then(|()| bench.verdict());
            outcome.map_err(|e| format!("{core_mhz} MHz, {speed}, phase {phase}: {e}"))?;
            assert_eq!(bench.responses, 2400);
        }
    }
    Ok(())
}

#[test]
fn clocks_of_a_core_have_their_periods() -> Outcome {
    for ratio in RATIOS {
        let config = at("tiny", ratio)?;
        let mut core = NdpCore::open(&config, &CoreOptions { record: true, ..CoreOptions::default() })?;
        (0..1000).try_for_each(|_| core.step())?;
        let recording = core.take_recording().ok_or("nothing was recorded")?;
        let (begin, end) = (recording.origin, recording.end);
        let clocks = recording.clocks;
        assert_eq!(
            (clocks.core_ps(), clocks.dram_ps()),
            (config.core().clock_ps(), config.dram().clock_ps())
        );
        let time = clocks.rise_ps(Edge::Core, end) - clocks.rise_ps(Edge::Core, begin);
        assert_eq!(time, 1000 * config.core().clock_ps());
        let ranks: Vec<u64> = core.ranks().iter().map(|rank| rank.cycle()).collect();
        let expected = time / config.dram().clock_ps();
        assert!(
            ranks.iter().all(|clocks| clocks.abs_diff(expected) <= 2),
            "{ratio:?}: {ranks:?}, {expected}"
        );
        let slower = clocks.core_ps().max(clocks.dram_ps());
        assert!(8 * clocks.core_ps() >= 4 * slower, "{ratio:?}");
    }
    Ok(())
}
