//! Products of rows that hold several heads, at the ports of the GEMV unit: does each head get its own sum?
//!
//! Every number of heads with every batch it allows, on units with one, two and four ranks, eight and sixteen lanes;
//! rows that end within a head, and numbers of rows that leave ranks without one; specials, which must not leave their
//! head; resets, stalls, other commands in between; cycles; and injected errors. Random programs (`gemv_unit.rs`,
//! `parameters.rs`) also have heads. Seeds are printed with every failure.

use common::buffer_model::{Block, Matrix, Op, block_words, sum_words};
use common::gemv_driver::{Fault, GemvDriver};
use common::operands::{Kind, any_kind};
use common::programs::matrix;
use common::{Outcome, amount, first};
use ndp_config::{BEAT_ELEMS, DesignConfig, GemvConfig};
use ndp_numerics::SplitMix64;
use std::error::Error;

const NAMES: [&str; 5] = [
    "tiny",
    "testbenches/configs/parallel-segments.toml",
    "testbenches/configs/four-ranks.toml",
    "testbenches/configs/sixteen-lanes.toml",
    "testbenches/configs/short-steps.toml",
];

fn configs() -> Result<Vec<DesignConfig>, Box<dyn Error>> {
    first(2, &NAMES).iter().map(|name| Ok(DesignConfig::load(name)?)).collect()
}

/// Numbers of heads, each with its possible batches.
fn heads_and_batches(config: &GemvConfig) -> Vec<(u32, u32)> {
    let heads = (1..=config.max_heads().trailing_zeros()).map(|h| 1 << h);
    let batches = |heads: u32| 1..=config.max_batch().min(config.max_vectors() / heads);
    heads.flat_map(|heads| batches(heads).map(move |batch| (heads, batch))).collect()
}

/// Stores a block of results, in parts if they are more vectors than a batch.
fn store(unit: &mut GemvDriver, src: u32, cols: u32, vectors: u32) {
    let most = unit.config.max_batch();
    for first in (0..vectors).step_by(most as usize) {
        unit.push(Op::Store { src: src + first, cols, batch: most.min(vectors - first) });
    }
}

#[derive(Clone, Copy, Debug)]
struct Shape {
    rows: u32,
    cols: u32,
    batch: u32,
    heads: u32,
}

/// A DOT whose results are the scalars of an AXPY, as in attention without a softmax; both are stored. False if they do
/// not fit the buffer.
fn products(unit: &mut GemvDriver, shape: Shape, random: &mut SplitMix64) -> Result<bool, Box<dyn Error>> {
    let Shape { rows, cols, batch, heads } = shape;
    let config = unit.config.clone();
    let vectors = batch * heads;
    let (x, sums) = (0, block_words(&config, cols, batch));
    let y = sums + sum_words(&config, cols, batch);
    if y + block_words(&config, rows, vectors) > config.slice_words() {
        return Ok(false);
    }
    let kind = any_kind(random);
    let weights = |random: &mut SplitMix64| Matrix {
        ids: (0..rows).collect(),
        rows: (0..rows).map(|_| kind.vector(cols, random)).collect(),
    };
    unit.push(Op::Load { dst: x, block: kind.block(cols, batch, random) });
    unit.push(Op::Zero { dst: sums, words: sum_words(&config, cols, batch) });
    unit.push(Op::Dot { src: x, dst: y, cols, batch, heads, matrix: weights(random) });
    if vectors <= config.max_batch() || block_words(&config, rows, 1) == 1 {
        store(unit, y, rows, vectors);
    }
    unit.push(Op::Axpy { src: y, dst: sums, cols, batch, heads, matrix: weights(random) });
    unit.push(Op::Round { src: sums, dst: x, cols, batch });
    unit.push(Op::Store { src: x, cols, batch });
    unit.finish()?;
    Ok(true)
}

