//! Cuts rows of a matrix over the ranks, and checks shapes against a design.
//!
//! A row is cut into stripes of [`GemvConfig::stripe_elems`] elements. Stripe `j` of the full waves belongs to rank
//! `j mod ranks`. The rest (fewer than `ranks` stripes) is the tail: row `r`'s tail starts at rank
//! `r * tail_stripes mod ranks`, so that no rank idles.

use crate::{DesignConfig, GemvConfig, in_ranges, require};
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
    /// Remaining stripes, `0..ranks`.
    pub tail_stripes: u32,
    /// Slice words of a vector's tail: each rank meets this number of different tail stripes.
    pub tail_words: u32,
}

impl RowLayout {
    /// `cols` is at least 1.
    pub fn new(config: &GemvConfig, cols: u32) -> Self {
        let ranks = config.ranks();
        let stripes = cols.div_ceil(config.stripe_elems());
        let (full_waves, tail_stripes) = (stripes / ranks, stripes % ranks);
        // A rank meets only every g-th tail stripe, g = gcd(tail_stripes, ranks); both are at most 4 and ranks is a
        // power of two.
        let gcd = 1 << tail_stripes.trailing_zeros().min(ranks.trailing_zeros());
        let tail_words = if tail_stripes == 0 { 0 } else { tail_stripes / gcd };
        Self { cols, stripe_elems: config.stripe_elems(), ranks, full_waves, tail_stripes, tail_words }
    }

    /// Slice words of one activation vector.
    pub fn words_per_vector(&self) -> u32 {
        self.full_waves + self.tail_words
    }

    /// Stripes of `row` that `rank` takes, in order.
    pub fn stripes_of(&self, row: u32, rank: u32) -> impl Iterator<Item = u32> + use<> {
        let Self { ranks, full_waves, tail_stripes, .. } = *self;
        let start = (u64::from(row) * u64::from(tail_stripes) % u64::from(ranks)) as u32;
        let tail = (rank + ranks - start) % ranks;
        let tail_stripe = (tail < tail_stripes).then_some(full_waves * ranks + tail);
        (0..full_waves).map(move |wave| wave * ranks + rank).chain(tail_stripe)
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
