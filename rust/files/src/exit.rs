//! The exit code of a program that ends with an error.

use crate::input::is_of_content;
use crate::name::NameError;
use crate::refusal::{Fault, Refusal};
use anyhow::Error;
use std::io;

type Cause = dyn std::error::Error + 'static;

/// A simulated machine is wrong.
pub const WRONG: u8 = 1;
/// Arguments, or contents of files, are refused.
pub const REFUSED: u8 = 2;
/// The program cannot do its job: an unusable file, folder or tool, or lost output.
pub const UNUSABLE: u8 = 3;

/// Exit code of an error: [`WRONG`] if a cause is a [`Fault`], else [`REFUSED`] if one is a [`Refusal`] and none a
/// failure of the system, else [`UNUSABLE`]. `refuses` recognises other libraries' refusals.
pub fn exit_code(error: &Error, refuses: impl Fn(&Cause) -> bool) -> u8 {
    let failed = |cause: &Cause| cause.downcast_ref().is_some_and(|error: &io::Error| !is_of_content(error));
    let refused = |cause: &Cause| {
        cause.is::<Refusal>()
            || cause.is::<NameError>()
            || cause.is::<io::Error>()
            || cause.is::<serde_json::Error>()
            || cause.is::<std::num::ParseIntError>()
            || cause.is::<std::num::ParseFloatError>()
            || refuses(cause)
    };
    if error.chain().any(|cause| cause.is::<Fault>()) {
        WRONG
    } else if !error.chain().any(failed) && error.chain().any(refused) {
        REFUSED
    } else {
        UNUSABLE
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ensure;
    use anyhow::Context;

    #[test]
    fn only_what_says_so_is_a_refusal() {
        let code = |error: Error| exit_code(&error, |_| false);
        let refused = || -> Result<(), Error> {
            ensure!(1 + 1 == 3, "{} is not 3", 2);
            Ok(())
        };
        assert_eq!(code(refused().unwrap_err()), REFUSED);
        assert_eq!(code(refused().context("in a file").unwrap_err()), REFUSED);
        let number = "x".parse::<u32>().context("--tokens");
        assert_eq!(code(number.unwrap_err()), REFUSED);
        // Unclassified.
        assert_eq!(code(anyhow::anyhow!("what is this?")), UNUSABLE);
        // Failures of the system, and contents of a file.
        let full = || io::Error::from_raw_os_error(28);
        assert_eq!(code(full().into()), UNUSABLE);
        assert_eq!(code(Error::new(full()).context("cannot write")), UNUSABLE);
        let long = io::Error::new(io::ErrorKind::FileTooLarge, "it has more than 5 bytes");
        assert_eq!(code(Error::new(long).context("cannot read")), REFUSED);
        let fault = || crate::fault!("row {} differs", 3);
        assert_eq!(code(fault()), WRONG);
        assert_eq!(code(fault().context("dex")), WRONG);
        // A refusal due to a failure of the system is a failure.
        #[derive(Debug, thiserror::Error)]
        #[error("refused")]
        struct Because(#[source] io::Error);
        let refuses = |cause: &(dyn std::error::Error + 'static)| cause.is::<Because>();
        assert_eq!(exit_code(&Error::new(Because(full())), refuses), UNUSABLE);
    }
}
