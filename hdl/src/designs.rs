//! The blocks of a configuration by name: what the generator, the build script and the synthesis flow ask for.

use crate::blocks::{activation_loader, serial_lane};
use crate::blocks::{
    combiner, compute_tile, fp16_rounder, gemv_unit, multiplier_unit, rank_group, reduction_tree,
};
use crate::layer::{Design, HdlError};
use ndp_config::DesignConfig;

/// Blocks that can be elaborated alone, the largest first.
pub const BLOCKS: &[&str] = &[
    "gemv_unit",
    "rank_group",
    "compute_tile",
    "multiplier_unit",
    "serial_lane",
    "reduction_tree",
    "activation_loader",
    "combiner",
    "fp16_rounder",
];

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
pub fn build(config: &DesignConfig, block: &str) -> Result<Design, BuildError> {
    let gemv = config.gemv();
    let top = match block {
        "gemv_unit" => gemv_unit::gemv_unit(gemv),
        "rank_group" => rank_group::rank_group(gemv),
        "compute_tile" => compute_tile::compute_tile(gemv),
        "multiplier_unit" => multiplier_unit::multiplier_unit(gemv),
        "serial_lane" => serial_lane::serial_lane(gemv.serial_steps(), gemv.window_cycles()),
        "reduction_tree" => reduction_tree::reduction_tree(gemv.units_per_rank(), gemv.digit_bits()),
        "activation_loader" => activation_loader::activation_loader(gemv),
        "combiner" => combiner::combiner(gemv),
        "fp16_rounder" => fp16_rounder::fp16_rounder(gemv),
        _ => return Err(BuildError::UnknownBlock { block: block.to_owned() }),
    };
    Ok(Design::new(&top?)?)
}
