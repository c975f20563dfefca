//! What can be wrong with sizes, tables and batches.

use ndp_config::ConfigError;
use thiserror::Error;

/// Why something cannot be scheduled.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum OffloadError {
    /// Hardware that cannot be.
    #[error(transparent)]
    Hardware(#[from] ConfigError),
    /// A number outside its range.
    #[error("{what} = {value} must be in {min}..={max}")]
    Range {
        /// What it is.
        what: &'static str,
        /// What was given.
        value: u64,
        /// The least.
        min: u64,
        /// The most.
        max: u64,
    },
    /// A table whose axis does not rise.
    #[error("table: {axis}[{index}] = {value} must be above {previous}")]
    Axis {
        /// The axis.
        axis: &'static str,
        /// Place on it.
        index: usize,
        /// Value there.
        value: u32,
        /// Value before.
        previous: u32,
    },
    /// A table with too many or too few times.
    #[error("table: {column} has {found} entries, {expected} expected")]
    Entries {
        /// The column.
        column: &'static str,
        /// Entries found.
        found: usize,
        /// Entries of the axes.
        expected: usize,
    },
    /// A time that falls while its axis rises: more work cannot take less time, or the balance is not found.
    #[error("table: {column}[{index}] = {value} ps must be at least {least} ps, as with less work")]
    Falling {
        /// The column.
        column: &'static str,
        /// Place in it.
        index: usize,
        /// Time there.
        value: u64,
        /// Time with less work.
        least: u64,
    },
    /// A table of another model or memory.
    #[error("the table has times of {of_table}, not of {wanted}; write one with --sample-times")]
    Origin {
        /// Model and memory in the table.
        of_table: String,
        /// Model and memory of the planner.
        wanted: String,
    },
    /// A table without model and memory, as older versions wrote it.
    #[error("the table does not say its model and memory in `of`; write it anew with --sample-times")]
    NoOrigin,
    /// Work beyond the table.
    #[error("{what} = {value} is beyond the table, which ends at {max}")]
    BeyondTable {
        /// What it is.
        what: &'static str,
        /// What was asked.
        value: u32,
        /// End of the axis.
        max: u32,
    },
    /// A batch without requests.
    #[error("the batch has no requests that are not finished")]
    EmptyBatch,
}

/// Checks a range.
///
/// # Errors
/// [`OffloadError::Range`].
pub fn in_range(what: &'static str, value: u64, min: u64, max: u64) -> Result<(), OffloadError> {
    if (min..=max).contains(&value) { Ok(()) } else { Err(OffloadError::Range { what, value, min, max }) }
}
