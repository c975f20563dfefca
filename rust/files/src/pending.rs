//! Clean-up when the process ends early: partial files, folders, child processes.
//!
//! One list per process. It is locked while a file is renamed or a child started, and for good once [`undo`] has begun,
//! so that nothing is made afterwards.

use rustix::process::{Pid, Signal, kill_process_group};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};

#[derive(Debug)]
pub(crate) struct Pending {
    files: Vec<PathBuf>,
    folders: Vec<PathBuf>,
    groups: Vec<Pid>,
}

static PENDING: Mutex<Pending> =
    Mutex::new(Pending { files: Vec::new(), folders: Vec::new(), groups: Vec::new() });

/// A panic leaves the list between two changes.
pub(crate) fn pending() -> MutexGuard<'static, Pending> {
    PENDING.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

impl Pending {
    pub(crate) fn add_file(&mut self, path: &Path) {
        self.files.push(path.to_owned());
    }

    pub(crate) fn remove_file(&mut self, path: &Path) {
        self.files.retain(|file| file != path);
    }

    pub(crate) fn add_group(&mut self, group: Pid) {
        self.groups.push(group);
    }

    pub(crate) fn remove_group(&mut self, group: Pid) {
        self.groups.retain(|other| *other != group);
    }
}

/// Ends all children and removes all partial files. The process must end now: nothing can be made any more.
#[cfg(feature = "program")]
pub(crate) fn undo() {
    let list = pending();
    // Failures cannot be reported.
    for group in &list.groups {
        let _ = kill_process_group(*group, Signal::KILL);
    }
    for file in &list.files {
        let _ = std::fs::remove_file(file);
    }
    for folder in &list.folders {
        let _ = std::fs::remove_dir_all(folder);
    }
    std::mem::forget(list);
}

/// The group may have ended.
pub(crate) fn kill(group: Pid) {
    let _ = kill_process_group(group, Signal::KILL);
}

/// An unfinished folder: removed if the process ends early, kept if this value is dropped.
#[derive(Debug)]
pub struct PartialFolder(PathBuf);

impl PartialFolder {
    /// The folder must exist.
    pub fn new(path: &Path) -> Self {
        pending().folders.push(path.to_owned());
        Self(path.to_owned())
    }
}

impl Drop for PartialFolder {
    fn drop(&mut self) {
        pending().folders.retain(|folder| *folder != self.0);
    }
}

/// A private folder, removed with the value and with the process.
#[derive(Debug)]
pub struct TemporaryFolder {
    folder: Option<tempfile::TempDir>,
    path: PathBuf,
}

impl TemporaryFolder {
    /// Makes a folder in the system's temporary directory.
    pub fn create(prefix: &str) -> io::Result<Self> {
        Self::within(&std::env::temp_dir(), prefix)
    }

    /// Makes a folder in another one.
    pub fn within(parent: &Path, prefix: &str) -> io::Result<Self> {
        let mut list = pending();
        let folder = tempfile::Builder::new().prefix(prefix).tempdir_in(parent)?;
        let path = folder.path().to_owned();
        list.folders.push(path.clone());
        Ok(Self { folder: Some(folder), path })
    }

    /// Path of the folder.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        let mut list = pending();
        drop(self.folder.take());
        list.folders.retain(|folder| *folder != self.path);
    }
}
