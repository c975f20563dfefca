//! Where an element of a matrix lies.
//!
//! Every rank has the same first burst. The rank's stripes follow from there, row after row: one for each full wave,
//! then a tail stripe if the row's tail reaches the rank. All stripes have their full number of bursts. The first burst
//! of row `r` on rank `g` is
//!
//! `base + beats_per_stripe * (full_waves * r + tails_before(r, g))`.
//!
//! That holds for FP16. Weights of 8 or 4 bits are packed more densely ([`crate::layout::weights`]).

use ndp_config::{BEAT_BITS, BEAT_ELEMS, DesignConfig, RowLayout, WeightFormat};
use ndp_files::{Result, bail, in_range};

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
        in_range("rows", rows, 1, Self::MAX_ROWS)?;
        in_range("cols", cols, 1, config.gemv().max_cols())?;
        in_range("base", base.into(), 0, config.dram().bursts() - 1)?;
        let layout = Self { rows, ..Self::unbounded(config, base, cols, weights) };
        let (needed, total) = (layout.bursts_per_rank(), layout.rank_bursts);
        if needed > total {
            let what = format!("a matrix of {rows} x {cols}");
            bail!("{what} needs {needed} bursts of each rank, {total} of {total} are free");
        }
        Ok(layout)
    }

    /// The layout that an instruction implies: `cols` is at least 1, the number of rows unknown.
    pub fn unbounded(config: &DesignConfig, base: u32, cols: u32, weights: WeightFormat) -> Self {
        Self {
            base,
            rows: Self::MAX_ROWS,
            cut: RowLayout::new(config.gemv(), cols),
            beats_per_stripe: config.gemv().beats_per_stripe(),
            weights,
            rank_bursts: config.dram().bursts(),
            open_blocks: open_blocks(config.dram()),
        }
    }

    /// Blocks of bursts of a rank that can have their rows open at the same time.
    pub(crate) fn open_blocks(&self) -> u32 {
        self.open_blocks
    }

    /// Elements of a row.
    pub fn cols(&self) -> u32 {
        self.cut.cols
    }

    /// Number of rows before `row` with a tail stripe on `rank`.
    ///
    /// Tails take the ranks in turn: those before are places `0..row * tail_stripes`, every `ranks`-th of them on
    /// `rank`.
    pub fn tails_before(&self, row: u32, rank: u32) -> u64 {
        let ranks = u64::from(self.cut.ranks);
        (u64::from(row) * u64::from(self.cut.tail_stripes) + ranks - 1 - u64::from(rank)) / ranks
    }

    fn stripe_bursts(&self, stripes: u32) -> u32 {
        self.place_bursts(stripes * self.beats_per_stripe)
    }

    /// First burst of `row` on `rank`, from the base. If the row has no stripe there, the next row's.
    pub fn offset(&self, row: u32, rank: u32) -> u64 {
        let waves = self.stripe_bursts(self.cut.full_waves);
        let tail = self.stripe_bursts(self.cut.full_waves + 1) - waves;
        u64::from(waves) * u64::from(row) + u64::from(tail) * self.tails_before(row, rank)
    }

    /// Bursts of `row` on `rank`; 0 if the row is short and its tail elsewhere.
    pub fn row_bursts(&self, row: u32, rank: u32) -> u32 {
        (self.offset(row + 1, rank) - self.offset(row, rank)) as u32
    }

    /// The bursts that hold a row. Rows equal modulo the ranks have ranges of the same ranks, sizes and order, so a row
    /// can move to another one range by range.
    pub fn row_ranges(&self, row: u32) -> Vec<RowRange> {
        let last = self.cut.cols - 1;
        let unused = self.beats_per_stripe - 1 - last % self.cut.stripe_elems / BEAT_ELEMS;
        let last_rank = self.locate(row, last).rank;
        let stripes = self.cut.stripes_of(row, last_rank).count() as u32;
        let unused =
            self.stripe_bursts(stripes) - self.place_bursts(stripes * self.beats_per_stripe - unused);
        let mut ranges: Vec<RowRange> = Vec::new();
        for rank in 0..self.cut.ranks {
            let count = self.row_bursts(row, rank) - if rank == last_rank { unused } else { 0 };
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
        let mut places = Vec::new();
        for rank in 0..self.cut.ranks {
            let last = self.weight_places(row, rank).last().map_or(0, |place| place.burst + 1);
            let first = self.offset(row, rank);
            places.extend(
                (0..last).map(|burst| DimmAddress { rank, burst: self.burst_at(first + u64::from(burst)) }),
            );
        }
        places
    }

    /// Burst of a rank, `offset` after the base; addresses wrap around.
    pub fn burst_at(&self, offset: u64) -> u32 {
        ((u64::from(self.base) + offset) % self.rank_bursts) as u32
    }

    /// The place of an element. Panics if `col` is outside the row.
    pub fn locate(&self, row: u32, col: u32) -> MatrixPlace {
        assert!(col < self.cut.cols, "column {col} of {}", self.cut.cols);
        let RowLayout { stripe_elems, ranks, full_waves, tail_stripes, .. } = self.cut;
        let (stripe, within) = (col / stripe_elems, col % stripe_elems);
        let (wave, turn) = (stripe / ranks, stripe % ranks);
        let rank = if wave < full_waves {
            turn
        } else {
            ((u64::from(row) * u64::from(tail_stripes) + u64::from(turn)) % u64::from(ranks)) as u32
        };
        let place = wave * self.beats_per_stripe + within / BEAT_ELEMS;
        let (beat, element) = self.place_within(place);
        let burst = self.burst_at(self.offset(row, rank) + u64::from(beat));
        MatrixPlace { rank, burst, element: element + within % BEAT_ELEMS }
    }

    /// Row and column at a place; `None` outside of the matrix, past a row's end, and for scales.
    pub fn element_at(&self, place: MatrixPlace) -> Option<(u32, u32)> {
        let RowLayout { cols, stripe_elems, ranks, full_waves, tail_stripes, .. } = self.cut;
        let elements = BEAT_BITS / self.weights.bits();
        if place.rank >= ranks || place.element >= elements || u64::from(place.burst) >= self.rank_bursts {
            return None;
        }
        let offset = (u64::from(place.burst) + self.rank_bursts - u64::from(self.base)) % self.rank_bursts;
        // `ranks` consecutive rows have equally many stripes on each rank.
        let period = self.offset(ranks, place.rank);
        let first_row = u32::try_from(offset / period * u64::from(ranks)).ok()?;
        let holds =
            |row: u32| (self.offset(row, place.rank)..self.offset(row + 1, place.rank)).contains(&offset);
        let row = (first_row..first_row.checked_add(ranks)?).find(|&row| row < self.rows && holds(row))?;
        let beat = (offset - self.offset(row, place.rank)) as u32;
        let at = self.place_at(beat, place.element / BEAT_ELEMS)?;
        let (wave, position) = (at / self.beats_per_stripe, at % self.beats_per_stripe);
        let turn = if wave < full_waves {
            place.rank
        } else {
            let start = (u64::from(row) * u64::from(tail_stripes) % u64::from(ranks)) as u32;
            (place.rank + ranks - start) % ranks
        };
        let col = u64::from(wave * ranks + turn) * u64::from(stripe_elems)
            + u64::from(position * BEAT_ELEMS + place.element % BEAT_ELEMS);
        u32::try_from(col).ok().filter(|col| *col < cols).map(|col| (row, col))
    }

    /// Bursts of the fullest rank, which is rank 0: it has the first place of every turn.
    pub fn bursts_per_rank(&self) -> u64 {
        self.offset(self.rows, 0)
    }
}
