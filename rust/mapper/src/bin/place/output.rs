//! Output files that are complete or absent: written under another name and renamed at the end.

use anyhow::{Context, Result, ensure};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// A file on its way.
pub struct OutputFile {
    path: PathBuf,
    partial: PathBuf,
    file: Option<File>,
}

impl OutputFile {
    /// Creates the file under its temporary name, so that a path that cannot be written is found before any work.
    pub fn create(path: &Path) -> Result<Self> {
        let cannot = || format!("cannot create '{}'", path.display());
        ensure!(!path.is_dir(), "{}: it is a directory", cannot());
        let name = path.file_name().with_context(cannot)?.to_string_lossy().into_owned();
        let partial = path.with_file_name(format!(".{name}.{}.part", std::process::id()));
        let file = Some(File::create(&partial).with_context(cannot)?);
        Ok(Self { path: path.to_owned(), partial, file })
    }

    /// Writes the file and gives it its name.
    pub fn finish(mut self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
        let Some(file) = self.file.take() else { return Ok(()) };
        let mut out = BufWriter::new(file);
        let written = write(&mut out).and_then(|()| out.flush());
        drop(out);
        let renamed = written.and_then(|()| std::fs::rename(&self.partial, &self.path));
        if renamed.is_err() {
            let _ = std::fs::remove_file(&self.partial);
        }
        renamed.with_context(|| format!("cannot write '{}'", self.path.display()))
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if self.file.is_some() {
            let _ = std::fs::remove_file(&self.partial);
        }
    }
}
