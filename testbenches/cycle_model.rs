//! Does the cycle model predict every cycle of the core: instructions, answers to the host, counters, commands of the DRAM?
//!
//! The core runs random programs beside a host that stalls and has traffic of its own; the model is given the same
//! requests at the same times and has to come to the same cycles. There is no tolerance.

#[path = "common/replay.rs"]
mod replay;

use ndp_config::DesignConfig;
use ndp_cosim::core::{CoreOptions, HostStalls, NdpCore};
use ndp_isa::Program;
use ndp_machine::{ProgramOptions, RandomPrograms, SparseMemory};
use ndp_numerics::SplitMix64;
use replay::{Compared, compare};
use std::error::Error;
use std::time::Duration;

type Outcome = Result<(), Box<dyn Error>>;

/// How a host behaves.
#[derive(Clone, Copy)]
struct Behaviour {
    stall_percent: u32,
    /// A request of its own in one of so many cycles; never if 0.
    every: u64,
}

/// Runs programs one after the other on a core, and compares the recording with the model.
fn session(
    core: &mut NdpCore,
    programs: &[Program],
    behaviour: Behaviour,
    seed: u64,
) -> Result<Compared, Box<dyn Error>> {
    let config = core.config().clone();
    let first = 1 << (config.dimm_burst_bits() - 1);
    let mut random = SplitMix64::new(seed);
    let mut memories = Vec::new();
    let mut memory = SparseMemory::new();
    core.reset();
    for program in programs {
        core.place(program)?;
        for data in &program.data {
            ndp_machine::write_data(&config, data, &mut memory)?;
        }
        memories.push((core.cycle(), memory.clone()));
        core.run_words(&program.words(), |core| {
            while core.take_answer().is_some() {}
            if behaviour.every > 0 && random.next_u64().is_multiple_of(behaviour.every) {
                let address = first + random.next_u64() % 512;
                let write = random.next_u64().is_multiple_of(2).then_some([0; 8]);
                core.submit(address, write);
            }
        })?;
        core.counters()?;
    }
    let recording = core.take_recording().ok_or("nothing was recorded")?;
    compare(&recording, &mut memories)
}

/// Sessions of `length` random programs each.
fn sessions(
    preset: &str,
    seed: u64,
    count: usize,
    length: usize,
    behaviour: Behaviour,
    options: ProgramOptions,
) -> Outcome {
    let config = DesignConfig::preset(preset)?;
    let mut programs = RandomPrograms::with_options(&config, seed, options);
    let mut all = Compared::default();
    let mut rtl = Duration::ZERO;
    for index in 0..count {
        let batch: Vec<Program> = programs.by_ref().take(length).collect();
        let stalls = HostStalls { request: behaviour.stall_percent, response: behaviour.stall_percent };
        let seed = seed.wrapping_mul(1000) + index as u64;
        let mut core =
            NdpCore::open(&config, &CoreOptions { seed, stalls, trace: true, ..CoreOptions::default() })?;
        let compared = session(&mut core, &batch, behaviour, seed)
            .map_err(|e| format!("{preset}, seed {seed}, session {index}: {e}"))?;
        rtl += core.wall();
        all += compared;
    }
    let speed = |time: Duration| all.cycles as f64 / time.as_secs_f64();
    println!(
        "{preset}: {} programs, {} cycles, {} instructions, {} requests, {} commands; RTL {:.0} cycles/s, model {:.0}, {:.0} times",
        count * length,
        all.cycles,
        all.instructions,
        all.requests,
        all.commands,
        speed(rtl),
        speed(all.model),
        rtl.as_secs_f64() / all.model.as_secs_f64()
    );
    Ok(())
}

#[test]
fn random_programs_take_the_predicted_cycles() -> Outcome {
    sessions("tiny", 1, 40, 10, Behaviour { stall_percent: 0, every: 0 }, ProgramOptions::default())
}

#[test]
fn they_do_so_beside_stalls_and_traffic() -> Outcome {
    sessions("tiny", 2, 60, 10, Behaviour { stall_percent: 20, every: 16 }, ProgramOptions::default())
}

#[test]
fn they_do_so_beside_a_host_that_floods_the_ranks() -> Outcome {
    sessions("tiny", 3, 10, 10, Behaviour { stall_percent: 0, every: 2 }, ProgramOptions::default())?;
    sessions("tiny", 4, 10, 10, Behaviour { stall_percent: 80, every: 5 }, ProgramOptions::default())
}

#[test]
fn they_do_so_among_malformed_instructions() -> Outcome {
    let options = ProgramOptions { malformed_percent: 100, ..ProgramOptions::default() };
    sessions("tiny", 5, 20, 10, Behaviour { stall_percent: 5, every: 40 }, options)
}

#[test]
fn they_do_so_on_the_full_core() -> Outcome {
    let options = ProgramOptions { cycles: 4000, ..ProgramOptions::default() };
    sessions("hermes", 6, 3, 8, Behaviour { stall_percent: 0, every: 0 }, options)?;
    sessions("hermes", 7, 3, 8, Behaviour { stall_percent: 20, every: 16 }, options)
}
