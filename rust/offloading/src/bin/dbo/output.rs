//! Output: files that are complete or absent, and a standard output that may be closed.

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use std::io::Write;
use std::path::Path;

/// Writes a file under another name and renames it at the end.
pub fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    let cannot = || format!("cannot write '{}'", path.display());
    ensure!(!path.is_dir(), "{}: it is a directory", cannot());
    let name = path.file_name().with_context(cannot)?.to_string_lossy().into_owned();
    let partial = path.with_file_name(format!(".{name}.{}.part", std::process::id()));
    let text = serde_json::to_string_pretty(value)? + "\n";
    let written = std::fs::write(&partial, text).and_then(|()| std::fs::rename(&partial, path));
    if written.is_err() {
        let _ = std::fs::remove_file(&partial);
    }
    written.with_context(cannot)
}

/// Prints; a reader that has seen enough is no error.
pub fn print(text: &str) -> Result<()> {
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        result => result.context("cannot write to standard output"),
    }
}
