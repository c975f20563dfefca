//! Does the core execute its programs correctly, whatever the host does at the same time, and without breaking a rule
//! of the DRAM?
//!
//! Programs are random; the functional model, which is independent of the hardware, gives their effect on DRAM.

use crate::activation::functions;
use crate::activation::shared_exponential;
use crate::gemv::select;
use crate::gemv::series;
use crate::link::migration;
use common::check::Checks;
use common::rtl::Mutant;
use common::traffic::Traffic;
use common::{Outcome, amount, some};
use ndp_config::DesignConfig;
use ndp_isa::{Activation, ErrorCode, Instruction};
use ndp_numerics::SplitMix64;
use ndp_sim::core::{Burst, CoreOptions, HostStalls, NdpCore};
use ndp_testkit::{ProgramOptions, RandomPrograms, malformed_word};
use std::error::Error;

/// The mutants of the core for all tests: mutants of one configuration are one library.
pub fn core_mutants() -> Vec<Mutant> {
    [
        &functions::MUTANTS[..],
        &migration::MUTANTS,
        &select::MUTANTS,
        &series::MUTANTS,
        &shared_exponential::CORE_MUTANTS,
    ]
    .concat()
}

fn tiny() -> Result<NdpCore, Box<dyn Error>> {
    Ok(NdpCore::open(&DesignConfig::preset("tiny")?, &CoreOptions::default())?)
}

/// Cores that differ from `tiny` in many ways at once, then in one way each.
pub const VARIANTS: [&str; 6] =
    ["variants", "tiny-x8", "shared-lanes", "single-lanes", "parallel-multiplier", "parallel-segments"];

/// Runs random programs on one core and compares everything they leave in DRAM.
fn random_programs(
    config: &str,
    seed: u64,
    count: usize,
    stall_percent: u32,
    every: u64,
    options: ProgramOptions,
) -> Outcome {
    let config = DesignConfig::load(config)?;
    let count = amount(count);
    let mut programs = RandomPrograms::with_options(&config, seed, options);
    let stalls = HostStalls { request: stall_percent, response: stall_percent };
    let random_contents = Some(seed as u32);
    let mut core =
        NdpCore::open(&config, &CoreOptions { seed, stalls, random_contents, ..CoreOptions::default() })?;
    let mut traffic = Traffic::new(&config, seed, every);
    let (mut elements, mut cycles, mut malformed) = (0, 0, 0);
    for index in 0..count {
        let program = programs.next_program();
        let (before, counted) = (core.status()?, core.counters()?);
        let check = core.check_program(&program, |core| traffic.cycle(core));
        let check = check.map_err(|e| format!("seed {seed}, program {index}: {e}\n{program}"))?;
        if let Some((burst, element, expected, actual)) = check.mismatches.first() {
            let (wrong, all) = (check.mismatches.len(), check.elements);
            return Err(format!(
                "seed {seed}, program {index}: {wrong} of {all} elements differ, the first in burst {burst:#x}, element \
                 {element}: expected {expected:#06x}, actual {actual:#06x}\n{program}"
            )
            .into());
        }
        assert!(check.agrees(), "seed {seed}, program {index}: {:?}\n{program}", check.differences);
        // Every cycle of every group belongs to exactly one counter.
        let (counted, ranks) = (core.counters()?.since(&counted), config.gemv().ranks());
        let all = u64::from(counted.cycles) * u64::from(ranks);
        assert!(
            counted.accounted(ranks) == all && u64::from(counted.cycles) >= check.run.cycles,
            "seed {seed}, program {index}: {counted:?}"
        );
        malformed += check.run.status.malformed - before.malformed;
        elements += check.elements;
        cycles += check.run.cycles;
    }
    core.check_protocol()?;
    println!(
        "{count} programs, {elements} elements, {malformed} malformed words, {cycles} cycles, {} reads of the host, longest wait {}",
        traffic.reads, traffic.longest_wait
    );
    assert!(elements > 100 * count as u64);
    assert!((every > 0) == (traffic.reads > 0) && (options.malformed_percent > 0) == (malformed > 0));
    Ok(())
}

#[test]
fn random_programs_do_what_they_say() -> Outcome {
    random_programs("tiny", 1, 100, 0, 0, ProgramOptions::default())
}

#[test]
fn random_programs_do_so_beside_stalls_and_traffic() -> Outcome {
    random_programs("tiny", 2, 250, 20, 16, ProgramOptions::default())
}

#[test]
fn random_programs_do_so_on_variants() -> Outcome {
    for (seed, name) in (40..).zip(some(&VARIANTS)) {
        let config = format!("testbenches/configs/{name}.toml");
        random_programs(&config, seed, 60, 0, 0, ProgramOptions::default())?;
        random_programs(&config, seed + 10, 60, 20, 16, ProgramOptions::default())?;
    }
    Ok(())
}

