//! Models that are built while a program runs, and a cache of them.
//!
//! A model is a library with the C interface of `sim/ffi/shim.h` and a table of one design. It is known by the hash of its Verilog,
//! its flags and its tools, so a cache can be shared by everybody: several processes that want the same model wait for the one that
//! builds it, by a lock per model. When a model was built and all of them take more than a limit, those that were not used for
//! longest are removed. Loading a library is left to `sim/ffi`.

use crate::cache::{file_failure, lock, write_if_changed};
use crate::{Entry, Failure, Tools, Unit, compile, pool};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant, SystemTime};

/// Bytes that a cache may keep.
const LIMIT: u64 = 2 << 30;
/// How long a build is silent.
const SILENCE: Duration = Duration::from_secs(2);
/// File name of the library in a model's directory.
const LIBRARY: &str = "model.so";
/// How directories begin with what all models of the same tools have in common. They take a few MB and stay.
const RUNTIME: &str = "runtime-";

/// A cache of models.
#[derive(Clone, Debug)]
pub struct Demand {
    dir: PathBuf,
    limit: u64,
}

/// A library that is there. Nobody removes it as long as this lives; what is loaded stays usable without.
#[derive(Debug)]
pub struct Built {
    /// The library.
    pub path: PathBuf,
    _lock: File,
}

impl Demand {
    /// The cache in a directory, which is made when something is built.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into(), limit: LIMIT }
    }

    /// Another limit, in bytes of all models together. What was built last stays even if it is larger.
    pub fn with_limit(self, limit: u64) -> Self {
        Self { limit, ..self }
    }

    /// What would be built for one variant of a design; [`Unit::key`] identifies it.
    pub fn unit(&self, design: &Entry, waves: bool, tools: &Tools) -> Unit {
        Unit::alone(design, waves, &self.dir, tools)
    }

    /// The library of a unit, built unless it is there. What takes longer than 2 s is reported on the standard error.
    ///
    /// # Errors
    /// What Verilator, the compiler or the linker says; a file that cannot be written.
    pub fn library(&self, unit: &Unit, tools: &Tools) -> Result<Built, Failure> {
        std::fs::create_dir_all(&self.dir).map_err(|e| file_failure("create", &self.dir, &e))?;
        let progress = Progress::of(format!("the model of {} in {}", unit.name, self.dir.display()));
        let built = self.kept(&unit.dir, LIBRARY, |library| self.build(unit, library, tools))?;
        progress.end();
        self.trim()?;
        Ok(built)
    }

    /// The file `name` in the directory `dir` of the cache: if it is not there, `make` has to make it, in one step.
    fn kept(
        &self,
        dir: &Path,
        name: &str,
        make: impl FnOnce(&Path) -> Result<(), Failure>,
    ) -> Result<Built, Failure> {
        let lock = lock(&lock_of(dir))?;
        let path = dir.join(name);
        match File::options().append(true).open(&path) {
            // What was used last is removed last. A cache that cannot be written is not trimmed either.
            Ok(file) => file.set_modified(SystemTime::now()).unwrap_or_default(),
            Err(_) => make(&path)?,
        }
        Ok(Built { path, _lock: lock })
    }

    /// Builds a library; nothing else is left in its directory.
    fn build(&self, unit: &Unit, library: &Path, tools: &Tools) -> Result<(), Failure> {
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        // One for all models that are made with the same tools.
        let key = crate::cache::hash(
            [&compile::key(), &tools.verilator_version, &tools.compiler_identity]
                .map(|part| part.as_bytes())
                .into_iter()
                .chain(compile::FFI_SOURCES.map(|(_, text)| text.as_bytes())),
        );
        let common = self.dir.join(format!("{RUNTIME}{key}"));
        let objects = self.kept(&common, "objects", |list| {
            std::fs::create_dir_all(&common).map_err(|e| file_failure("create", &common, &e))?;
            for (name, text) in compile::FFI_SOURCES {
                write_if_changed(&common.join(name), text.as_bytes())?;
            }
            let jobs = compile::run_time_objects(&common, tools, |objects| {
                let lines: Vec<String> = objects.iter().map(|path| path.display().to_string()).collect();
                write_whole(list, lines.join("\n").as_bytes())
            })?;
            pool::run(workers, jobs)
        })?;
        let list =
            std::fs::read_to_string(&objects.path).map_err(|e| file_failure("read", &objects.path, &e))?;
        // Others may link with it meanwhile.
        drop(objects);
        unit.verilate(tools)?;
        let jobs = compile::design(unit, tools, &common, |own| {
            let all: Vec<PathBuf> = own.iter().cloned().chain(list.lines().map(PathBuf::from)).collect();
            compile::link(&all, library, tools)
        })?;
        pool::run(workers, jobs)?;
        clear_but(&unit.dir, library)
    }

    /// Removes what was not used for longest until the rest keeps the limit; what somebody uses stays.
    fn trim(&self) -> Result<(), Failure> {
        let unreadable = |e: std::io::Error| file_failure("read", &self.dir, &e);
        let mut found = Vec::new();
        for entry in std::fs::read_dir(&self.dir).map_err(unreadable)? {
            let dir = entry.map_err(unreadable)?.path();
            let model = !dir.file_name().is_some_and(|name| name.to_string_lossy().starts_with(RUNTIME));
            if model
                && dir.is_dir()
                && let Some((used, bytes)) = extent(&dir)
            {
                found.push((used, bytes, dir));
            }
        }
        found.sort();
        let mut bytes: u64 = found.iter().map(|(_, bytes, _)| bytes).sum();
        // The last one is what was asked for.
        found.pop();
        for (_, own, dir) in found {
            if bytes <= self.limit {
                break;
            }
            let free = File::create(lock_of(&dir)).is_ok_and(|file| {
                // Held until the directory is gone.
                file.try_lock().is_ok() && std::fs::remove_dir_all(&dir).is_ok()
            });
            bytes -= if free { own } else { 0 };
        }
        Ok(())
    }
}

