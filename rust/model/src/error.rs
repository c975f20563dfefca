//! The one error type of the crate: each variant names the file, the tensor or the value, and what was expected.

use std::error::Error;
use std::path::PathBuf;

use ndp_numerics::{NumericsError, f16};
use safetensors::Dtype;

/// What can go wrong while loading or running a model.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// A file that cannot be read, or is not there.
    #[error("cannot read {path}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The operating system's reason.
        source: std::io::Error,
    },
    /// A JSON file (`config.json`, the shard index) that is no JSON or has a field of the wrong type.
    #[error("{path} is not valid", path = path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// Where and why.
        source: serde_json::Error,
    },
    /// An option of `config.json` that this decoder does not implement, or that contradicts another one.
    #[error("config: {field} = {found}, expected {expected}")]
    Config {
        /// The field.
        field: &'static str,
        /// The value found.
        found: String,
        /// What is supported.
        expected: String,
    },
    /// Neither `model.safetensors` nor `model.safetensors.index.json` in the directory.
    #[error("no weights in '{dir}': expected model.safetensors or model.safetensors.index.json{hint}", dir = dir.display())]
    NoWeights {
        /// The directory.
        dir: PathBuf,
        /// Weights in the directory that cannot be used, and what to do with them.
        hint: String,
    },
    /// A file that stands for another one.
    #[error("'{path}' is {what}", path = path.display())]
    StandIn {
        /// The file.
        path: PathBuf,
        /// Kind of file, and how to get the one that it stands for.
        what: &'static str,
    },
    /// A shard index that names a file outside its directory.
    #[error("{path}: shard {shard:?} of tensor {tensor} must be a plain file name", path = path.display())]
    ShardName {
        /// The index.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// The name found.
        shard: String,
    },
    /// A weights file that is truncated or corrupt.
    #[error("{path}: not a valid safetensors file: {reason}", path = path.display())]
    SafeTensors {
        /// The file.
        path: PathBuf,
        /// The fault, with its tensor if there is one.
        reason: String,
    },
    /// A tensor that the model needs and the file does not hold.
    #[error("{path}: tensor {tensor} is missing{hint}", path = path.display())]
    MissingTensor {
        /// The file, or the shard index.
        path: PathBuf,
        /// The name looked for.
        tensor: String,
        /// Other name that was tried, or tensor of a quantised checkpoint.
        hint: String,
    },
    /// A tensor of another element type.
    #[error("{path}: tensor {tensor} has dtype {found:?}, expected F16, BF16 or F32 (convert a quantised checkpoint first)", path = path.display())]
    Dtype {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// Its element type.
        found: Dtype,
    },
    /// A tensor whose shape contradicts `config.json`.
    #[error("{path}: tensor {tensor} has shape {found:?}, expected {expected:?}", path = path.display())]
    Shape {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// Its shape.
        found: Vec<usize>,
        /// The shape that the configuration implies.
        expected: Vec<usize>,
    },
    /// A weight that is infinite or no number.
    #[error("{path}: tensor {tensor}: {index:?} is {value}, weights must be finite in FP16", path = path.display())]
    NotFinite {
        /// The file.
        path: PathBuf,
        /// The tensor.
        tensor: String,
        /// Index of the first such element, row and column of a matrix.
        index: Vec<usize>,
        /// Its value.
        value: f16,
    },
    /// A weight of a matrix that is to be quantised.
    #[error("{what} has the weight {value}, only finite weights can be quantised")]
    NotQuantisable {
        /// Which matrix.
        what: String,
        /// The weight.
        value: f16,
    },
    /// A flat vector that is not as long as its shape says.
    #[error("{what} has {found} elements, expected {expected}")]
    Length {
        /// Which vector.
        what: String,
        /// Its length.
        found: usize,
        /// The length its shape implies.
        expected: usize,
    },
    /// Nothing to run the model on.
    #[error("the prompt is empty, at least one token is needed")]
    EmptyPrompt,
    /// More positions than the model has.
    #[error(
        "the text needs {requested} positions, but the model supports {max} ({limit}); use a shorter prompt or generate fewer tokens"
    )]
    PositionOverflow {
        /// Prompt and tokens to generate, or the position that was asked for and all before it.
        requested: usize,
        /// The model's number of positions.
        max: usize,
        /// Field of `config.json` that limits it.
        limit: &'static str,
    },
    /// A token that is not in the vocabulary.
    #[error("token {token} is outside the vocabulary, vocab_size = {vocab_size}")]
    TokenOutOfRange {
        /// The token.
        token: u32,
        /// Size of the vocabulary.
        vocab_size: usize,
    },
    /// Text was asked of a model whose tokens nobody describes.
    #[error(
        "text needs a tokenizer.json in the folder of the weights, or bytes as tokens: vocab_size = {vocab_size}, expected 256"
    )]
    NoVocabulary {
        /// Size of the vocabulary.
        vocab_size: usize,
    },
    /// A `tokenizer.json` that is not valid or does not fit the model, or a text that it cannot encode.
    #[error("{path}: {reason}", path = path.display())]
    Tokenizer {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// An operation of the numerics contract refused its operands.
    #[error("{at}")]
    Numerics {
        /// Which operation of the model.
        at: String,
        /// Why.
        source: NumericsError,
    },
    /// The backend failed.
    #[error("{label}: the backend failed")]
    Backend {
        /// The label of the operation.
        label: String,
        /// The backend's own error.
        source: Box<dyn Error + Send + Sync>,
    },
}

impl ModelError {
    /// Refuses a vector that is not as long as its shape says.
    pub(crate) fn check_length(
        what: impl FnOnce() -> String,
        found: usize,
        expected: usize,
    ) -> Result<(), Self> {
        if found == expected { Ok(()) } else { Err(Self::Length { what: what(), found, expected }) }
    }
}
