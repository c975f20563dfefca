//! Output files that are complete or absent: written under another name and renamed at the end.

use crate::args::TraceArgs;
use anyhow::{Context, ensure};
use ndp_cosim::core::Recording;
use ndp_cosim::trace::{write_text, write_timeline};
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// A file on its way.
#[derive(Debug)]
pub struct OutputFile {
    path: PathBuf,
    partial: PathBuf,
    file: Option<File>,
}

impl OutputFile {
    /// Creates the file under its temporary name, so that a path that cannot be written is found before the run.
    ///
    /// # Errors
    /// If there is no such directory, or the file cannot be made.
    pub fn create(path: &Path) -> anyhow::Result<Self> {
        let cannot = || format!("cannot create `{}`", path.display());
        ensure!(!path.is_dir(), "cannot create `{}`: it is a directory", path.display());
        let name = path.file_name().with_context(cannot)?;
        let name = format!(".{}.{}.part", name.to_string_lossy(), std::process::id());
        let partial = path.with_file_name(name);
        let file = Some(File::create(&partial).with_context(cannot)?);
        Ok(Self { path: path.to_owned(), partial, file })
    }

    /// Writes the file and gives it its name.
    ///
    /// # Errors
    /// If it cannot be written; nothing is left then.
    pub fn finish(mut self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> anyhow::Result<()> {
        let Some(file) = self.file.take() else { return Ok(()) };
        let mut out = BufWriter::new(file);
        let written = write(&mut out).and_then(|()| out.flush());
        drop(out);
        let renamed = written.and_then(|()| std::fs::rename(&self.partial, &self.path));
        if renamed.is_err() {
            let _ = std::fs::remove_file(&self.partial);
        }
        renamed.with_context(|| format!("cannot write `{}`", self.path.display()))
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if self.file.is_some() {
            let _ = std::fs::remove_file(&self.partial);
        }
    }
}

/// The files that show a recording.
#[derive(Debug)]
pub struct Traces {
    text: Option<OutputFile>,
    timeline: Option<OutputFile>,
}

impl Traces {
    /// Creates those that are asked for.
    pub fn create(args: &TraceArgs) -> anyhow::Result<Self> {
        let TraceArgs { trace, timeline } = args;
        if let (Some(trace), Some(timeline)) = (trace, timeline) {
            ensure!(trace != timeline, "--trace and --timeline both name `{}`", trace.display());
        }
        let create = |path: &Option<PathBuf>| path.as_deref().map(OutputFile::create).transpose();
        Ok(Self { text: create(trace)?, timeline: create(timeline)? })
    }

    /// Writes and completes them.
    pub fn write(self, recording: Option<&Recording>) -> anyhow::Result<()> {
        let Some(recording) = recording else { return Ok(()) };
        if let Some(file) = self.text {
            file.finish(|out| write_text(recording, out))?;
        }
        if let Some(file) = self.timeline {
            file.finish(|out| write_timeline(recording, out))?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_complete_or_absent() {
        let dir = std::env::temp_dir().join(format!("cosim-output-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let entries = || std::fs::read_dir(&dir).unwrap().count();
        let path = dir.join("trace.txt");
        drop(OutputFile::create(&path).unwrap());
        let fails = |_: &mut dyn Write| Err(io::Error::other("disk on fire"));
        let error = OutputFile::create(&path).unwrap().finish(fails).unwrap_err();
        assert!(format!("{error:#}").contains("trace.txt`: disk on fire"), "{error:#}");
        assert_eq!(entries(), 0);
        OutputFile::create(&path).unwrap().finish(|out| out.write_all(b"all")).unwrap();
        assert_eq!((std::fs::read(&path).unwrap(), entries()), (b"all".to_vec(), 1));
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
