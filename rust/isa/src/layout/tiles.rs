//! Cuts an `axpy` that does not fit the buffer into tiles of columns, and passes over part of the batch.
//!
//! Accumulators of a tile take `words(cols) * batch * lanes` words, factors `words(count) * batch`. A tile is a matrix
//! of its own in DRAM, chosen when weights are placed; passes may differ from call to call. Each pass reads all weights
//! again, for nothing only while computing takes longer: a stripe takes
//! `max(beats / beats per cycle, window * vectors)` cycles, so from four vectors upward with the paper's numbers.

use ndp_config::{BEAT_ELEMS, DesignConfig, RowLayout};
use ndp_files::{Result, in_range, refusal};

/// A tile of columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ColumnTile {
    /// First column.
    pub first: u32,
    /// Columns.
    pub cols: u32,
}

/// The cut of an `axpy`.
#[derive(Debug, Clone, PartialEq)]
pub struct AxpyTiling {
    /// Tiles, in order, without gaps. All but the last are whole stripes.
    pub tiles: Vec<ColumnTile>,
    /// Vectors of each pass; they add up to the batch.
    pub passes: Vec<u32>,
    /// Words of the accumulators of the largest tile in the largest pass.
    pub accumulator_words: u32,
    /// Words of the factors in the largest pass.
    pub factor_words: u32,
    /// Cycles for each row of the list, all tiles and passes.
    pub cycles_per_row: f64,
}

/// Estimated cycles of a tile in a pass outside its rows; only used to prefer fewer of them.
const OVERHEAD_CYCLES: f64 = 200.0;

/// Cuts an `axpy` of up to `count` rows of `cols` columns for `batch` vectors into `words` words of the buffer.
///
/// Tiles are whole waves (`ranks * stripe_elems` columns), except the last ones. Takes the cut with the fewest cycles.
/// Fails if the design does not have these sizes, or one word of accumulators does not fit at batch 1.
pub fn column_tiles(
    config: &DesignConfig,
    cols: u32,
    batch: u32,
    count: u32,
    words: u32,
) -> Result<AxpyTiling> {
    let gemv = config.gemv();
    // Only a tile has to fit the buffer.
    in_range("cols", cols, 1, 1 << 24)?;
    in_range("batch", batch, 1, 1 << 16)?;
    in_range("count", count, 1, gemv.max_cols())?;
    in_range("words", words, 1, gemv.slice_words())?;
    let factor_words = RowLayout::new(gemv, count).words_per_vector();
    let needed = |tile_words: u32| tile_words * gemv.lanes() + factor_words;
    let mut best: Option<(f64, AxpyTiling)> = None;
    for tile_words in (1..).take_while(|&tile_words| needed(tile_words) <= words) {
        let tiles = cut(config, cols, tile_words);
        for (cycles, tiling) in passes_over(config, &tiles, batch, count, words / needed(tile_words)) {
            if best.as_ref().is_none_or(|(least, _)| cycles < *least) {
                best = Some((cycles, tiling));
            }
        }
        if tiles.len() == 1 {
            break; // A wider tile is the same.
        }
    }
    let none = || {
        refusal!("{} words of accumulators and factors do not fit, {words} of the buffer are free", needed(1))
    };
    best.map(|(_, tiling)| tiling).ok_or_else(none)
}

/// Cuts only the batch, for tiles that are in DRAM already. Fails if the widest does not fit at batch 1.
pub fn column_passes(
    config: &DesignConfig,
    tiles: &[ColumnTile],
    batch: u32,
    count: u32,
    words: u32,
) -> Result<AxpyTiling> {
    let gemv = config.gemv();
    in_range("batch", batch, 1, 1 << 16)?;
    in_range("count", count, 1, gemv.max_cols())?;
    let needed = widest(config, tiles) * gemv.lanes() + RowLayout::new(gemv, count).words_per_vector();
    let best = passes_over(config, tiles, batch, count, words / needed)
        .min_by(|(cycles, _), (others, _)| cycles.total_cmp(others));
    best.map(|(_, tiling)| tiling).ok_or_else(|| {
        refusal!("{needed} words of accumulators and factors do not fit, {words} of the buffer are free")
    })
}

/// Words of the widest tile.
fn widest(config: &DesignConfig, tiles: &[ColumnTile]) -> u32 {
    let words = tiles.iter().map(|tile| RowLayout::new(config.gemv(), tile.cols).words_per_vector());
    words.max().unwrap_or(0)
}

/// Passes of at most `largest` vectors, with the cycles of each: as few as fit, or one more, as equal as possible. 5 +
/// 5 vectors cost no more than 7 + 3, often less. `None` if not even one vector fits.
fn passes_over(
    config: &DesignConfig,
    tiles: &[ColumnTile],
    batch: u32,
    count: u32,
    largest: u32,
) -> impl Iterator<Item = (f64, AxpyTiling)> {
    let largest = largest.min(config.gemv().max_batch());
    let least = if largest == 0 { u32::MAX } else { batch.div_ceil(largest) };
    [least, least.saturating_add(1)].into_iter().filter(move |passes| *passes <= batch).map(
        move |pass_count| {
            let passes: Vec<u32> = (0..pass_count).map(|pass| (batch + pass) / pass_count).rev().collect();
            let cycles_per_row = cycles_per_row(config, tiles, &passes);
            let overhead = OVERHEAD_CYCLES * (tiles.len() * passes.len()) as f64;
            let tiling = AxpyTiling {
                tiles: tiles.to_vec(),
                accumulator_words: widest(config, tiles) * passes[0] * config.gemv().lanes(),
                factor_words: RowLayout::new(config.gemv(), count).words_per_vector() * passes[0],
                passes,
                cycles_per_row,
            };
            (cycles_per_row * f64::from(count) + overhead, tiling)
        },
    )
}

/// Tiles of at most `words` words: whole waves, then as few as the rest needs.
fn cut(config: &DesignConfig, cols: u32, words: u32) -> Vec<ColumnTile> {
    let gemv = config.gemv();
    let (stripe, wave) = (gemv.stripe_elems(), gemv.stripe_elems() * gemv.ranks());
    let mut tiles = Vec::new();
    let mut first = 0;
    while first < cols {
        let left = cols - first;
        // A stripe takes one word, but tails may take more words than stripes per rank (three over four ranks do).
        let fits = |cols: &u32| RowLayout::new(gemv, *cols).words_per_vector() <= words;
        let most = left.div_ceil(stripe).min(words * gemv.ranks());
        let mut widths = (1..=most).rev().map(|stripes| left.min(stripes * stripe));
        let width = if left >= words * wave { words * wave } else { widths.find(fits).unwrap_or(stripe) };
        let width = width.min(left);
        tiles.push(ColumnTile { first, cols: width });
        first += width;
    }
    tiles
}

/// Cycles for a row: each stripe of each tile and pass takes its beats or its windows, shared by the ranks.
fn cycles_per_row(config: &DesignConfig, tiles: &[ColumnTile], passes: &[u32]) -> f64 {
    let gemv = config.gemv();
    let stripes: u32 = tiles.iter().map(|tile| tile.cols.div_ceil(gemv.stripe_elems())).sum();
    let beats_per_cycle = config.dram_weights_per_cycle() / f64::from(gemv.ranks() * BEAT_ELEMS);
    let beats = f64::from(gemv.beats_per_stripe()) / beats_per_cycle;
    let pass = |vectors: &u32| beats.max(f64::from(gemv.window_cycles() * vectors));
    f64::from(stripes) / f64::from(gemv.ranks()) * passes.iter().map(pass).sum::<f64>()
}
