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
    /// All bursts of one row, `values: [cols]`, rank by rank; +0 beyond the end of the row or of shorter `values`.
    pub fn pack_row(&self, row: u32, values: &[f16]) -> impl Iterator<Item = PackedBurst> {
        (0..self.cut().ranks).flat_map(move |rank| {
            self.weight_places(row, rank).map(move |place| {
                let rest = values.get(place.col as usize..).unwrap_or_default();
                let elements = rest.iter().take(BEAT_ELEMS as usize);
                let data = pack_elements(elements.map(|value| value.to_bits()));
                PackedBurst { rank, burst: self.burst_at(place.burst), data }
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
