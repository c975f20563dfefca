//! Output files that are complete or absent: written under a temporary name and renamed at the end.
//!
//! Only regular files are replaced: symbolic links are followed, pipes and devices written once the content is
//! complete. Pipes are opened no earlier, because that waits for a reader.

use crate::bail;
use crate::input::stream_to;
use crate::pending::pending;
use crate::refusal::{Context, Error, Result};
use rustix::fs::{Access, access};
use std::fs::{File, Metadata, Permissions};
use std::io::{self, BufWriter, ErrorKind, Seek, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// Most symbolic links in a chain.
const LINKS: usize = 40;
/// Characters of a file's name that begin its temporary name.
const NAMED: usize = 40;

/// An unfinished file.
#[derive(Debug)]
pub struct OutputFile {
    path: PathBuf,
    place: Place,
}

#[derive(Debug)]
enum Place {
    /// A regular file, or a new one.
    Regular(Partial),
    /// A pipe or device.
    Through { opened: Option<File>, spool: Option<File> },
}

/// A file without its final name; removed when dropped.
#[derive(Debug)]
struct Partial {
    file: Option<NamedTempFile>,
    target: PathBuf,
}

impl Partial {
    /// Next to `target`, with the mode of the file to replace.
    fn create(target: PathBuf, replaced: Option<&Metadata>) -> io::Result<Self> {
        let name = target.file_name().ok_or_else(|| io::Error::other("it names no file"))?;
        let short: String = name.to_string_lossy().chars().take(NAMED).collect();
        let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
        let mut builder = tempfile::Builder::new();
        let (prefix, permissions) = (format!(".{short}."), Permissions::from_mode(0o666)); // less the process's mask
        builder.prefix(&prefix).suffix(".part").permissions(permissions);
        let mut list = pending();
        let file = builder.tempfile_in(folder.unwrap_or(Path::new(".")))?;
        list.add_file(file.path());
        drop(list);
        let partial = Self { file: Some(file), target };
        if let (Some(old), Some(file)) = (replaced, &partial.file) {
            // Without permission to give files away, the owner stays.
            let _ = std::os::unix::fs::fchown(file.as_file(), Some(old.uid()), Some(old.gid()));
            file.as_file().set_permissions(Permissions::from_mode(old.mode() & 0o7777))?;
        }
        Ok(partial)
    }

    fn handle(&self) -> io::Result<File> {
        let gone = || io::Error::other("it has been completed");
        self.file.as_ref().ok_or_else(gone)?.as_file().try_clone()
    }

    fn rename(mut self) -> io::Result<()> {
        let Some(file) = self.file.take() else { return Ok(()) };
        let mut list = pending();
        list.remove_file(file.path());
        file.persist(&self.target).map(drop).map_err(|failed| failed.error)
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if let Some(file) = self.file.take() {
            pending().remove_file(file.path());
        }
    }
}

/// Target of a path without a file: where dangling links lead.
pub(crate) fn absent(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..LINKS {
        let Ok(link) = std::fs::read_link(&path) else { return Ok(path) };
        path = path.parent().unwrap_or(Path::new("")).join(link);
    }
    Err(io::Error::other("too many symbolic links"))
}

/// Checks write permission. Root may write anything, but a file without any permission is meant to stay.
fn check_permission(path: &Path, metadata: &Metadata) -> io::Result<()> {
    if metadata.mode() & 0o222 == 0 {
        let mode = metadata.mode() & 0o777;
        let reason = format!("it is write-protected (mode {mode:03o}); chmod u+w allows to replace it");
        return Err(io::Error::new(ErrorKind::PermissionDenied, reason));
    }
    Ok(access(path, Access::WRITE_OK)?)
}

fn place(path: &Path) -> io::Result<Place> {
    let metadata = match std::fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Ok(Place::Regular(Partial::create(absent(path)?, None)?));
        }
        Err(error) => return Err(error),
    };
    let kind = metadata.file_type();
    for (found, what) in [
        (kind.is_dir(), "it is a directory"),
        (kind.is_block_device(), "it is a block device"),
        (kind.is_socket(), "it is a socket"),
    ] {
        if found {
            return Err(io::Error::other(what));
        }
    }
    check_permission(path, &metadata)?;
    if kind.is_file() {
        // Links in /proc/self/fd may name files that are gone.
        let target = path.canonicalize()?;
        let same =
            std::fs::metadata(&target).is_ok_and(|m| (m.dev(), m.ino()) == (metadata.dev(), metadata.ino()));
        if same {
            return Ok(Place::Regular(Partial::create(target, Some(&metadata))?));
        }
    }
    Ok(Place::Through { opened: None, spool: None })
}

