//! Output: files that are complete or absent, and a standard output that may be closed.

use anyhow::{Context, Result};
use ndp_report::OutputFile;
use serde::Serialize;
use std::io::Write;
use std::path::Path;

/// Writes a file that is complete or absent.
pub fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    let file = OutputFile::create(path)?;
    let text = serde_json::to_string_pretty(value)? + "\n";
    Ok(file.finish(|out| out.write_all(text.as_bytes()))?)
}

/// Prints; a reader that has seen enough is no error.
pub fn print(text: &str) -> Result<()> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => result.context("cannot write to standard output"),
    }
}
