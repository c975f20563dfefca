//! The exponential that the lanes of a rank share: by itself at its ports, and mutants of it and of its inputs in a
//! core.
//!
//! Random programs in `ndp_core.rs`, `cycle_model.rs` and `random_configs.rs`, and `functions.rs` element by element,
//! also compare a core's results with it. No expected value comes from the design or from `ndp_numerics`.

use crate::cores::ndp_core::core_mutants;
use common::activation_driver::{argument, parabolas, power, recoded, term, wide, y};
use common::check::Checks;
use common::rtl::{Mutant, Mutation, design, design_config};
use common::{Outcome, some};
use ndp_config::{BEAT_ELEMS, DesignConfig};
use ndp_hdl_language::{cat, lit};
use ndp_isa::Program;
use ndp_numerics::SplitMix64;
use ndp_oracle::Random;
use ndp_oracle::exponential::exp_of_all;
use ndp_sim::core::{CoreOptions, NdpCore};
use ndp_sim::ffi::{Model, OpenOptions};
use std::error::Error;

/// Cycles from a value to its result, to its term, and until the argument may change.
const LATENCY: usize = 10;
const TERM_LATENCY: usize = 8;
const ARGUMENT: usize = 2;

/// A value, whether it counts, and its expected results.
#[derive(Clone, Copy, Debug)]
struct Value {
    bits: u16,
    counts: bool,
    result: u16,
    term: u32,
}

/// Sends words of values, each with its argument; returns the first one with a wrong result, and the number of values.
fn run(
    name: &str,
    softmax: bool,
    words: &[(u64, Vec<Value>)],
) -> Result<(Option<String>, usize), Box<dyn Error>> {
    let rtl = design(name, "shared_exponential", &MUTANTS)?;
    let mut model = Model::open(&rtl, &OpenOptions { random_contents: Some(1), ..OpenOptions::default() })?;
    let mut noise = SplitMix64::new(7);
    let (value, counts) = (model.input_of_width("value_i", 16)?, model.input_of_width("counts_i", 1)?);
    let (added, is_wide) = (model.input_of_width("argument_i", 43)?, model.input_of_width("wide_i", 1)?);
    let (result, sum) = (model.output_of_width("value_o", 16)?, model.output_of_width("term_o", 29)?);
    model.set(is_wide, softmax.into());
    let (mut way, mut compared) = ([None; LATENCY], 0);
    for (argument, values) in words {
        // The word is followed by noise, with another argument as soon as it does not matter.
        for at in 0..values.len() + LATENCY {
            let now = values.get(at).copied();
            let noisy = noise.next_u64();
            model.set(value, now.map_or(noisy as u16, |value| recoded(value.bits)).into());
            model.set(counts, now.map_or(noisy >> 63, |value| value.counts.into()));
            model.set(added, if at < values.len() + ARGUMENT { *argument } else { noisy >> 21 });
            model.tick();
            way.rotate_right(1);
            way[0] = now;
            let of = |value: Value, what: &str, actual: u64, expected: u64| {
                (actual != expected).then(|| format!("{value:04x?}: {what} {actual:#x}, not {expected:#x}"))
            };
            let terms = way[TERM_LATENCY - 1].filter(|_| softmax);
            let wrong = terms.and_then(|value| of(value, "term", model.get(sum), value.term.into()));
            let wrong = wrong.or_else(|| {
                way[LATENCY - 1].and_then(|value| of(value, "result", model.get(result), value.result.into()))
            });
            if wrong.is_some() {
                return Ok((wrong, compared));
            }
            compared += usize::from(way[LATENCY - 1].is_some());
        }
    }
    Ok((None, compared))
}

fn numbers() -> Vec<(u64, Vec<Value>)> {
    let of = |(bits, exact): (u16, u16)| Value { bits, counts: false, result: recoded(exact), term: 0 };
    vec![(0, (0..=u16::MAX).zip(exp_of_all()).map(of).collect())]
}

/// Words of scores of a softmax, none above the maximum; some are masked.
fn scores(words: usize) -> Vec<(u64, Vec<Value>)> {
    let (parabolas, mut random) = (parabolas(), SplitMix64::new(8));
    let mut word = || {
        let magnitude = random.next_u64() as u16 % 0x7C00;
        let maximum = magnitude | (random.next_u64() as u16 & 0x8000);
        let mut score = || {
            let draw = random.next_u64();
            let (near, counts) = (maximum ^ (draw as u16 & 0x3FF), draw >> 60 != 0);
            let bits = match draw >> 32 & 15 {
                0 => 0xFC00,
                1..4 => (draw as u16 % 0x7C00) | 0x8000,
                _ => near,
            };
            let masked = bits == 0xFC00;
            let bits = if !masked && y(bits) > y(maximum) { maximum } else { bits };
            let power = |bits| power(&parabolas, y(bits) - y(maximum));
            let (result, term) = if masked { (0, 0) } else { (wide(power(bits)), term(power(bits))) };
            Value { bits, counts, result, term: if counts { term } else { 0 } }
        };
        (argument(maximum), (0..16).map(|_| score()).collect())
    };
    (0..words).map(|_| word()).collect()
}

