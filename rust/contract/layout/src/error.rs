//! The one error type of the crate: each variant carries the offending value and the limit it broke.

/// What cannot be placed, cut or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// A size outside its range.
    #[error("{what} = {value} must be {min}..={max}")]
    Range {
        /// Which size.
        what: &'static str,
        /// Its value.
        value: u64,
        /// Least value.
        min: u64,
        /// Largest value.
        max: u64,
    },
    /// Not enough room in the DRAM.
    #[error("{what} needs {needed} bursts of each rank, {free} of {total} are free")]
    Capacity {
        /// What was to be placed.
        what: String,
        /// Bursts that it needs in every rank.
        needed: u64,
        /// Bursts that are left.
        free: u64,
        /// Bursts of a rank.
        total: u64,
    },
    /// A name that is in use already.
    #[error("{name:?} is placed already")]
    NameTaken {
        /// The name.
        name: String,
    },
    /// An `axpy` of which not even one stripe per rank at batch 1 fits the buffer.
    #[error("{needed} words of accumulators and factors do not fit, {available} of the buffer are free")]
    NoTile {
        /// Words of the least tile.
        needed: u32,
        /// Words to put it into.
        available: u32,
    },
    /// Data that have not the length which their shape implies.
    #[error("{what}: {found} elements, expected {expected}")]
    Length {
        /// Which data.
        what: &'static str,
        /// Elements found.
        found: u64,
        /// Elements expected.
        expected: u64,
    },
    /// Rows that their source could not deliver.
    #[error("row {row} cannot be read: {reason}")]
    Source {
        /// The row.
        row: u32,
        /// Why.
        reason: String,
    },
}

/// [`LayoutError::Range`] unless `min <= value <= max`.
pub(crate) fn in_range(what: &'static str, value: u64, min: u64, max: u64) -> Result<(), LayoutError> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    Err(LayoutError::Range { what, value, min, max })
}
