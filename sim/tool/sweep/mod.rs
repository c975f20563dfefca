//! `ndp sweep`: many commands on many configurations. Each result is kept, named after everything on which it
//! depends.
//!
//! `space` expands a description into points, `folder` keeps points and results, `engine` and `slurm` run them,
//! `table` writes the results, and `front` finds the points that no other dominates.

mod engine;
mod folder;
mod front;
mod slurm;
mod space;
mod table;

use crate::output::OutputArgs;
use crate::prelude::*;
use clap::Subcommand;
use engine::Engine;
use folder::Folder;
use ndp_files::NameRule;
use space::Point;
use std::time::Instant;

/// Run commands on many configurations, here or on a cluster; find the points that no other dominates
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    ndp sweep run examples/sweep/fig16.toml --out target/fig16\n  \
    ndp sweep report target/fig16 --minimise product.cycles --html fig16.html\n\n\
    docs/sweep.md describes the file. An interrupted run resumes: only points without a result run.")]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the points of a sweep that have no result yet, and write results.jsonl, results.csv and results.parquet
    Run(Run),
    /// Run some points, selected by number, as cluster jobs do
    Points(Shown<Points>),
    /// Report the results: the points that no other dominates, and the effect of each key
    Report(Shown<front::Args>),
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  \
    ndp sweep run examples/sweep/fig16.toml --out target/fig16\n  \
    ndp sweep run examples/sweep/fig16.toml --out target/fig16 --engine slurm --chunk 10\n  \
    ndp sweep run examples/sweep/fig16.toml --out target/fig16 --dry-run\n\n\
    A sweep is a TOML file:\n\n  \
    [[files]]                                   # configurations: each combination of these keys\n  \
    base = \"hermes\"                             # a preset or a path\n  \
    keys.gemv.multipliers = [128, 256]\n  \
    keys.dram.speed = [2400, 3200]\n\n  \
    [[commands]]                                # run on each configuration\n  \
    name = \"product\"\n  \
    run = \"gemv --rows 256 --cols 2048 --backend cycles\"\n  \
    options.weights = [\"fp16\", \"int4\"]         # a value is part of the names of the metrics\n  \
    metrics.cycles = \"/cycles\"                 # a path of `ndp schema gemv`\n\n\
    A configuration dominates another if it is at least as good in all metrics that a report compares, and better in at least one. \
    Values of options do not make different configurations.")]
struct Run {
    /// Description of the sweep (docs/sweep.md)
    #[arg(value_name = "SPACE.toml")]
    space: PathBuf,
    /// Folder of points and results; existing results are reused
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Engine that runs the points
    #[arg(long, value_enum, default_value = "local")]
    engine: Engine,
    /// Number of points or jobs to run in parallel (1 or more) [default: number of cores of this machine]
    #[arg(long)]
    jobs: Option<usize>,
    /// Number of points in a cluster job (1 or more)
    #[arg(long, default_value_t = 1)]
    chunk: usize,
    /// Run the points again whose arguments a command refused, because a file that it reads may have changed
    #[arg(long)]
    again: bool,
    /// Run no point; print the number of points, how many have a result, and which ones their command refuses
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    form: OutputArgs,
    #[command(flatten)]
    slurm: slurm::Options,
}

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  ndp sweep points target/fig16 0 5 6")]
struct Points {
    /// Folder of the sweep
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// Numbers of points: their lines in points.jsonl, counted from 0
    #[arg(required = true)]
    numbers: Vec<usize>,
}

/// `done`: number of refusals, time of this run if it ran a point, and time of each point.
fn figures(points: usize, to_run: usize, done: Option<(usize, Option<f64>, Vec<f64>)>) -> Values {
    let done = done.as_ref();
    let sum = done.map(|(.., seconds)| seconds.iter().sum::<f64>());
    figures! {
        "points" "points" {Count} Verbose: "points of the sweep" = points;
        "to_run" "to run" {Count} Verbose: "points that had no result when the command began" = to_run;
        "refused" "refused" {Count} Verbose: "points whose arguments a command refused; null if points are not done" = done.map(|(refused, ..)| refused);
        "seconds" "run" {Real("s", 1)} Verbose: "time of this run; null if it ran no point" = done.and_then(|(_, seconds, _)| *seconds);
        "mean_seconds" "a point takes" {Real("s", 2)} Screen: "mean time of a point"
            = sum.zip(done).map(|(sum, (.., seconds))| sum / seconds.len().max(1) as f64);
        "longest_seconds" "the longest" {Real("s", 2)} Screen: "longest time of a point"
            = done.map(|(.., seconds)| seconds.iter().copied().fold(0.0, f64::max));
        "all_seconds" "all" {Real("s", 1)} Screen: "sum of all points' times" = sum;
    }
}

