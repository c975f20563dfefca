//! Runs the points with threads of this process, or with a cluster engine, whose jobs have several points.

use super::folder::Folder;
use super::slurm;
use super::space::Point;
use crate::prelude::*;
use ndp_files::NameRule;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// Engine that runs the points.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Engine {
    /// Threads of this process.
    Local,
    /// Job arrays of Slurm: writes slurm.sh and slurm-submit.sh, submits them and waits.
    Slurm,
    /// GNU parallel: writes parallel.txt, a command per line.
    Parallel,
    /// HyperQueue: writes hyperqueue.sh, which submits a task array.
    Hyperqueue,
}

/// If a point fails, the others go on.
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

/// Commands that run `chunk` points each, by their numbers in the list.
fn commands(path: &Path, numbers: &[usize], chunk: usize) -> Result<Vec<String>> {
    let (program, path) = (quoted(&std::env::current_exe()?)?, quoted(&path.canonicalize()?)?);
    let line = |numbers: &[usize]| format!("{program} sweep points {path} {}", numbers.iter().join(" "));
    Ok(numbers.chunks(chunk).map(line).collect())
}

/// A path in shell syntax, on one line.
pub fn quoted(path: &Path) -> Result<String> {
    let Some(text) = path.to_str() else { bail!("'{}' must be text in UTF-8", path.display()) };
    NameRule::Foreign.check(text).map_err(|error| refusal!("the path {error}, to stand in a job file"))?;
    Ok(shlex::try_quote(text)?.into_owned())
}

/// Writes the job file of an engine, and submits it if the engine can wait. Returns whether all jobs have ended.
pub fn submit(
    (engine, slurm): (Engine, &slurm::Options),
    path: &Path,
    numbers: &[usize],
    (chunk, jobs): (usize, usize),
) -> Result<bool> {
    let lines = commands(path, numbers, chunk)?;
    let list = path.join("parallel.txt");
    write(&list, &format!("{}\n", lines.join("\n")))?;
    let list = list.canonicalize()?;
    match engine {
        Engine::Local => Ok(false),
        Engine::Parallel => {
            note!("{} jobs; run them by: parallel --jobs {jobs} < {}", lines.len(), quoted(&list)?);
            Ok(false)
        }
        Engine::Hyperqueue => {
            let script = path.join("hyperqueue.sh");
            // Task n is line n of the list, from 1.
            let task = format!("eval \"$(sed -n \"${{HQ_TASK_ID}}p\" {})\"", quoted(&list)?);
            let text = format!(
                "#!/bin/bash\n# Submits {} tasks to HyperQueue.\nexec hq submit --wait --array=1-{} --cpus=1 -- bash -c {}\n",
                lines.len(),
                lines.len(),
                shlex::try_quote(&task)?
            );
            write(&script, &text)?;
            note!("{} tasks; submit them by: bash {}", lines.len(), quoted(&script.canonicalize()?)?);
            Ok(false)
        }
        Engine::Slurm => slurm::submit(path, &list, lines.len(), jobs, slurm).map(|()| true),
    }
}

pub fn points(folder: &Folder, numbers: &[usize]) -> Result<Vec<Point>> {
    let points = folder.points()?;
    let mut chosen = Vec::with_capacity(numbers.len());
    for number in numbers {
        let Some(point) = points.get(*number) else {
            bail!("unknown point {number}; the sweep has {} points, counted from 0", points.len());
        };
        chosen.push(point);
    }
    local(folder, &chosen, 1)?;
    Ok(chosen.into_iter().cloned().collect())
}
