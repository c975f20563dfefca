//! Rows of FP16 numbers to the bursts that hold them.
//!
//! Rows come from a [`RowSource`] one at a time, so a matrix never has to be in memory as a whole.

use ndp_config::BEAT_ELEMS;
use ndp_files::{Result, bail, ensure};
use ndp_numerics::f16;

use crate::address::pack_elements;
use crate::{Burst, MatrixLayout};

/// A burst and where it belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PackedBurst {
    /// The rank.
    pub rank: u32,
    /// Its burst.
    pub burst: u32,
    /// The contents.
    pub data: Burst,
}

/// Something that has the rows of a matrix.
pub trait RowSource {
    /// Number of rows.
    fn rows(&self) -> u32;

    /// Elements of a row.
    fn cols(&self) -> u32;

    /// Puts row `row` into `into`, `[cols]`. Rows are asked for in rising order.
    ///
    /// # Errors
    /// Why the row cannot be had.
    fn read_row(&mut self, row: u32, into: &mut [f16]) -> Result<()>;
}

/// A row-major matrix in memory.
#[derive(Debug, Clone, Copy)]
pub struct SliceRows<'a> {
    cols: usize,
    data: &'a [f16],
}

impl<'a> SliceRows<'a> {
    /// The matrix `[data.len() / cols x cols]`.
    ///
    /// # Errors
    /// If `data` is not made of whole rows.
    pub fn new(cols: u32, data: &'a [f16]) -> Result<Self> {
        let width = cols as usize;
        if data.is_empty() || width == 0 || !data.len().is_multiple_of(width) {
            let expected = data.len().div_ceil(width.max(1)).max(1) as u64 * u64::from(cols);
            bail!("matrix: {} elements, expected {expected}", data.len());
        }
        Ok(Self { cols: width, data })
    }
}

impl RowSource for SliceRows<'_> {
    fn rows(&self) -> u32 {
        (self.data.len() / self.cols) as u32
    }

    fn cols(&self) -> u32 {
        self.cols as u32
    }

    fn read_row(&mut self, row: u32, into: &mut [f16]) -> Result<()> {
        let start = row as usize * self.cols;
        into.copy_from_slice(&self.data[start..start + self.cols]);
        Ok(())
    }
}

/// Rows from a function of row number and destination.
pub struct FnRows<F> {
    rows: u32,
    cols: u32,
    read: F,
}

impl<F: FnMut(u32, &mut [f16])> FnRows<F> {
    /// A matrix `[rows x cols]` whose rows `read` writes.
    pub fn new(rows: u32, cols: u32, read: F) -> Self {
        Self { rows, cols, read }
    }
}

impl<F: FnMut(u32, &mut [f16])> RowSource for FnRows<F> {
    fn rows(&self) -> u32 {
        self.rows
    }

    fn cols(&self) -> u32 {
        self.cols
    }

    fn read_row(&mut self, row: u32, into: &mut [f16]) -> Result<()> {
        (self.read)(row, into);
        Ok(())
    }
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

/// Hands every burst of a matrix to `sink`, row by row.
///
/// # Errors
/// If source and layout have other sizes, and what the source reports.
pub fn pack_matrix(
    layout: &MatrixLayout,
    source: &mut dyn RowSource,
    sink: &mut dyn FnMut(PackedBurst),
) -> Result<()> {
    for (what, found, expected) in
        [("rows", source.rows(), layout.rows()), ("columns", source.cols(), layout.cols())]
    {
        ensure!(found == expected, "{what}: {found} elements, expected {expected}");
    }
    let mut values = vec![f16::from_bits(0); layout.cols() as usize];
    for row in 0..layout.rows() {
        source.read_row(row, &mut values)?;
        layout.pack_row(row, &values).for_each(&mut *sink);
    }
    Ok(())
}
