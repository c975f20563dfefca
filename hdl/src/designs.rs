//! The blocks of a configuration by name: what the generator, the build script and the synthesis flow ask for.

use crate::layer::{Design, HdlError};
use ndp_config::DesignConfig;

/// Blocks that can be elaborated alone, the largest first.
pub const BLOCKS: &[&str] = &["gemv_unit", "multiplier_unit", "fp16_rounder"];

/// Why a design could not be elaborated.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// No block of that name.
    #[error("unknown block `{block}`; the blocks are {}", BLOCKS.join(", "))]
    UnknownBlock {
        /// The name.
        block: String,
    },
    /// A generator broke a rule of the layer.
    #[error(transparent)]
    Hdl(#[from] HdlError),
}

/// Elaborates one block of a configuration with everything below it.
///
/// # Errors
/// [`BuildError::UnknownBlock`] for a name that is not in [`BLOCKS`]; [`BuildError::Hdl`] if a generator is wrong.
pub fn build(_config: &DesignConfig, block: &str) -> Result<Design, BuildError> {
    Err(BuildError::UnknownBlock { block: block.to_owned() })
}
