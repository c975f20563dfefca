//! Cuts rows of a matrix over the ranks, and checks shapes against a design.
//!
//! A row is cut into stripes of [`GemvConfig::stripe_elems`] elements. Stripe `j` of the full waves belongs to rank
//! `j mod ranks`. The rest is the tail: row `r`'s tail starts at rank `r mod ranks`, so that all ranks have the same
//! number of places in `ranks` consecutive rows. A wave whose last stripe has fewer places is a tail too, in rows of up
//! to [`GemvConfig::TAILED_WAVES`] waves; in longer ones the tail's words would cost more than the place that a rank
//! lacks. Two whole stripes over four ranks start at rank `2 * r mod 4`, so that a rank meets only one of them.

use crate::{BEAT_ELEMS, DesignConfig, GemvConfig, in_ranges, require};
use ndp_files::Result;
use serde::Serialize;

/// `y[batch x rows] = w[rows x cols] * x[batch x cols]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct GemvShape {
    /// Rows of the weight matrix (outputs).
    pub rows: u32,
    /// Columns of the weight matrix (inputs).
    pub cols: u32,
    /// Vectors that share the weights.
    pub batch: u32,
}

/// The cut of one row over the ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowLayout {
    /// Elements of the row.
    pub cols: u32,
    /// Elements of one stripe.
    pub stripe_elems: u32,
    /// Ranks.
    pub ranks: u32,
    /// Stripes of every row in every rank.
    pub full_waves: u32,
    /// Remaining stripes, `0..=ranks`; `ranks` if they are a wave whose last stripe is short.
    pub tail_stripes: u32,
}

impl RowLayout {
    /// `cols` is at least 1.
    pub fn new(config: &GemvConfig, cols: u32) -> Self {
        let (ranks, stripe_elems) = (config.ranks(), config.stripe_elems());
        let stripes = cols.div_ceil(stripe_elems);
        let (full_waves, tail_stripes) = (stripes / ranks, stripes % ranks);
        let is_whole = cols.div_ceil(BEAT_ELEMS).is_multiple_of(config.beats_per_stripe());
        let is_tail = tail_stripes == 0 && !is_whole && full_waves <= GemvConfig::TAILED_WAVES;
        let (full_waves, tail_stripes) =
            if is_tail { (full_waves - 1, ranks) } else { (full_waves, tail_stripes) };
        Self { cols, stripe_elems, ranks, full_waves, tail_stripes }
    }

    /// Whether the tail is two whole stripes over four ranks.
    pub fn is_paired(&self) -> bool {
        self.ranks == 4
            && self.tail_stripes == 2
            && self.elems_of(self.stripes() - 1) > self.stripe_elems - BEAT_ELEMS
    }

    /// Slice words of a vector's tail: a rank meets all its stripes, or one of two.
    pub fn tail_words(&self) -> u32 {
        if self.is_paired() { 1 } else { self.tail_stripes }
    }

    /// Slice words of one activation vector.
    pub fn words_per_vector(&self) -> u32 {
        self.full_waves + self.tail_words()
    }

    /// The rank at which the tail of a row starts.
    pub fn tail_start(&self, row: u32) -> u32 {
        row.wrapping_mul(if self.is_paired() { 2 } else { 1 }) % self.ranks
    }

    /// The stripe of the tail that `rank` takes of `row`, counted from 0.
    pub fn tail_of(&self, row: u32, rank: u32) -> Option<u32> {
        let tail = (rank + self.ranks - self.tail_start(row)) % self.ranks;
        (tail < self.tail_stripes).then_some(tail)
    }

    /// Stripes of `row` that `rank` takes, in order.
    pub fn stripes_of(&self, row: u32, rank: u32) -> impl Iterator<Item = u32> + use<> {
        let Self { ranks, full_waves, .. } = *self;
        let tail = self.tail_of(row, rank).map(|tail| full_waves * ranks + tail);
        (0..full_waves).map(move |wave| wave * ranks + rank).chain(tail)
    }

    /// `stripe_elems`, fewer in the row's last stripe, 0 past it.
    pub fn elems_of(&self, stripe: u32) -> u32 {
        self.cols.saturating_sub(stripe.saturating_mul(self.stripe_elems)).min(self.stripe_elems)
    }

    /// Stripes of one row.
    pub fn stripes(&self) -> u32 {
        self.full_waves * self.ranks + self.tail_stripes
    }
}

impl GemvShape {
    /// Checks that the design takes the shape in one pass; fails for its sizes, or if activations exceed the buffer.
    pub fn check(&self, config: &GemvConfig) -> Result<RowLayout> {
        in_ranges(&[
            ("rows", self.rows, 1, config.max_rows()),
            ("cols", self.cols, 1, config.max_cols()),
            ("batch", self.batch, 1, config.max_batch()),
        ])?;
        let layout = RowLayout::new(config, self.cols);
        let words = layout.words_per_vector() * self.batch;
        require(
            words <= config.slice_words(),
            format!("slice words for cols = {} at batch = {}", self.cols, self.batch),
            words,
            format!("be at most {} (a {} KiB buffer)", config.slice_words(), config.buffer_kib()),
        )?;
        Ok(layout)
    }

    /// Largest batch of one pass; 0 if not even one vector fits, or `cols` is 0.
    pub fn max_batch(config: &GemvConfig, cols: u32) -> u32 {
        let words = RowLayout::new(config, cols).words_per_vector();
        config.slice_words().checked_div(words).unwrap_or(0).min(config.max_batch())
    }

    /// Multiply-accumulates of the product.
    pub fn macs(&self) -> u64 {
        u64::from(self.rows) * u64::from(self.cols) * u64::from(self.batch)
    }

    /// Least cycles of any machine with these memories and multipliers, rounded up, without refresh.
    pub fn roofline_cycles(&self, config: &DesignConfig) -> u64 {
        let dram = config.dram_weights_per_cycle() * f64::from(self.batch);
        (self.macs() as f64 / dram.min(config.gemv().peak_macs_per_cycle())).ceil() as u64
    }
}