#[test]
fn every_number_of_heads_and_batch_is_exact() -> Outcome {
    let mut random = SplitMix64::new(1);
    for config in configs()? {
        let mut unit = GemvDriver::open(&config, 2)?;
        let (ranks, stripe) = (config.gemv().ranks(), config.gemv().stripe_elems());
        let mut done = 0;
        for (heads, batch) in heads_and_batches(config.gemv()) {
            let rows =
                [1, ranks, ranks + 1, 31, 32, 33, 3 * BEAT_ELEMS + 2, stripe, stripe + 1, 4 * stripe + 3];
            for (index, rows) in rows.into_iter().enumerate() {
                let width = stripe / heads;
                let cols = [stripe, stripe - 1, width, width + 1, 1][(index + batch as usize) % 5];
                unit.stall_percent = [0, 0, 30][index % 3];
                let shape = Shape { rows, cols, batch, heads };
                done += u32::from(
                    products(&mut unit, shape, &mut random)
                        .map_err(|e| format!("{}, {shape:?}: {e}", config.name()))?,
                );
            }
        }
        assert!(done >= 15, "{}: {done} products", config.name());
    }
    Ok(())
}

#[test]
fn random_products_survive_stalls_and_eager_streams() -> Outcome {
    let mut random = SplitMix64::new(3);
    for config in configs()? {
        let mut unit = GemvDriver::open(&config, 4)?;
        let shapes = heads_and_batches(config.gemv());
        for round in 0..60 {
            (unit.stall_percent, unit.eager) = ([0, 10, 50, 90][round % 4], round % 3 == 0);
            let (heads, batch) = shapes[random.next_u64() as usize % shapes.len()];
            let rows = 1 + random.next_u64() as u32 % 150;
            let cols = 1 + random.next_u64() as u32 % config.gemv().stripe_elems();
            let shape = Shape { rows, cols, batch, heads };
            products(&mut unit, shape, &mut random)
                .map_err(|e| format!("{}, {shape:?}: {e}", config.name()))?;
        }
    }
    Ok(())
}

#[test]
fn a_special_value_stays_in_its_head() -> Outcome {
    let (one, specials) = (0x3C00, [0x7C00, 0xFC00, 0x7E00]);
    for config in configs()? {
        let mut unit = GemvDriver::open(&config, 5)?;
        let (stripe, ranks) = (config.gemv().stripe_elems(), config.gemv().ranks());
        for (heads, special) in [(2, 0x7C00), (config.gemv().max_heads(), 0x7E00)] {
            let width = (stripe / heads) as usize;
            let rows = 3 * ranks + 1;
            for at in 0..heads as usize {
                let mut x = vec![one; stripe as usize];
                x[at * width + at % width] = special;
                unit.push(Op::Load { dst: 0, block: vec![x] });
                let ones = || Matrix {
                    ids: (0..rows).collect(),
                    rows: vec![vec![one; stripe as usize]; rows as usize],
                };
                let (batch, cols) = (1, stripe);
                let dot = Op::Dot { src: 0, dst: 1, cols, batch, heads, matrix: ones() };
                let y: Block = unit.buffer.execute(&dot);
                let infinite = |values: &Vec<u16>| values.iter().all(|v| v & 0x7C00 == 0x7C00);
                let spoilt: Vec<bool> = y.iter().map(infinite).collect();
                assert_eq!(spoilt.iter().filter(|s| **s).count(), 1, "the oracle is wrong: {spoilt:?}");
                unit.push(dot);
                store(&mut unit, 1, rows, heads);
                // The same by the weights, and by the scalars.
                let mut weights = ones();
                weights.rows[1][at * width] = specials[at % 3];
                let sums = 1 + heads;
                unit.push(Op::Zero { dst: sums, words: sum_words(&unit.config, stripe, 1) });
                unit.push(Op::Axpy { src: 1, dst: sums, cols, batch, heads, matrix: weights });
                unit.push(Op::Round { src: sums, dst: sums, cols, batch });
                unit.push(Op::Store { src: sums, cols, batch });
            }
        }
        unit.finish().map_err(|e| format!("{}: {e}", config.name()))?;
    }
    Ok(())
}

