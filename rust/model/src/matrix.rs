//! A row-major matrix of FP16 numbers: how weights lie in memory, on disk and in a [`crate::GemvOp`].

use ndp_files::{Result, ensure};
use std::sync::Arc;

use ndp_numerics::f16;

use crate::quantised::{QuantisedMatrix, RowOf};

/// `[rows x cols]`, row-major; a weight matrix is `[out x in]`, so one row is one neuron.
#[derive(Debug, Clone, PartialEq)]
pub struct Matrix {
    rows: usize,
    cols: usize,
    data: Vec<f16>,
    /// The quantised weights that it was made of.
    stored: Option<(RowOf, Arc<QuantisedMatrix>)>,
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
    /// Errors, named `what`, unless `data` has `rows * cols` elements.
    pub fn new(what: &str, rows: usize, cols: usize, data: Vec<f16>) -> Result<Self> {
        same_length(|| what.to_owned(), data.len(), rows.saturating_mul(cols))?;
        Ok(Self { rows, cols, data, stored: None })
    }

    /// Of `rows * cols` FP16 weights, and the quantised ones that they were made of.
    pub(crate) fn of_quantised(
        (rows, cols): (usize, usize),
        data: Vec<f16>,
        (row_of, stored): (RowOf, QuantisedMatrix),
    ) -> Self {
        Self { rows, cols, data, stored: Some((row_of, Arc::new(stored))) }
    }

    /// The INT8 or INT4 weights that it was made of, and what their rows are; none of an FP16 matrix.
    pub fn stored(&self) -> Option<(RowOf, &QuantisedMatrix)> {
        self.stored.as_ref().map(|(row_of, matrix)| (*row_of, &**matrix))
    }

    /// One row, `[cols]`.
    ///
    /// # Panics
    /// If `row >= rows`, as a slice index would.
    pub fn row(&self, row: usize) -> &[f16] {
        &self.data[row * self.cols..(row + 1) * self.cols]
    }
}

/// Refuses data of another length; `what` names them.
pub(crate) fn same_length(what: impl FnOnce() -> String, found: usize, expected: usize) -> Result<()> {
    ensure!(found == expected, "{} has {found} elements, expected {expected}", what());
    Ok(())
}
