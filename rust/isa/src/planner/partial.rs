//! Partial sums that meet: a product whose rows are on several cores.
//!
//! Each core keeps the sums of its own rows in its buffer ([`Ending::Kept`](crate::planner::Ending::Kept)). All but one export theirs; that one
//! adds them, rounds once, and does what follows the product. Sums are exact, so it does not matter who has which rows, nor in
//! which order they meet.

use crate::layout::{DimmMap, ExportedSums, MatrixLayout, VectorBlock};
use crate::planner::product::{Epilogue, Piece, Plan, buffer_words, store};
use crate::{Instruction, accumulator_words, block_words};
use ndp_config::{DesignConfig, require};
use ndp_files::Result;

/// Where a part of the sums lies that another device has computed.
#[derive(Clone, Debug)]
pub enum PartPlace {
    /// Exact sums as they were exported.
    Sums(ExportedSums),
    /// FP16 values, a row for each vector.
    Fp16(MatrixLayout),
}

/// Places for `count` exported parts of the sums of `batch` vectors of `cols` elements in DRAM.
pub fn place_sums(
    config: &DesignConfig,
    map: &mut DimmMap,
    (cols, batch): (u32, u32),
    count: usize,
) -> Result<Vec<ExportedSums>> {
    let words = accumulator_words(config, cols, batch);
    let gemv = config.gemv();
    // A word of all slices is a row of one wave.
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

/// Whether sums that are rounded have room behind them for the results, so that they stay.
pub fn rounds_beside_sums(config: &DesignConfig, (cols, batch): (u32, u32)) -> bool {
    accumulator_words(config, cols, batch) + block_words(config, cols, batch) <= buffer_words(config)
}

/// The program that rounds the sums at word 0 to FP16 and stores them as the vectors `block`: what leaves a core whose partial results
/// travel as FP16. It is the plan's only output. The sums stay if there is room ([`rounds_beside_sums`]).
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

/// The program that adds `parts` to the sums from word `own` on, or to none, rounds them, does what follows, and stores `output`. Sums of some
/// waves of columns, whole but for the last one, are words side by side among those of all columns.
///
/// # Errors
/// If the results' operands have no room beside them, if these do not fit the DRAM.
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
