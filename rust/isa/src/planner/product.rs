//! How a product is cut into instructions.
//!
//! DOT: passes over part of the batch keep its vectors in the buffer, chunks of rows keep results and indices there.
//! These have two places each: while a chunk is computed, results of the one before are stored and indices of the next
//! are read. AXPY: tiles and passes of [`crate::layout::column_tiles`], with sums in the buffer, and long lists piece
//! by piece. An [`Epilogue`] runs on the results before they are stored.

use crate::layout::{
    AxpyTiling, ColumnTile, DimmMap, MatrixLayout, VectorBlock, column_passes, column_tiles,
};
use crate::planner::kept::KeptOutputs;
use crate::{
    Activation, Instruction, Product as Operands, accumulator_words, block_words, fields, vector_words,
};
use ndp_config::{BEAT_ELEMS, DesignConfig, RowLayout, in_range, require};
use ndp_files::Result;
use ndp_numerics::f16;
use serde::Serialize;

/// What becomes of a row of the matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// `y[b][k] = sum_c w[row(k), c] * x[b][c]`
    Dot,
    /// `y[b][c] = sum_k x[b][k] * w[row(k), c]`
    Axpy,
}

/// Steps on a product's results before they are stored, in this order. `outputs` are rows of a DOT, columns of an AXPY.
#[derive(Clone, Copy, Debug, Default)]
pub struct Epilogue<'a> {
    /// `y + bias[output]`; `[outputs]`
    pub bias: Option<&'a [f16]>,
    /// `y * scale`
    pub scale: Option<f16>,
    /// `activation(y)`, one without a second block
    pub activation: Option<Activation>,
    /// `y + residual[vector][output]`; `[batch x outputs]`
    pub residual: Option<&'a [f16]>,
}

impl Epilogue<'_> {
    fn has_operand(&self) -> bool {
        self.bias.is_some() || self.residual.is_some()
    }
}

/// Use of the sums of an AXPY.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Round, finish, store.
    Stored,
    /// Stay in the buffer, from word 0, to meet others ([`crate::planner::partial`]). Needs a single tile and pass.
    Kept,
}

/// A vector block in DRAM: `elements` elements, starting at `first`, of `batch` vectors, starting at `vector`.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    /// Place of the block.
    pub block: VectorBlock,
    /// First element.
    pub first: u32,
    /// First vector of the batch.
    pub vector: u32,
}

/// A product's instructions and where its operands and results lie.
#[derive(Debug, Default)]
pub struct Plan {
    /// In program order.
    pub instructions: Vec<Instruction>,
    /// Matrices: the first column, the layout. More than one if columns are tiled.
    pub matrices: Vec<(u32, MatrixLayout)>,
    /// The vectors of a DOT, the scalars of an AXPY.
    pub inputs: Vec<Piece>,
    /// Results.
    pub outputs: Vec<Piece>,
    /// Biases that are added, if any.
    pub biases: Vec<Piece>,
    /// Residuals that are added, if any.
    pub residuals: Vec<Piece>,
    /// First index of the list and burst address of each piece of it.
    pub lists: Vec<(u32, u32, u32)>,
    /// Number of times that the weights are read.
    pub passes: u32,
}

/// Sizes of a product.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Rows of the matrix in DRAM.
    pub rows: u32,
    /// Columns of the matrix.
    pub cols: u32,
    /// Rows that take part.
    pub count: u32,
    /// Vectors.
    pub batch: u32,
    /// Whether an index list says which rows take part.
    pub listed: bool,
}

impl Sizes {
    /// Results for each vector.
    pub fn outputs(&self, mode: Mode) -> u32 {
        if mode == Mode::Dot { self.count } else { self.cols }
    }
}

/// Indices of one piece of the list: half of the memory, so that the next piece can be read during its use.
pub(crate) fn list_piece(config: &DesignConfig) -> u32 {
    config.core().list_entries() / 2
}

/// Words that plans use: those that an instruction can name as a first word.
pub(crate) fn buffer_words(config: &DesignConfig) -> u32 {
    config.gemv().slice_words().min(1 << fields::DST.bits)
}

