//! The folder of a cache, whose entries are whole or absent, in a subfolder [`NAME`] of the folder that the user names:
//!
//! - `CACHEDIR.TAG` says that the subfolder is ours; without it nothing there is touched.
//! - `NAME-HASH/` is an entry: its files, and [`RECORD`] with a marker, the entry's name, and each file's checksum.
//! - `NAME-HASH.part/` is an entry that is being made, with a record that has the marker and the name.
//! - `NAME-HASH.lock` is held by every process that makes or uses the entry. It stays when the entry is removed, so
//!   that all processes wait for one file. Only the owner of the cache can open it, or others could make him wait.
//!
//! Libraries run with the rights of the user. Therefore an entry is used only if the user or root owns it, no other
//! user may write it, and its checksums match. The subfolder stays open, and libraries are loaded through its
//! descriptor: a user who may write a parent folder cannot exchange them.

use crate::Failure;
use crate::files::{file_failure, hex};
use ndp_files::PartialFolder;
use rustix::fs::OFlags;
use rustix::process::geteuid;
use sha2::{Digest, Sha256};
use std::fs::{File, Metadata, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

pub const NAME: &str = "ndp-cosim-models";
/// File that marks a cache for backup programs, and ours for this program.
const TAG: &str = "CACHEDIR.TAG";
const TAG_TEXT: &str = "Signature: 8a477f597d28d172789f06886806bc55\n# Compiled models of ndp-cosim, which makes them again when they are missing.\n";
const RECORD: &str = "entry";
const MARKER: &str = "ndp-cosim cache entry 1";
const PART: &str = "part";
const RECORD_BYTES: u64 = 1 << 20;

#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    handle: &'static File,
}

/// No process removes it while this value exists, if we own the cache; a loaded library does not need it.
#[derive(Debug)]
pub struct Entry {
    /// Folder of the files, for messages.
    pub dir: PathBuf,
    /// The same folder through the cache's open descriptor, to load libraries from.
    pub opened: PathBuf,
    pub files: Vec<String>,
    _lock: Option<File>,
}

#[derive(Debug)]
pub struct Part {
    name: String,
    pub dir: PathBuf,
    _partial: PartialFolder,
    lock: File,
}

enum State {
    Whole(Vec<String>),
    Absent,
    Damaged(String),
}

pub fn part_dir(chosen: &Path, name: &str) -> PathBuf {
    chosen.join(NAME).join(name).with_extension(PART)
}

fn denied(reason: String) -> io::Error {
    io::Error::new(ErrorKind::PermissionDenied, reason)
}

fn check_owner(metadata: &Metadata) -> io::Result<()> {
    let (owner, user, mode) = (metadata.uid(), geteuid().as_raw(), metadata.mode() & 0o7777);
    if owner != user && owner != 0 {
        return Err(denied(format!("it belongs to user {owner}, neither to you (user {user}) nor to root")));
    }
    if mode & 0o022 != 0 {
        return Err(denied(format!("others may write it (mode {mode:03o}; chmod go-w takes that away)")));
    }
    Ok(())
}

/// Refuses a symbolic link.
fn open(path: &Path, flags: OFlags) -> io::Result<File> {
    // Opening a pipe would wait for its writer.
    let flags = (flags | OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
    let file = File::options().read(true).custom_flags(flags.cast_signed()).open(path)?;
    check_owner(&file.metadata()?)?;
    Ok(file)
}

fn open_file(path: &Path) -> io::Result<File> {
    let file = open(path, OFlags::empty())?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    Ok(file)
}

fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    open_file(path)?.take(RECORD_BYTES).read_to_string(&mut text)?;
    Ok(text)
}

fn checksum(file: &mut File) -> io::Result<String> {
    let (mut state, mut buffer) = (Sha256::new(), vec![0; 1 << 16]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex(&state.finalize())),
            bytes => state.update(&buffer[..bytes]),
        }
    }
}

fn head(name: &str) -> String {
    format!("{MARKER}\nname {name}\n")
}

