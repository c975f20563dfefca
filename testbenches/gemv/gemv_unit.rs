//! The GEMV unit on two and on four ranks, with both kinds of multiplier, driven at its ports, against exact sums.
//!
//! Random programs over everything the unit does, with stalls on every stream, concurrent parts, and resets; and what
//! such programs may miss, one after another: each class of row tail, each batch, special operands, ties, what lies
//! beyond a vector's end, and cycles. Injected errors have to be found. Seeds are printed with every failure.

use common::buffer_model::{Block, Matrix, Op, block_words, sum_words};
use common::gemv_driver::{Fault, GemvDriver};
use common::operands::{Kind, any_kind};
use common::programs::{matrix, run_programs};
use common::{Outcome, amount, first, some};
use ndp_config::{BEAT_ELEMS, DesignConfig, RowLayout};
use ndp_numerics::SplitMix64;
use std::error::Error;

const ONE: u16 = 0x3C00;
const NAN: u16 = 0x7E00;
const INFINITY: u16 = 0x7C00;

fn two_ranks() -> Result<DesignConfig, Box<dyn Error>> {
    Ok(DesignConfig::preset("tiny")?)
}

fn four_ranks() -> Result<DesignConfig, Box<dyn Error>> {
    Ok(DesignConfig::load("testbenches/configs/four-ranks.toml")?)
}

/// Four ranks with parallel multipliers and the shortest window.
fn parallel() -> Result<DesignConfig, Box<dyn Error>> {
    Ok(DesignConfig::load("testbenches/configs/parallel-segments.toml")?)
}

/// Configurations of most tests; parallel multipliers stand for four ranks unless whole series run.
fn all() -> Result<Vec<DesignConfig>, Box<dyn Error>> {
    Ok(first(2, &[two_ranks()?, parallel()?, four_ranks()?]).to_vec())
}

#[test]
fn random_programs_on_two_ranks_do_what_the_instructions_say() -> Outcome {
    run_programs(&two_ranks()?, 1, 150, 20)
}

#[test]
#[ignore = "parallel multipliers have four ranks too; run by `make exhaustive`"]
fn random_programs_on_four_ranks_do_what_the_instructions_say() -> Outcome {
    run_programs(&four_ranks()?, 2, 80, 20)
}

#[test]
fn random_programs_on_parallel_multipliers_do_what_the_instructions_say() -> Outcome {
    run_programs(&parallel()?, 4, 150, 20)
}

#[test]
#[ignore = "minutes; run by `make exhaustive`"]
fn many_random_programs_do_what_the_instructions_say() -> Outcome {
    all()?.iter().try_for_each(|config| run_programs(config, 3, 10_000, 30))
}

/// Loads of x, then a product of each mode with `rows` rows; results and sums are stored.
fn product(
    unit: &mut GemvDriver,
    (rows, cols, batch): (u32, u32, u32),
    listed: bool,
    random: &mut SplitMix64,
) -> Result<(), Box<dyn Error>> {
    let kind = any_kind(random);
    let config = unit.config.clone();
    let (x, y) = (0, block_words(&config, cols, batch));
    if y + block_words(&config, rows, batch) <= config.slice_words() {
        unit.push(Op::Load { dst: x, block: kind.block(cols, batch, random) });
        unit.push(Op::Dot {
            src: x,
            dst: y,
            cols,
            batch,
            heads: 1,
            matrix: matrix(rows, cols, listed, random),
        });
        unit.push(Op::Store { src: y, cols: rows, batch });
    }
    // AXPY, as far as sums fit.
    let (words, a) = (sum_words(&config, cols, batch), sum_words(&config, cols, batch));
    if a + block_words(&config, rows, batch) <= config.slice_words() {
        unit.push(Op::Zero { dst: 0, words });
        unit.push(Op::Load { dst: a, block: kind.block(rows, batch, random) });
        unit.push(Op::Axpy {
            src: a,
            dst: 0,
            cols,
            batch,
            heads: 1,
            matrix: matrix(rows, cols, listed, random),
        });
        unit.push(Op::Round { src: 0, dst: 0, cols, batch });
        unit.push(Op::Store { src: 0, cols, batch });
    }
    unit.finish()?;
    Ok(())
}