#[test]
fn a_reset_amid_heads_leaves_nothing_behind() -> Outcome {
    let mut random = SplitMix64::new(6);
    for config in configs()? {
        let mut unit = GemvDriver::open(&config, 7)?;
        let shapes = heads_and_batches(config.gemv());
        for round in 0..amount(60) {
            unit.stall_percent = [0, 40][round % 2];
            let (heads, batch) = shapes[round % shapes.len()];
            let cols = config.gemv().stripe_elems();
            let (sums, a) = (0, sum_words(&unit.config, cols, batch));
            let fits = a + block_words(&unit.config, 40, batch * heads) <= unit.config.slice_words();
            let axpy = round % 3 > 0 && batch * heads <= config.gemv().max_batch() && fits;
            if axpy {
                unit.push(Op::Zero { dst: sums, words: a });
                let block = any_kind(&mut random).block(40, batch * heads, &mut random);
                unit.push(Op::Load { dst: a, block });
                let matrix = matrix(40, cols, false, &mut random);
                unit.push(Op::Axpy { src: a, dst: sums, cols, batch, heads, matrix });
            } else {
                unit.push(Op::Load { dst: 0, block: any_kind(&mut random).block(cols, batch, &mut random) });
                let matrix = matrix(40, cols, false, &mut random);
                unit.push(Op::Dot { src: 0, dst: batch, cols, batch, heads, matrix });
            }
            let cycles = 1 + random.next_u64() % 700;
            unit.run(cycles)?;
            unit.reset(1);
            let next = shapes[random.next_u64() as usize % shapes.len()];
            let shape = Shape { rows: 7, cols: 29, batch: next.1, heads: next.0 };
            products(&mut unit, shape, &mut random)
                .map_err(|e| format!("{}, reset after {cycles} cycles, {shape:?}: {e}", config.name()))?;
        }
    }
    Ok(())
}

#[test]
fn products_with_and_without_heads_follow_one_another_without_a_gap() -> Outcome {
    let mut random = SplitMix64::new(8);
    for config in configs()? {
        for (stall_percent, eager) in [(0, false), (0, true), (40, true)] {
            let mut unit = GemvDriver::open(&config, 9)?;
            (unit.stall_percent, unit.eager) = (stall_percent, eager);
            let cols = config.gemv().stripe_elems();
            let sums = sum_words(&unit.config, cols, 1);
            let (x, y) = (sums, sums + 1);
            unit.push(Op::Zero { dst: 0, words: sums });
            unit.push(Op::Load { dst: x, block: any_kind(&mut random).block(cols, 1, &mut random) });
            for k in 0..90 {
                let heads = [1, 2, config.gemv().max_heads()][(random.next_u64() % 3) as usize];
                let rows = 1 + k % 7;
                let weights = matrix(rows, cols, false, &mut random);
                unit.push(Op::Dot { src: x, dst: y, cols, batch: 1, heads, matrix: weights });
                if k % 2 == 0 {
                    let weights = matrix(rows, cols, false, &mut random);
                    unit.push(Op::Axpy { src: y, dst: 0, cols, batch: 1, heads, matrix: weights });
                }
                if k % 5 == 0 {
                    unit.push(Op::Round { src: 0, dst: x, cols, batch: 1 });
                    unit.push(Op::Store { src: x, cols, batch: 1 });
                }
                store(&mut unit, y, rows, heads);
            }
            unit.finish().map_err(|e| format!("{}, eager {eager}: {e}", config.name()))?;
        }
    }
    Ok(())
}

/// Cycles of a product besides its windows: start, the first scalars, the last results.
const TAIL_CYCLES: u64 = 120;

