//! The combiner at its ports, with stalls: the number of sums that it takes while no result is taken, and all results.

use common::Outcome;
use common::exact::{digit, result};
use common::rtl::{Mutant, Mutation, design, design_config};
use ndp_numerics::SplitMix64;
use ndp_sim::ffi::{Model, OpenOptions, Rtl};
use std::error::Error;

const CONFIG: &str = "tiny";
/// Results that can wait at the output.
const PLACES: u64 = 8;
const ROWS: u64 = 30;
/// Cycles in which no result is taken.
const STALL: u64 = 100;

const MUTANTS: [Mutant; 2] = [
    // A sum begins although its result has no place.
    (CONFIG, Mutation::new("mutant-combiner-place", "room | ~is_first", |s| s.lit(1))),
    // A sum stops at its second digit when its result takes the last place.
    (CONFIG, Mutation::new("mutant-combiner-stop", "room | ~is_first", |s| s.part(0))),
];

/// Digits of each rank that the combiner takes while no result is taken, and whether all results are right.
fn run(rtl: &Rtl) -> Result<(Vec<u64>, bool), Box<dyn Error>> {
    let options = OpenOptions { random_contents: Some(1), ..OpenOptions::default() };
    let mut model = Model::open(rtl, &options)?;
    let config = design_config(CONFIG)?.gemv().clone();
    let (segments, bits) = (u64::from(config.acc_segments()), config.digit_bits());
    let ranks = 0..config.ranks() as usize;
    for (port, value) in [("rows_i", ROWS), ("waves_i", 1), ("tail_i", 0), ("batch_i", 1)] {
        let port = model.input(port)?;
        model.set(port, value);
    }
    let (start, push) = (model.input("start_i")?, model.input("row_push_i")?);
    let (ready, valid, data) =
        (model.input("result_ready_i")?, model.output("result_valid_o")?, model.output("result_data_o")?);
    let mut queues = Vec::new();
    for g in ranks.clone() {
        let inputs = (model.input(&format!("sum{g}_valid_i"))?, model.input(&format!("sum{g}_digit_i"))?);
        queues.push((inputs, model.output(&format!("sum{g}_pop_o"))?));
    }
    let mut random = SplitMix64::new(1);
    let mut sum = |row: u64| i128::from(random.next_u64() as i64 >> row);
    let sums: Vec<Vec<i128>> = (0..ROWS).map(|row| ranks.clone().map(|_| sum(row)).collect()).collect();
    let expected: Vec<u64> = sums.iter().map(|row| result(row.iter().sum(), 0).into()).collect();

    model.reset(2);
    let (mut taken, mut in_stall, mut results) = (vec![0; ranks.len()], Vec::new(), Vec::new());
    for cycle in 0..STALL + 20 * ROWS {
        if cycle == STALL {
            in_stall.clone_from(&taken);
        }
        let takes = cycle >= STALL && random.next_u64().is_multiple_of(2);
        model.set(start, (cycle == 0).into());
        model.set(push, (cycle < ROWS).into());
        model.set(ready, takes.into());
        for (g, ((offered, digits), _)) in queues.iter().enumerate() {
            let row = sums.get((taken[g] / segments) as usize);
            model.set(*offered, row.is_some().into());
            model.set(*digits, row.map_or(0, |row| digit(row[g], (taken[g] % segments) as u32, bits)));
        }
        model.eval();
        for (taken, (_, pop)) in taken.iter_mut().zip(&queues) {
            *taken += model.get(*pop);
        }
        if takes && model.get(valid) == 1 {
            results.push(model.get(data));
        }
        model.tick();
    }
    Ok((in_stall, results == expected))
}

/// All digits of the sums that have a place.
fn of_all_places() -> Result<Vec<u64>, Box<dyn Error>> {
    let config = design_config(CONFIG)?;
    let gemv = config.gemv();
    Ok(vec![PLACES * u64::from(gemv.acc_segments()); gemv.ranks() as usize])
}

#[test]
fn sums_that_have_a_place_are_taken_and_no_others() -> Outcome {
    assert_eq!(run(&design(CONFIG, "combiner", &MUTANTS)?)?, (of_all_places()?, true));
    Ok(())
}

#[test]
fn injected_errors_are_caught() -> Outcome {
    let right = (of_all_places()?, true);
    for (_, mutation) in MUTANTS {
        assert_ne!(run(&design(mutation.name, "combiner", &MUTANTS)?)?, right, "{}", mutation.name);
    }
    Ok(())
}
