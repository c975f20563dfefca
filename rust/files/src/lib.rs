//! The edge of all programs: input, output, and how programs end.
//!
//! - [`read_text`], [`read_any_text`], [`read_bytes`]: input with a limit, so that no endless file fills the memory; texts of any editor.
//! - `parse_json`: JSON without duplicate keys (feature `json`).
//! - [`OutputFile`]: complete or absent. Devices, pipes and targets of symbolic links are written through. Modes are
//!   kept, and write-protected files are refused.
//! - [`FileSet`]: no output is an input, or another output, under whatever name. Standard output is one of the outputs.
//! - [`NameRule`], [`visible`]: names that need no quotes, and text of others without control characters.
//! - [`on_threads`], [`map_on_threads`]: work on as many threads as the operating system gives.
//! - [`program`], [`say!`], [`note!`]: arguments, standard output and error, signals, exit codes.
//! - [`Error`], [`Refusal`], [`Fault`], [`exit_code`]: the one error type of all libraries, and the exit codes that follow from it.
//! - [`Child`], [`output`](fn@crate::output), [`TemporaryFolder`]: other programs and their files, which end when this one does.
//! - [`Progress`]: how long a run will take, before it does.
//!
//! It depends on no hardware or numbers. `ndp-config`, below both design and oracle, only reads (no feature; threads
//! need none either); libraries that write use feature `output`, binaries `program`.

#![deny(missing_docs)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

mod input;
mod name;
mod refusal;
mod threads;
pub use input::{is_of_content, open, read_any_text, read_bytes, read_text};
pub use name::{NameError, NameRule, printable, visible};
pub use refusal::{Context, Error, Fault, Refusal, Result, in_range, said};
pub use threads::{map_on_threads, on_threads};

#[cfg(feature = "json")]
mod json;
#[cfg(feature = "json")]
pub use json::parse_json;

#[cfg(feature = "output")]
mod child;
#[cfg(feature = "output")]
mod identity;
#[cfg(feature = "output")]
mod output;
#[cfg(feature = "output")]
mod pending;
#[cfg(feature = "output")]
pub use {
    child::{Child, output},
    identity::FileSet,
    output::OutputFile,
    pending::{PartialFolder, TemporaryFolder},
};

#[cfg(feature = "program")]
mod exit;
#[cfg(feature = "program")]
mod program;
#[cfg(feature = "program")]
mod progress;
#[cfg(feature = "program")]
#[doc(hidden)]
pub use anyhow;
#[cfg(feature = "program")]
pub use {
    exit::{REFUSED, UNUSABLE, WRONG, exit_code},
    program::{EXIT_CODES, print, print_styled, program, warn},
    progress::{Progress, duration},
};