#[test]
fn every_tail_and_batch_is_exact() -> Outcome {
    let mut random = SplitMix64::new(4);
    for config in all()? {
        let mut unit = GemvDriver::open(&config, 5)?;
        let (ranks, stripe) = (unit.config.ranks(), unit.config.stripe_elems());
        for stripes in 1..=2 * ranks + 1 {
            for batch in 1..=unit.config.max_batch() {
                for cut in [0, 1, BEAT_ELEMS - 1, BEAT_ELEMS, stripe - 1] {
                    let shape = (1 + (batch * stripes + cut) % 9, stripes * stripe - cut, batch);
                    unit.stall_percent = if cut == BEAT_ELEMS { 40 } else { 0 };
                    product(&mut unit, shape, batch % 2 == 0, &mut random)
                        .map_err(|e| format!("{}, {shape:?}: {e}", config.name()))?;
                }
            }
        }
    }
    Ok(())
}

#[test]
fn one_row_one_column_and_many_rows_are_exact() -> Outcome {
    let mut random = SplitMix64::new(6);
    for config in all()? {
        let mut unit = GemvDriver::open(&config, 7)?;
        for shape in [(1, 1, 1), (1, 1, 4), (2, 1, 3), (1, 300, 1), (500, 3, 1), (300, 70, 2), (1000, 1, 4)] {
            for listed in [false, true] {
                product(&mut unit, shape, listed, &mut random)
                    .map_err(|e| format!("{}, {shape:?}: {e}", config.name()))?;
            }
        }
    }
    Ok(())
}

#[test]
fn longest_rows_fill_the_buffer() -> Outcome {
    let mut random = SplitMix64::new(8);
    for config in all()? {
        let mut unit = GemvDriver::open(&config, 9)?;
        let cols = unit.config.max_cols();
        unit.push(Op::Load { dst: 0, block: Kind::Finite.block(cols, 1, &mut random) });
        unit.push(Op::Store { src: 0, cols, batch: 1 });
        let words = unit.config.slice_words();
        unit.push(Op::Zero { dst: 0, words });
        unit.push(Op::Store { src: 0, cols, batch: 1 });
        unit.finish()?;
        let cols = unit.config.max_cols() - unit.config.ranks() * unit.config.stripe_elems();
        product(&mut unit, (20, cols, 1), true, &mut random)?;
    }
    Ok(())
}

#[test]
fn every_pair_of_special_and_ordinary_operands_gives_its_product() -> Outcome {
    let values = [
        0x0000, 0x8000, 0x0001, 0x8001, 0x03FF, 0x0400, 0x3C00, 0xBC00, 0x7BFF, 0xFBFF, 0x7C00, 0xFC00,
        0x7C01, 0xFC01, 0x7E00, 0xFE00, 0x7FFF, 0xFFFF,
    ];
    let n = values.len() as u32;
    for config in some(&all()?) {
        let mut unit = GemvDriver::open(config, 10)?;
        let sums = sum_words(&unit.config, n, 1);
        for (id, first) in (0..).zip(values) {
            // One sum for each pair, in AXPY beside each other, in DOT one row each and one column.
            unit.push(Op::Zero { dst: 0, words: sums });
            unit.push(Op::Load { dst: sums, block: vec![vec![first]] });
            let row = Matrix { ids: vec![id], rows: vec![values.to_vec()] };
            unit.push(Op::Axpy { src: sums, dst: 0, cols: n, batch: 1, heads: 1, matrix: row });
            unit.push(Op::Round { src: 0, dst: 0, cols: n, batch: 1 });
            unit.push(Op::Store { src: 0, cols: n, batch: 1 });
            let rows = Matrix { ids: (0..n).collect(), rows: values.map(|v| vec![v]).to_vec() };
            unit.push(Op::Dot { src: sums, dst: 0, cols: 1, batch: 1, heads: 1, matrix: rows });
            unit.push(Op::Store { src: 0, cols: n, batch: 1 });
            // And both as one of many.
            let mut others = Kind::Finite.vector(n, &mut SplitMix64::new(u64::from(first)));
            others[(id % n) as usize] = first;
            unit.push(Op::Load { dst: sums, block: vec![others.clone()] });
            let rows = Matrix { ids: (0..n).collect(), rows: vec![others; n as usize] };
            unit.push(Op::Dot { src: sums, dst: 0, cols: n, batch: 1, heads: 1, matrix: rows });
            unit.push(Op::Store { src: 0, cols: n, batch: 1 });
        }
        unit.finish()?;
    }
    Ok(())
}

