//! Output files that are complete or absent: written under another name and renamed at the end.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why there is no file.
#[derive(Debug, Error)]
pub enum OutputError {
    /// The path names no file, or none can be made there.
    #[error("cannot create `{}`", path.display())]
    Create {
        /// The path.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// It was made, but could not be written or get its name.
    #[error("cannot write `{}`", path.display())]
    Write {
        /// The path.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
}

/// A file on its way.
#[derive(Debug)]
pub struct OutputFile {
    path: PathBuf,
    partial: PathBuf,
    file: Option<File>,
}

impl OutputFile {
    /// Creates the file under its temporary name, so that a path that cannot be written is found before any work.
    ///
    /// # Errors
    /// [`OutputError::Create`] if there is no such directory, the path is one, or the file cannot be made.
    pub fn create(path: &Path) -> Result<Self, OutputError> {
        let cannot = |source| OutputError::Create { path: path.to_owned(), source };
        if path.is_dir() {
            return Err(cannot(io::Error::other("it is a directory")));
        }
        let name = path.file_name().ok_or_else(|| cannot(io::Error::other("it names no file")))?;
        let name = format!(".{}.{}.part", name.to_string_lossy(), std::process::id());
        let partial = path.with_file_name(name);
        let file = Some(File::create(&partial).map_err(cannot)?);
        Ok(Self { path: path.to_owned(), partial, file })
    }

    /// Its name once it is complete.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes the file and gives it its name.
    ///
    /// # Errors
    /// [`OutputError::Write`]; nothing is left then.
    pub fn finish(mut self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), OutputError> {
        let Some(file) = self.file.take() else { return Ok(()) };
        let mut out = BufWriter::new(file);
        let written = write(&mut out).and_then(|()| out.flush());
        drop(out);
        let renamed = written.and_then(|()| std::fs::rename(&self.partial, &self.path));
        if renamed.is_err() {
            let _ = std::fs::remove_file(&self.partial);
        }
        renamed.map_err(|source| OutputError::Write { path: self.path.clone(), source })
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if self.file.is_some() {
            let _ = std::fs::remove_file(&self.partial);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error;

    #[test]
    fn a_file_is_complete_or_absent() {
        let dir = std::env::temp_dir().join(format!("ndp-output-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let entries = || std::fs::read_dir(&dir).unwrap().count();
        let path = dir.join("trace.txt");
        drop(OutputFile::create(&path).unwrap());
        let fails = |_: &mut dyn Write| Err(io::Error::other("disk on fire"));
        let error = OutputFile::create(&path).unwrap().finish(fails).unwrap_err();
        assert!(error.to_string().ends_with("trace.txt`"), "{error}");
        assert_eq!(error.source().unwrap().to_string(), "disk on fire");
        assert_eq!(entries(), 0);
        OutputFile::create(&path).unwrap().finish(|out| out.write_all(b"all")).unwrap();
        assert_eq!((std::fs::read(&path).unwrap(), entries()), (b"all".to_vec(), 1));
        let taken = OutputFile::create(&dir).unwrap_err();
        assert_eq!(taken.source().unwrap().to_string(), "it is a directory");
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
