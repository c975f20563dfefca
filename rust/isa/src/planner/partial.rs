//! Partial sums that meet: a product whose rows are on several cores.
//!
//! Each core keeps the sums of its rows in its buffer ([`Ending::Kept`](crate::planner::Ending::Kept)). One core adds
//! the others' exported sums, rounds once, and finishes the product. Sums are exact, so neither division nor order
//! matters.

use crate::layout::{DimmMap, ExportedSums, MatrixLayout, VectorBlock};
use crate::planner::product::{Epilogue, Piece, Plan, buffer_words, store};
use crate::{Instruction, accumulator_words, block_words};
use ndp_config::{DesignConfig, require};
use ndp_files::Result;

/// Place of partial sums from another device.
#[derive(Clone, Debug)]
pub enum PartPlace {
    /// Exact sums as they were exported.
    Sums(ExportedSums),
    /// FP16 values, a row for each vector.
    Fp16(MatrixLayout),
}

/// Places for `count` exported parts, each of `batch` vectors of `cols` elements.
pub fn place_sums(
    config: &DesignConfig,
    map: &mut DimmMap,
    (cols, batch): (u32, u32),
    count: usize,
) -> Result<Vec<ExportedSums>> {
    let words = accumulator_words(config, cols, batch);
    let gemv = config.gemv();
    let wave = gemv.ranks() * gemv.stripe_elems();
    (0..count)
        .map(|part| {
            let base = map.add_matrix(&format!("sums {part}"), words, wave)?.base();
            ExportedSums::new(config, base, words)
        })
        .collect()
}

/// The instruction that exports the sums at word 0 to `place`.
pub fn export_program(place: &ExportedSums) -> [Instruction; 1] {
    [Instruction::Export { src: 0, count: place.words(), address: place.address() }]
}

/// Whether the results fit after the sums, so that these stay.
pub fn rounds_beside_sums(config: &DesignConfig, (cols, batch): (u32, u32)) -> bool {
    accumulator_words(config, cols, batch) + block_words(config, cols, batch) <= buffer_words(config)
}

/// Rounds the sums at word 0 to FP16 and stores them as `block`, the plan's only output, for partial results that
/// travel as FP16. Sums stay if there is room ([`rounds_beside_sums`]).
pub fn rounding_program(config: &DesignConfig, block: VectorBlock) -> Plan {
    let (cols, batch) = (block.elements(), block.batch());
    let words = accumulator_words(config, cols, batch);
    let dst = if rounds_beside_sums(config, (cols, batch)) { words } else { 0 };
    Plan {
        instructions: vec![Instruction::Round { src: 0, dst, cols, batch }, store(dst, &block)],
        outputs: vec![Piece { block, first: 0, vector: 0 }],
        passes: 1,
        ..Plan::default()
    }
}

/// Adds `parts` to the sums at word `own`, if any, rounds, finishes and stores `output`. Sums of whole waves of columns
/// (the last may be partial) are consecutive words. Fails if results or operands do not fit buffer or DRAM.
pub fn meeting_program(
    config: &DesignConfig,
    map: &mut DimmMap,
    output: VectorBlock,
    parts: &[PartPlace],
    own: Option<u32>,
    epilogue: &Epilogue<'_>,
) -> Result<Plan> {
    let (cols, batch) = (output.elements(), output.batch());
    let mut plan = Plan { passes: 1, ..Plan::default() };
    let (words, results) = (accumulator_words(config, cols, batch), block_words(config, cols, batch));
    let first = own.unwrap_or(0);
    let needed = first + words.max(2 * results);
    let what = format!("slice words for sums of cols = {cols}, batch = {batch}");
    require(needed <= buffer_words(config), what, needed, format!("be at most {}", buffer_words(config)))?;
    if own.is_none() {
        plan.instructions.push(Instruction::Zero { dst: first, count: words });
    }
    for part in parts {
        plan.instructions.push(match part {
            PartPlace::Sums(sums) => {
                Instruction::Import { dst: first, count: words, address: sums.address() }
            }
            PartPlace::Fp16(rows) => Instruction::Merge { dst: first, cols, batch, address: rows.base() },
        });
    }
    plan.instructions.push(Instruction::Round { src: first, dst: first, cols, batch });
    plan.finish(map, epilogue, (first, first + results), (cols, batch), (0, 0))?;
    plan.outputs.push(Piece { block: output, first: 0, vector: 0 });
    plan.instructions.push(store(first, &output));
    Ok(plan)
}
