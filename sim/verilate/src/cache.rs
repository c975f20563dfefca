//! The cache of models, where each is built when it is first asked for.
//!
//! A model is a library with the C interface of `sim/ffi/shim.h`. It is known by the hash of its Verilog, its flags and its tools, so a
//! cache can be shared by everybody: several processes that want the same model wait for the one that builds it, by a lock per
//! model. When all models take more than a limit, those that were not used for longest are removed. Loading a library is left to
//! `sim/ffi`.

use crate::files::{file_failure, hash, lock, write_if_changed};
use crate::{Failure, Rtl, Tools, Unit, Variant, compile, pool};
use ndp_files::OutputFile;
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
/// More than the cost of anything that is compiled.
const VERILATE_FIRST: u64 = 1 << 40;

/// A cache of models.
#[derive(Clone, Debug)]
pub struct Cache {
    dir: PathBuf,
    limit: u64,
}

/// A file of the cache that is there. Nobody removes it as long as this lives; a library that is loaded stays usable without.
#[derive(Debug)]
pub struct Kept {
    /// The file.
    pub path: PathBuf,
    _lock: File,
}

impl Cache {
    /// The cache in a directory, which is made when something is built.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into(), limit: LIMIT }
    }

    /// Another limit, in bytes of all models together. What was asked for last stays even if it is larger.
    #[must_use]
    pub fn with_limit(self, limit: u64) -> Self {
        Self { limit, ..self }
    }

    /// What is built for one variant of a design; [`Unit::key`] identifies it.
    pub fn unit(&self, rtl: &Rtl, variant: Variant, tools: &Tools) -> Unit {
        Unit::new(rtl, variant, &self.dir, tools)
    }

    /// The libraries of `units`, built with `workers` threads unless they are there. What takes longer than 2 s is reported on the
    /// standard error.
    ///
    /// # Errors
    /// What Verilator, the compiler or the linker says; a file that cannot be written.
    pub fn libraries<'a>(
        &self,
        units: &'a [Unit],
        tools: &Tools,
        workers: usize,
    ) -> Result<Vec<Kept>, Failure> {
        std::fs::create_dir_all(&self.dir).map_err(|e| file_failure("create", &self.dir, &e))?;
        // Everybody takes locks in the order of their names, so that nobody waits in a circle; each lock once.
        let mut order: Vec<&'a Unit> = units.iter().collect();
        order.sort_by_key(|unit| &unit.dir);
        order.dedup_by_key(|unit| &unit.dir);
        let names: Vec<&str> = order.iter().map(|unit| unit.name.as_str()).collect();
        let progress = Progress::of(format!("{} in {}", names.join(", "), self.dir.display()));
        let mut kept = Vec::new();
        let mut missing = Vec::new();
        for unit in order {
            let (library, there) = self.locked(&unit.dir, LIBRARY)?;
            if !there {
                missing.push((unit, library.path.clone()));
            }
            kept.push(library);
        }
        if !missing.is_empty() {
            let common = self.common(tools, workers)?;
            // Before everything that is compiled, and the largest first: what takes long is not known before Verilator ran.
            let common = &common;
            let job = |(unit, library): (&'a Unit, PathBuf)| {
                pool::Job::new(VERILATE_FIRST + unit.verilog_bytes(), move || {
                    unit.generate(tools)?;
                    compile::design(unit, tools, &common.dir, move |own| {
                        compile::link(own.iter().chain(&common.objects), &library, tools)?;
                        clear_but(&unit.dir, &library)
                    })
                })
            };
            pool::run(workers, missing.into_iter().map(job).collect())?;
        }
        progress.end();
        self.trim()?;
        Ok(kept)
    }

    /// The library of one unit, as [`Self::libraries`].
    ///
    /// # Errors
    /// As [`Self::libraries`].
    pub fn library(&self, unit: &Unit, tools: &Tools) -> Result<Kept, Failure> {
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        let kept = self.libraries(std::slice::from_ref(unit), tools, workers)?;
        kept.into_iter().next().ok_or_else(|| vec![format!("{}: no library", unit.name)])
    }

    /// The file `name` in the directory `dir` of the cache, locked, and whether it is there.
    fn locked(&self, dir: &Path, name: &str) -> Result<(Kept, bool), Failure> {
        let lock = lock(&lock_of(dir))?;
        let path = dir.join(name);
        let there = File::options().append(true).open(&path).map(|file| {
            // What was used last is removed last. A cache that cannot be written is not trimmed either.
            file.set_modified(SystemTime::now()).unwrap_or_default();
        });
        Ok((Kept { path, _lock: lock }, there.is_ok()))
    }

    /// What all models that are made with the same tools have in common, compiled unless it is there.
    fn common(&self, tools: &Tools, workers: usize) -> Result<Common, Failure> {
        let key = hash(
            [&compile::key(), &tools.verilator_version, &tools.compiler_identity].map(|part| part.as_bytes()),
        );
        let dir = self.dir.join(format!("{RUNTIME}{key}"));
        let (list, there) = self.locked(&dir, "objects")?;
        if !there {
            std::fs::create_dir_all(&dir).map_err(|e| file_failure("create", &dir, &e))?;
            for (name, text) in compile::FFI_SOURCES {
                write_if_changed(&dir.join(name), text.as_bytes())?;
            }
            let jobs = compile::run_time_objects(&dir, tools, |objects| {
                let names = objects.iter().filter_map(|path| path.file_name());
                let lines: Vec<String> = names.map(|name| name.to_string_lossy().into_owned()).collect();
                write_whole(&list.path, lines.join("\n").as_bytes())
            })?;
            pool::run(workers, jobs)?;
        }
        let text = std::fs::read_to_string(&list.path).map_err(|e| file_failure("read", &list.path, &e))?;
        // Names only, as the cache may have been moved.
        let objects = text.lines().filter_map(|line| Some(dir.join(Path::new(line).file_name()?))).collect();
        Ok(Common { dir, objects })
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

/// Objects that every library is linked with.
struct Common {
    /// Where they are, and the hand-written sources.
    dir: PathBuf,
    objects: Vec<PathBuf>,
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
    let written = OutputFile::create(path).and_then(|file| file.finish(|out| out.write_all(content)));
    written.map_err(|e| vec![e.to_string()])
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
        let line = format!("building the model of {what}, once");
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

    fn make(cache: &Cache, name: &str, bytes: usize) -> Kept {
        let dir = cache.dir.join(name);
        let (kept, there) = cache.locked(&dir, LIBRARY).unwrap();
        if !there {
            std::fs::create_dir_all(&dir).unwrap();
            write_whole(&kept.path, &vec![0; bytes]).unwrap();
        }
        kept
    }

    fn there(cache: &Cache) -> Vec<&'static str> {
        ["a", "b", "c"].into_iter().filter(|name| cache.dir.join(name).join(LIBRARY).is_file()).collect()
    }

    #[test]
    fn what_was_not_used_for_longest_is_removed_and_what_is_in_use_stays() {
        let dir = tempfile::tempdir().unwrap();
        let cache = Cache::new(dir.path()).with_limit(250);
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
        let cache = Cache::new(dir.path());
        let model = cache.dir.join("a");
        let times = std::sync::atomic::AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let (kept, there) = cache.locked(&model, LIBRARY).unwrap();
                    if !there {
                        std::fs::create_dir_all(&model).unwrap();
                        std::thread::sleep(Duration::from_millis(50));
                        times.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                        write_whole(&kept.path, b"made").unwrap();
                    }
                    assert_eq!(std::fs::read(&kept.path).unwrap(), b"made");
                });
            }
        });
        assert_eq!(times.into_inner(), 1);
    }

    #[test]
    #[ignore = "compiles what all models share; run by `make exhaustive`"]
    fn a_cache_that_was_moved_still_links() {
        let dir = tempfile::tempdir().unwrap();
        let tools = crate::tools::find(&format!("{}-unknown-linux-gnu", std::env::consts::ARCH)).unwrap();
        let [old, new] = ["old", "new"].map(|name| dir.path().join(name));
        std::fs::create_dir(&old).unwrap();
        drop(Cache::new(&old).common(&tools, 1).unwrap());
        std::fs::rename(&old, &new).unwrap();
        let common = Cache::new(&new).common(&tools, 1).unwrap();
        assert!(!common.objects.is_empty());
        for object in common.objects {
            assert!(object.is_file(), "{} is not there", object.display());
        }
    }
}
