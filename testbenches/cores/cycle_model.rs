//! Does the cycle model predict every cycle of the core: instructions, answers to the host, counters, commands of the DRAM?
//!
//! The core runs random programs beside a host that stalls and has its own traffic; the model gets the same requests at
//! the same times and must predict the same cycles, without tolerance.

use crate::cores::ndp_core::VARIANTS;
use common::replay::{Compared, compare, processor_time};
use common::{Outcome, amount, first, some};
use ndp_config::DesignConfig;
use ndp_isa::Program;
use ndp_isa::machine::SparseMemory;
use ndp_numerics::SplitMix64;
use ndp_sim::core::{CoreOptions, HostStalls, NdpCore};
use ndp_testkit::{ProgramOptions, RandomPrograms};
use std::error::Error;
use std::io::Write;
use std::time::Duration;

#[derive(Clone, Copy)]
struct Behaviour {
    stall_percent: u32,
    /// A request of its own in one of this number of cycles; never if 0.
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
    let mut rtl = Duration::ZERO;
    // The clocks' edges lie differently after each reset.
    for _ in 0..seed % 5 {
        core.step()?;
    }
    core.reset()?;
    for program in programs {
        core.place(program)?;
        for data in &program.data {
            ndp_isa::machine::write_data(&config, data, &mut memory)?;
        }
        memories.push((core.cycle(), memory.clone()));
        let start = processor_time();
        core.run_words(&program.words(), |core| {
            while core.take_answer().is_some() {}
            if behaviour.every > 0 && random.next_u64().is_multiple_of(behaviour.every) {
                let address = first + random.next_u64() % 512;
                let write = random.next_u64().is_multiple_of(2).then_some([0; 8]);
                core.submit(address, write);
            }
        })?;
        core.counters()?;
        rtl += processor_time() - start;
    }
    let recording = core.take_recording().ok_or("nothing was recorded")?;
    let compared = compare(&recording, &mut memories)?;
    Ok(Compared { rtl, ..compared })
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
    let config = DesignConfig::load(preset)?;
    let count = amount(count);
    let mut programs = RandomPrograms::with_options(&config, seed, options);
    let mut all = Compared::default();
    for index in 0..count {
        let batch: Vec<Program> = programs.by_ref().take(length).collect();
        let stalls = HostStalls { request: behaviour.stall_percent, response: behaviour.stall_percent };
        let seed = seed.wrapping_mul(1000) + index as u64;
        // A host that seldom sends lets many requests pile up: the last one waits long.
        let watchdog_cycles = 1 << 20;
        let options = CoreOptions { seed, stalls, record: true, watchdog_cycles, ..CoreOptions::default() };
        let mut core = NdpCore::open(&config, &options)?;
        let compared = session(&mut core, &batch, behaviour, seed)
            .map_err(|e| format!("{preset}, seed {seed}, session {index}: {e}"))?;
        all += compared;
    }
    report(preset, count * length, &all);
    Ok(())
}

/// Writes past the capture of `cargo test`, so that the log of a run has the line.
fn report(name: &str, programs: usize, all: &Compared) {
    let speed = |time: Duration| all.cycles as f64 / time.as_secs_f64();
    let line = format!(
        "{name}: {programs} programs, {} cycles, {} instructions, {} requests, {} commands; RTL {:.0} cycles/s, \
         model {:.0}, {:.0} times",
        all.cycles,
        all.instructions,
        all.requests,
        all.commands,
        speed(all.rtl),
        speed(all.model),
        all.rtl.as_secs_f64() / all.model.as_secs_f64()
    );
    let _ = writeln!(std::io::stderr(), "{line}");
}

#[test]
fn random_programs_take_the_predicted_cycles() -> Outcome {
    sessions("tiny", 1, 20, 10, Behaviour { stall_percent: 0, every: 0 }, ProgramOptions::default())
}

#[test]
fn they_do_so_beside_stalls_and_traffic() -> Outcome {
    sessions("tiny", 2, 16, 10, Behaviour { stall_percent: 20, every: 16 }, ProgramOptions::default())
}

#[test]
fn they_do_so_on_variants() -> Outcome {
    for (seed, name) in (40..).zip(some(&VARIANTS)) {
        let config = format!("testbenches/configs/{name}.toml");
        sessions(&config, seed, 7, 10, Behaviour { stall_percent: 0, every: 0 }, ProgramOptions::default())?;
        let traffic = Behaviour { stall_percent: 20, every: 16 };
        sessions(&config, seed + 10, 4, 10, traffic, ProgramOptions::default())?;
        let flood = Behaviour { stall_percent: 0, every: 2 };
        sessions(&config, seed + 20, 1, 6, flood, ProgramOptions::default())?;
    }
    Ok(())
}

