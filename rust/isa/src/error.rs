//! The error of the parser of programs.
//!
//! An instruction that can be written but not executed is no failure of this crate: that is [`crate::Malformed`].

/// A line that is neither instruction nor directive.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: found {token:?}, expected {expected}")]
pub struct IsaError {
    /// Line of the text, from 1.
    pub line: usize,
    /// The offending part of the line; empty where it ends too early.
    pub token: String,
    /// What belongs there.
    pub expected: String,
}
