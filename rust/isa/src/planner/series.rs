//! Several products in one program, none of which needs a result of another.
//!
//! Each takes half of the buffer and of the list memory, in turn. So while one runs, the operands of the next one are read and the
//! results of the one before are stored: a product waits for nothing but the one before it. A product that does not fit half of
//! each is planned as if it were alone.

use crate::layout::{DimmMap, MatrixLayout};
use crate::planner::product::{buffer_words, list_piece, load, operands, store};
use crate::planner::{Ending, Epilogue, Mode, Piece, Plan, Sizes};
use crate::{Instruction, Product as Operands, accumulator_words, block_words};
use ndp_config::DesignConfig;
use ndp_files::Result;

/// One of several products.
#[derive(Clone, Debug)]
pub struct Member {
    /// Rows by rows or columns by columns.
    pub mode: Mode,
    /// Where its weights lie. An AXPY that is tiled has a matrix for each tile, with its first column.
    pub matrices: Vec<(u32, MatrixLayout)>,
    /// Sizes.
    pub sizes: Sizes,
}

/// A product's instructions: what can be done while the one before it runs, itself, what has to be done before the next one, and
/// what can be done while that runs.
struct Stages {
    before: Vec<Instruction>,
    product: Instruction,
    round: Option<Instruction>,
    store: Instruction,
}

/// The plans of all members, and the program that computes all of them: the plans' own instructions are in it.
#[derive(Debug, Default)]
pub struct Series {
    /// In the order in which the core gets them.
    pub instructions: Vec<Instruction>,
    /// Where operands and results of each member lie; without instructions.
    pub plans: Vec<Plan>,
}

impl Series {
    /// Plans `members`.
    ///
    /// # Errors
    /// As [`Plan::dot`] and [`Plan::axpy`].
    pub fn new(config: &DesignConfig, map: &mut DimmMap, members: &[Member]) -> Result<Self> {
        let mut series = Self::default();
        // What is left of the one before.
        let (mut round, mut store) = (None, None);
        for (index, member) in members.iter().enumerate() {
            map.set_scope(&format!("product {index}: "));
            let mut plan = Plan { matrices: member.matrices.clone(), passes: 1, ..Plan::default() };
            match stages(config, map, member, index as u32 % 2, &mut plan)? {
                Some(stages) => {
                    series.instructions.extend(stages.before);
                    series.instructions.extend(std::mem::replace(&mut round, stages.round));
                    series.instructions.push(stages.product);
                    series.instructions.extend(store.replace(stages.store));
                }
                None => {
                    series.instructions.extend(round.take().into_iter().chain(store.take()));
                    plan = alone(config, map, member)?;
                    series.instructions.append(&mut plan.instructions);
                }
            }
            series.plans.push(plan);
        }
        map.set_scope("");
        series.instructions.extend(round.into_iter().chain(store));
        Ok(series)
    }
}

/// The plan of a member that takes the whole buffer.
fn alone(config: &DesignConfig, map: &mut DimmMap, member: &Member) -> Result<Plan> {
    let Member { mode, matrices, sizes } = member;
    let epilogue = Epilogue::default();
    match (mode, &matrices[..]) {
        (Mode::Dot, [(_, layout), ..]) => Plan::dot(config, map, layout, sizes, &epilogue, None),
        _ => {
            let tiling = Plan::passes(config, matrices, sizes)?;
            Plan::axpy(config, map, matrices, &tiling, sizes, &epilogue, Ending::Stored)
        }
    }
}

/// The stages of a member in one half of everything, if it fits.
fn stages(
    config: &DesignConfig,
    map: &mut DimmMap,
    member: &Member,
    half: u32,
    plan: &mut Plan,
) -> Result<Option<Stages>> {
    let Member { mode, matrices, sizes } = member;
    let Sizes { cols, count, batch, listed, .. } = *sizes;
    let [(_, layout)] = &matrices[..] else { return Ok(None) };
    let words = buffer_words(config) / 2;
    let base = half * words;
    let (input, output) = match mode {
        Mode::Dot => (cols, count),
        Mode::Axpy => (count, cols),
    };
    let first = match mode {
        Mode::Dot => block_words(config, cols, batch),
        Mode::Axpy => accumulator_words(config, cols, batch),
    };
    let fits = first + block_words(config, count, batch) <= words
        && batch <= config.gemv().max_batch()
        && (!listed || count <= list_piece(config));
    if !fits {
        return Ok(None);
    }
    // Vectors or sums, and behind them results or scalars.
    let behind = base + first;
    let list = plan.list(map, sizes, 0, count, half * list_piece(config))?;
    let mut before = std::mem::take(&mut plan.instructions);
    let block = map.add_vectors("x", input, batch)?;
    plan.inputs.push(Piece { block, first: 0, vector: 0 });
    let (src, dst) = if *mode == Mode::Dot { (base, behind) } else { (behind, base) };
    before.push(load(src, &block));
    let operands = Operands { src, dst, cols, batch, count, list, ..operands(layout) };
    let mut round = None;
    let product = match mode {
        Mode::Dot => Instruction::Dot(operands),
        Mode::Axpy => {
            before.push(Instruction::Zero { dst, count: first });
            round = Some(Instruction::Round { src: dst, dst, cols, batch });
            Instruction::Axpy(operands)
        }
    };
    let block = map.add_vectors("y", output, batch)?;
    plan.outputs.push(Piece { block, first: 0, vector: 0 });
    Ok(Some(Stages { before, product, round, store: store(dst, &block) }))
}
