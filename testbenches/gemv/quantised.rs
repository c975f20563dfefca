//! Weights of 8 and 4 bits: does the core multiply with the values that the bits stand for, in the cycles that the
//! model predicts?
//!
//! Programs are random, with all formats side by side. The functional model gives the bits, the cycle model the cycles.

use common::check::Checks;
use common::replay::compare;
use common::rtl::{Mutant, Mutation, design};
use common::traffic::Traffic;
use common::{Outcome, amount, some};
use ndp_config::DesignConfig;
use ndp_hdl_language::lit;
use ndp_isa::Program;
use ndp_isa::machine::SparseMemory;
use ndp_sim::core::{CoreOptions, HostStalls, NdpCore};
use ndp_testkit::{ProgramOptions, RandomPrograms};
use std::error::Error;
use std::fmt::Write;

const TINY: &str = "testbenches/configs/int-tiny.toml";
const FOUR_RANKS: &str = "testbenches/configs/int-four-ranks.toml";
const LONG_STRIPES: &str = "testbenches/configs/int-long-stripes.toml";

/// Runs random programs and compares their results in DRAM, and all cycles.
fn random_programs(config: &str, seed: u64, count: usize, (stalls, every): (u32, u64)) -> Outcome {
    let config = DesignConfig::load(config)?;
    let options = ProgramOptions { malformed_percent: 10 * (seed % 2) as u32, ..ProgramOptions::default() };
    let programs = RandomPrograms::with_options(&config, seed, options);
    let stalls = HostStalls { request: stalls, response: stalls };
    let options = CoreOptions {
        seed,
        stalls,
        record: true,
        random_contents: Some(seed as u32),
        ..CoreOptions::default()
    };
    let core = NdpCore::open(&config, &options)?;
    run(core, (seed, amount(count), every), programs)
}

fn run(mut core: NdpCore, (seed, count, every): (u64, usize, u64), mut programs: RandomPrograms) -> Outcome {
    let config = core.config().clone();
    let mut traffic = Traffic::new(&config, seed, every);
    let (mut memories, mut memory) = (Vec::new(), SparseMemory::new());
    let (mut elements, mut quantised) = (0, 0);
    for index in 0..count {
        let program = programs.next_program();
        for data in &program.data {
            ndp_isa::machine::write_data(&config, data, &mut memory)?;
        }
        memories.push((core.cycle(), memory.clone()));
        let check = core.check_program(&program, |core| traffic.cycle(core));
        let check = check.map_err(|e| format!("seed {seed}, program {index}: {e}\n{program}"))?;
        if !check.agrees() {
            let (first, differences) = (check.mismatches.first(), &check.differences);
            let text = format!(
                "seed {seed}, program {index}: {} of {} elements differ, the first (burst, element, expected, actual): \
                 {first:x?}; {differences:?}\n{program}",
                check.mismatches.len(),
                check.elements
            );
            return Err(text.into());
        }
        elements += check.elements;
        quantised += program.to_string().matches(", weights=int").count();
    }
    core.check_protocol()?;
    let recording = core.take_recording().ok_or("nothing was recorded")?;
    let compared = compare(&recording, &mut memories).map_err(|e| format!("seed {seed}, cycles: {e}"))?;
    println!(
        "{}: {count} programs, {quantised} products of quantised weights, {elements} elements, {} cycles",
        config.name(),
        compared.cycles
    );
    assert!(quantised > count / 3, "{quantised}");
    Ok(())
}

#[test]
fn random_programs_do_what_they_say_in_the_predicted_cycles() -> Outcome {
    random_programs(TINY, 20, 120, (0, 0))?;
    random_programs(TINY, 21, 60, (20, 16))
}

#[test]
#[ignore = "a minute; run by `make exhaustive`"]
fn they_do_so_with_tails_of_four_ranks() -> Outcome {
    random_programs(FOUR_RANKS, 22, 60, (0, 0))?;
    random_programs(FOUR_RANKS, 23, 40, (20, 16))
}

#[test]
#[ignore = "a minute; run by `make exhaustive`"]
fn they_do_so_with_stripes_that_need_several_beats_of_scales() -> Outcome {
    random_programs(LONG_STRIPES, 24, 25, (0, 0))?;
    random_programs(LONG_STRIPES, 25, 15, (20, 16))
}

#[test]
#[ignore = "minutes; run by `make exhaustive`"]
fn many_random_programs_do_so() -> Outcome {
    for seed in 100..130 {
        let config = [TINY, FOUR_RANKS, LONG_STRIPES][seed as usize % 3];
        let host = [(0, 0), (10, 40), (50, 8)][seed as usize / 3 % 3];
        random_programs(config, seed, 150, host)?;
    }
    Ok(())
}