#[test]
fn the_exponential_of_every_number_is_correctly_rounded() -> Outcome {
    assert_eq!(run("hermes", false, &numbers())?, (None, 1 << 16));
    Ok(())
}

#[test]
fn wide_results_and_terms_are_those_of_the_contract() -> Outcome {
    assert_eq!(run("hermes", true, &scores(4000))?, (None, 64_000));
    Ok(())
}

/// Mutants of the unit; random programs find the mutants of its inputs in a core.
const MUTANTS: [Mutant; 3] = [
    ("hermes", Mutation::new("mutant-term", "next term_q", |s| s.lit(1) | s.old())),
    ("hermes", Mutation::new("mutant-wide", "input packer wide_i", |s| s.lit(0))),
    ("hermes", Mutation::new("mutant-vanishes", "input packer blank_i", |s| s.lit(0))),
];

/// Mutants of the paths to the exponential in a core.
pub const CORE_MUTANTS: [Mutant; 5] = [
    // Elements beyond the vectors' end are in the sum.
    (
        "variants",
        Mutation::new("mutant-past-end", "lane_counts_i & ~(lane_ends_i & lane_past_end_i)", |s| s.part(0)),
    ),
    // Exchanged digits of an element's place.
    (
        "variants",
        Mutation::new("mutant-place", "{slice_q[2] | slice_q[3], slice_q[1] | slice_q[3]}", |s| {
            cat!(s.part(1), s.part(0))
        }),
    ),
    // The sum ends a term early.
    ("variants", Mutation::new("mutant-last-term", "around_left_q == 5'hb", |s| s.with(1, lit(0xc, 5)))),
    // The sum has one term too many.
    ("variants", Mutation::new("mutant-terms", "around_left_q >= 5'hb", |s| s.with(1, lit(0xa, 5)))),
    // Functions come back as exponentials.
    ("variants", Mutation::new("mutant-returns", "softmax_q | path_q[0]", |s| s.with(0, lit(1, 1)))),
];

#[test]
fn mutants_of_the_unit_are_caught() -> Outcome {
    for (_, mutation) in some(&MUTANTS) {
        let (numbers, _) = run(mutation.name, false, &numbers())?;
        let (scores, _) = run(mutation.name, true, &scores(100))?;
        println!("{}: {numbers:?}, {scores:?}", mutation.name);
        assert!(numbers.is_some() || scores.is_some(), "{}", mutation.name);
    }
    Ok(())
}

#[test]
#[ignore = "half a minute; run by `make exhaustive`"]
fn mutants_of_the_way_to_the_unit_are_caught() -> Outcome {
    for (name, mutation) in CORE_MUTANTS {
        let config = design_config(name)?;
        let rtl = design(mutation.name, "ndp_core", &core_mutants())?;
        let options = CoreOptions { predict: true, ..CoreOptions::default() };
        let mut core = NdpCore::of_rtl(&rtl, &config, &options)?;
        let mut random = Random::new(24);
        let found = (0..40).find_map(|at| Some((at, wrong(&mut core, &softmaxes(&config, &mut random))?)));
        println!("{}: {found:?}", mutation.name);
        assert!(found.is_some(), "{}", mutation.name);
    }
    Ok(())
}

/// Softmax, and functions in between, of some vectors of any length.
fn softmaxes(config: &DesignConfig, random: &mut Random) -> Program {
    let batch = 1 + random.below(config.gemv().max_batch() as usize) as u32;
    let cols = 1 + random.below(300) as u32;
    let bursts = cols.div_ceil(BEAT_ELEMS) * batch;
    let vectors = format!("cols={cols}, batch={batch}");
    let text = format!(
        ".random 0x100 bursts={bursts} seed={} kind=normal
         load dst=0, {vectors}, address=0x100
         softmax src=0, dst=24, {vectors}
         silu src=0, dst=0, {vectors}
         store src=24, {vectors}, address=0x1000
         softmax src=0, dst=0, {vectors}
         store src=0, {vectors}, address=0x2000
         .dump 0x1000 bursts={bursts}
         .dump 0x2000 bursts={bursts}
         signal 1",
        random.below(1 << 16)
    );
    ndp_isa::parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"))
}

fn wrong(core: &mut NdpCore, program: &Program) -> Option<String> {
    match core.check_program(program, |_| {}) {
        // It may also hang.
        Err(error) => Some(error.to_string()),
        Ok(check) if !check.agrees() => {
            Some(format!("{:x?} {:?}", check.mismatches.first(), check.differences))
        }
        Ok(check) => {
            let model = check.run.model_cycles.filter(|model| *model != check.run.cycles);
            model.map(|model| format!("{} cycles, {model} by the model", check.run.cycles))
        }
    }
}

#[test]
fn softmax_of_vectors_of_any_length_is_right() -> Outcome {
    let config = design_config("variants")?;
    let options = CoreOptions { predict: true, random_contents: Some(25), ..CoreOptions::default() };
    let mut core = NdpCore::open(&config, &options)?;
    let mut random = Random::new(25);
    for _ in 0..100 {
        let program = softmaxes(&config, &mut random);
        assert_eq!(wrong(&mut core, &program), None, "{program}");
    }
    Ok(())
}
