//! Where an element of a matrix lies.
//!
//! Every rank has the same first burst. The rank's stripes follow from there, row after row: one for each full wave,
//! then a tail stripe if the row's tail reaches the rank. A stripe has a burst for each 32 elements of FP16, so that
//! nothing lies between two rows; weights of 8 or 4 bits are packed more densely ([`crate::layout::weights`]). Only
//! rows of a single stripe begin a whole stripe apart, for `append`, and rows without a tail whole waves. `ranks`
//! consecutive rows take the same number of bursts on each rank. Rows that share bursts of scales have nothing between
//! them at all.

use ndp_config::{BEAT_BITS, BEAT_ELEMS, DesignConfig, RowLayout, WeightFormat};
use ndp_files::{Result, bail, in_range};

use crate::Product;
use crate::layout::DimmAddress;
use crate::layout::address::open_blocks;

/// A place in the DRAM of the ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MatrixPlace {
    /// The rank.
    pub rank: u32,
    /// Burst of the rank.
    pub burst: u32,
    /// Element of the burst, of as many bits as a weight has.
    pub element: u32,
}

/// Bursts of some ranks that belong to a row: the same in each of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowRange {
    /// First burst of each rank.
    pub address: u32,
    /// Bursts of each rank.
    pub count: u32,
    /// The ranks, a bit each.
    pub ranks: u32,
}

/// A matrix `[rows x cols]` and its first burst in every rank.
///
/// ```
/// use ndp_isa::layout::{MatrixLayout, MatrixPlace};
/// let config = ndp_config::DesignConfig::preset("hermes").unwrap();
/// let layout = MatrixLayout::new(&config, 0x200, 100, 5120).unwrap();
/// // Ten stripes of 512: two full waves over four ranks, and a tail of two that begins at rank 2 in every second row.
/// let place = layout.locate(1, 4096 + 33);
/// assert_eq!(place, MatrixPlace { rank: 2, burst: 0x200 + 2 * 16 + 2 * 16 + 1, element: 1 });
/// assert_eq!(layout.element_at(place), Some((1, 4096 + 33)));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MatrixLayout {
    base: u32,
    rows: u32,
    cut: RowLayout,
    beats_per_stripe: u32,
    weights: WeightFormat,
    shared: bool,
    /// Bursts on each rank before each of the first rows, one more than there are ranks.
    starts: Vec<u64>,
    rank_bursts: u64,
    open_blocks: u32,
}

ndp_config::getters!(MatrixLayout {
    /// First burst in every rank.
    base: u32,
    /// Rows.
    rows: u32,
    /// Layout of a row.
    cut: &RowLayout,
    /// Format of the weights.
    weights: WeightFormat,
    /// Whether rows share bursts of scales, so that only all of them can be read, in order.
    shared: bool,
    /// Bursts of a stripe of FP16 weights, and places of 32 weights of any stripe.
    beats_per_stripe: u32,
});

impl MatrixLayout {
    /// Row numbers have 24 bits.
    pub const MAX_ROWS: u32 = 1 << 24;

    /// Layout of an FP16 matrix at burst `base` of each rank; an error if the design has no room for it.
    pub fn new(config: &DesignConfig, base: u32, rows: u32, cols: u32) -> Result<Self> {
        Self::with_weights(config, base, rows, cols, WeightFormat::Fp16)
    }

    /// [`Self::new`] with weights of any format.
    pub fn with_weights(
        config: &DesignConfig,
        base: u32,
        rows: u32,
        cols: u32,
        weights: WeightFormat,
    ) -> Result<Self> {
        Self::bounded(config, base, (rows, cols), weights, false)
    }

    /// [`Self::with_weights`] of INT8 or INT4 whose rows share bursts of scales.
    pub fn sharing_scales(
        config: &DesignConfig,
        base: u32,
        rows: u32,
        cols: u32,
        weights: WeightFormat,
    ) -> Result<Self> {
        Self::bounded(config, base, (rows, cols), weights, true)
    }

    fn bounded(
        config: &DesignConfig,
        base: u32,
        (rows, cols): (u32, u32),
        weights: WeightFormat,
        shared: bool,
    ) -> Result<Self> {
        in_range("rows", rows, 1, Self::MAX_ROWS)?;
        in_range("cols", cols, 1, config.gemv().max_cols())?;
        in_range("base", base.into(), 0, config.dram().bursts() - 1)?;
        let layout = Self { rows, ..Self::of_rows(config, base, cols, weights, shared) };
        let (needed, total) = (layout.bursts_per_rank(), layout.rank_bursts);
        if needed > total {
            let what = format!("a matrix of {rows} x {cols}");
            bail!("{what} needs {needed} bursts of each rank, {total} of {total} are free");
        }
        Ok(layout)
    }

