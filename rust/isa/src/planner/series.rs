//! Several independent products in one program.
//!
//! Each takes half of buffer and list memory, in turn: while one runs, operands of the next are read and results of the
//! one before are stored. A product that does not fit a half is planned by itself.

use crate::layout::{DimmMap, MatrixLayout};
use crate::planner::product::{buffer_words, list_piece, load, operands, store};
use crate::planner::{Ending, Epilogue, Mode, Piece, Plan, Sizes};
use crate::{Instruction, Product as Operands, accumulator_words, block_words};
use ndp_config::DesignConfig;
use ndp_files::Result;

/// A product of the series.
#[derive(Clone, Debug)]
pub struct Member {
    /// Rows by rows or columns by columns.
    pub mode: Mode,
    /// Place of its weights. A tiled AXPY has a matrix for each tile, with its first column.
    pub matrices: Vec<(u32, MatrixLayout)>,
    /// Sizes.
    pub sizes: Sizes,
}

/// Instructions of a product. `before` may run during the product before it, `store` during the next one.
struct Stages {
    before: Vec<Instruction>,
    product: Instruction,
    round: Option<Instruction>,
    store: Instruction,
}

/// The plans of all members, and the program that computes all of them.
#[derive(Debug, Default)]
pub struct Series {
    /// In the order in which the core gets them.
    pub instructions: Vec<Instruction>,
    /// Places of operands and results of each member; without instructions.
    pub plans: Vec<Plan>,
}

impl Series {
    /// Plans `members`; fails as [`Plan::dot`] and [`Plan::axpy`].
    pub fn new(config: &DesignConfig, map: &mut DimmMap, members: &[Member]) -> Result<Self> {
        let mut series = Self::default();
        // Left over from the product before.
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

/// Plan of a member that takes the whole buffer.
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

/// Stages of a member in one half, if it fits.
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
