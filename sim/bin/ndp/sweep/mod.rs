//! `ndp sweep`: many commands on many configurations, each result kept by what it depends on.
//!
//! `space` multiplies a description out, `folder` keeps points and results, `engine` and `slurm` have them run, `table` writes what came of it, and `front`
//! looks for the points that no other dominates.

mod engine;
mod folder;
mod front;
mod slurm;
mod space;
mod table;

use anyhow::{Context, Result};
use clap::Subcommand;
use engine::Engine;
use folder::Folder;
use ndp_files::{FileSet, NameRule, note, say};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Run commands on many configurations, here or on a cluster; find the points that no other dominates
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    ndp sweep run examples/sweep/fig16.toml --out target/fig16\n  \
    ndp sweep run examples/sweep/fig16.toml --out target/fig16 --engine slurm --chunk 10\n  \
    ndp sweep report target/fig16 --minimise product.cycles --html fig16.html\n\n\
    docs/sweep.md describes the file. A run that was interrupted goes on where it was: only points without a result run.")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Runs the points of a sweep that have no result yet, and writes results.jsonl, results.csv and results.parquet
    Run(Run),
    /// Runs some points, by their numbers: what jobs of a cluster do
    Points(Points),
    /// Shows the results: the points that no other dominates, and what each key changes
    Report(front::Args),
}

#[derive(Debug, clap::Args)]
struct Run {
    /// The sweep (docs/sweep.md)
    #[arg(value_name = "SPACE.toml")]
    space: PathBuf,
    /// Folder of points and results; results that are there are taken
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Who runs the points
    #[arg(long, value_enum, default_value = "local")]
    engine: Engine,
    /// Points at the same time [default: the cores of this machine]
    #[arg(long)]
    jobs: Option<usize>,
    /// Points of a job of a cluster
    #[arg(long, default_value_t = 1)]
    chunk: usize,
    #[command(flatten)]
    slurm: slurm::Options,
    /// Run points again whose arguments a command refused: a file that it read may say something else now
    #[arg(long)]
    again: bool,
    /// Say how many points there are and how many have a result, and run none
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, clap::Args)]
struct Points {
    /// Folder of the sweep
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Numbers of points, as they stand in points.jsonl, from 0
    #[arg(required = true)]
    numbers: Vec<usize>,
}

/// Runs the job.
pub fn run(args: &Args) -> Result<()> {
    match &args.command {
        Command::Run(args) => run_all(args),
        Command::Points(args) => engine::points(&Folder::new(&args.folder), &args.numbers),
        Command::Report(args) => front::run(args),
    }
}

fn run_all(args: &Run) -> Result<()> {
    ensure!(args.chunk > 0, "--chunk 0 must be at least 1");
    ensure!(args.jobs != Some(0), "--jobs 0 must be at least 1");
    ensure!(
        args.engine == Engine::Slurm || !args.slurm.are_given(),
        "--partition, --account, --time and --memory need --engine slurm"
    );
    let (points, bases) = space::read(&args.space)?;
    // It stands in job scripts and lists of commands, a line each.
    let whole = std::path::absolute(&args.out).context("--out")?;
    let Some(name) = whole.to_str() else { bail!("--out '{}' must be text in UTF-8", args.out.display()) };
    NameRule::Foreign.check(name).map_err(|error| refusal!("--out {error}"))?;
    let (folder, begin) = (Folder::new(&args.out), Instant::now());
    let files = folder.outputs(FileSet::new().input("the sweep", &args.space));
    let files = bases.iter().fold(files, |files, base| files.configuration("a base of the sweep", base));
    files.check()?;
    let written = space::outputs(&points).into_iter();
    let files = written.fold(files, |files, (number, option, path)| {
        files.output(&format!("--{option} of point {number}"), path)
    });
    files.check().context("leave out the files of points: the sweep's folder keeps their reports")?;
    let mut missing = Vec::new();
    for (number, point) in points.iter().enumerate() {
        match folder.outcome(point)? {
            None => missing.push(number),
            Some(outcome) if args.again && outcome.refused.is_some() => {
                if !args.dry_run {
                    folder.forget(point)?;
                }
                missing.push(number);
            }
            Some(_) => {}
        }
    }
    let (all, left) = (points.len(), missing.len());
    let counts = format!("{all} points, {} have a result, {left} are to run", all - left);
    if args.dry_run {
        say!("{counts}");
        return Ok(());
    }
    note!("{counts}");
    folder.begin(&points)?;
    let cores = || std::thread::available_parallelism().map_or(1, usize::from);
    let jobs = args.jobs.unwrap_or_else(cores);
    let ended = match args.engine {
        _ if missing.is_empty() => true,
        Engine::Local => {
            let points: Vec<_> = missing.iter().map(|number| &points[*number]).collect();
            engine::local(&folder, &points, jobs).map(|()| true)?
        }
        engine => engine::submit((engine, &args.slurm), &folder.file(""), &missing, (args.chunk, jobs))?,
    };
    match ended {
        true if args.engine == Engine::Slurm => finish(&folder, &points, missing.len(), begin)
            .with_context(|| format!("the logs of the jobs are '{}'", folder.file("slurm-*.log").display())),
        true => finish(&folder, &points, missing.len(), begin),
        false => Ok(()),
    }
}

/// Writes the tables, and says what the points took.
fn finish(folder: &Folder, points: &[space::Point], ran: usize, begin: Instant) -> Result<()> {
    let mut outcomes = Vec::with_capacity(points.len());
    let mut without = Vec::new();
    for (number, point) in points.iter().enumerate() {
        match folder.outcome(point)? {
            Some(outcome) => outcomes.push(outcome),
            None => without.push(number),
        }
    }
    anyhow::ensure!(
        without.is_empty(),
        "{} points have no result, the first is point {}: `ndp sweep points {} {}` says why",
        without.len(),
        without[0],
        folder.file("").display(),
        without[0]
    );
    table::write(folder, &outcomes)?;
    let refused = outcomes.iter().filter(|outcome| outcome.refused.is_some()).count();
    say!("{} results in {}, {refused} of them refused", outcomes.len(), shown(&folder.file("results.jsonl")));
    let seconds: Vec<f64> = points.iter().filter_map(|point| folder.seconds(&point.key)).collect();
    let sum: f64 = seconds.iter().sum();
    let most = seconds.iter().copied().fold(0.0, f64::max);
    if ran > 0 {
        say!("{ran} points ran in {:.1} s", begin.elapsed().as_secs_f64());
    }
    say!("a point takes {:.2} s, the longest {most:.2} s, all {sum:.1} s", sum / seconds.len().max(1) as f64);
    let first = outcomes.first().and_then(|outcome| outcome.refused.as_deref()).unwrap_or_default();
    ensure!(refused < outcomes.len(), "all {refused} points are refused, the first: {}", folder::bare(first));
    Ok(())
}

fn shown(path: &Path) -> std::path::Display<'_> {
    path.display()
}