impl Folder {
    /// Makes the folder if it is missing.
    ///
    /// # Errors
    /// A folder that cannot be made, is not ours, or can be written by others.
    pub fn open(chosen: &Path) -> Result<Self, Failure> {
        let path = chosen.join(NAME);
        let opened = match open(&path, OFlags::DIRECTORY) {
            Err(e) if e.kind() == ErrorKind::NotFound => {
                make(chosen, &path)?;
                open(&path, OFlags::DIRECTORY)
            }
            opened => opened,
        };
        let unusable = |e: io::Error| {
            let what = format!("cannot use the cache '{}': {e}", path.display());
            vec![what, "  NDP_CACHE names another folder for it, which may be a new one".to_owned()]
        };
        let handle = held(opened.map_err(unusable)?).map_err(unusable)?;
        let folder = Self { path: path.clone(), handle };
        match read(&folder.opened(TAG)) {
            Ok(text) if text == TAG_TEXT => Ok(folder),
            Ok(_) => Err(unusable(io::Error::other(format!("its {TAG} is not one of ndp")))),
            Err(e) if e.kind() == ErrorKind::NotFound => {
                Err(unusable(io::Error::other(format!("ndp has not made it: it has no {TAG}"))))
            }
            Err(e) => Err(unusable(io::Error::new(e.kind(), format!("{TAG}: {e}")))),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Path of a name below the open descriptor: it stays valid if the folder is moved or exchanged.
    fn opened(&self, name: &str) -> PathBuf {
        let by_descriptor = PathBuf::from(format!("/proc/self/fd/{}", self.handle.as_raw_fd()));
        if cfg!(target_os = "linux") { by_descriptor.join(name) } else { self.path.join(name) }
    }

    fn lock(&self, name: &str) -> io::Result<File> {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
        let file = options.custom_flags(flags.cast_signed()).open(self.opened(&format!("{name}.lock")))?;
        let metadata = file.metadata()?;
        check_owner(&metadata)?;
        if !metadata.is_file() {
            return Err(io::Error::other("it is no regular file"));
        }
        Ok(file)
    }

    pub fn find(&self, name: &str) -> Option<Entry> {
        // Without the right to open the lock it reads unlocked: the entry can only be missing.
        let lock = self.lock(name).and_then(|lock| lock.lock_shared().map(|()| lock)).ok();
        match self.state(name) {
            State::Whole(files) => Some(self.entry(name, files, lock)),
            _ => None,
        }
    }

    fn entry(&self, name: &str, files: Vec<String>, lock: Option<File>) -> Entry {
        // The entry's maker becomes a user, with a shared lock. Losing this lock only lets the entry be removed.
        let lock = lock.and_then(|lock| lock.lock_shared().map(|()| lock).ok());
        Entry { dir: self.path.join(name), opened: self.opened(name), files, _lock: lock }
    }

    /// Returns an entry that another process has made in the meantime, or one to be made, once nobody makes or uses it.
    ///
    /// # Errors
    /// A folder that cannot be written, or in which the entry's name is taken.
    pub fn claim(&self, name: &str, files: &[&str]) -> Result<Result<Entry, Part>, Failure> {
        let lock = self.lock(name).and_then(|lock| lock.lock().map(|()| lock));
        let lock = lock.map_err(|e| {
            let why = match self.state(name) {
                State::Damaged(why) => format!("'{name}' in '{}' cannot be used: {why}", self.path.display()),
                _ => format!("there is no '{name}' in the cache '{}'", self.path.display()),
            };
            vec![
                format!("{why}; and it cannot be made there: {e}"),
                "  NDP_CACHE names another folder for the cache; or let the owner of this one run the command"
                    .to_owned(),
            ]
        })?;
        match self.state(name) {
            State::Whole(files) => return Ok(Ok(self.entry(name, files, Some(lock)))),
            State::Absent => {}
            State::Damaged(why) => {
                self.clear(name, name, files)?;
                let path = self.path.join(name);
                // A closed standard error cannot be reported.
                let _ = writeln!(io::stderr(), "warning: '{}' is built again: {why}", path.display());
            }
        }
        let part = format!("{name}.{PART}");
        self.clear(&part, name, files)?;
        let dir = self.path.join(&part);
        let made = std::fs::DirBuilder::new().mode(0o755).create(&dir);
        made.map_err(|e| file_failure("create", &dir, &e))?;
        let record = dir.join(RECORD);
        write(&record, &head(name)).map_err(|e| file_failure("write", &record, &e))?;
        let partial = PartialFolder::new(&dir);
        Ok(Err(Part { name: name.to_owned(), dir, _partial: partial, lock }))
    }

    /// Keeps only these files, and renames the entry.
    ///
    /// # Errors
    /// A file that cannot be read, written or renamed.
    pub fn complete(&self, part: &Part, files: &[String]) -> Result<(), Failure> {
        let Part { name, dir, .. } = part;
        let failed = |verb: &'static str, path: PathBuf| move |e: io::Error| file_failure(verb, &path, &e);
        let mut record = head(name);
        for file in files {
            let path = dir.join(file);
            let sum = (|| {
                let mode = std::fs::symlink_metadata(&path)?.mode() & 0o755;
                std::fs::set_permissions(&path, Permissions::from_mode(mode))?;
                let mut opened = open_file(&self.opened(&format!("{name}.{PART}/{file}")))?;
                opened.sync_all()?;
                checksum(&mut opened)
            })();
            record += &format!("{} {file}\n", sum.map_err(failed("keep", path))?);
        }
        for file in std::fs::read_dir(dir).map_err(failed("read", dir.clone()))?.flatten() {
            let kept = file.file_name().to_str().is_some_and(|own| files.iter().any(|kept| kept == own));
            if !kept {
                remove(&file.path())?;
            }
        }
        let path = dir.join(RECORD);
        write(&path, &record).map_err(failed("write", path))?;
        let named = File::open(dir).and_then(|opened| {
            opened.sync_all()?;
            std::fs::rename(dir, self.path.join(name))?;
            self.handle.sync_all()
        });
        named.map_err(failed("rename", dir.clone()))
    }

    /// The entry that was made, still locked.
    ///
    /// # Errors
    /// An entry that was not completed, or cannot be used anyway.
    pub fn made(&self, part: Part) -> Result<Entry, Failure> {
        let Part { name, lock, .. } = part;
        match self.state(&name) {
            State::Whole(files) => Ok(self.entry(&name, files, Some(lock))),
            State::Absent => Err(vec![format!("'{name}' has gone from '{}'", self.path.display())]),
            State::Damaged(why) => {
                let what = format!("'{name}' in '{}' was made, and cannot be used", self.path.display());
                Err(vec![format!("{what}: {why}")])
            }
        }
    }

    /// A complete entry counts as used now.
    fn state(&self, name: &str) -> State {
        let dir = self.opened(name);
        match open(&dir, OFlags::DIRECTORY) {
            Ok(_) => {}
            Err(e) if e.kind() == ErrorKind::NotFound => return State::Absent,
            Err(e) => return State::Damaged(e.to_string()),
        }
        let record = match read(&dir.join(RECORD)) {
            Ok(record) => record,
            Err(e) => return State::Damaged(format!("its record: {e}")),
        };
        let Some(lines) = record.strip_prefix(&head(name)) else {
            return State::Damaged("its record is of something else".to_owned());
        };
        let mut files = Vec::new();
        for line in lines.lines() {
            let Some((sum, file)) = line.split_once(' ').filter(|(_, file)| !file.contains('/')) else {
                return State::Damaged(format!("its record has a line `{}`", line.escape_debug()));
            };
            match open_file(&dir.join(file)).and_then(|mut opened| checksum(&mut opened)) {
                Ok(found) if found == sum => files.push(file.to_owned()),
                Ok(_) => {
                    return State::Damaged(format!("{file} is not the file that was made (by its checksum)"));
                }
                Err(e) => return State::Damaged(format!("{file}: {e}")),
            }
        }
        if files.is_empty() {
            return State::Damaged("its record names no file".to_owned());
        }
        // In another user's cache the time of use cannot be set.
        let _ = open_file(&dir.join(RECORD)).and_then(|record| record.set_modified(SystemTime::now()));
        State::Whole(files)
    }

    /// Whether a folder is the entry `name`, complete or unfinished.
    fn is_ours(&self, found: &str, name: &str) -> bool {
        let dir = self.opened(found);
        let own = std::fs::symlink_metadata(&dir)
            .is_ok_and(|metadata| metadata.is_dir() && metadata.uid() == geteuid().as_raw());
        own && read(&dir.join(RECORD)).is_ok_and(|record| record.starts_with(&head(name)))
    }

    /// Removes an entry, or a folder in its place that contains only files of an entry.
    fn clear(&self, found: &str, name: &str, files: &[&str]) -> Result<(), Failure> {
        let dir = self.path.join(found);
        let entries = match std::fs::read_dir(&dir) {
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(()),
            entries => entries,
        };
        let known = |file: io::Result<std::fs::DirEntry>| {
            file.is_ok_and(|file| [RECORD].iter().chain(files).any(|known| file.file_name() == *known))
        };
        let folder = dir.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
        if self.is_ours(found, name) || folder && entries.is_ok_and(|mut entries| entries.all(known)) {
            return remove(&dir);
        }
        let file = dir.join(RECORD);
        Err(vec![format!(
            "'{}' is in the way and is not touched: '{}' does not say that ndp has made it; move it elsewhere",
            dir.display(),
            file.display()
        )])
    }

    /// Removes abandoned entries, and the least recently used until the rest takes at most `limit` bytes; never the
    /// last one, those in use, those that are not ours, or those whose names `stays` selects.
    pub fn trim(&self, limit: u64, stays: impl Fn(&str) -> bool) -> Result<(), Failure> {
        let unreadable = |e: io::Error| file_failure("read", &self.path, &e);
        let mut found = Vec::new();
        for entry in std::fs::read_dir(&self.path).map_err(unreadable)? {
            let Ok(file) = entry.map_err(unreadable)?.file_name().into_string() else { continue };
            let name = file.strip_suffix(&format!(".{PART}")).unwrap_or(&file).to_owned();
            if !stays(&name)
                && self.is_ours(&file, &name)
                && let Some((used, bytes)) = extent(&self.opened(&file))
            {
                // Unfinished entries go first.
                found.push((file == name, used, bytes, file, name));
            }
        }
        found.sort();
        let mut bytes: u64 = found.iter().map(|(_, _, bytes, ..)| bytes).sum();
        // The entry that was requested.
        found.pop();
        for (whole, _, own, file, name) in found {
            if bytes <= limit && whole {
                break;
            }
            let gone = self.lock(&name).is_ok_and(|lock| {
                // Held until the folder is gone.
                lock.try_lock().is_ok() && remove(&self.path.join(file)).is_ok()
            });
            bytes -= if gone { own } else { 0 };
        }
        Ok(())
    }
}

/// One open descriptor per folder: libraries are loaded by it, and the loader takes equal names for one library.
fn held(opened: File) -> io::Result<&'static File> {
    static HELD: Mutex<Vec<&'static File>> = Mutex::new(Vec::new());
    let identity = |file: &File| file.metadata().map(|metadata| (metadata.dev(), metadata.ino()));
    let own = identity(&opened)?;
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    for file in held.iter() {
        if identity(file)? == own {
            return Ok(file);
        }
    }
    let file: &'static File = Box::leak(Box::new(opened));
    held.push(file);
    Ok(file)
}

/// Makes the folder and its tag in one step.
fn make(chosen: &Path, path: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(chosen).map_err(|e| file_failure("create", chosen, &e))?;
    let made = || {
        let mut builder = tempfile::Builder::new();
        let new = builder.prefix(".ndp-").permissions(Permissions::from_mode(0o755)).tempdir_in(chosen)?;
        write(&new.path().join(TAG), TAG_TEXT)?;
        match std::fs::rename(new.path(), path) {
            // Another process was faster.
            Err(e) if matches!(e.kind(), ErrorKind::DirectoryNotEmpty | ErrorKind::AlreadyExists) => Ok(()),
            renamed => renamed.map(|()| drop(new.keep())),
        }
    };
    made().map_err(|e: io::Error| file_failure("create", path, &e))
}

/// Syncs to disk; nobody else may write the file.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut options = File::options();
    options.write(true).create(true).truncate(true).mode(0o644);
    let flags = OFlags::NOFOLLOW.bits().cast_signed();
    let mut file = options.custom_flags(flags).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// Time of last use, and bytes; none if somebody else removes it.
fn extent(dir: &Path) -> Option<(SystemTime, u64)> {
    let used = dir.join(RECORD).symlink_metadata().ok()?.modified().ok()?;
    Some((used, bytes(dir)?))
}

fn bytes(dir: &Path) -> Option<u64> {
    let mut sum = 0;
    for file in std::fs::read_dir(dir).ok()?.flatten() {
        let metadata = file.metadata().ok()?;
        sum += if metadata.is_dir() { bytes(&file.path())? } else { metadata.len() };
    }
    Some(sum)
}

fn remove(path: &Path) -> Result<(), Failure> {
    let folder = path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
    let removed = if folder { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
    removed.map_err(|e| file_failure("remove", path, &e))
}

#[cfg(test)]
#[path = "folder_tests.rs"]
mod tests;
