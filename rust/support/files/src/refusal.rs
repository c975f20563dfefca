//! Refusals and failures. A refusal repeats: the same arguments and files are refused again. A failure may not: a full disk may have room tomorrow.
//!
//! An error is a refusal only if its type says so. An error that nobody has classified counts as a failure, so a failure is never taken for an
//! answer.

use crate::identity::ConflictError;
use crate::input::is_of_content;
use crate::output::OutputError;
use anyhow::Error;
use std::io;

/// Exit code of a program whose arguments, or what its files say, are refused.
pub const REFUSED: u8 = 2;
/// Exit code of a program that could not do its job: a file, folder or tool cannot be used, or output is lost.
pub const UNUSABLE: u8 = 3;

/// A refusal in words, as [`bail!`](crate::bail) and [`ensure!`](crate::ensure) make it.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(pub String);

/// An error that refuses an argument or the contents of a file.
#[macro_export]
macro_rules! refusal {
    ($($message:tt)*) => { $crate::anyhow::Error::new($crate::Refusal(format!($($message)*))) };
}

/// Returns with a refusal, for arguments and the contents of files. For failures of the system use the macro of anyhow.
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

/// The exit code of an error: [`REFUSED`] if one of its causes is a refusal and the system failed in none, else [`UNUSABLE`].
///
/// `refuses` knows the errors of libraries that are refusals.
pub fn exit_code(error: &Error, refuses: impl Fn(&(dyn std::error::Error + 'static)) -> bool) -> u8 {
    let failed = |cause: &(dyn std::error::Error + 'static)| {
        cause.downcast_ref().is_some_and(|error: &OutputError| !error.is_refusal())
            || cause.downcast_ref().is_some_and(|error: &io::Error| !is_of_content(error))
    };
    let refused = |cause: &(dyn std::error::Error + 'static)| {
        cause.is::<Refusal>()
            || cause.is::<ConflictError>()
            || cause.is::<OutputError>()
            || cause.is::<io::Error>()
            || refuses(cause)
    };
    if !error.chain().any(failed) && error.chain().any(refused) { REFUSED } else { UNUSABLE }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context;

    #[test]
    fn only_what_says_so_is_a_refusal() {
        let code = |error: Error| exit_code(&error, |cause| cause.is::<std::num::ParseIntError>());
        let refused = || -> Result<(), Error> {
            ensure!(1 + 1 == 3, "{} is not 3", 2);
            Ok(())
        };
        assert_eq!(code(refused().unwrap_err()), REFUSED);
        assert_eq!(code(refused().context("in a file").unwrap_err()), REFUSED);
        let number = "x".parse::<u32>().context("--tokens");
        assert_eq!(code(number.unwrap_err()), REFUSED);
        // What nobody has classified.
        assert_eq!(code(anyhow::anyhow!("what is this?")), UNUSABLE);
        // Failures of the system, and contents of a file.
        let full = || io::Error::from_raw_os_error(28);
        assert_eq!(code(full().into()), UNUSABLE);
        assert_eq!(code(Error::new(full()).context("cannot write")), UNUSABLE);
        let long = io::Error::new(io::ErrorKind::FileTooLarge, "it has more than 5 bytes");
        assert_eq!(code(Error::new(long).context("cannot read")), REFUSED);
        let stream = || OutputError::Stream { path: "x".into(), stream: "standard output" };
        assert_eq!(code(stream().into()), REFUSED);
        assert_eq!(code(stream().reason().into()), REFUSED);
        assert_eq!(code(OutputError::Create { path: "x".into(), source: full() }.into()), UNUSABLE);
        // A refusal because the system failed is a failure.
        #[derive(Debug, thiserror::Error)]
        #[error("refused")]
        struct Because(#[source] io::Error);
        let refuses = |cause: &(dyn std::error::Error + 'static)| cause.is::<Because>();
        assert_eq!(exit_code(&Error::new(Because(full())), refuses), UNUSABLE);
    }
}