    /// The layout that an instruction implies: `cols` is at least 1, the number of rows unknown.
    pub fn unbounded(config: &DesignConfig, base: u32, cols: u32, weights: WeightFormat) -> Self {
        Self::of_rows(config, base, cols, weights, false)
    }

    /// The layout that a product implies, as [`Self::unbounded`].
    pub fn of_product(config: &DesignConfig, product: &Product) -> Self {
        let &Product { address, cols, weights, shared, .. } = product;
        Self::of_rows(config, address, cols, weights, shared)
    }

    fn of_rows(config: &DesignConfig, base: u32, cols: u32, weights: WeightFormat, shared: bool) -> Self {
        let mut layout = Self {
            base,
            rows: Self::MAX_ROWS,
            cut: RowLayout::new(config.gemv(), cols),
            beats_per_stripe: config.gemv().beats_per_stripe(),
            weights,
            shared: shared && weights != WeightFormat::Fp16,
            starts: Vec::new(),
            rank_bursts: config.dram().bursts(),
            open_blocks: open_blocks(config.dram()),
        };
        let ranks = layout.cut.ranks;
        layout.starts.reserve((ranks * (ranks + 1)) as usize);
        for rank in 0..ranks {
            let mut before = 0;
            for row in 0..ranks {
                layout.starts.push(before);
                before += u64::from(layout.taken_by(row, rank));
            }
            layout.starts.push(before);
        }
        layout
    }

    /// Blocks of bursts of a rank that can have their rows open at the same time.
    pub(crate) fn open_blocks(&self) -> u32 {
        self.open_blocks
    }

    /// Elements of a row.
    pub fn cols(&self) -> u32 {
        self.cut.cols
    }

    /// Places of 32 elements of `row` on `rank`.
    fn places_of(&self, row: u32, rank: u32) -> u32 {
        let RowLayout { full_waves, tail_stripes, ranks, cols, .. } = self.cut;
        let waves = full_waves * self.beats_per_stripe;
        let end = (cols - 1) / BEAT_ELEMS % self.beats_per_stripe + 1;
        match self.cut.tail_of(row, rank) {
            Some(tail) if tail + 1 < tail_stripes => waves + self.beats_per_stripe,
            Some(_) => waves + end,
            None if tail_stripes == 0 && rank + 1 == ranks => waves - self.beats_per_stripe + end,
            None => waves,
        }
    }

    /// First burst of `row` on `rank`, from the base. If the row has no place there, the next row's.
    pub fn offset(&self, row: u32, rank: u32) -> u64 {
        let before = self.bursts_before(row, rank);
        if self.shared { before + before.div_ceil(self.sharing_bursts()) } else { before }
    }

    /// Bursts of the rows before `row` on `rank`, without scales if rows share them.
    pub fn bursts_before(&self, row: u32, rank: u32) -> u64 {
        let ranks = self.cut.ranks;
        let of_rank = &self.starts[(rank * (ranks + 1)) as usize..][..=ranks as usize];
        u64::from(row / ranks) * of_rank[ranks as usize] + of_rank[(row % ranks) as usize]
    }

    /// Distance in bursts of `row` and the next row on `rank`, without scales if rows share them.
    fn taken_by(&self, row: u32, rank: u32) -> u32 {
        let RowLayout { full_waves, tail_stripes, .. } = self.cut;
        match self.cut.tail_of(row, rank) {
            _ if self.shared => self.places_of(row, rank).div_ceil(self.places_per_burst()),
            Some(_) if self.cut.stripes() == 1 => self.place_bursts(self.beats_per_stripe),
            None if tail_stripes == 0 => self.place_bursts(full_waves * self.beats_per_stripe),
            _ => self.row_bursts(row, rank),
        }
    }

    /// Bursts of `row` on `rank`, without scales that an earlier row has in common with it; 0 if the row is short and
    /// its tail elsewhere.
    pub fn row_bursts(&self, row: u32, rank: u32) -> u32 {
        if self.shared {
            return (self.offset(row + 1, rank) - self.offset(row, rank)) as u32;
        }
        self.place_bursts(self.places_of(row, rank))
    }

