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
    #[error("{path}: {reason}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The operating system's reason.
        reason: std::io::Error,
    },
    /// A file that is no table, or a damaged one.
    #[error("{path}: {reason}", path = path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong, with the values.
        reason: String,
    },
    /// A file that is no safetensors file, or a damaged one.
    #[error("{path}: not a valid safetensors file: {reason}", path = path.display())]
    SafeTensors {
        /// The file.
        path: PathBuf,
        /// The parser's reason.
        reason: safetensors::SafeTensorError,
    },
    /// A tensor that a predictor needs and the file does not hold.
    #[error("{path}: tensor {tensor} is missing, expected shape {expected}", path = path.display())]
    MissingTensor {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// The shape that it should have.
        expected: String,
    },
    /// A tensor of another shape.
    #[error("{path}: tensor {tensor} has shape {found:?}, expected {expected}", path = path.display())]
    TensorShape {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// Its shape.
        found: Vec<usize>,
        /// The shape that it should have; `rank` is any number from 1.
        expected: String,
    },
    /// A tensor of another element type.
    #[error("{path}: tensor {tensor} has dtype {found:?}, expected F16", path = path.display())]
    Dtype {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// Its element type.
        found: safetensors::Dtype,
    },
    /// An infinity or a NaN among the numbers of a tensor.
    #[error(
        "{path}: tensor {tensor}, element {index} is {bits:#06x}, expected a finite number",
        path = path.display()
    )]
    NotFinite {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// Place of the element, row-major.
        index: usize,
        /// Its bit pattern.
        bits: u16,
    },
    /// A layer without a predictor.
    #[error("layer {layer} does not exist, there are predictors for {layers}")]
    Layer {
        /// The layer's number.
        layer: usize,
        /// Layers that there are.
        layers: usize,
    },
    /// A low-rank predictor that is asked without the input of the block.
    #[error("block {block}: a low-rank predictor needs the input of the block, and none was given")]
    NoInput {
        /// The block's number.
        block: usize,
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
