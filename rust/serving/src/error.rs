//! Why requests cannot be read or served.

use ndp_config::ConfigError;
use ndp_offloading::OffloadError;
use ndp_pim::PimError;
use ndp_systems::SystemsError;
use thiserror::Error;

/// Why requests cannot be read or served.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServingError {
    /// A line of a trace.
    #[error("line {line}: {what}")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// What is wrong.
        what: String,
    },
    /// A trace without requests.
    #[error("the trace has no requests")]
    NoRequests,
    /// A number that is none, or not in its range.
    #[error("{what} = {value} must be {expected}")]
    Number {
        /// What it is.
        what: &'static str,
        /// What was given.
        value: f64,
        /// What it has to be.
        expected: &'static str,
    },
    /// A request whose keys and values have no room even alone.
    #[error(
        "request {number} ({input} tokens in, {output} out) can never be served: its keys and values need {needed} blocks of {block_tokens} tokens, \
        {needed_bytes} bytes, and there are {blocks} blocks, {bytes} bytes"
    )]
    NeverFits {
        /// Its number in the trace, from 1.
        number: usize,
        /// Tokens of its prompt.
        input: u32,
        /// Tokens to generate.
        output: u32,
        /// Blocks that it needs at its end.
        needed: u64,
        /// Tokens of a block.
        block_tokens: u32,
        /// Bytes of those.
        needed_bytes: u64,
        /// Blocks that there are.
        blocks: u64,
        /// Bytes of those.
        bytes: u64,
    },
    /// Weights that have no room, or leave none for keys and values.
    #[error("weights of {needed} bytes leave no room for keys and values in the {bytes} bytes of {memory}")]
    Weights {
        /// Bytes of the weights.
        needed: u64,
        /// Bytes of the memory.
        bytes: u64,
        /// Which memory.
        memory: String,
    },
    /// A model that cannot be divided.
    #[error("{parts} chips by {how} parallelism cannot share {what} = {value}: it is not a multiple")]
    Divided {
        /// Tensor or pipeline.
        how: &'static str,
        /// Number of parts.
        parts: u32,
        /// What is divided.
        what: &'static str,
        /// How much of it there is.
        value: u32,
    },
    /// A policy that does not run the model.
    #[error(transparent)]
    Systems(#[from] SystemsError),
    /// A number outside its range, or a step that cannot be planned.
    #[error(transparent)]
    Offload(#[from] OffloadError),
    /// Texts that a machine cannot generate.
    #[error(transparent)]
    Pim(#[from] PimError),
    /// A file or a preset.
    #[error(transparent)]
    Config(#[from] ConfigError),
}