#[test]
fn heads_reach_the_limit_of_the_windows() -> Outcome {
    let mut random = SplitMix64::new(10);
    for config in configs()? {
        let mut unit = GemvDriver::open(&config, 11)?;
        let gemv = config.gemv().clone();
        let (ranks, window, cols) = (gemv.ranks(), u64::from(gemv.window_cycles()), gemv.stripe_elems());
        for (heads, batch) in heads_and_batches(&gemv) {
            let vectors = batch * heads;
            let rows = 4 * BEAT_ELEMS * ranks;
            let limit = u64::from(rows / ranks * batch) * window;
            let y = block_words(&gemv, cols, batch);
            if y + block_words(&gemv, rows, vectors) > gemv.slice_words() {
                continue;
            }
            unit.execute(Op::Load { dst: 0, block: Kind::Finite.block(cols, batch, &mut random) })?;
            let weights = matrix(rows, cols, false, &mut random);
            let dot = unit.execute(Op::Dot { src: 0, dst: y, cols, batch, heads, matrix: weights })?;
            let what =
                format!("{}, {rows} rows, {heads} heads, batch {batch}, at least {limit}", config.name());
            println!("{what}: DOT {dot}");
            assert!((limit..=limit + TAIL_CYCLES).contains(&dot), "{what}: DOT takes {dot}");
            let sums = sum_words(&gemv, cols, batch);
            if sums + block_words(&gemv, rows, vectors) > gemv.slice_words() || vectors > gemv.max_batch() {
                continue;
            }
            unit.execute(Op::Zero { dst: 0, words: sums })?;
            unit.execute(Op::Load { dst: sums, block: Kind::Finite.block(rows, vectors, &mut random) })?;
            let weights = matrix(rows, cols, false, &mut random);
            let axpy = unit.execute(Op::Axpy { src: sums, dst: 0, cols, batch, heads, matrix: weights })?;
            println!("{what}: AXPY {axpy}");
            assert!((limit..=limit + TAIL_CYCLES).contains(&axpy), "{what}: AXPY takes {axpy}");
        }
    }
    Ok(())
}

#[test]
fn injected_errors_are_caught() -> Outcome {
    for config in configs()? {
        let (cols, heads) = (config.gemv().stripe_elems(), 2);
        // No zeros, so that every bit counts.
        let vector = |n: u32, random: &mut SplitMix64| {
            let mut vector = Kind::Small.vector(n, random);
            vector.iter_mut().filter(|v| **v & 0x7FFF == 0).for_each(|v| *v = 0x3C00);
            vector
        };
        let block = |n: u32, batch: u32, random: &mut SplitMix64| -> Block {
            (0..batch).map(|_| vector(n, random)).collect()
        };
        let run = |fault: Option<Fault>, dot: bool| -> Result<(), Box<dyn Error>> {
            let mut random = SplitMix64::new(12);
            let mut unit = GemvDriver::open(&config, 13)?;
            if let Some(fault) = fault {
                unit.fault(fault);
            }
            let rows = 2 * config.gemv().ranks();
            let weights = |random: &mut SplitMix64| Matrix {
                ids: (0..rows).collect(),
                rows: block(cols, rows, random),
            };
            if dot {
                unit.push(Op::Load { dst: 0, block: block(cols, 1, &mut random) });
                unit.push(Op::Dot { src: 0, dst: 1, cols, batch: 1, heads, matrix: weights(&mut random) });
                store(&mut unit, 1, rows, heads);
            } else {
                let sums = sum_words(&unit.config, cols, 1);
                unit.push(Op::Zero { dst: 0, words: sums });
                unit.push(Op::Load { dst: sums, block: block(rows, heads, &mut random) });
                unit.push(Op::Axpy {
                    src: sums,
                    dst: 0,
                    cols,
                    batch: 1,
                    heads,
                    matrix: weights(&mut random),
                });
                unit.push(Op::Round { src: 0, dst: 0, cols, batch: 1 });
                unit.push(Op::Store { src: 0, cols, batch: 1 });
            }
            Ok(unit.finish()?)
        };
        for dot in [true, false] {
            run(None, dot)?;
            for fault in [Fault::Heads(0), Fault::Heads(2), Fault::Weight(0, 1, 2, 15)] {
                if run(Some(fault), dot).is_ok() {
                    return Err(format!("{}: {fault:?} was missed, dot {dot}", config.name()).into());
                }
            }
        }
    }
    Ok(())
}