/// Loads and results of two whole tail stripes, which lie in every second rank, while sums keep ports of some ranks busy:
/// the third session of each seed finds a model that takes all ranks for their holders.
#[test]
fn they_do_so_on_four_ranks() -> Outcome {
    for seed in [305, 308] {
        let quiet = Behaviour { stall_percent: 0, every: 0 };
        sessions("testbenches/configs/four-ranks.toml", seed, 24, 10, quiet, ProgramOptions::default())?;
    }
    Ok(())
}

#[test]
fn they_do_so_beside_a_host_that_floods_the_ranks() -> Outcome {
    sessions("tiny", 3, 2, 8, Behaviour { stall_percent: 0, every: 2 }, ProgramOptions::default())?;
    sessions("tiny", 4, 2, 8, Behaviour { stall_percent: 80, every: 5 }, ProgramOptions::default())
}

#[test]
fn they_do_so_among_malformed_instructions() -> Outcome {
    let options = ProgramOptions { malformed_percent: 100, ..ProgramOptions::default() };
    sessions("tiny", 5, 15, 10, Behaviour { stall_percent: 5, every: 40 }, options)
}

#[test]
fn transfers_without_a_partner_do_so() -> Outcome {
    let config = DesignConfig::preset("tiny")?;
    let mut core = NdpCore::open(&config, &CoreOptions { record: true, ..CoreOptions::default() })?;
    let transfers = "send address=0x100, count=3, ranks=0x3, node=1, slot=1\ndot src=0, dst=32, cols=256, count=64, address=0\n\
                     receive address=0x200, count=2, ranks=0x1, node=1, slot=2\nbarrier\n\
                     send address=0x100, count=300, ranks=0x2, node=1, slot=3\nsignal 1";
    let programs = [ndp_isa::parse(transfers)?, ndp_isa::parse(transfers)?];
    let compared = session(&mut core, &programs, Behaviour { stall_percent: 0, every: 50 }, 7)?;
    report("tiny, transfers without a partner", 2, &compared);
    Ok(())
}

#[test]
fn they_do_so_on_the_full_core() -> Outcome {
    let options = ProgramOptions { cycles: 4000, ..ProgramOptions::default() };
    sessions("hermes", 6, 3, 8, Behaviour { stall_percent: 0, every: 0 }, options)?;
    sessions("hermes", 7, 3, 8, Behaviour { stall_percent: 20, every: 16 }, options)
}

const LONG: [(&str, &str); 15] = [
    ("dot", "dot src=0, dst=2, cols=4096, count=512, address=0x10000"),
    ("dot, batch 4", "dot src=0, dst=8, cols=4096, batch=4, count=512, address=0x10000"),
    ("dot, batch 16", "dot src=0, dst=32, cols=4096, batch=16, count=128, address=0x10000"),
    ("axpy", "axpy src=0, dst=8, cols=4096, count=512, address=0x10000"),
    ("QK, 8 heads", "dot src=0, dst=8, cols=512, count=2048, address=0x10000, heads=8"),
    ("QK, 4 heads", "dot src=0, dst=8, cols=512, count=2048, address=0x10000, heads=4"),
    ("QK, 8 heads, batch 4", "dot src=0, dst=4, cols=512, batch=4, count=2048, address=0x10000, heads=8"),
    ("QK, 4 heads, batch 4", "dot src=0, dst=4, cols=512, batch=4, count=2046, address=0x10000, heads=4"),
    (
        "PV, 8 heads",
        "axpy src=0, dst=32, cols=512, count=2048, address=0x10000, heads=8\nround src=32, dst=0, cols=512",
    ),
    (
        "PV, 4 heads",
        "axpy src=0, dst=32, cols=512, count=2046, address=0x10000, heads=4\nround src=32, dst=0, cols=512",
    ),
    (
        "PV, 8 heads, batch 4",
        "axpy src=0, dst=32, cols=512, batch=4, count=2048, address=0x10000, heads=8\n\
         round src=32, dst=0, cols=512, batch=4",
    ),
    (
        "PV, 4 heads, batch 4",
        "axpy src=0, dst=32, cols=512, batch=4, count=2048, address=0x10000, heads=4\n\
         round src=32, dst=0, cols=512, batch=4",
    ),
    (
        "softmax",
        "softmax src=0, dst=0, cols=4096, batch=16\nsoftmax src=32, dst=32, cols=4096, batch=4\n\
         softmax src=0, dst=0, cols=1000, batch=8, heads=4",
    ),
    (
        "functions beside an axpy",
        "silu src=0, dst=0, cols=4096, batch=4\naxpy src=40, dst=48, cols=4096, count=512, address=0x10000\n\
         gelu src=0, dst=8, cols=4096, batch=2\ndiv src=0, other=8, dst=0, cols=4000, batch=4",
    ),
    (
        "loads, stores, activations",
        "load dst=0, cols=4096, batch=16, address=0x40000\nsoftmax src=0, dst=0, cols=4096, batch=16\n\
         add src=0, other=0, dst=32, cols=4096, batch=16\nstore src=32, cols=4096, batch=16, address=0x50000",
    ),
];

