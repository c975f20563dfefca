//! The one error type of the crate: what cannot be written down as an instruction.
//!
//! An instruction that can be written but not executed is no failure of this crate: that is [`crate::Malformed`].

/// Why a text is no program, or an [`crate::Instruction`] has no encoding.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IsaError {
    /// A line that is neither instruction nor directive.
    #[error("line {line}: found {token:?}, expected {expected}")]
    Syntax {
        /// Line of the text, from 1.
        line: usize,
        /// The offending part of the line; empty where it ends too early.
        token: String,
        /// What belongs there.
        expected: String,
    },
    /// A value that its field of the encoding cannot hold.
    #[error("{field} = {value} must be {min}..={max}")]
    Field {
        /// The field.
        field: &'static str,
        /// The value.
        value: u64,
        /// Least value of the field.
        min: u64,
        /// Largest value of the field.
        max: u64,
    },
    /// A value of which only powers of two have an encoding.
    #[error("{field} = {value} must be a power of two")]
    PowerOfTwo {
        /// The field.
        field: &'static str,
        /// The value.
        value: u64,
    },
}
