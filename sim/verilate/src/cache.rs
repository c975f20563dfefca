//! The cache of models, where each is built when it is first asked for.
//!
//! A model is a library with the C interface of `sim/ffi/shim.h`. It is known by the hash of its Verilog, its flags and its tools, so a
//! cache can be shared: several processes that want the same model wait for the one that builds it, by a lock per model. When all models
//! take more than a limit, the least recently used are removed. `folder` decides which files are kept, and whose files are loaded;
//! loading a library is left to `sim/ffi`.

use crate::files::{hash, write_if_changed};
use crate::folder::{Entry, Folder, Part, part_dir};
use crate::{Failure, Rtl, Tools, Unit, Variant, compile, pool};
use std::io::Write;
use std::path::PathBuf;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

/// Bytes that a cache may keep.
const LIMIT: u64 = 2 << 30;
/// How long a build is silent.
const SILENCE: Duration = Duration::from_secs(2);
/// File name of the library in a model's entry.
const LIBRARY: &str = "model.so";
/// How entries begin with what all models of the same tools have in common. They take a few MB and stay.
const RUNTIME: &str = "runtime-";
/// More than the cost of anything that is compiled.
const VERILATE_FIRST: u64 = 1 << 40;

#[derive(Clone, Debug)]
pub struct Cache {
    dir: PathBuf,
}

/// A library of the cache that is whole. Nobody removes it as long as this lives, if the cache is ours.
#[derive(Debug)]
pub struct Kept {
    /// The file, as it has to be named to load it: so that it is the one that was checked.
    pub library: PathBuf,
    pub path: PathBuf,
    _entry: Entry,
}

impl Cache {
    /// The cache in a directory, which is made when something is built. All that it keeps is in one folder there.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }

    /// What is built for one variant of a design; [`Unit::key`] identifies it.
    pub fn unit(&self, rtl: &Rtl, variant: Variant, tools: &Tools) -> Unit {
        Unit::new(rtl, variant, |entry| part_dir(&self.dir, entry), tools)
    }

    /// The libraries of `units`, built with `workers` threads unless they are there. What takes longer than 2 s is reported on the
    /// standard error.
    ///
    /// # Errors
    /// What Verilator, the compiler or the linker says; a file that cannot be written; a cache that others may write.
    pub fn libraries<'a>(
        &self,
        units: &'a [Unit],
        tools: &Tools,
        workers: usize,
    ) -> Result<Vec<Kept>, Failure> {
        let folder = Folder::open(&self.dir)?;
        // Everybody takes locks in the order of their names, so that nobody waits in a circle; each lock once.
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
            // Before everything that is compiled, and the largest first: what takes long is not known before Verilator ran.
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

    /// The library of one unit, as [`Self::libraries`].
    pub fn library(&self, unit: &Unit, tools: &Tools) -> Result<Kept, Failure> {
        let workers = std::thread::available_parallelism().map_or(1, usize::from);
        let kept = self.libraries(std::slice::from_ref(unit), tools, workers)?;
        kept.into_iter().next().ok_or_else(|| vec![format!("{}: no library", unit.name)])
    }

    /// What all models that are made with the same tools have in common, compiled unless it is there.
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

/// An entry of these files, or where it has to be made.
fn found_or_claimed(folder: &Folder, name: &str, files: &[&str]) -> Result<Result<Entry, Part>, Failure> {
    folder.find(name).map_or_else(|| folder.claim(name, files), |entry| Ok(Ok(entry)))
}

/// Objects that every library is linked with.
struct Common {
    /// Where they are, and the hand-written sources.
    dir: PathBuf,
    objects: Vec<PathBuf>,
    _entry: Entry,
}

/// Says on the standard error that something takes long, and when it is done.
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
    // Nobody is there to be told that the standard error is closed.
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