/// The lock of a directory of the cache. It stays when the directory is removed, so that all who wait for it wait for the same.
fn lock_of(dir: &Path) -> PathBuf {
    dir.with_extension("lock")
}

/// When a directory's files were used last, and their bytes; none if somebody else removes it.
fn extent(dir: &Path) -> Option<(SystemTime, u64)> {
    let (mut used, mut bytes) = (dir.metadata().ok()?.modified().ok()?, 0);
    for file in std::fs::read_dir(dir).ok()?.flatten() {
        let metadata = file.metadata().ok()?;
        if metadata.is_dir() {
            bytes += extent(&file.path())?.1;
        } else {
            (used, bytes) = (used.max(metadata.modified().ok()?), bytes + metadata.len());
        }
    }
    Some((used, bytes))
}

/// Removes everything from a directory but one file.
fn clear_but(dir: &Path, kept: &Path) -> Result<(), Failure> {
    for entry in std::fs::read_dir(dir).map_err(|e| file_failure("read", dir, &e))?.flatten() {
        let path = entry.path();
        if path != kept {
            let removed =
                if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
            removed.map_err(|e| file_failure("remove", &path, &e))?;
        }
    }
    Ok(())
}

/// Writes a file that is complete or absent.
fn write_whole(path: &Path, content: &[u8]) -> Result<(), Failure> {
    let partial = path.with_extension("part");
    write_if_changed(&partial, content)?;
    std::fs::rename(&partial, path).map_err(|e| file_failure("rename", &partial, &e))
}

/// Says on the standard error that something takes long, and when it is done.
struct Progress {
    what: String,
    began: Instant,
    /// Closed when it is done.
    done: Sender<()>,
    reporter: std::thread::JoinHandle<bool>,
}

impl Progress {
    fn of(what: String) -> Self {
        let (done, wait) = channel::<()>();
        let line = format!("building {what}, once");
        let reporter = std::thread::spawn(move || {
            let long = wait.recv_timeout(SILENCE) == Err(std::sync::mpsc::RecvTimeoutError::Timeout);
            if long {
                say(&line);
            }
            long
        });
        Self { what, began: Instant::now(), done, reporter }
    }

    fn end(self) {
        drop(self.done);
        if self.reporter.join().unwrap_or(false) {
            say(&format!("built {} in {:.0} s", self.what, self.began.elapsed().as_secs_f64()));
        }
    }
}

fn say(line: &str) {
    // Nobody is there to be told that the standard error is closed.
    let _ = writeln!(std::io::stderr(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make(cache: &Demand, name: &str, bytes: usize) -> Built {
        let dir = cache.dir.join(name);
        let made = cache.kept(&dir, LIBRARY, |path| {
            std::fs::create_dir_all(&dir).unwrap();
            write_whole(path, &vec![0; bytes])
        });
        made.unwrap()
    }

    fn there(cache: &Demand) -> Vec<&'static str> {
        ["a", "b", "c"].into_iter().filter(|name| cache.dir.join(name).join(LIBRARY).is_file()).collect()
    }

    #[test]
    fn what_was_not_used_for_longest_is_removed_and_what_is_in_use_stays() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Demand::new(dir.path()).with_limit(250);
        for name in ["a", "b", "c"] {
            drop(make(&cache, name, 100));
            std::thread::sleep(Duration::from_millis(20));
        }
        // It is there, and so is used, not made.
        drop(make(&cache, "a", 5));
        assert_eq!(there(&cache), ["a", "b", "c"]);
        cache.trim().unwrap();
        assert_eq!(there(&cache), ["a", "c"]);
        let used = make(&cache, "c", 5);
        std::thread::sleep(Duration::from_millis(20));
        drop(make(&cache, "a", 5));
        let cache = cache.with_limit(0);
        cache.trim().unwrap();
        assert_eq!(there(&cache), ["a", "c"]);
        drop(used);
        cache.trim().unwrap();
        assert_eq!(there(&cache), ["a"]);
    }

    #[test]
    fn who_comes_second_waits_and_does_not_build_again() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Demand::new(dir.path());
        let model = cache.dir.join("a");
        let times = std::sync::atomic::AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let made = cache.kept(&model, LIBRARY, |path| {
                        std::fs::create_dir_all(&model).unwrap();
                        std::thread::sleep(Duration::from_millis(50));
                        times.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        write_whole(path, b"made")
                    });
                    assert_eq!(std::fs::read(made.unwrap().path).unwrap(), b"made");
                });
            }
        });
        assert_eq!(times.into_inner(), 1);
    }

    #[test]
    fn a_build_that_fails_is_tried_again() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Demand::new(dir.path());
        let failed = cache.kept(&cache.dir.join("a"), LIBRARY, |_| Err(vec!["no compiler".to_owned()]));
        assert_eq!(failed.unwrap_err(), ["no compiler"]);
        assert_eq!(there(&cache), [""; 0]);
        drop(make(&cache, "a", 1));
        assert_eq!(there(&cache), ["a"]);
    }
}