/// Sums of these terms, and their rounded values.
const ROUNDINGS: [(&[u16], u16); 14] = [
    // 1 + 2^-11: a tie, down to even; a little more goes up, a little less down.
    (&[0x3C00, 0x1000], 0x3C00),
    (&[0x3C00, 0x1000, 0x0001], 0x3C01),
    (&[0x3C00, 0x1000, 0x8001], 0x3C00),
    (&[0x3C01, 0x1000], 0x3C02),
    (&[0xBC01, 0x9000], 0xBC02),
    // 65504 + 16: the first sum that is infinite; just below it is not.
    (&[0x7BFF, 0x4C00], 0x7C00),
    (&[0x7BFF, 0x4C00, 0x8001], 0x7BFF),
    (&[0xFBFF, 0xCC00], 0xFC00),
    // Back from beyond the largest number.
    (&[0x7BFF, 0x7BFF, 0xFBFF], 0x7BFF),
    (&[0x8000], 0x0000),
    (&[0x8001, 0x0001], 0x0000),
    // Infinities and NaNs stay.
    (&[0x7C00, 0xFBFF], 0x7C00),
    (&[0x7C00, 0xFC00], 0x7E00),
    (&[0xFD00, 0x3C00], 0x7E00),
];

#[test]
fn sums_are_rounded_once_to_nearest_even() -> Outcome {
    let most = ROUNDINGS.iter().map(|(terms, _)| terms.len()).max().unwrap_or(0);
    let columns = ROUNDINGS.len() as u32;
    let expected: Vec<u16> = ROUNDINGS.iter().map(|(_, result)| *result).collect();
    for config in all()? {
        let mut unit = GemvDriver::open(&config, 11)?;
        let sums = sum_words(&unit.config, columns, 1);
        let term = |k: usize| ROUNDINGS.iter().map(|(t, _)| t.get(k).copied().unwrap_or(0)).collect();
        let rows: Vec<Vec<u16>> = (0..most).map(term).collect();
        // One AXPY for each term: sums stay exact between commands, and in several ranks.
        unit.push(Op::Zero { dst: 0, words: sums });
        unit.push(Op::Load { dst: sums, block: vec![vec![ONE]] });
        for (id, row) in (0..).zip(&rows) {
            let row = Matrix { ids: vec![id], rows: vec![row.clone()] };
            unit.push(Op::Axpy { src: sums, dst: 0, cols: columns, batch: 1, heads: 1, matrix: row });
        }
        unit.push(Op::Round { src: 0, dst: sums, cols: columns, batch: 1 });
        let of_store = unit.buffer.execute(&Op::Store { src: sums, cols: columns, batch: 1 });
        assert_eq!(of_store, vec![expected.clone()], "the oracle is wrong");
        unit.push(Op::Store { src: sums, cols: columns, batch: 1 });
        // As DOT: the terms of a column are a row.
        let n = most as u32;
        let transposed = (0..columns as usize).map(|c| rows.iter().map(|row| row[c]).collect()).collect();
        unit.push(Op::Load { dst: 0, block: vec![vec![ONE; most]] });
        let dot = Matrix { ids: (0..columns).collect(), rows: transposed };
        unit.push(Op::Dot { src: 0, dst: 5, cols: n, batch: 1, heads: 1, matrix: dot });
        unit.push(Op::Store { src: 5, cols: columns, batch: 1 });
        unit.finish()?;
    }
    Ok(())
}

