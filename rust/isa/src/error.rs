//! Error of the parser. A legal line that the design cannot execute is [`crate::Malformed`] instead.

/// A line that is neither instruction nor directive.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: found {token:?}, expected {expected}")]
pub struct IsaError {
    /// Line of the text, from 1.
    pub line: usize,
    /// The offending part of the line; empty where it ends too early.
    pub token: String,
    /// Description of the text expected there.
    pub expected: String,
}
