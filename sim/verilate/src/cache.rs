//! The cache of models, where each is built when it is first opened.
//!
//! A model is a library with the C interface of `sim/ffi/shim.h`, known by the hash of its Verilog, its flags and its
//! tools, so a cache can be shared: a lock per model lets processes wait for the one that builds it. Above a limit of
//! bytes the least recently used are removed. `folder` decides which files are kept and loaded.

use crate::files::{hash, write_if_changed};
use crate::folder::{Entry, Folder, Part, part_dir};
use crate::{Failure, Rtl, Tools, Unit, Variant, compile, pool};
use std::io::Write;
use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

const LIMIT: u64 = 2 << 30;
/// Builds that are faster report nothing.
const SILENCE: Duration = Duration::from_secs(2);
const LIBRARY: &str = "model.so";
/// Prefix of entries with objects that all models of the same tools share. They take a few MB and stay.
const RUNTIME: &str = "runtime-";
/// Above the cost of any compilation.
const VERILATE_FIRST: u64 = 1 << 40;

#[derive(Clone, Debug)]
pub struct Cache {
    dir: PathBuf,
}

/// A complete library. Nobody removes it as long as this lives, if the cache is ours.
#[derive(Debug)]
pub struct Kept {
    /// Path to load: through the open descriptor, so that it is the file that was checked.
    pub library: PathBuf,
    pub path: PathBuf,
    _entry: Entry,
}

impl Cache {
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }

    /// [`Unit::key`] identifies it.
    pub fn unit(&self, rtl: &Rtl, variant: Variant, tools: &Tools) -> Unit {
        Unit::new(rtl, variant, |entry| part_dir(&self.dir, entry), tools)
    }

    /// Builds missing libraries with `workers` threads. Builds that take longer than 2 s are reported on the standard
    /// error.
    ///
    /// # Errors
    /// Errors of Verilator, compiler or linker; a file that cannot be written; a cache that others may write.
    pub fn libraries<'a>(
        &self,
        units: &'a [Unit],
        tools: &Tools,
        workers: usize,
    ) -> Result<Vec<Kept>, Failure> {
        let folder = Folder::open(&self.dir)?;
        // Everybody takes locks in the order of their names, each once, so that nobody waits in a circle.
        let mut order: Vec<&'a Unit> = units.iter().collect();
        order.sort_by_key(|unit| &unit.entry);
        order.dedup_by_key(|unit| &unit.entry);
        let names: Vec<&str> = order.iter().map(|unit| unit.name.as_str()).collect();
        let progress = Progress::of(format!("{} in {}", names.join(", "), folder.path().display()));
        let (mut entries, mut missing) = (Vec::new(), Vec::new());
        for unit in order {
            match found_or_claimed(&folder, &unit.entry, &[LIBRARY])? {
                Ok(entry) => entries.push(entry),
                Err(part) => missing.push((unit, part)),
            }
        }
        if !missing.is_empty() {
            let common = self.common(&folder, tools, workers)?;
            // Before all compilation, the largest first: the long compilations are unknown before Verilator has run.
            let (common, folder) = (&common, &folder);
            let mut jobs = Vec::new();
            for (unit, part) in &missing {
                jobs.push(pool::Job::new(VERILATE_FIRST + unit.verilog_bytes(), move || {
                    unit.generate(tools)?;
                    compile::design(unit, tools, &common.dir, move |own| {
                        let objects = own.iter().chain(&common.objects);
                        compile::link(objects, &part.dir.join(LIBRARY), tools)?;
                        folder.complete(part, &[LIBRARY.to_owned()])
                    })
                }));
            }
            pool::run(workers, jobs)?;
            for (_, part) in missing {
                entries.push(folder.made(part)?);
            }
            folder.trim(LIMIT, |name| name.starts_with(RUNTIME))?;
        }
        progress.end();
        let kept = |entry: Entry| Kept {
            library: entry.opened.join(LIBRARY),
            path: entry.dir.join(LIBRARY),
            _entry: entry,
        };
        Ok(entries.into_iter().map(kept).collect())
    }

    pub fn library(&self, unit: &Unit, tools: &Tools) -> Result<Kept, Failure> {
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        let kept = self.libraries(std::slice::from_ref(unit), tools, workers)?;
        kept.into_iter().next().ok_or_else(|| vec![format!("{}: no library", unit.name)])
    }

    fn common(&self, folder: &Folder, tools: &Tools, workers: usize) -> Result<Common, Failure> {
        let name =
            format!("{RUNTIME}{}", hash([&compile::key(), &tools.identity].map(|part| part.as_bytes())));
        let entry = match found_or_claimed(folder, &name, &[])? {
            Ok(entry) => entry,
            Err(part) => {
                let mut files = Vec::new();
                for (name, text) in compile::FFI_SOURCES {
                    write_if_changed(&part.dir.join(name), text.as_bytes())?;
                    files.push(name.to_owned());
                }
                let (jobs, objects) = compile::run_time_objects(&part.dir, tools)?;
                files.extend(objects);
                pool::run(workers, jobs)?;
                folder.complete(&part, &files)?;
                folder.made(part)?
            }
        };
        let objects = entry.files.iter().filter(|file| file.ends_with(".o"));
        Ok(Common {
            objects: objects.map(|file| entry.dir.join(file)).collect(),
            dir: entry.dir.clone(),
            _entry: entry,
        })
    }
}

fn found_or_claimed(folder: &Folder, name: &str, files: &[&str]) -> Result<Result<Entry, Part>, Failure> {
    folder.find(name).map_or_else(|| folder.claim(name, files), |entry| Ok(Ok(entry)))
}

struct Common {
    /// Folder of objects and hand-written sources.
    dir: PathBuf,
    objects: Vec<PathBuf>,
    _entry: Entry,
}

struct Progress {
    what: String,
    began: Instant,
    done: Sender<()>,
    /// None if the operating system has no thread for it.
    reporter: Option<std::thread::JoinHandle<bool>>,
}

impl Progress {
    fn of(what: String) -> Self {
        let (done, wait) = channel::<()>();
        let line = format!("building the model of {what}, once");
        let reporter = std::thread::Builder::new().spawn(move || {
            let long = wait.recv_timeout(SILENCE) == Err(std::sync::mpsc::RecvTimeoutError::Timeout);
            if long {
                say(&line);
            }
            long
        });
        Self { what, began: Instant::now(), done, reporter: reporter.ok() }
    }

    fn end(self) {
        drop(self.done);
        if self.reporter.is_some_and(|reporter| reporter.join().unwrap_or(false)) {
            say(&format!("built {} in {:.0} s", self.what, self.began.elapsed().as_secs_f64()));
        }
    }
}

fn say(line: &str) {
    // A closed standard error cannot be reported.
    let _ = writeln!(std::io::stderr(), "{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[ignore = "compiles what all models share; run by `make exhaustive`"]
    fn a_cache_that_was_moved_still_links() {
        let dir = tempfile::tempdir().unwrap();
        let tools = crate::tools::find(&format!("{}-unknown-linux-gnu", std::env::consts::ARCH)).unwrap();
        let [old, new] = ["old", "new"].map(|name| dir.path().join(name));
        std::fs::create_dir(&old).unwrap();
        let common = |dir| {
            let cache = Cache::new(dir);
            cache.common(&Folder::open(&cache.dir).unwrap(), &tools, 1).unwrap()
        };
        drop(common(&old));
        std::fs::rename(&old, &new).unwrap();
        let common = common(&new);
        assert!(!common.objects.is_empty());
        for object in common.objects {
            assert!(object.is_file(), "{} is not there", object.display());
        }
    }
}