#[test]
fn sums_stay_after_rounding_elsewhere_and_take_more_products() -> Outcome {
    let mut random = SplitMix64::new(12);
    for config in all()? {
        for (stripes, batch) in [(1, 1), (1, 2), (2, 2), (3, 1), (4, 1)] {
            let mut unit = GemvDriver::open(&config, 13)?;
            let cols = stripes * unit.config.stripe_elems() - 7;
            let words = sum_words(&unit.config, cols, batch);
            let rows = 33;
            let a = words;
            let y = a + block_words(&unit.config, rows, batch);
            if y + block_words(&unit.config, cols, batch) > unit.config.slice_words() {
                continue;
            }
            unit.push(Op::Zero { dst: 0, words });
            for round in 0..4 {
                let kind = [Kind::Ties, Kind::Finite, Kind::Large, Kind::Subnormal][round];
                unit.push(Op::Load { dst: a, block: kind.block(rows, batch, &mut random) });
                let mut weights = matrix(rows, cols, true, &mut random);
                weights.rows.iter_mut().for_each(|row| *row = kind.vector(cols, &mut random));
                unit.push(Op::Axpy { src: a, dst: 0, cols, batch, heads: 1, matrix: weights });
                unit.push(Op::Round { src: 0, dst: y, cols, batch });
                unit.push(Op::Store { src: y, cols, batch });
            }
            unit.push(Op::Round { src: 0, dst: 0, cols, batch });
            unit.push(Op::Store { src: 0, cols, batch });
            unit.finish().map_err(|e| format!("{}, {cols} columns: {e}", config.name()))?;
        }
    }
    Ok(())
}

/// Fills the buffer with NaNs, lets `write` write a block of `n` elements to word 0, and reads it with a DOT whose rows
/// go through all ranks: a NaN beyond the block's end would spoil every result.
fn nothing_beyond_the_end(
    unit: &mut GemvDriver,
    n: u32,
    write: impl FnOnce(&mut GemvDriver) -> Block,
) -> Result<(), Box<dyn Error>> {
    let words = block_words(&unit.config, n, 1);
    let block = write(unit);
    assert!(block[0].iter().all(|value| value & 0x7C00 != 0x7C00), "the block itself is finite");
    let rows = 4 * unit.config.ranks();
    let matrix = Matrix { ids: (0..rows).collect(), rows: vec![vec![ONE; n as usize]; rows as usize] };
    unit.push(Op::Dot { src: 0, dst: words, cols: n, batch: 1, heads: 1, matrix });
    unit.push(Op::Store { src: words, cols: rows, batch: 1 });
    unit.finish()?;
    Ok(())
}

#[test]
fn nothing_is_left_beyond_the_end_of_a_vector() -> Outcome {
    let mut random = SplitMix64::new(14);
    for config in some(&all()?) {
        let mut unit = GemvDriver::open(config, 15)?;
        let (all, stripe) = (unit.config.max_cols(), unit.config.stripe_elems());
        // Every end within a beat, and some beyond it.
        let longer = [33, stripe - 1, stripe + 1, 2 * stripe - 33, 3 * stripe - 5, 4 * stripe + 40];
        for n in (1..=BEAT_ELEMS).chain(longer) {
            let words = block_words(&unit.config, n, 1);
            for special in [NAN, INFINITY] {
                let spoil = Op::Load { dst: 0, block: vec![vec![special; all as usize]] };
                let values = Kind::Small.vector(n, &mut random);
                unit.push(spoil.clone());
                nothing_beyond_the_end(&mut unit, n, |unit| {
                    unit.push(Op::Load { dst: 0, block: vec![values.clone()] });
                    vec![values.clone()]
                })?;
                unit.push(spoil.clone());
                nothing_beyond_the_end(&mut unit, n, |unit| {
                    unit.push(Op::Load { dst: words, block: vec![vec![ONE]] });
                    let rows = values.iter().map(|v| vec![*v]).collect();
                    let matrix = Matrix { ids: (0..n).collect(), rows };
                    let dot = Op::Dot { src: words, dst: 0, cols: 1, batch: 1, heads: 1, matrix };
                    unit.push(dot);
                    vec![values.clone()]
                })?;
                let sums = sum_words(&unit.config, n, 1);
                if words + sums + 3 > unit.config.slice_words() {
                    continue;
                }
                unit.push(spoil);
                nothing_beyond_the_end(&mut unit, n, |unit| {
                    let (at, a) = (words, words + sums);
                    unit.push(Op::Zero { dst: at, words: sums });
                    unit.push(Op::Load { dst: a, block: vec![vec![ONE]] });
                    let row = Matrix { ids: vec![3], rows: vec![values.clone()] };
                    unit.push(Op::Axpy { src: a, dst: at, cols: n, batch: 1, heads: 1, matrix: row });
                    unit.push(Op::Round { src: at, dst: 0, cols: n, batch: 1 });
                    vec![values.clone()]
                })?;
            }
        }
    }
    Ok(())
}