#[test]
fn long_products_do_so_on_the_full_core() -> Outcome {
    long_programs("hermes", first(4, &LONG))
}

#[test]
#[ignore = "a minute; run by `make exhaustive`"]
fn long_activations_do_so_on_the_full_core_with_shared_lanes() -> Outcome {
    let works =
        |(name, _): &&(&str, &str)| ["softmax", "functions", "loads"].iter().any(|w| name.starts_with(w));
    let programs: Vec<_> = LONG.iter().filter(works).copied().collect();
    assert_eq!(programs.len(), 3);
    long_programs("ndp-best", &programs)
}

fn long_programs(config: &str, programs: &[(&str, &str)]) -> Outcome {
    let config = DesignConfig::load(config)?;
    for (name, product) in programs {
        let mut core = NdpCore::open(&config, &CoreOptions { record: true, ..CoreOptions::default() })?;
        let matrix = ".matrix 0x10000 rows=512 cols=4096 seed=2 kind=normal";
        let program = ndp_isa::parse(&format!("{matrix}\n{product}\nsignal 1"))?;
        let behaviour = Behaviour { stall_percent: 0, every: 0 };
        let compared = session(&mut core, &[program], behaviour, 0).map_err(|e| format!("{name}: {e}"))?;
        report(&format!("{}, {name}", config.name()), 1, &compared);
    }
    Ok(())
}

#[test]
#[ignore = "minutes; run by `make exhaustive`"]
fn many_random_programs_do_so() -> Outcome {
    for seed in 10..30 {
        let behaviour = Behaviour {
            stall_percent: [0, 10, 50, 95][seed as usize % 4],
            every: [0, 40, 8, 3, 100][seed as usize % 5],
        };
        let malformed_percent = (seed % 3) as u32 * 30;
        sessions(
            "tiny",
            seed,
            20,
            10,
            behaviour,
            ProgramOptions { malformed_percent, ..ProgramOptions::default() },
        )?;
    }
    Ok(())
}

#[test]
fn a_burst_for_a_full_queue_is_lost_in_the_model_too() -> Outcome {
    let config = DesignConfig::preset("tiny")?;
    let mut core = NdpCore::open(&config, &CoreOptions { record: true, ..CoreOptions::default() })?;
    let queue = 1 << config.dimm_burst_bits();
    let dot = ndp_isa::parse("dot src=0, dst=32, cols=256, count=256, address=0")?.words()[0];
    let signal = ndp_isa::parse("signal 5")?.words()[0];
    let burst = |words: [u128; 4]| std::array::from_fn(|i| (words[i / 2] >> (64 * (i % 2))) as u64);
    core.submit(queue, Some(burst([dot, 0, 0, 0])));
    for _ in 0..config.core().queue_entries() / 4 + 4 {
        core.submit(queue, Some(burst([signal; 4])));
    }
    let status = loop {
        for _ in 0..500 {
            core.step()?;
        }
        let status = core.status()?;
        if !status.busy {
            break status;
        }
    };
    assert_eq!(status.error, ndp_isa::ErrorCode::QueueFull.number());
    let recording = core.take_recording().ok_or("nothing was recorded")?;
    compare(&recording, &mut [(0, SparseMemory::new())])?;
    Ok(())
}

#[test]
fn a_request_that_is_a_cycle_off_is_caught() -> Outcome {
    let config = DesignConfig::preset("tiny")?;
    let mut core = NdpCore::open(&config, &CoreOptions { record: true, ..CoreOptions::default() })?;
    let program = RandomPrograms::new(&config, 4).next_program();
    core.place(&program)?;
    core.run_words(&program.words(), |_| {})?;
    let mut recording = core.take_recording().ok_or("nothing was recorded")?;
    let mut memory = SparseMemory::new();
    for data in &program.data {
        ndp_isa::machine::write_data(&config, data, &mut memory)?;
    }
    let mut memories = [(0, memory)];
    compare(&recording, &mut memories)?;
    // The same recording with one change at a time.
    for change in 0..4 {
        let original = recording.clone();
        match change {
            0 => {
                let prompt = recording.requests.iter_mut().find(|request| request.offered == request.taken);
                prompt.ok_or("every request waited")?.offered += 1;
            }
            1 => recording.commands[1].last_mut().ok_or("no command")?.0 += 4,
            2 => recording.instructions[2].started = recording.instructions[2].started.map(|cycle| cycle + 1),
            _ => recording.dram_origin += 1,
        }
        assert!(compare(&recording, &mut memories).is_err(), "change {change} was not found");
        recording = original;
    }
    Ok(())
}
