//! How a job ended, which decides the exit code.

/// How a job ended that could be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Everything that was checked agreed.
    Agreed,
    /// Something differed; it has been reported.
    Differed,
}
