//! The error type of all libraries, [`Error`], and its classes of causes.
//!
//! - A [`Refusal`] repeats for the same input. [`bail!`](crate::bail) and [`ensure!`](crate::ensure) make it.
//! - A [`Fault`] is an answer: a simulated machine is wrong.
//! - Everything else is a failure, which may not repeat: a full disk may have room tomorrow. Unclassified errors count
//!   as failures, so that none passes for an answer.

pub use anyhow::{Context, Error, Result};
use std::fmt::Display;

/// An unusable argument or file: the text names the value and the expected one.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(pub String);

/// A wrong result, a broken rule or a hang of a simulated machine.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Fault(pub String);

/// Error that refuses an argument or the contents of a file.
#[macro_export]
macro_rules! refusal {
    ($($message:tt)*) => { $crate::Error::new($crate::Refusal(format!($($message)*))) };
}

/// Error of a simulated machine.
#[macro_export]
macro_rules! fault {
    ($($message:tt)*) => { $crate::Error::new($crate::Fault(format!($($message)*))) };
}

/// Error of the system, of a tool, or of this program.
#[macro_export]
macro_rules! failure {
    ($($message:tt)*) => { $crate::Error::msg(format!($($message)*)) };
}

/// Returns a refusal.
#[macro_export]
macro_rules! bail {
    ($($message:tt)*) => { return Err($crate::refusal!($($message)*)) };
}

/// Returns a refusal unless a condition holds; see [`bail!`](crate::bail).
#[macro_export]
macro_rules! ensure {
    ($condition:expr, $($message:tt)*) => {
        if !$condition {
            $crate::bail!($($message)*);
        }
    };
}

/// Refuses a value outside its range, naming value and limits.
pub fn in_range<T: PartialOrd + Display>(what: &str, value: T, min: T, max: T) -> Result<()> {
    ensure!(min <= value && value <= max, "{what} = {value} must be in {min}..={max}");
    Ok(())
}

/// Text of an error with its causes; empty without an error.
pub fn said<T>(result: &Result<T>) -> String {
    result.as_ref().map_or_else(|error| format!("{error:#}"), |_| String::new())
}