#[test]
fn an_infinite_scalar_spoils_no_sum_beyond_the_end() -> Outcome {
    // Infinity times the zeros beyond a row's end is NaN in the sums there; rounding must not pass it on.
    for config in some(&all()?) {
        let mut unit = GemvDriver::open(config, 16)?;
        for n in [1, 33, unit.config.stripe_elems() - 1, unit.config.stripe_elems() + 31] {
            let (sums, words) = (sum_words(&unit.config, n, 1), block_words(&unit.config, n, 1));
            let a = sums + words;
            unit.push(Op::Zero { dst: 0, words: sums });
            unit.push(Op::Load { dst: a, block: vec![vec![INFINITY]] });
            let row = Matrix { ids: vec![0], rows: vec![vec![ONE; n as usize]] };
            unit.push(Op::Axpy { src: a, dst: 0, cols: n, batch: 1, heads: 1, matrix: row });
            unit.push(Op::Round { src: 0, dst: 0, cols: n, batch: 1 });
            // Infinities within, so the results are infinite and not NaN.
            let rows = vec![vec![ONE; n as usize]; 8];
            let matrix = Matrix { ids: (0..8).collect(), rows };
            unit.push(Op::Dot { src: 0, dst: a, cols: n, batch: 1, heads: 1, matrix });
            unit.push(Op::Store { src: a, cols: 8, batch: 1 });
            unit.push(Op::Store { src: 0, cols: n, batch: 1 });
            unit.finish()?;
        }
    }
    Ok(())
}

#[test]
fn stores_give_back_what_was_loaded_with_canonical_nans() -> Outcome {
    for config in all()? {
        let mut unit = GemvDriver::open(&config, 17)?;
        // Every bit pattern, 1000 at a time.
        for first in (0..=u16::MAX).step_by(1000) {
            let block = vec![(0..1000).map(|k| first.wrapping_add(k)).collect()];
            unit.push(Op::Load { dst: 3, block });
            unit.push(Op::Store { src: 3, cols: 1000, batch: 1 });
        }
        // Specials at every place of a beat, and -1, whose fraction equals a NaN's.
        for value in [INFINITY, INFINITY | 0x8000, NAN, 0xFC01, 0xBC00] {
            unit.push(Op::Load { dst: 3, block: vec![vec![value; 1000]] });
            unit.push(Op::Store { src: 3, cols: 1000, batch: 1 });
        }
        unit.finish()?;
    }
    Ok(())
}

/// One command of every kind for a unit with contents of its own, each with the commands that it needs.
fn examples(unit: &GemvDriver, random: &mut SplitMix64) -> Vec<(&'static str, Vec<Op>)> {
    let stripe = unit.config.stripe_elems();
    let (cols, rows) = (stripe * 3 - 20, 40);
    let cols = if unit.config.ranks() == 2 { stripe + 9 } else { cols };
    let load =
        |dst, n, random: &mut SplitMix64| Op::Load { dst, block: any_kind(random).block(n, 2, random) };
    let sums = sum_words(&unit.config, cols, 2);
    let zero = Op::Zero { dst: 0, words: sums };
    let axpy =
        Op::Axpy { src: sums, dst: 0, cols, batch: 2, heads: 1, matrix: matrix(rows, cols, true, random) };
    let dot = Op::Dot { src: 0, dst: 9, cols, batch: 2, heads: 1, matrix: matrix(rows, cols, true, random) };
    vec![
        ("load", vec![load(5, 900, random)]),
        ("store", vec![load(5, 900, random), Op::Store { src: 5, cols: 900, batch: 2 }]),
        ("zero", vec![Op::Zero { dst: 0, words: unit.config.slice_words() }]),
        ("dot", vec![load(0, cols, random), dot]),
        ("axpy", vec![zero.clone(), load(sums, rows, random), axpy.clone()]),
        (
            "round",
            vec![zero, load(sums, rows, random), axpy, Op::Round { src: 0, dst: sums, cols, batch: 2 }],
        ),
    ]
}