/// Longest vector of an instruction: bounded by buffer and field.
pub(crate) fn longest(config: &DesignConfig) -> u32 {
    config.gemv().max_cols().min((1 << fields::COLS.bits) - 1)
}

fn elements_in(config: &DesignConfig, words: u32) -> u32 {
    let gemv = config.gemv();
    // One full wave per word: tails would not do better.
    words.saturating_mul(gemv.ranks() * gemv.stripe_elems()).min(longest(config))
}

/// Most elements, 1 to `count`, of a vector of at most `words` words. A tail may take more words than as many full
/// stripes (three over four ranks do), so the rest of a vector may not fit where the others did.
pub(crate) fn fitting(config: &DesignConfig, count: u32, words: u32) -> u32 {
    if vector_words(config, count) <= words {
        return count;
    }
    let stripe = config.gemv().stripe_elems();
    let mut whole = (1..count.div_ceil(stripe)).rev().map(|stripes| stripes * stripe);
    whole.find(|count| vector_words(config, *count) <= words).unwrap_or(stripe)
}

/// The operands of a product of a matrix, except vectors, rows and results.
pub(crate) fn operands(layout: &MatrixLayout) -> Operands {
    let shared = layout.shared();
    Operands { shared, ..Operands::of_matrix(layout.cols(), layout.base(), layout.weights()) }
}

/// Whether rows of `cols` elements of INT8 or INT4 can share bursts of scales in every plan of all rows: chunks begin at
/// a multiple of [`shared_rows`], where all ranks begin a burst of scales.
pub fn can_share_scales(config: &DesignConfig, cols: u32) -> bool {
    let cut = RowLayout::new(config.gemv(), cols);
    let is_even = cut.tail_stripes > 0
        || cut.elems_of(cut.stripes() - 1).div_ceil(BEAT_ELEMS) == config.gemv().beats_per_stripe();
    is_even && cut.stripe_elems.is_multiple_of(shared_rows(config))
}

/// Rows after which each rank has had a multiple of 16 bursts of weights.
fn shared_rows(config: &DesignConfig) -> u32 {
    16 * config.gemv().ranks()
}

/// A vector block from DRAM to the word `dst`.
pub(crate) fn load(dst: u32, block: &VectorBlock) -> Instruction {
    Instruction::Load { dst, cols: block.elements(), batch: block.batch(), address: block.address() }
}

/// The vector block at the word `src` to DRAM.
pub(crate) fn store(src: u32, block: &VectorBlock) -> Instruction {
    Instruction::Store { src, cols: block.elements(), batch: block.batch(), address: block.address() }
}

impl Plan {
    pub(crate) fn list(
        &mut self,
        map: &mut DimmMap,
        sizes: &Sizes,
        first: u32,
        count: u32,
        place: u32,
    ) -> Result<Option<u32>> {
        if !sizes.listed {
            return Ok(None);
        }
        let name = format!("list {}", self.lists.len());
        let address = map.add_bursts(&name, count.div_ceil(16))?;
        self.lists.push((first, count, address));
        self.instructions.push(Instruction::List { list: place, count, address });
        Ok(Some(place))
    }

    /// Applies the epilogue to the block of results at `place` (starting at `first` and `vector`), with a second block
    /// at `other`.
    pub(crate) fn finish(
        &mut self,
        map: &mut DimmMap,
        epilogue: &Epilogue<'_>,
        (place, other): (u32, u32),
        (cols, batch): (u32, u32),
        (first, vector): (u32, u32),
    ) -> Result<()> {
        let activate = |operation: Activation| operation.in_place(place, cols, batch);
        let operand = |map: &mut DimmMap, name: &str| -> Result<Piece> {
            let block = map.add_vectors(&format!("{name} {vector} {first}"), cols, batch)?;
            Ok(Piece { block, first, vector })
        };
        if epilogue.bias.is_some() {
            let piece = operand(map, "bias")?;
            self.instructions.extend([load(other, &piece.block), activate(Activation::Add { other })]);
            self.biases.push(piece);
        }
        if let Some(factor) = epilogue.scale {
            self.instructions.push(activate(Activation::Scale { scalar: factor.to_bits() }));
        }
        if let Some(activation) = epilogue.activation {
            self.instructions.push(activate(activation));
        }
        if epilogue.residual.is_some() {
            let piece = operand(map, "residual")?;
            self.instructions.extend([load(other, &piece.block), activate(Activation::Add { other })]);
            self.residuals.push(piece);
        }
        Ok(())
    }