/// Rows of every length around the borders of places, beats and stripes, in bits of any kind: the bits past a row's end
/// are arbitrary.
fn edges(config: &DesignConfig) -> Result<Program, Box<dyn Error>> {
    let (ranks, stripe) = (config.gemv().ranks(), config.gemv().stripe_elems());
    let mut text = format!(
        ".random 0 bursts=64 seed=1 kind=normal\n.random {} bursts=8192 seed=2 kind=bits\n",
        256 * ranks
    );
    let (mut first, mut at) = (256, 0x8000);
    for weights in ["int4", "int8"] {
        for cols in [1, 31, 33, 50, 64, 65, 97, 127, stripe, stripe + 1, 2 * stripe - 33, ranks * stripe + 40]
        {
            let cols = cols.min(900);
            let _ = write!(
                text,
                "load dst=0, cols={cols}, address=0\ndot src=0, dst=16, cols={cols}, count=20, address={first}, weights={weights}\n\
                 store src=16, cols=20, address={at}\n.dump {at} bursts=1\n"
            );
            first += 40;
            at += 1;
        }
    }
    Ok(ndp_isa::parse(&text)?)
}

fn check_edges(core: &mut NdpCore) -> Result<bool, Box<dyn Error>> {
    let program = edges(core.config())?;
    Ok(core.check_program(&program, |_| {})?.agrees())
}

#[test]
fn what_lies_behind_the_end_of_a_row_does_not_matter() -> Outcome {
    for config in some(&[TINY, FOUR_RANKS, LONG_STRIPES]) {
        let mut core = NdpCore::open(&DesignConfig::load(config)?, &CoreOptions::default())?;
        assert!(check_edges(&mut core)?, "{config}");
    }
    Ok(())
}

const MUTANTS: [Mutant; 15] = [
    // A row does not begin with a new beat.
    ("int-tiny", Mutation::new("mutant-int-half", "half_q | ends", |s| s.part(0))),
    // Weights of 8 bits are taken in halves of a beat, as weights of 4 bits are.
    ("int-tiny", Mutation::new("mutant-int-whole", "weight_format_i[1] & ~(half_q | ends)", |s| s.part(1))),
    // Every second pair of scales is used.
    ("int-tiny", Mutation::new("mutant-int-scale", "last_scale_pair + 4'h1", |s| s.with(1, lit(2, 4)))),
    // Two places share a scale.
    (
        "int-tiny",
        Mutation::new("mutant-int-share", "pair_scales[31:16]", |s| s.signal("pair_scales").slice(0, 16)),
    ),
    // Elements past the row's end are multiplied.
    (
        "int-tiny",
        Mutation::new("mutant-int-clear", "in_pair & (position_q == last_beat_i) & ~position_q", |s| {
            s.lit(0)
        }),
    ),
    ("int-tiny", Mutation::new("mutant-int-cut", "in_pair & ~(position_q == last_beat_i)", |s| s.lit(0))),
    // Stripes count as complete while their last weights are in flight.
    ("int-tiny", Mutation::new("mutant-int-late", "stripe_valid_q & ~late_q", |s| s.part(0))),
    // The last place of a row has no beat of numbers, or of scales, of its own.
    ("int-tiny", Mutation::new("mutant-int-tail", "bursts_with_end_places[0]", |s| s.lit(0))),
    ("int-tiny", Mutation::new("mutant-int-scales", "{9'h0, (|bursts_with_end_places[4:0])}", |s| s.lit(0))),
    // Rows that share scales: an INT4 row whose last beat is half used leaves the other scales of the beat to the next
    // row; a product begins with a scale of the one before, or without scales of its own; rows after the first place
    // are not counted as numbers in the middle of a group; every row begins where the one before ends, even the first.
    (
        "int-tiny",
        Mutation::new("mutant-int-shared-beat", "scale_pair_q[0] | (ends & weight_format_i[1])", |s| {
            s.part(0)
        }),
    ),
    ("int-tiny", Mutation::new("mutant-int-shared-first", "row_scales | start_i", |s| s.part(0))),
    ("int-tiny", Mutation::new("mutant-int-shared-start", "used_up | start_i", |s| s.part(0))),
    ("int-tiny", Mutation::new("mutant-int-shared-group", "(|sharing_q)", |s| s.lit(0))),
    ("int-tiny", Mutation::new("mutant-int-shared-place", "weight_format_i[2] & follows_q", |s| s.part(0))),
    // The second place gets the weights of the first one.
    ("int-tiny", Mutation::new("mutant-int-second", "second_weights", |s| s.signal("first_weights"))),
];

/// Fails at once if the core no longer has an expression that a mutant replaces.
#[test]
fn injected_errors_exist() -> Outcome {
    design(MUTANTS[0].1.name, "ndp_core", &MUTANTS)?;
    Ok(())
}

#[test]
#[ignore = "a minute; run by `make exhaustive`"]
fn injected_errors_are_caught() -> Outcome {
    let config = DesignConfig::load(TINY)?;
    for (_, mutation) in MUTANTS {
        let rtl = design(mutation.name, "ndp_core", &MUTANTS)?;
        let options = CoreOptions {
            record: true,
            random_contents: Some(5),
            watchdog_cycles: 20_000,
            ..CoreOptions::default()
        };
        let mut core = NdpCore::of_rtl(&rtl, &config, &options)?;
        // Either of both may find them.
        let found = !matches!(check_edges(&mut core), Ok(true))
            || run(core, (20, 120, 0), RandomPrograms::new(&config, 20)).is_err();
        assert!(found, "{}", mutation.name);
    }
    Ok(())
}
