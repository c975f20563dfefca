//! Packs rows of FP16 numbers into bursts, one row at a time, so that a matrix never is in memory as a whole.

use ndp_config::BEAT_ELEMS;
use ndp_numerics::f16;

use crate::layout::address::pack_elements;
use crate::layout::{Burst, MatrixLayout};

/// A burst and where it belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PackedBurst {
    /// The rank.
    pub rank: u32,
    /// Burst of the rank.
    pub burst: u32,
    /// The contents.
    pub data: Burst,
}

impl MatrixLayout {
    /// All bursts of one row, `values: [cols]`, rank by rank; +0 beyond the row's end.
    pub fn pack_row(&self, row: u32, values: &[f16]) -> impl Iterator<Item = PackedBurst> {
        let stripe_beats = self.beats_per_stripe();
        (0..self.cut().ranks).flat_map(move |rank| {
            let first = self.offset(row, rank);
            let stripes = self.cut().stripes_of(row, rank).enumerate();
            stripes.flat_map(move |(ordinal, stripe)| {
                (0..stripe_beats).map(move |beat| {
                    let start = (stripe * stripe_beats + beat) as usize * BEAT_ELEMS as usize;
                    let rest = values.get(start..).unwrap_or_default();
                    let offset = first + ordinal as u64 * u64::from(stripe_beats) + u64::from(beat);
                    let data = pack_elements(rest.iter().map(|value| value.to_bits()));
                    PackedBurst { rank, burst: self.burst_at(offset), data }
                })
            })
        })
    }
}

/// Passes every burst of a matrix to `sink`, row by row; `read` fills a row, `[cols]`.
pub fn pack_matrix(
    layout: &MatrixLayout,
    mut read: impl FnMut(u32, &mut [f16]),
    mut sink: impl FnMut(PackedBurst),
) {
    let mut values = vec![f16::from_bits(0); layout.cols() as usize];
    for row in 0..layout.rows() {
        read(row, &mut values);
        layout.pack_row(row, &values).for_each(&mut sink);
    }
}