    /// Plan of a DOT; results also stay in the buffer if `kept` says where. Fails if results do not fit the buffer, or
    /// operands the DRAM.
    pub fn dot(
        config: &DesignConfig,
        map: &mut DimmMap,
        layout: &MatrixLayout,
        sizes: &Sizes,
        epilogue: &Epilogue<'_>,
        kept: Option<&KeptOutputs>,
    ) -> Result<Self> {
        let gemv = config.gemv();
        let words = buffer_words(config);
        in_range("cols", sizes.cols, sizes.cols.min(1), longest(config))?;
        let mut plan = Self { matrices: vec![(0, layout.clone())], ..Self::default() };
        let row_words = RowLayout::new(gemv, sizes.cols).words_per_vector();
        // A vector needs two more words for its results, and two for the vectors added to them.
        let blocks = if epilogue.has_operand() { 2 } else { 1 };
        let needed = row_words + 2 * blocks;
        let largest = (words / needed).min(gemv.max_batch());
        let what = format!("slice words for cols = {}", sizes.cols);
        let rule = format!("be at most {words} (a {} KiB buffer)", gemv.buffer_kib());
        require(largest > 0, what, needed, rule)?;
        plan.passes = if kept.is_some() { 1 } else { sizes.batch.div_ceil(largest) };
        let mut vector = 0;
        for pass in 0..plan.passes {
            let batch = sizes.batch / plan.passes + u32::from(pass < sizes.batch % plan.passes);
            let input = map.add_vectors(&format!("x {vector}"), sizes.cols, batch)?;
            plan.inputs.push(Piece { block: input, first: 0, vector });
            let src = kept.map_or(0, |kept| kept.source);
            plan.instructions.push(load(src, &input));
            let chunks = match kept {
                Some(kept) => kept.chunks.clone(),
                None => Chunk::in_turn(config, sizes, batch, blocks),
            };
            for chunk in chunks {
                let Chunk { first, count, half, dst, other } = chunk;
                let list = plan.list(map, sizes, first, count, half * list_piece(config))?;
                // Without a list each chunk is a matrix that begins at its first row.
                let address = if sizes.listed { layout.base() } else { chunk_base(layout, first, config)? };
                let cols = sizes.cols;
                let operands = Operands { src, dst, cols, batch, count, address, list, ..operands(layout) };
                plan.instructions.push(Instruction::Dot(operands));
                plan.finish(map, epilogue, (dst, other), (count, batch), (first, vector))?;
                let output = map.add_vectors(&format!("y {vector} {first}"), count, batch)?;
                plan.outputs.push(Piece { block: output, first, vector });
                plan.instructions.push(store(dst, &output));
            }
            vector += batch;
        }
        Ok(plan)
    }

    /// Tiling of an AXPY; an error if not even one word of sums fits.
    pub fn tiling(config: &DesignConfig, sizes: &Sizes) -> Result<AxpyTiling> {
        let count = Self::factors(config, sizes);
        column_tiles(config, sizes.cols, sizes.batch, count, buffer_words(config))
    }

    /// The passes of an AXPY of tiles that are in DRAM already.
    pub fn passes(config: &DesignConfig, tiles: &[(u32, MatrixLayout)], sizes: &Sizes) -> Result<AxpyTiling> {
        let tiles: Vec<ColumnTile> =
            tiles.iter().map(|(first, layout)| ColumnTile { first: *first, cols: layout.cols() }).collect();
        column_passes(config, &tiles, sizes.batch, Self::factors(config, sizes), buffer_words(config))
    }

    /// Factors that an AXPY keeps in the buffer at a time, at most an eighth of it.
    fn factors(config: &DesignConfig, sizes: &Sizes) -> u32 {
        let count = if sizes.listed { sizes.count.min(config.core().list_entries()) } else { sizes.count };
        count.min(elements_in(config, (buffer_words(config) / 8).max(1)))
    }