impl OutputFile {
    /// Creates the file under its temporary name, so that an unwritable path is found before any work.
    ///
    /// Fails for a missing directory, a directory, an unwritable file (even for root), failed creation, and a regular
    /// file that standard output or error goes to: printed text would vanish with it.
    pub fn create(path: &Path) -> Result<Self> {
        if let Some(stream) = std::fs::metadata(path).ok().as_ref().and_then(stream_to) {
            bail!(
                "{stream} writes to `{}`, which this command writes itself; redirect {stream} to another file",
                path.display()
            );
        }
        let names = path.file_name().ok_or_else(|| io::Error::other("it names no file"));
        let place = names.and_then(|_| place(path));
        let place = place.with_context(|| format!("cannot create `{}`", path.display()))?;
        Ok(Self { path: path.to_owned(), place })
    }

    /// Final path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn failed(&self) -> impl FnOnce(io::Error) -> Error + use<> {
        let text = format!("cannot write `{}`", self.path.display());
        move |source| Error::new(source).context(text)
    }

    /// A handle for writing, before [`OutputFile::commit`]. Opening a pipe waits for its reader.
    pub fn open(&mut self) -> Result<File> {
        let failed = self.failed();
        let open = match &mut self.place {
            Place::Regular(partial) => partial.handle(),
            Place::Through { opened, .. } => {
                let open = || File::options().write(true).open(&self.path);
                let file = opened.take().map_or_else(open, Ok);
                file.and_then(|file| {
                    *opened = Some(file.try_clone()?);
                    Ok(file)
                })
            }
        };
        open.map_err(failed)
    }

    /// A handle to read, write and seek. Pipes and devices get the content on commit.
    pub fn open_seekable(&mut self) -> Result<File> {
        let failed = self.failed();
        let open = match &mut self.place {
            Place::Regular(partial) => partial.handle(),
            Place::Through { spool, .. } => tempfile::tempfile().and_then(|file| {
                *spool = Some(file.try_clone()?);
                Ok(file)
            }),
        };
        open.map_err(failed)
    }

    /// Writes the content under the temporary name.
    pub fn write(&mut self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
        let mut out = BufWriter::new(self.open()?);
        write(&mut out).and_then(|()| out.flush()).map_err(self.failed())
    }

    /// Completes the output: renames it over an older file, or writes to the pipe. A failure leaves nothing.
    pub fn commit(self) -> Result<()> {
        let failed = self.failed();
        let done = match self.place {
            Place::Regular(partial) => partial.rename(),
            Place::Through { spool: Some(mut spool), .. } => spool.rewind().and_then(|()| {
                let mut out = File::options().write(true).open(&self.path)?;
                io::copy(&mut spool, &mut out).map(drop)
            }),
            Place::Through { spool: None, .. } => Ok(()),
        };
        done.map_err(failed)
    }

    /// Writes and renames the file; a failure leaves nothing.
    pub fn finish(mut self, write: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<()> {
        self.write(write)?;
        self.commit()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_complete_or_absent() {
        let dir = tempfile::tempdir().unwrap();
        let entries = || std::fs::read_dir(&dir).unwrap().count();
        let path = dir.path().join("trace.txt");
        drop(OutputFile::create(&path).unwrap());
        let fails = |_: &mut dyn Write| Err(io::Error::other("disk on fire"));
        let error = OutputFile::create(&path).unwrap().finish(fails).unwrap_err();
        assert!(error.to_string().ends_with("trace.txt`"), "{error}");
        assert_eq!(error.root_cause().to_string(), "disk on fire");
        assert_eq!(entries(), 0);
        OutputFile::create(&path).unwrap().finish(|out| out.write_all(b"all")).unwrap();
        assert_eq!((std::fs::read(&path).unwrap(), entries()), (b"all".to_vec(), 1));
        let taken = OutputFile::create(dir.path()).unwrap_err();
        assert_eq!(taken.root_cause().to_string(), "it is a directory");
    }

    #[test]
    fn a_link_to_nowhere_leads_to_the_new_file() {
        let dir = tempfile::tempdir().unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink("new", &link).unwrap();
        OutputFile::create(&link).unwrap().finish(|out| out.write_all(b"all")).unwrap();
        assert_eq!(std::fs::read(dir.path().join("new")).unwrap(), b"all");
        let circle = dir.path().join("circle");
        std::os::unix::fs::symlink("circle", &circle).unwrap();
        let error = OutputFile::create(&circle).unwrap_err();
        assert!(error.root_cause().to_string().contains("symbolic links"), "{error:#}");
    }

    #[test]
    fn a_seekable_device_gets_everything_in_the_end() {
        let mut file = OutputFile::create(Path::new("/dev/full")).unwrap();
        let mut handle = file.open_seekable().unwrap();
        handle.write_all(b"12345").unwrap();
        handle.rewind().unwrap();
        handle.write_all(b"6").unwrap();
        let error = file.commit().unwrap_err();
        let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
        assert_eq!(kind, Some(ErrorKind::StorageFull));
    }
}