#[test]
fn random_programs_do_so_among_malformed_instructions() -> Outcome {
    random_programs(
        "tiny",
        3,
        150,
        5,
        0,
        ProgramOptions { malformed_percent: 100, ..ProgramOptions::default() },
    )
}

/// A short series of random programs may lack one of them.
#[test]
fn each_operation_of_the_activation_unit_does_what_it_says_in_the_predicted_cycles() -> Outcome {
    for name in ["tiny", "testbenches/configs/variants.toml"] {
        let config = DesignConfig::load(name)?;
        let mut core = NdpCore::open(&config, &CoreOptions { predict: true, ..CoreOptions::default() })?;
        let value = |field| if field == ndp_isa::fields::SCALAR { 0x3555 } else { 20 };
        for operation in Activation::all(&value) {
            let (src, dst, cols, batch, heads) = (0, 40, 300, 2, 1);
            let program = ndp_isa::parse(&format!(
                ".random 0x1000 bursts=20 seed=1 kind=bits\n.random 0x2000 bursts=20 seed=2 kind=bits\n\
                 load dst=0, cols=300, batch=2, address=0x1000\nload dst=20, cols=300, batch=2, address=0x2000\n\
                 {}\nstore src=40, cols=300, batch=2, address=0x3000\nsignal 1\n.dump 0x3000 bursts=20",
                Instruction::Activate { operation, src, dst, cols, batch, heads }
            ))?;
            let check = core.check_program(&program, |_| {})?;
            assert!(check.agrees(), "{name}: {:?} {:?}\n{program}", check.mismatches, check.differences);
            assert_eq!(check.run.model_cycles, Some(check.run.cycles), "{name}\n{program}");
        }
        core.check_protocol()?;
    }
    Ok(())
}

#[test]
#[ignore = "minutes; run by `make exhaustive`"]
fn many_random_programs_do_what_they_say() -> Outcome {
    for seed in 10..30 {
        let options =
            ProgramOptions { malformed_percent: (seed % 3) as u32 * 30, ..ProgramOptions::default() };
        let config = ["tiny", "testbenches/configs/variants.toml"][seed as usize % 2];
        random_programs(
            config,
            seed,
            500,
            [0, 10, 50][seed as usize % 3],
            [0, 40, 8][seed as usize % 3],
            options,
        )?;
    }
    Ok(())
}

#[test]
fn malformed_words_change_nothing_but_the_status() -> Outcome {
    let config = DesignConfig::preset("tiny")?;
    let mut core = tiny()?;
    let program = ndp_isa::parse(
        ".random 0x100 bursts=8 seed=3 kind=special
         load dst=0, cols=100, batch=2, address=0x100
         .matrix 0x1000 rows=7 cols=100 seed=1 kind=bits
         dot src=0, dst=16, cols=100, batch=2, count=7, address=0x1000
         store src=16, cols=7, batch=2, address=0x2000",
    )?;
    core.place(&program)?;
    let mut machine = ndp_isa::machine::Machine::new(&config, ndp_isa::machine::SparseMemory::new())?;
    machine.run(&program)?;
    let mut random = SplitMix64::new(77);
    let codes = ErrorCode::PRECEDENCE;
    let mut bad = 0;
    // Invalid words, of each kind and random, before, between and after valid ones.
    let mut words = Vec::new();
    for word in program.words() {
        for index in 0..3500 {
            let any = u128::from(random.next_u64()) << 64 | u128::from(random.next_u64());
            let word = match index % 4 {
                0 if ndp_isa::decode(any, &config).is_err() => any,
                _ => malformed_word(&config, codes[index % codes.len()], &mut random),
            };
            words.push(word);
            bad += 1;
        }
        words.push(word);
    }
    let run = core.run_words(&words, |_| {})?;
    assert_eq!((run.status.malformed, run.status.taken), (bad, 4 * words.len().div_ceil(4) as u32));
    assert!(bad >= 10_000 && run.status.error != 0 && run.status.error_sequence == 0, "{:?}", run.status);
    for burst in 0x2000..0x2002 {
        assert_eq!(core.peek(burst), machine.memory().get(burst), "{burst:#x}");
    }
    core.check_protocol()?;
    Ok(())
}