    /// The plan of an AXPY of the tiles at `layouts`.
    pub fn axpy(
        config: &DesignConfig,
        map: &mut DimmMap,
        layouts: &[(u32, MatrixLayout)],
        tiling: &AxpyTiling,
        sizes: &Sizes,
        epilogue: &Epilogue<'_>,
        ending: Ending,
    ) -> Result<Self> {
        let mut plan = Self { matrices: layouts.to_vec(), ..Self::default() };
        let pieces = tiling.passes.len() * tiling.tiles.len();
        plan.passes = pieces as u32;
        let what = format!("tiles and passes for cols = {}, batch = {}", sizes.cols, sizes.batch);
        let one = ending != Ending::Kept || pieces <= 1;
        require(one, what, plan.passes, "be 1, for sums that stay in the buffer")?;
        let words = buffer_words(config);
        // Scalars of a piece are in the buffer, indices in the list memory.
        let factor_words =
            |piece: u32| RowLayout::new(config.gemv(), piece).words_per_vector() * tiling.passes[0];
        let mut piece = sizes.count;
        if sizes.listed && piece > config.core().list_entries() {
            piece = list_piece(config);
        }
        while piece > longest(config) || factor_words(piece) + tiling.accumulator_words > words {
            piece = (piece / 2).next_multiple_of(if sizes.listed { 16 } else { shared_rows(config) });
        }
        let mut pieces: Vec<(u32, u32)> = Vec::new();
        let mut first = 0;
        while first < sizes.count {
            let count =
                fitting(config, piece.min(sizes.count - first), factor_words(piece) / tiling.passes[0]);
            pieces.push((first, count));
            first += count;
        }
        // With room, results get their own place and scalars two in turn, so neither waits for the sums.
        let (sums, factor) = (tiling.accumulator_words, factor_words(piece));
        let results = tiling.accumulator_words / config.gemv().lanes();
        // Sums are several times as wide as results, so results and their addends always fit over them.
        let blocks = if epilogue.has_operand() { 2 } else { 1 };
        let result_place = if sums + blocks * results + factor <= words { sums } else { 0 };
        let taken = if result_place > 0 { sums + blocks * results } else { sums };
        let places = if taken + 2 * factor <= words { 2 } else { 1 };

        let mut steps = Vec::new();
        let mut vector = 0;
        for &batch in &tiling.passes {
            for tile in 0..layouts.len() {
                for (index, &(first, count)) in pieces.iter().enumerate() {
                    // A single piece stays for all tiles of a pass.
                    let loads = pieces.len() > 1 || tile == 0;
                    let ends = index + 1 == pieces.len();
                    steps.push(Step { vector, batch, tile, index, first, count, loads, ends });
                }
            }
            vector += batch;
        }
        let cut = Cut { pieces: pieces.len(), factor, places };
        let mut operands = Operand { place: places - 1, list: None, inputs: Vec::new() };
        plan.push_operands(config, map, sizes, &cut, &steps[0], &mut operands)?;
        for (index, step) in steps.iter().enumerate() {
            plan.push_axpy(config, layouts, step, cut.place_of(words, operands.place), operands.list)?;
            // Operands of the next product come while this one runs.
            if let Some(next) = steps.get(index + 1) {
                plan.push_operands(config, map, sizes, &cut, next, &mut operands)?;
            }
            if step.ends && ending == Ending::Stored {
                let (column, layout) = &layouts[step.tile];
                let (cols, batch) = (layout.cols(), step.batch);
                plan.instructions.push(Instruction::Round { src: 0, dst: result_place, cols, batch });
                let places = (result_place, result_place + results);
                plan.finish(map, epilogue, places, (cols, batch), (*column, step.vector))?;
                let output = map.add_vectors(&format!("y {} {column}", step.vector), cols, batch)?;
                plan.outputs.push(Piece { block: output, first: *column, vector: step.vector });
                plan.instructions.push(store(result_place, &output));
            }
        }
        Ok(plan)
    }

