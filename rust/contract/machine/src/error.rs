//! The one error type of the crate.

use ndp_layout::LayoutError;
use ndp_numerics::NumericsError;

/// What keeps a program from being run at all. A malformed instruction is none of it: that is the program's business.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MachineError {
    /// Parameters that the arithmetic does not have.
    #[error("the design's arithmetic")]
    Numerics(#[from] NumericsError),
    /// Data that cannot be placed.
    #[error("{directive}")]
    Data {
        /// The directive.
        directive: String,
        /// Why.
        source: LayoutError,
    },
}
