//! Random programs for the GEMV unit: commands of all kinds over vectors and sums of all sizes.

use super::amount;
use super::buffer_model::{Content, Matrix, Op, Region, block_words, sum_words};
use super::exact::below;
use super::gemv_driver::GemvDriver;
use super::operands::any_kind;
use ndp_config::{DesignConfig, GemvConfig};
use ndp_numerics::SplitMix64;
use std::error::Error;

/// Rows `0..rows`, or random ones in random order.
pub fn matrix(rows: u32, cols: u32, listed: bool, random: &mut SplitMix64) -> Matrix {
    let kind = any_kind(random);
    let ids = (0..rows).map(|k| if listed { random.next_u64() as u32 & 0xFF_FFFF } else { k }).collect();
    Matrix { ids, rows: (0..rows).map(|_| kind.vector(cols, random)).collect() }
}

/// A number of elements that fits `words` words at this batch: any, or one near the end of a stripe.
fn size(config: &GemvConfig, batch: u32, words: u32, random: &mut SplitMix64) -> Option<u32> {
    let longest = (1..=words / batch).rev().map(|waves| waves * config.ranks() * config.stripe_elems());
    let longest = longest.into_iter().next()?.min(config.max_cols());
    let mut n = 1 + below(random, longest as usize) as u32;
    if below(random, 2) == 0 {
        let stripe = config.stripe_elems();
        n = n.next_multiple_of(stripe) + below(random, 5) as u32 - 2;
    }
    // Three tail stripes take more words than three full ones.
    (n > 0 && n <= config.max_cols() && block_words(config, n, batch) <= words).then_some(n)
}

fn place(config: &GemvConfig, words: u32, random: &mut SplitMix64) -> Option<u32> {
    let room = (config.slice_words() + 1).checked_sub(words)?;
    (room > 0).then(|| below(random, room as usize) as u32)
}

/// First words and shapes (elements, vectors) of the vector blocks or of the sums that the buffer holds.
fn held(driver: &GemvDriver, sums: bool) -> Vec<(u32, u32, u32)> {
    let most = driver.config.max_batch() as usize;
    let shape = |region: &Region| match &region.content {
        Content::Vectors(block) if !sums && block.len() <= most => {
            Some((region.words.start, block[0].len(), block.len()))
        }
        Content::Sums(of) if sums => Some((region.words.start, of[0].len(), of.len())),
        _ => None,
    };
    let held = driver.buffer.regions().iter().filter_map(shape);
    held.map(|(at, n, batch)| (at, n as u32, batch as u32)).collect()
}

/// First words and elements of the blocks of `vectors` vectors, which may be more than a batch.
fn held_scalars(driver: &GemvDriver, vectors: u32) -> Vec<(u32, u32)> {
    let shape = |region: &Region| match &region.content {
        Content::Vectors(block) if block.len() == vectors as usize => {
            Some((region.words.start, block[0].len() as u32))
        }
        _ => None,
    };
    driver.buffer.regions().iter().filter_map(shape).collect()
}