#[test]
fn a_reset_in_the_middle_of_anything_leaves_nothing_behind() -> Outcome {
    resets_amid_commands(amount(10))
}

#[test]
#[ignore = "two minutes; run by `make exhaustive`"]
fn many_resets_in_the_middle_of_anything_leave_nothing_behind() -> Outcome {
    resets_amid_commands(100)
}

fn resets_amid_commands(resets: usize) -> Outcome {
    let mut random = SplitMix64::new(18);
    for config in some(&all()?) {
        let mut unit = GemvDriver::open(config, 19)?;
        for stall_percent in [0, 50] {
            for kind in 0..6 {
                for _ in 0..resets {
                    unit.stall_percent = stall_percent;
                    let (name, mut ops) = examples(&unit, &mut random).swap_remove(kind);
                    let last = ops.pop().ok_or("no command")?;
                    ops.into_iter().for_each(|op| unit.push(op));
                    unit.finish()?;
                    unit.push(last);
                    let cycles = 1 + random.next_u64() % 400;
                    unit.run(cycles).map_err(|e| format!("{name}: {e}"))?;
                    unit.reset(1);
                    product(&mut unit, (5, 100, 2), true, &mut random)
                        .map_err(|e| format!("{}, {name} reset after {cycles} cycles: {e}", config.name()))?;
                }
            }
        }
    }
    Ok(())
}

#[test]
fn commands_follow_one_another_without_a_gap() -> Outcome {
    let mut random = SplitMix64::new(20);
    for config in some(&all()?) {
        for (stall_percent, eager) in [(0, false), (0, true), (60, true)] {
            let mut unit = GemvDriver::open(config, 21)?;
            (unit.stall_percent, unit.eager) = (stall_percent, eager);
            let (x, y) = (40, 50);
            unit.push(Op::Zero { dst: 0, words: sum_words(&unit.config, 90, 2) });
            unit.push(Op::Load { dst: x, block: any_kind(&mut random).block(90, 2, &mut random) });
            for k in 0..amount(200) {
                let (rows, listed) = (1 + k % 5, k % 2 == 0);
                let weights = matrix(rows, 90, listed, &mut random);
                unit.push(Op::Dot { src: x, dst: y, cols: 90, batch: 2, heads: 1, matrix: weights });
                if k % 3 == 0 {
                    let weights = matrix(rows, 90, listed, &mut random);
                    unit.push(Op::Axpy { src: y, dst: 0, cols: 90, batch: 2, heads: 1, matrix: weights });
                }
                if k % 7 == 0 {
                    unit.push(Op::Round { src: 0, dst: y + 5, cols: 90, batch: 2 });
                    unit.push(Op::Store { src: y + 5, cols: 90, batch: 2 });
                }
                unit.push(Op::Store { src: y, cols: rows, batch: 2 });
            }
            unit.finish().map_err(|e| format!("{}, eager {eager}: {e}", config.name()))?;
        }
    }
    Ok(())
}

#[test]
fn loads_stores_and_zeros_run_beside_products() -> Outcome {
    let mut random = SplitMix64::new(22);
    for config in all()? {
        let mut unit = GemvDriver::open(&config, 23)?;
        for axpy in [false, true] {
            unit.push(Op::Zero { dst: 0, words: sum_words(&unit.config, 100, 2) });
            unit.push(Op::Load { dst: 40, block: any_kind(&mut random).block(100, 2, &mut random) });
            unit.finish()?;
            let weights = matrix(100, 100, true, &mut random);
            unit.clear_counts();
            unit.push(if axpy {
                Op::Axpy { src: 40, dst: 0, cols: 100, batch: 2, heads: 1, matrix: weights }
            } else {
                Op::Dot { src: 40, dst: 0, cols: 100, batch: 2, heads: 1, matrix: weights }
            });
            for _ in 0..5 {
                unit.push(Op::Load { dst: 50, block: any_kind(&mut random).block(200, 2, &mut random) });
                unit.push(Op::Store { src: 50, cols: 200, batch: 2 });
                unit.push(Op::Store { src: 40, cols: 100, batch: 2 });
                unit.push(Op::Zero { dst: 60, words: 4 });
                unit.push(Op::Store { src: 60, cols: 64, batch: 2 });
            }
            let start = unit.cycle();
            unit.finish()?;
            let [load, store, zero, product, _] = unit.counts.busy;
            let sum = load + store + zero + product;
            assert!(unit.cycle() - start < sum * 3 / 4, "nothing ran side by side: {:?}", unit.counts);
        }
    }
    Ok(())
}

