//! Files of the flow, with errors that name them.

use crate::SynthError;
use std::io;
use std::path::Path;

/// Error for a file that cannot be written.
pub fn unwritten(path: &Path) -> impl FnOnce(io::Error) -> SynthError {
    |reason| SynthError::Write { path: path.into(), reason }
}

/// Error for a file that cannot be read.
pub fn unread(path: &Path) -> impl FnOnce(io::Error) -> SynthError {
    |reason| SynthError::Read { path: path.into(), reason }
}

/// Text of a tool's file, in any encoding.
pub fn read(path: &Path) -> Result<String, SynthError> {
    let bytes = std::fs::read(path).map_err(unread(path))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Replaces the file.
pub fn write(path: &Path, text: &str) -> Result<(), SynthError> {
    std::fs::write(path, text).map_err(unwritten(path))
}

/// Creates a folder with its parents.
pub fn create_folder(path: &Path) -> Result<(), SynthError> {
    std::fs::create_dir_all(path).map_err(unwritten(path))
}