/// Appends a product of rows with several heads, and the commands that it needs.
fn push_heads(driver: &mut GemvDriver, rows: u32, random: &mut SplitMix64) -> Option<usize> {
    let config = driver.config.clone();
    let config = &config;
    let heads = 2 << below(random, config.max_heads().trailing_zeros() as usize);
    let most = config.max_batch().min(config.max_vectors() / heads);
    let (stripe, any) = (config.stripe_elems(), 1 + below(random, config.stripe_elems() as usize) as u32);
    let cols = [stripe, any][below(random, 2)];
    let batch = 1 + below(random, most as usize) as u32;
    if below(random, 2) == 0 {
        let fits = |(_, n, of): &(u32, u32, u32)| *of <= most && *n <= stripe;
        let blocks: Vec<_> = held(driver, false).into_iter().filter(fits).collect();
        let old = one_of(&blocks, random).filter(|_| below(random, 2) == 0);
        let (src, cols, batch) = match old {
            Some(block) => block,
            None => (place(config, block_words(config, cols, batch), random)?, cols, batch),
        };
        let dst = place(config, block_words(config, rows, batch * heads), random)?;
        let dot = Op::Dot { src, dst, cols, batch, heads, matrix: matrix(rows, cols, false, random) };
        apart(config, &dot).then_some(())?;
        if old.is_none() {
            driver.push(Op::Load { dst: src, block: any_kind(random).block(cols, batch, random) });
        }
        driver.push(dot);
        return Some(1 + usize::from(old.is_none()));
    }
    let vectors = batch * heads;
    let blocks: Vec<_> = held_scalars(driver, vectors).into_iter().filter(|(_, n)| *n <= 100).collect();
    let old = one_of(&blocks, random).filter(|_| below(random, 3) > 0);
    // A load has a batch at most.
    if old.is_none() && vectors > config.max_batch() {
        return None;
    }
    let (src, rows) = match old {
        Some(block) => block,
        None => (place(config, block_words(config, rows, vectors), random)?, rows),
    };
    let dst = place(config, sum_words(config, cols, batch), random)?;
    let axpy = Op::Axpy { src, dst, cols, batch, heads, matrix: matrix(rows, cols, false, random) };
    apart(config, &axpy).then_some(())?;
    driver.push(Op::Zero { dst, words: sum_words(config, cols, batch) });
    if old.is_none() {
        driver.push(Op::Load { dst: src, block: any_kind(random).block(rows, vectors, random) });
    }
    driver.push(axpy);
    Some(2 + usize::from(old.is_none()))
}

fn one_of<T: Copy>(of: &[T], random: &mut SplitMix64) -> Option<T> {
    (!of.is_empty()).then(|| of[below(random, of.len())])
}

fn apart(config: &GemvConfig, op: &Op) -> bool {
    let (reads, writes) = op.uses(config);
    reads.start.max(writes.start) >= reads.end.min(writes.end)
}

/// Appends a random command, and the commands that it needs. Returns the number of commands, 0 if the drawn one is not
/// possible.
fn push_random(driver: &mut GemvDriver, random: &mut SplitMix64) -> Option<usize> {
    let config = driver.config.clone();
    let config = &config;
    let batch = 1 + below(random, config.max_batch() as usize) as u32;
    let words = config.slice_words() / [1, 4, 8][below(random, 3)];
    let most_rows = [3, 12, 40][below(random, 3)];
    let rows = 1 + below(random, most_rows) as u32;
    let listed = below(random, 2) == 0;
    match below(random, 16) {
        12..16 => return push_heads(driver, rows, random),
        0 | 1 => {
            let n = size(config, batch, words, random)?;
            let dst = place(config, block_words(config, n, batch), random)?;
            driver.push(Op::Load { dst, block: any_kind(random).block(n, batch, random) });
        }
        2 => {
            let words = 1 + below(random, words as usize) as u32;
            driver.push(Op::Zero { dst: place(config, words, random)?, words });
        }
        3 | 4 => {
            let (src, cols, batch) = one_of(&held(driver, false), random)?;
            driver.push(Op::Store { src, cols, batch });
        }
        5 | 6 => {
            let (src, cols, batch) = one_of(&held(driver, false), random)?;
            let dst = place(config, block_words(config, rows, batch), random)?;
            let dot = Op::Dot { src, dst, cols, batch, heads: 1, matrix: matrix(rows, cols, listed, random) };
            apart(config, &dot).then(|| driver.push(dot))?;
        }
        7..10 => {
            // Sums and scalars that exist, or new ones.
            let old = one_of(&held(driver, true), random).filter(|_| below(random, 4) > 0);
            let (dst, cols, batch) = match old {
                Some(sums) => sums,
                None => {
                    let cols = size(config, batch, config.slice_words() / config.lanes(), random)?;
                    (place(config, sum_words(config, cols, batch), random)?, cols, batch)
                }
            };
            let fits = |(_, n, of): &(u32, u32, u32)| *of == batch && *n <= 100;
            let blocks: Vec<_> = held(driver, false).into_iter().filter(fits).collect();
            let scalars = one_of(&blocks, random).filter(|_| below(random, 2) == 0);
            let (src, rows) = match scalars {
                Some((src, rows, _)) => (src, rows),
                None => (place(config, block_words(config, rows, batch), random)?, rows),
            };
            let axpy =
                Op::Axpy { src, dst, cols, batch, heads: 1, matrix: matrix(rows, cols, listed, random) };
            apart(config, &axpy).then_some(())?;
            if old.is_none() {
                driver.push(Op::Zero { dst, words: sum_words(config, cols, batch) });
            }
            if scalars.is_none() {
                driver.push(Op::Load { dst: src, block: any_kind(random).block(rows, batch, random) });
            }
            driver.push(axpy);
            return Some(1 + usize::from(old.is_none()) + usize::from(scalars.is_none()));
        }
        _ => {
            let (src, cols, batch) = one_of(&held(driver, true), random)?;
            let dst = match below(random, 2) {
                0 => src,
                _ => place(config, block_words(config, cols, batch), random)?,
            };
            let end = src + sum_words(config, cols, batch);
            (dst <= src || dst >= end).then_some(())?;
            driver.push(Op::Round { src, dst, cols, batch });
        }
    }
    Some(1)
}

