//! Identity of files under any names: no output may be an input or another output.

use crate::output::absent;
use crate::refusal::Result;
use crate::{bail, ensure};
use std::collections::HashMap;
use std::fs::Metadata;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Identity {
    /// Device and inode.
    There(u64, u64),
    /// Path of a file to be made.
    Absent(PathBuf),
    /// A character device, which outputs may share.
    Shared,
}

fn of_metadata(metadata: &Metadata) -> Identity {
    if metadata.file_type().is_char_device() {
        return Identity::Shared;
    }
    Identity::There(metadata.dev(), metadata.ino())
}

fn identity(path: &Path) -> Identity {
    if let Ok(metadata) = std::fs::metadata(path) {
        return of_metadata(&metadata);
    }
    let path = absent(path).unwrap_or_else(|_| path.to_owned());
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    match (folder.canonicalize(), path.file_name()) {
        (Ok(folder), Some(name)) => Identity::Absent(folder.join(name)),
        // The attempt to make it will report the error.
        _ => Identity::Absent(path),
    }
}

/// Files of a run, to be checked before any work.
///
/// ```
/// use ndp_files::FileSet;
/// let both = FileSet::new().input("the program", "a.asm").output("--trace", "./a.asm").check();
/// assert_eq!(both.unwrap_err().to_string(), "--trace would overwrite `./a.asm`, which is the program");
/// ```
#[derive(Debug, Default)]
pub struct FileSet {
    inputs: Vec<(String, PathBuf, Identity)>,
    outputs: Vec<(String, PathBuf, Identity)>,
}

impl FileSet {
    /// Only standard output and error, which may be redirected to files.
    pub fn new() -> Self {
        let mut set = Self::default();
        for (name, metadata) in [
            ("standard output", rustix::fs::fstat(std::io::stdout())),
            ("standard error", rustix::fs::fstat(std::io::stderr())),
        ] {
            // Two writers only damage a regular file; both streams may go to one.
            if let Ok(stat) = metadata
                && rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file()
            {
                set.outputs.push((
                    name.to_owned(),
                    PathBuf::new(),
                    Identity::There(stat.st_dev, stat.st_ino),
                ));
            }
        }
        set
    }

    /// Adds an input; `what` names it in messages ("the program").
    #[must_use]
    pub fn input(mut self, what: &str, path: impl AsRef<Path>) -> Self {
        let path = path.as_ref();
        self.inputs.push((what.to_owned(), path.to_owned(), identity(path)));
        self
    }

    /// Adds a preset or file; paths end in `.toml` or `.json`.
    #[must_use]
    pub fn configuration(self, what: &str, preset_or_path: &str) -> Self {
        if [".toml", ".json"].iter().any(|end| preset_or_path.ends_with(end)) {
            self.input(what, preset_or_path)
        } else {
            self
        }
    }

    /// Adds all files of an input directory, or the file that `path` names.
    #[must_use]
    pub fn input_folder(mut self, what: &str, path: impl AsRef<Path>) -> Self {
        let path = path.as_ref();
        if path.is_file() {
            return self.input(what, path);
        }
        // Reported by whoever reads the directory.
        for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
            self = self.input(what, entry.path());
        }
        self
    }

    /// Adds an output; `option` names it in messages.
    #[must_use]
    pub fn output(mut self, option: &str, path: impl AsRef<Path>) -> Self {
        let path = path.as_ref();
        self.outputs.push((option.to_owned(), path.to_owned(), identity(path)));
        self
    }

    /// Adds all files of a directory that is rewritten.
    #[must_use]
    pub fn output_folder(mut self, option: &str, path: impl AsRef<Path>) -> Self {
        for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
            self = self.output(option, entry.path());
        }
        self
    }

    /// Adds an optional output.
    #[must_use]
    pub fn optional(self, option: &str, path: Option<impl AsRef<Path>>) -> Self {
        match path {
            Some(path) => self.output(option, path),
            None => self,
        }
    }

    /// Checks that no output is an input or another output. One option may repeat a path.
    pub fn check(&self) -> Result<()> {
        let inputs: HashMap<_, _> =
            self.inputs.iter().rev().map(|(what, path, id)| (id, (what, path))).collect();
        let mut outputs: HashMap<&Identity, (&str, &Path)> = HashMap::new();
        for (second, path, id) in &self.outputs {
            if *id == Identity::Shared {
                continue;
            }
            // The streams have no path.
            let stream = path.as_os_str().is_empty();
            if let Some((input, own)) = inputs.get(id) {
                let path = if stream { own } else { path };
                bail!("{second} would overwrite `{}`, which is {input}", path.display());
            }
            let (first, before) = *outputs.entry(id).or_insert((second, path));
            let is_one_option = stream || (first, before) == (second, path);
            ensure!(is_one_option, "{first} and {second} both name `{}`", path.display());
        }
        Ok(())
    }
}
