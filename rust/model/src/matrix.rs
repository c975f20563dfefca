//! A row-major matrix of FP16 numbers, as in a [`crate::GemvOp`].

use ndp_config::WeightFormat;
use ndp_files::{Result, ensure};
use std::sync::Arc;

use ndp_numerics::f16;

use crate::quantised::{QuantisedMatrix, RowOf};

/// `[rows x cols]`, row-major. A weight matrix is `[out x in]`: a row is a neuron.
#[derive(Debug, Clone, PartialEq)]
pub struct Matrix {
    rows: usize,
    cols: usize,
    data: Vec<f16>,
    /// Underlying quantised weights.
    stored: Option<(RowOf, Arc<QuantisedMatrix>)>,
    /// Blocks of 32 inputs of a row from which a file's weights come: their format and scales.
    blocks: Option<(WeightFormat, Vec<f16>)>,
}

ndp_config::getters!(Matrix {
    /// Number of rows (outputs).
    rows: usize,
    /// Number of columns (inputs).
    cols: usize,
    /// All elements, row after row.
    data: &[f16],
});

impl Matrix {
    /// Fails, naming `what`, unless `data` has `rows * cols` elements.
    pub fn new(what: &str, rows: usize, cols: usize, data: Vec<f16>) -> Result<Self> {
        same_length(|| what.to_owned(), data.len(), rows.saturating_mul(cols))?;
        Ok(Self { rows, cols, data, stored: None, blocks: None })
    }

    /// FP16 weights with the quantised ones from which they come.
    pub(crate) fn of_quantised(
        (rows, cols): (usize, usize),
        data: Vec<f16>,
        (row_of, stored): (RowOf, QuantisedMatrix),
    ) -> Self {
        Self { rows, cols, data, stored: Some((row_of, Arc::new(stored))), blocks: None }
    }

    /// Format and scales of the file's blocks of 32 inputs, by row; each weight is `RNE16(q * s)`.
    pub(crate) fn blocks(&self) -> Option<(WeightFormat, &[f16])> {
        self.blocks.as_ref().map(|(format, scales)| (*format, &scales[..]))
    }

    /// Keeps the scales of the file's blocks, so that quantising to their format changes no weight.
    pub(crate) fn keep_blocks(&mut self, format: WeightFormat, scales: Vec<f16>) {
        self.blocks = Some((format, scales));
    }

    /// Underlying INT8 or INT4 weights, and the meaning of their rows; `None` for FP16.
    pub fn stored(&self) -> Option<(RowOf, &QuantisedMatrix)> {
        self.stored.as_ref().map(|(row_of, matrix)| (*row_of, &**matrix))
    }

    /// One row, `[cols]`. Panics if `row >= rows`.
    pub fn row(&self, row: usize) -> &[f16] {
        &self.data[row * self.cols..(row + 1) * self.cols]
    }
}

pub(crate) fn same_length(what: impl FnOnce() -> String, found: usize, expected: usize) -> Result<()> {
    ensure!(found == expected, "{} has {found} elements, expected {expected}", what());
    Ok(())
}