pub fn store_all(driver: &mut GemvDriver) {
    let regions = driver.buffer.regions().to_vec();
    for region in regions {
        let src = region.words.start;
        let shape = match &region.content {
            Content::Vectors(block) => Some((block[0].len(), block.len())),
            Content::Sums(sums) => Some((sums[0].len(), sums.len())),
            Content::Zero => None,
        };
        let Some((cols, batch)) = shape else { continue };
        let (cols, batch) = (cols as u32, batch as u32);
        let most = driver.config.max_batch();
        if batch > most {
            // The results of several heads: parts of them, if a vector is a word, else they cannot be stored.
            if block_words(&driver.config, cols, 1) == 1 {
                for first in (0..batch).step_by(most as usize) {
                    let batch = most.min(batch - first);
                    driver.push(Op::Store { src: src + first, cols, batch });
                }
            }
            continue;
        }
        if let Content::Sums(_) = region.content {
            driver.push(Op::Round { src, dst: src, cols, batch });
        }
        driver.push(Op::Store { src, cols, batch });
    }
}

/// Runs `programs` programs of `length` commands, on a unit that is opened anew for some of them and reset at a random
/// time for others.
pub fn run_programs(
    config: &DesignConfig,
    seed: u64,
    programs: usize,
    length: usize,
) -> Result<(), Box<dyn Error>> {
    let mut seeds = SplitMix64::new(seed);
    let mut driver = None;
    for index in 0..amount(programs) {
        let seed = seeds.next_u64();
        let mut random = SplitMix64::new(seed);
        let mut unit = match driver.take() {
            Some(unit) if index % 4 > 0 => unit,
            _ => GemvDriver::open(config, seed)?,
        };
        unit.stall_percent = [0, 0, 10, 50, 90][below(&mut random, 5)];
        unit.eager = below(&mut random, 2) == 0;
        unit.buffer.forget();
        let mut commands = 0;
        while commands < length {
            commands += push_random(&mut unit, &mut random).unwrap_or(0);
        }
        let outcome = if below(&mut random, 4) == 0 {
            let cycles = below(&mut random, 3000) as u64;
            let outcome = unit.run(cycles);
            unit.reset(1 + below(&mut random, 3) as u64);
            outcome
        } else {
            store_all(&mut unit);
            unit.finish()
        };
        outcome.map_err(|e| format!("{}, program {index}, seed {seed:#x}: {e}", config.name()))?;
        driver = Some(unit);
    }
    Ok(())
}