    /// The bursts that hold a row. Rows equal modulo the ranks have ranges of the same ranks, sizes and order, so a row
    /// can move to another one range by range.
    pub fn row_ranges(&self, row: u32) -> Vec<RowRange> {
        let mut ranges: Vec<RowRange> = Vec::new();
        for rank in 0..self.cut.ranks {
            let count = self.row_bursts(row, rank);
            let address = self.burst_at(self.offset(row, rank));
            match ranges.iter_mut().find(|range| (range.address, range.count) == (address, count)) {
                _ if count == 0 => {}
                Some(range) => range.ranks |= 1 << rank,
                None => ranges.push(RowRange { address, count, ranks: 1 << rank }),
            }
        }
        ranges
    }

    /// Places of a row's bursts. FP16: by element, 32 in each, fewer in the last. Packed: by rank, scales included.
    pub fn row_places(&self, row: u32) -> Vec<DimmAddress> {
        if self.weights == WeightFormat::Fp16 {
            let place = |col| {
                let MatrixPlace { rank, burst, .. } = self.locate(row, col);
                DimmAddress { rank, burst }
            };
            return (0..self.cut.cols).step_by(BEAT_ELEMS as usize).map(place).collect();
        }
        let of_rank = |rank| {
            let first = self.offset(row, rank);
            let burst = move |at| DimmAddress { rank, burst: self.burst_at(first + u64::from(at)) };
            (0..self.row_bursts(row, rank)).map(burst)
        };
        (0..self.cut.ranks).flat_map(of_rank).collect()
    }

    /// Burst of a rank, `offset` after the base; addresses wrap around.
    pub fn burst_at(&self, offset: u64) -> u32 {
        ((u64::from(self.base) + offset) % self.rank_bursts) as u32
    }

    /// Number of a burst of a rank, counted from the base.
    pub(crate) fn offset_of(&self, burst: u32) -> u64 {
        (u64::from(burst) + self.rank_bursts - u64::from(self.base)) % self.rank_bursts
    }

    /// The place of an element. Panics if `col` is outside the row.
    pub fn locate(&self, row: u32, col: u32) -> MatrixPlace {
        assert!(col < self.cut.cols, "column {col} of {}", self.cut.cols);
        let RowLayout { stripe_elems, ranks, full_waves, .. } = self.cut;
        let (stripe, within) = (col / stripe_elems, col % stripe_elems);
        let (wave, turn) = (stripe / ranks, stripe % ranks);
        let rank = if wave < full_waves { turn } else { (self.cut.tail_start(row) + turn) % ranks };
        let place = wave * self.beats_per_stripe + within / BEAT_ELEMS;
        let (burst, element, _) = self.start_of(row, rank).place(place);
        MatrixPlace { rank, burst: self.burst_at(burst), element: element + within % BEAT_ELEMS }
    }

    /// Row and column at a place; `None` outside of the matrix, past a row's end, and for scales.
    pub fn element_at(&self, place: MatrixPlace) -> Option<(u32, u32)> {
        let RowLayout { cols, stripe_elems, ranks, full_waves, .. } = self.cut;
        let elements = BEAT_BITS / self.weights.bits();
        if place.rank >= ranks || place.element >= elements || u64::from(place.burst) >= self.rank_bursts {
            return None;
        }
        let offset = self.offset_of(place.burst);
        let offset = if self.shared { self.without_scales(offset)? } else { offset };
        // `ranks` consecutive rows have the same number of bursts on each rank.
        let period = self.bursts_before(ranks, place.rank);
        let first_row = u32::try_from(offset / period * u64::from(ranks)).ok()?;
        let before = |row: u32| self.bursts_before(row, place.rank);
        let holds = |row: u32| (before(row)..before(row + 1)).contains(&offset);
        let row = (first_row..first_row.checked_add(ranks)?).find(|&row| row < self.rows && holds(row))?;
        let beat = offset - before(row);
        let within_burst = place.element / BEAT_ELEMS;
        let beat = if self.shared { beat } else { self.without_scales(beat)? };
        let at = beat as u32 * self.places_per_burst() + within_burst;
        let (wave, position) = (at / self.beats_per_stripe, at % self.beats_per_stripe);
        let turn = if wave < full_waves { place.rank } else { self.cut.tail_of(row, place.rank)? };
        let col = u64::from(wave * ranks + turn) * u64::from(stripe_elems)
            + u64::from(position * BEAT_ELEMS + place.element % BEAT_ELEMS);
        u32::try_from(col).ok().filter(|col| *col < cols).map(|col| (row, col))
    }

    /// Bursts of the fullest rank.
    pub fn bursts_per_rank(&self) -> u64 {
        (0..self.cut.ranks).map(|rank| self.offset(self.rows, rank)).max().unwrap_or(0)
    }
}