#[test]
fn the_causes_say_what_a_rank_waits_for() -> Outcome {
    let mut random = SplitMix64::new(24);
    for config in all()? {
        let mut unit = GemvDriver::open(&config, 25)?;
        let cols = unit.config.stripe_elems() * unit.config.ranks();
        unit.execute(Op::Load { dst: 0, block: Kind::Small.block(cols, 1, &mut random) })?;
        let dot = Op::Dot {
            src: 0,
            dst: 4,
            cols,
            batch: 1,
            heads: 1,
            matrix: matrix(50, cols, false, &mut random),
        };
        unit.clear_counts();
        unit.execute(dot.clone())?;
        let window = u64::from(unit.config.window_cycles());
        for [work, row, weights, room] in unit.counts.causes.clone() {
            assert_eq!(work, 50 * window, "one window for each row");
            assert!(row + weights + room <= 3 * window, "{:?}", unit.counts);
        }
        // Waits for missing weights, and for missing rows.
        unit.clear_counts();
        unit.withhold = [false, true];
        unit.push(dot.clone());
        unit.run(1000)?;
        unit.withhold = [false, false];
        unit.finish()?;
        assert!(unit.counts.causes.iter().all(|c| c[2] > 900 && c[1] < 50), "{:?}", unit.counts);
        unit.clear_counts();
        unit.withhold = [true, false];
        unit.push(dot);
        unit.run(1000)?;
        unit.withhold = [false, false];
        unit.finish()?;
        assert!(unit.counts.causes.iter().all(|c| c[1] > 900 && c[2] < 50), "{:?}", unit.counts);
    }
    Ok(())
}

#[test]
fn injected_errors_are_caught() -> Outcome {
    for config in some(&all()?) {
        let cols = config.gemv().stripe_elems() * config.gemv().ranks() + 40;
        let last = (cols.div_ceil(BEAT_ELEMS) - 1) as usize;
        let run = |fault: Option<Fault>| -> Result<(), Box<dyn Error>> {
            let mut unit = GemvDriver::open(config, 26)?;
            if let Some(fault) = fault {
                unit.fault(fault);
            }
            let ones = |n: u32| vec![ONE; n as usize];
            let weights =
                |rows: u32| Matrix { ids: (0..rows).collect(), rows: vec![ones(cols); rows as usize] };
            let x = (0..cols).map(|k| [ONE, 0x4000, 0x4200][k as usize % 3]).collect();
            unit.push(Op::Load { dst: 0, block: vec![x] });
            unit.push(Op::Dot { src: 0, dst: 10, cols, batch: 1, heads: 1, matrix: weights(4) });
            unit.push(Op::Store { src: 10, cols: 4, batch: 1 });
            unit.push(Op::Zero { dst: 16, words: sum_words(&unit.config, cols, 1) });
            unit.push(Op::Axpy { src: 10, dst: 16, cols, batch: 1, heads: 1, matrix: weights(4) });
            unit.push(Op::Round { src: 16, dst: 10, cols, batch: 1 });
            unit.push(Op::Store { src: 10, cols, batch: 1 });
            Ok(unit.finish()?)
        };
        run(None)?;
        let faults = [
            Fault::Weight(0, 0, 3, 10),
            Fault::Weight(1, 1, 31, 15),
            // One of the DOT, one of the AXPY.
            Fault::Weight(0, 10, 0, 12),
            Fault::Weight(0, 13, 2, 15),
            Fault::Load(0, 0, 14),
            Fault::Load(last, 7, 14),
            Fault::Store(0, 2, 0),
            Fault::Store(1, 0, 15),
            Fault::Row(0),
            Fault::Row(2),
        ];
        for fault in faults {
            let Err(found) = run(Some(fault)) else {
                return Err(format!("{}: {fault:?} was missed", config.name()).into());
            };
            assert!(found.to_string().starts_with("cycle "), "{found}");
        }
    }
    Ok(())
}