    /// Loads a step's scalars and piece of the list, unless they are loaded.
    fn push_operands(
        &mut self,
        config: &DesignConfig,
        map: &mut DimmMap,
        sizes: &Sizes,
        cut: &Cut,
        step: &Step,
        now: &mut Operand,
    ) -> Result<()> {
        let Step { vector, first, count, batch, .. } = *step;
        if step.loads {
            now.place = (now.place + 1) % cut.places;
            let known = now.inputs.iter().find(|(v, f, _)| (*v, *f) == (vector, first));
            let block = match known {
                Some((_, _, block)) => *block,
                None => {
                    let block = map.add_vectors(&format!("x {vector} {first}"), count, batch)?;
                    self.inputs.push(Piece { block, first, vector });
                    now.inputs.push((vector, first, block));
                    block
                }
            };
            let dst = cut.place_of(buffer_words(config), now.place);
            self.instructions.push(load(dst, &block));
        }
        if now.list.is_none() || cut.pieces > 1 {
            let half = if step.index % 2 == 1 { list_piece(config) } else { 0 };
            now.list = self.list(map, sizes, first, count, half)?;
        }
        Ok(())
    }

    fn push_axpy(
        &mut self,
        config: &DesignConfig,
        layouts: &[(u32, MatrixLayout)],
        step: &Step,
        src: u32,
        list: Option<u32>,
    ) -> Result<()> {
        let layout = &layouts[step.tile].1;
        let (cols, batch, count) = (layout.cols(), step.batch, step.count);
        if step.first == 0 {
            self.instructions
                .push(Instruction::Zero { dst: 0, count: accumulator_words(config, cols, batch) });
        }
        let address = if list.is_some() { layout.base() } else { chunk_base(layout, step.first, config)? };
        let operands = Operands { src, batch, count, address, list, ..operands(layout) };
        self.instructions.push(Instruction::Axpy(operands));
        Ok(())
    }
}

/// Rows of a DOT that one instruction computes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    pub first: u32,
    pub count: u32,
    /// Half of the list memory with their numbers.
    pub half: u32,
    /// First words of results and of their addends.
    pub dst: u32,
    pub other: u32,
}

impl Chunk {
    /// Chunks whose results alternate between two places of `blocks` blocks, after the vectors.
    fn in_turn(config: &DesignConfig, sizes: &Sizes, batch: u32, blocks: u32) -> Vec<Self> {
        let used = block_words(config, sizes.cols, batch);
        let result_words = (buffer_words(config) - used) / (2 * blocks);
        let mut most = elements_in(config, result_words / batch);
        if sizes.listed {
            most = most.min(list_piece(config));
        }
        let (mut chunks, mut first) = (Vec::new(), 0);
        while first < sizes.count {
            let half = chunks.len() as u32 % 2;
            let count = fitting(config, most.min(sizes.count - first), result_words / batch);
            let dst = used + half * blocks * result_words;
            chunks.push(Self { first, count, half, dst, other: dst + result_words });
            first += count;
        }
        chunks
    }
}

/// One AXPY: a piece of the list, a tile of columns, part of the batch.
#[derive(Debug)]
struct Step {
    vector: u32,
    batch: u32,
    tile: usize,
    index: usize,
    first: u32,
    count: u32,
    /// Whether its scalars have to be loaded.
    loads: bool,
    /// Whether the sums of the tile are complete after it.
    ends: bool,
}

/// Pieces of the list of an AXPY, and places of its scalars.
#[derive(Debug)]
struct Cut {
    /// Pieces.
    pieces: usize,
    /// Words of a piece's scalars, and places for them.
    factor: u32,
    places: u32,
}

impl Cut {
    fn place_of(&self, words: u32, place: u32) -> u32 {
        words - self.factor * (place + 1)
    }
}

/// Operands of the next AXPY: places of scalars and list, and DRAM blocks by first vector and row.
#[derive(Debug)]
struct Operand {
    place: u32,
    list: Option<u32>,
    inputs: Vec<(u32, u32, VectorBlock)>,
}

/// First burst of the matrix of rows starting at `first`. A chunk has to begin at a multiple of the ranks, where tails
/// stand as in row 0, and with a burst of scales if rows share these.
fn chunk_base(layout: &MatrixLayout, first: u32, config: &DesignConfig) -> Result<u32> {
    let rows = if layout.shared() { shared_rows(config) } else { config.gemv().ranks() };
    let rule = format!("be a multiple of {rows}");
    require(first.is_multiple_of(rows), "first row of a chunk", first, rule)?;
    Ok(layout.burst_at(layout.offset(first, 0)))
}
