//! Who runs the points: threads of this process, or a job of a cluster engine for each of some of them.

use super::folder::{Folder, write};
use super::space::Point;
use anyhow::{Context, Result, bail, ensure};
use ndp_files::{Child, Progress, note};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Who runs the points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Engine {
    /// Threads of this process.
    Local,
    /// A job array of Slurm: writes slurm.sh, submits it and waits.
    Slurm,
    /// GNU parallel: writes parallel.txt, a command per line.
    Parallel,
    /// HyperQueue: writes hyperqueue.sh, which submits a task array.
    Hyperqueue,
}

/// Runs points on threads. The others go on if one fails.
///
/// # Errors
/// The first failure, with the number of others.
pub fn local(folder: &Folder, points: &[&Point], threads: usize) -> Result<()> {
    let progress = Progress::new(points.len() as u64, "points");
    let (next, failures) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some(point) = points.get(next.fetch_add(1, Ordering::Relaxed)) {
            if let Err(error) = folder.run(point) {
                failures.lock().unwrap_or_else(PoisonError::into_inner).push(error);
            }
            progress.add(1);
        }
    };
    ndp_files::on_threads(threads.min(points.len()), work);
    drop(progress);
    let mut failures = failures.into_inner().unwrap_or_else(PoisonError::into_inner).into_iter();
    let Some(first) = failures.next() else { return Ok(()) };
    Err(first.context(format!("{} of {} points failed; the first", failures.len() + 1, points.len())))
}

/// The commands that run points `chunk` by `chunk`, by their numbers in the list.
fn commands(path: &Path, numbers: &[usize], chunk: usize) -> Result<Vec<String>> {
    let program = std::env::current_exe()?;
    let path = path.canonicalize()?;
    let line = |numbers: &[usize]| {
        let numbers: Vec<String> = numbers.iter().map(usize::to_string).collect();
        format!("{} sweep points {} {}", quoted(&program), quoted(&path), numbers.join(" "))
    };
    Ok(numbers.chunks(chunk).map(line).collect())
}

/// A path as a shell takes it.
fn quoted(path: &Path) -> String {
    format!("'{}'", path.display().to_string().replace('\'', r"'\''"))
}

/// Writes the job file of an engine, and submits it if it is one that waits. Returns whether all jobs have ended.
pub fn submit(engine: Engine, path: &Path, numbers: &[usize], (chunk, jobs): (usize, usize)) -> Result<bool> {
    let lines = commands(path, numbers, chunk)?;
    let of = |name: &str| path.join(name);
    let list = of("parallel.txt");
    write(&list, &format!("{}\n", lines.join("\n")))?;
    let list = list.canonicalize()?;
    // The task of a number is a line of the list, which counts from 1.
    let task = |number: &str| format!("eval \"$(sed -n \"${{{number}}}p\" {})\"", quoted(&list));
    match engine {
        Engine::Local => Ok(false),
        Engine::Parallel => {
            note!("{} jobs; run them by: parallel --jobs {jobs} < {}", lines.len(), list.display());
            Ok(false)
        }
        Engine::Hyperqueue => {
            let script = of("hyperqueue.sh");
            let text = format!(
                "#!/bin/bash\n# Submits {} tasks to HyperQueue.\nexec hq submit --wait --array=1-{} --cpus=1 -- bash -c {}\n",
                lines.len(),
                lines.len(),
                quoted(Path::new(&task("HQ_TASK_ID")))
            );
            write(&script, &text)?;
            note!("{} tasks; submit them by: bash {}", lines.len(), script.display());
            Ok(false)
        }
        Engine::Slurm => {
            let script = of("slurm.sh");
            let logs = path.canonicalize()?.join("slurm-%A_%a.log");
            let text = format!(
                "#!/bin/bash\n#SBATCH --job-name=ndp-sweep\n#SBATCH --array=1-{}%{jobs}\n#SBATCH --cpus-per-task=1\n\
                 #SBATCH --output={}\n{}\n",
                lines.len(),
                logs.display(),
                task("SLURM_ARRAY_TASK_ID")
            );
            write(&script, &text)?;
            let mut sbatch = Command::new("sbatch");
            let status = Child::spawn(sbatch.arg("--wait").arg(&script)).and_then(Child::wait);
            let status = status.with_context(|| {
                format!(
                    "cannot run sbatch; '{}' is written and can be submitted where Slurm is",
                    script.display()
                )
            })?;
            // A job of the array that failed is reported by the point that has no result.
            ensure!(status.code().is_some(), "sbatch was ended by a signal; the jobs may go on");
            Ok(true)
        }
    }
}

/// Runs the points of a job.
pub fn points(folder: &Folder, numbers: &[usize]) -> Result<()> {
    let points = folder.points()?;
    let mut chosen = Vec::with_capacity(numbers.len());
    for number in numbers {
        let Some(point) = points.get(*number) else {
            bail!("there is no point {number}; the sweep has {}, counted from 0", points.len());
        };
        chosen.push(point);
    }
    local(folder, &chosen, 1)
}
