//! The one error type of the crate: each variant carries the offending value and the limit it broke.

use std::path::PathBuf;

/// What cannot be predicted with, sampled, read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PredictorError {
    /// A parameter outside its range.
    #[error("{what} = {value} must be {min}..={max}")]
    Range {
        /// Which parameter.
        what: &'static str,
        /// Its value.
        value: u64,
        /// Least value.
        min: u64,
        /// Largest value.
        max: u64,
    },
    /// A frequency that is none.
    #[error("frequency of neuron {neuron} of block {block} is {value}, it must be 0..=1")]
    Frequency {
        /// Block.
        block: usize,
        /// Neuron of the block.
        neuron: usize,
        /// Its frequency.
        value: f64,
    },
    /// Data that have not the length which the shape implies.
    #[error("{what}: {found} entries, expected {expected}")]
    Length {
        /// Which data.
        what: &'static str,
        /// Entries found.
        found: usize,
        /// Entries expected.
        expected: usize,
    },
    /// A block that the shape does not have.
    #[error("block {block} does not exist, the shape has {blocks}")]
    Block {
        /// The block's number.
        block: usize,
        /// Blocks of the shape.
        blocks: usize,
    },
    /// A bit behind a block's last neuron.
    #[error("block {block} has {neurons} neurons, but a bit behind them is set: last word = {word:#018x}")]
    StrayBits {
        /// The block's number.
        block: usize,
        /// Its neurons.
        neurons: u32,
        /// Its last word.
        word: u64,
    },
    /// A parent that does not exist, or the same one twice.
    #[error(
        "neuron {neuron} of block {block}: parents {first:?} and {second:?} must be two neurons below {limit}, the second only behind a first"
    )]
    Parents {
        /// Block of the child.
        block: usize,
        /// The child.
        neuron: usize,
        /// Its first parent.
        first: Option<u32>,
        /// Its second parent.
        second: Option<u32>,
        /// Neurons of the previous block.
        limit: u32,
    },
    /// A list of places that is no permutation.
    #[error("order of block {block}: neuron {neuron} occurs twice or is not below {limit}")]
    Order {
        /// Block.
        block: usize,
        /// The entry.
        neuron: u32,
        /// Neurons of the block.
        limit: u32,
    },
    /// A table or states of another shape.
    #[error("{what} is for another shape: {found}, expected {expected}")]
    Shape {
        /// What was given.
        what: &'static str,
        /// Its shape.
        found: String,
        /// The shape that was expected.
        expected: String,
    },
    /// A file that cannot be read or written.
    #[error("{path}: {source}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The operating system's reason.
        source: std::io::Error,
    },
    /// A file that is no table, or a damaged one.
    #[error("{path}: {reason}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong, with the values.
        reason: String,
    },
}

/// [`PredictorError::Range`] unless `min <= value <= max`.
pub(crate) fn in_range(what: &'static str, value: u64, min: u64, max: u64) -> Result<(), PredictorError> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    Err(PredictorError::Range { what, value, min, max })
}

/// [`PredictorError::Length`] unless both are the same.
pub(crate) fn same_length(what: &'static str, found: usize, expected: usize) -> Result<(), PredictorError> {
    if found == expected {
        return Ok(());
    }
    Err(PredictorError::Length { what, found, expected })
}
