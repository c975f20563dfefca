//! Files of the flow, with errors that name them.

use ndp_files::{Error, Result};
use std::io;
use std::path::Path;

pub fn unwritten(path: &Path) -> impl FnOnce(io::Error) -> Error {
    move |reason| Error::new(reason).context(format!("cannot write '{}'", path.display()))
}

pub fn unread(path: &Path) -> impl FnOnce(io::Error) -> Error {
    move |reason| Error::new(reason).context(format!("cannot read '{}'", path.display()))
}

/// Text of a file in any encoding.
pub fn read(path: &Path) -> Result<String> {
    let bytes = std::fs::read(path).map_err(unread(path))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

pub fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).map_err(unwritten(path))
}

pub fn create_folder(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path).map_err(unwritten(path))
}
