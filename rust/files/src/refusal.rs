//! One error type for all libraries, [`Error`], with the message where the check is; and how a program tells its causes apart.
//!
//! - A [`Refusal`] repeats: the same arguments and files are refused again. [`bail!`](crate::bail) and [`ensure!`](crate::ensure) make it.
//! - A [`Fault`] is an answer: a simulated machine is wrong.
//! - Everything else is a failure, which may not repeat: a full disk may have room tomorrow. An error that nobody has classified counts as
//!   one, so a failure is never taken for an answer.

pub use anyhow::{Context, Error, Result};
use std::fmt::Display;

/// An argument or a file that cannot be used: the text names the value and what was expected.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(pub String);

/// A wrong result, a broken rule or a hang of a simulated machine.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Fault(pub String);

/// An error that refuses an argument or the contents of a file.
#[macro_export]
macro_rules! refusal {
    ($($message:tt)*) => { $crate::Error::new($crate::Refusal(format!($($message)*))) };
}

/// An error of a simulated machine.
#[macro_export]
macro_rules! fault {
    ($($message:tt)*) => { $crate::Error::new($crate::Fault(format!($($message)*))) };
}

/// An error of the system, of a tool, or of this program.
#[macro_export]
macro_rules! failure {
    ($($message:tt)*) => { $crate::Error::msg(format!($($message)*)) };
}

/// Returns with a refusal, for arguments and the contents of files.
#[macro_export]
macro_rules! bail {
    ($($message:tt)*) => { return Err($crate::refusal!($($message)*)) };
}

/// Returns with a refusal unless a condition holds; see [`bail!`](crate::bail).
#[macro_export]
macro_rules! ensure {
    ($condition:expr, $($message:tt)*) => {
        if !$condition {
            $crate::bail!($($message)*);
        }
    };
}

/// Refuses a value outside its range.
///
/// # Errors
/// A refusal that names the value and both limits.
pub fn in_range<T: PartialOrd + Display>(what: &str, value: T, min: T, max: T) -> Result<()> {
    ensure!(min <= value && value <= max, "{what} = {value} must be in {min}..={max}");
    Ok(())
}

/// The text of an error with its causes; empty without an error.
pub fn said<T>(result: &Result<T>) -> String {
    result.as_ref().map_or_else(|error| format!("{error:#}"), |_| String::new())
}