#[test]
fn a_burst_for_a_full_queue_is_lost_and_reported() -> Outcome {
    let mut core = tiny()?;
    let config = DesignConfig::preset("tiny")?;
    // A long instruction first, then more than the queue holds, without reading the status.
    let queue = 1 << config.dimm_burst_bits();
    let dot = ndp_isa::parse("dot src=0, dst=32, cols=256, count=256, address=0")?.words()[0];
    core.submit(queue, Some([dot as u64, (dot >> 64) as u64, 0, 0, 0, 0, 0, 0]));
    let signal = ndp_isa::parse("signal 5")?.words()[0];
    let bursts = config.core().queue_entries() as u64 / 4 + 4;
    for _ in 0..bursts {
        let (low, high) = (signal as u64, (signal >> 64) as u64);
        core.submit(queue, Some([low, high, low, high, low, high, low, high]));
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
    assert_eq!(status.error, ErrorCode::QueueFull.number(), "{status:?}");
    assert!(
        status.taken < 4 * (bursts as u32 + 1) && status.taken >= config.core().queue_entries(),
        "{status:?}"
    );
    Ok(())
}

/// As docs/integration.md says: four instructions whenever the status has four free places.
#[test]
fn a_host_that_looks_for_free_places_loses_nothing() -> Outcome {
    let mut core = tiny()?;
    let config = DesignConfig::preset("tiny")?;
    let queue = 1 << config.dimm_burst_bits();
    let word = |text: &str| ndp_isa::parse(text).map(|program| program.words()[0]);
    let (long, signal) = (word("dot src=0, dst=32, cols=256, count=256, address=0")?, word("signal 5")?);
    let bursts = config.core().queue_entries() / 4 + 4;
    for number in 0..bursts {
        while core.status()?.free < 4 {}
        let first = if number == 0 { long } else { signal };
        let words = [first, signal, signal, signal].map(|word| [word as u64, (word >> 64) as u64]);
        core.submit(queue, Some(words.concat().try_into().map_err(|_| "eight words")?));
    }
    let status = loop {
        let status = core.status()?;
        if !status.busy {
            break status;
        }
    };
    assert_eq!((status.error, status.taken), (0, 4 * bursts), "{status:?}");
    Ok(())
}

#[test]
fn a_reset_amid_a_program_leaves_nothing_behind() -> Outcome {
    let config = DesignConfig::preset("tiny")?;
    let mut programs = RandomPrograms::new(&config, 9);
    let mut core = tiny()?;
    for round in 0..30 {
        let program = programs.next_program();
        core.place(&program)?;
        let queue = 1 << config.dimm_burst_bits();
        for words in program.words().chunks(4).take(8) {
            let mut burst = Burst::default();
            for (place, word) in words.iter().enumerate() {
                (burst[2 * place], burst[2 * place + 1]) = (*word as u64, (*word >> 64) as u64);
            }
            core.submit(queue, Some(burst));
        }
        for _ in 0..37 * round + 5 {
            core.step()?;
        }
        core.reset()?;
        assert!(!core.is_busy());
        let next = programs.next_program();
        let check = core.check_program(&next, |_| {})?;
        assert!(check.mismatches.is_empty(), "round {round}: {:x?}\n{next}", check.mismatches.first());
    }
    core.check_protocol()?;
    assert_eq!(core.protocol_violations(), 0);
    Ok(())
}

#[test]
fn a_wrong_bit_in_dram_is_caught() -> Outcome {
    let config = DesignConfig::preset("tiny")?;
    let mut core = tiny()?;
    let program = RandomPrograms::new(&config, 4).next_program();
    let good = core.check_program(&program, |_| {})?;
    assert!(good.mismatches.is_empty());
    let words = program.words();
    let mut machine = ndp_isa::machine::Machine::new(&config, ndp_isa::machine::SparseMemory::new())?;
    machine.run(&program)?;
    // One bit of the program's first inputs: some result must differ from the model's.
    let mut differs = false;
    for (burst, _) in machine.memory().bursts().take(40) {
        let mut data = core.peek(burst);
        data[0] ^= 1 << 14;
        core.poke(burst, &data);
        core.run_words(&words, |_| {})?;
        differs |= machine
            .memory()
            .bursts()
            .any(|(other, expected)| other != burst && core.peek(other) != *expected);
        data[0] ^= 1 << 14;
        core.poke(burst, &data);
        if differs {
            break;
        }
    }
    assert!(differs);
    Ok(())
}

#[test]
fn activations_are_counted_per_neuron() -> Outcome {
    let mut core = tiny()?;
    let program = ndp_isa::parse(
        ".random 0x100 bursts=12 seed=3 kind=normal
         .matrix 0x1000 rows=90 cols=100 seed=1 kind=normal
         load dst=0, cols=100, batch=3, address=0x100
         dot src=0, dst=16, cols=100, batch=3, count=90, address=0x1000
         store src=16, cols=90, batch=3, address=0x2000",
    )?;
    let config = DesignConfig::preset("tiny")?;
    let mut machine = ndp_isa::machine::Machine::new(&config, ndp_isa::machine::SparseMemory::new())?;
    machine.run(&program)?;
    let check = core.check_program(&program, |_| {})?;
    assert!(check.mismatches.is_empty());
    let mut counts = Vec::new();
    for register in 64..66 {
        counts.extend(core.register(register)?.iter().flat_map(|word| word.to_le_bytes()));
    }
    let expected: Vec<u8> = machine.activations()[..90].iter().map(|count| count.unwrap_or(255)).collect();
    assert_eq!(counts[..90], expected);
    assert!(expected.contains(&0) && expected.contains(&3));
    Ok(())
}