/// Windows of a product on the rank that has most of them.
fn windows(config: &DesignConfig, rows: u32, cols: u32, batch: u32) -> u64 {
    let layout = RowLayout::new(config.gemv(), cols);
    let stripes = |rank| (0..rows).map(|row| layout.stripes_of(row, rank).count() as u64).sum::<u64>();
    (0..config.gemv().ranks()).map(stripes).max().unwrap_or(0) * u64::from(batch)
}

/// Cycles of a product besides its windows: the start, the last sums, their way to the buffer.
const PRODUCT_TAIL_CYCLES: u64 = 70;

#[test]
fn products_reach_the_limit_of_the_windows() -> Outcome {
    let mut random = SplitMix64::new(27);
    for config in all()? {
        let mut unit = GemvDriver::open(&config, 28)?;
        let (stripe, window) = (unit.config.stripe_elems(), u64::from(unit.config.window_cycles()));
        for stripes in 1..=unit.config.ranks() + 1 {
            for batch in [1, 2, 4] {
                // As many rows as have their scalars in one place beside the sums.
                let cols = stripes * stripe;
                let sums = sum_words(&unit.config, cols, batch);
                let gemv = config.gemv();
                let fits = |rows: &u32| sums + block_words(gemv, *rows, batch) <= gemv.slice_words();
                let rows = (1..=1200 / batch).rev().find(fits).unwrap_or(1200 / batch);
                let limit = windows(&config, rows, cols, batch) * window;
                // The combiner begins a sum every `acc_segments` cycles, which only rows of a single stripe feel.
                let combined = u64::from(rows * batch * unit.config.acc_segments());

                let y = block_words(&unit.config, cols, batch);
                unit.execute(Op::Load { dst: 0, block: Kind::Finite.block(cols, batch, &mut random) })?;
                let weights = matrix(rows, cols, false, &mut random);
                let dot = unit.execute(Op::Dot { src: 0, dst: y, cols, batch, heads: 1, matrix: weights })?;
                let what = format!("{}, {rows} x {cols}, batch {batch}, at least {limit}", config.name());
                println!("{what}: DOT {dot}");
                let least = limit.max(combined);
                // The combiner still has the last row's sums of the batch before it.
                let tail = PRODUCT_TAIL_CYCLES + u64::from(batch * unit.config.acc_segments());
                assert!((least..=least + tail).contains(&dot), "{what}: DOT takes {dot}");
                if !fits(&rows) {
                    continue;
                }
                unit.execute(Op::Zero { dst: 0, words: sums })?;
                unit.execute(Op::Load { dst: sums, block: Kind::Finite.block(rows, batch, &mut random) })?;
                let weights = matrix(rows, cols, false, &mut random);
                let axpy =
                    unit.execute(Op::Axpy { src: sums, dst: 0, cols, batch, heads: 1, matrix: weights })?;
                println!("{what}: AXPY {axpy}");
                assert!((limit..=limit + PRODUCT_TAIL_CYCLES).contains(&axpy), "{what}: AXPY takes {axpy}");
                if rows * batch >= 1000 && stripes > 1 {
                    assert!(limit * 100 >= 97 * dot.max(axpy), "{what}: less than 97 percent");
                }
            }
        }
    }
    Ok(())
}

/// Cycles from the last read of a kept sum to the end of a ROUND, and its start.
const ROUND_TAIL_CYCLES: u64 = 12;

#[test]
fn rounding_takes_a_cycle_for_each_digit_of_a_position() -> Outcome {
    for config in all()? {
        let mut unit = GemvDriver::open(&config, 30)?;
        for (stripes, batch) in [(1, 1), (2, 2), (3, 1), (1, 4)] {
            let cols = stripes * unit.config.stripe_elems();
            let words = sum_words(&unit.config, cols, batch);
            unit.execute(Op::Zero { dst: 0, words })?;
            let cycles = unit.execute(Op::Round { src: 0, dst: 0, cols, batch })?;
            // Every position of every rank has the 32 sums of a beat in each word of a vector.
            let sums = block_words(&unit.config, cols, batch) * BEAT_ELEMS;
            let expected = u64::from(sums * unit.config.acc_segments()) + ROUND_TAIL_CYCLES;
            assert_eq!(cycles, expected, "{}: {cols} columns, batch {batch}", config.name());
        }
    }
    Ok(())
}