pub fn run(args: &Args) -> Result<u8> {
    match &args.command {
        Command::Run(args) => args.form.show(|| run_all(args)),
        Command::Points(args) => args.show(run_some),
        Command::Report(args) => args.show(front::run),
    }
}

fn run_some(args: &Shown<Points>) -> Result<Report> {
    let folder = Folder::new(&args.folder);
    let points = engine::points(&folder, &args.numbers)?;
    let answer = format!("{} points have a result in {}", points.len(), folder.file("").display());
    let done = args.numbers.iter().copied().zip(&points);
    Ok(with_points(Report::answer("sweep points", answer), &folder, done))
}

fn with_points<'a>(
    report: Report,
    folder: &Folder,
    points: impl Iterator<Item = (usize, &'a Point)>,
) -> Report {
    let done = rows! { points => |(point, of)|
        "point" "point" {Count} Screen: "number of the point in points.jsonl, from 0" = point;
        "seconds" "seconds" {Real("s", 2)} Screen: "time that it took" = folder.seconds(&of.key);
        "command" "command" {Text} Screen: "arguments without files" = of.words.join(" ");
    };
    report.table_at(Level::Verbose, None, ("done", "Points"), done)
}

fn run_all(args: &Run) -> Result<Report> {
    ensure!(args.chunk > 0, "--chunk 0 must be at least 1");
    ensure!(args.jobs != Some(0), "--jobs 0 must be at least 1");
    ensure!(
        args.engine == Engine::Slurm || !args.slurm.are_given(),
        "--partition, --account, --time and --memory need --engine slurm"
    );
    let (points, bases) = space::read(&args.space)?;
    // The path is part of job scripts and lists of commands, which have one line each.
    let whole = std::path::absolute(&args.out).context("--out")?;
    let Some(name) = whole.to_str() else { bail!("--out '{}' must be text in UTF-8", args.out.display()) };
    NameRule::Foreign.check(name).map_err(|error| refusal!("--out {error}"))?;
    let (folder, begin) = (Folder::new(&args.out), Instant::now());
    let files = folder.outputs(args.form.files(FileSet::new()).input("the sweep", &args.space));
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
        let reasons = space::refusals(&points, &missing);
        let refused = rows! { &reasons => |(reason, (points, first))|
            "points" "points" {Count} Screen: "points with this reason" = *points;
            "first" "first" {Count} Screen: "number of the first of them, from 0" = *first;
            "reason" "reason" {Text} Screen: "reason of the refusal" = reason;
        };
        let found = match reasons.len() {
            0 => "their arguments, configurations and metrics are right".to_owned(),
            count => format!("refused for {count} reasons"),
        };
        return Ok(Report::answer("sweep run", format!("{counts}; {found}"))
            .figures(figures(all, left, None))
            .table("refused_points", "Points that their command refuses", refused));
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
        true if args.engine == Engine::Slurm => finish(&folder, &points, left, begin)
            .with_context(|| format!("the logs of the jobs are '{}'", folder.file("slurm-*.log").display())),
        true => finish(&folder, &points, left, begin),
        false => Ok(Report::answer("sweep run", counts).figures(figures(all, left, None))),
    }
}

/// Writes the tables, and reports the times of the points.
fn finish(folder: &Folder, points: &[Point], ran: usize, begin: Instant) -> Result<Report> {
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
    let first = outcomes.first().and_then(|outcome| outcome.refused.as_deref()).unwrap_or_default();
    ensure!(refused < outcomes.len(), "all {refused} points are refused, the first: {}", folder::bare(first));
    let elapsed = (ran > 0).then(|| begin.elapsed().as_secs_f64());
    let own = elapsed.map_or_else(String::new, |seconds| format!("; {ran} points ran in {seconds:.1} s"));
    let results = folder.file("results.jsonl");
    let answer =
        format!("{} results in {}, {refused} of them refused{own}", outcomes.len(), results.display());
    let seconds: Vec<f64> = points.iter().filter_map(|point| folder.seconds(&point.key)).collect();
    let figures = figures(points.len(), ran, Some((refused, elapsed, seconds)));
    let report = Report::answer("sweep run", answer).figures(figures);
    Ok(with_points(report, folder, points.iter().enumerate()))
}
