//! A row-major matrix of FP16 numbers: how weights lie in memory, on disk and in a [`crate::GemvOp`].

use ndp_numerics::f16;

use crate::ModelError;

/// `[rows x cols]`, row-major; a weight matrix is `[out x in]`, so one row is one neuron.
#[derive(Debug, Clone, PartialEq)]
pub struct Matrix {
    rows: usize,
    cols: usize,
    data: Vec<f16>,
}

impl Matrix {
    /// Errors ([`ModelError::Length`], named `what`) unless `data` has `rows * cols` elements.
    pub fn new(what: &str, rows: usize, cols: usize, data: Vec<f16>) -> Result<Self, ModelError> {
        let expected = rows.saturating_mul(cols);
        if data.len() != expected {
            return Err(ModelError::Length { what: what.to_owned(), found: data.len(), expected });
        }
        Ok(Self { rows, cols, data })
    }

    /// Number of rows (outputs).
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Number of columns (inputs).
    pub fn cols(&self) -> usize {
        self.cols
    }

    /// All elements, row after row.
    pub fn data(&self) -> &[f16] {
        &self.data
    }

    /// One row, `[cols]`.
    ///
    /// # Panics
    /// If `row >= rows`, as a slice index would.
    pub fn row(&self, row: usize) -> &[f16] {
        &self.data[row * self.cols..(row + 1) * self.cols]
    }
}
