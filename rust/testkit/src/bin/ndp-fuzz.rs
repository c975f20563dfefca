//! `ndp-fuzz`: runs every reader on changed inputs.

use anyhow::{Context, Result, bail, ensure};
use clap::Parser;
use ndp_files::{note, say};
use ndp_testkit::fuzz::mutator::input;
use ndp_testkit::fuzz::targets::{TARGETS, Target};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Fuzz what reads files and words of others: no input makes it panic or hang
#[derive(Parser, Debug)]
#[command(after_help = "Examples:\n  \
    cargo run --release -p ndp-testkit --bin ndp-fuzz -- --cases 10000\n  \
    cargo run --release -p ndp-testkit --bin ndp-fuzz -- trace program --seed 7\n\n\
    An input that makes a reader panic is written to --out; move it to rust/testkit/corpus/<target> with the repair. With a nightly \
    compiler, cargo fuzz goes by coverage: cargo +nightly fuzz run --fuzz-dir rust/testkit --features libfuzzer trace")]
struct Args {
    /// Targets [default: all]
    #[arg(value_name = "TARGET")]
    targets: Vec<String>,
    /// Changed inputs of each target, after its seeds as they are
    #[arg(long, default_value_t = 1_000_000)]
    cases: u64,
    /// Which inputs
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Limit of one input in seconds
    #[arg(long, default_value_t = 10)]
    limit_s: u64,
    /// Where inputs go that make a reader panic or hang
    #[arg(long, default_value = "target/fuzz")]
    out: PathBuf,
}

/// Panics after which a target ends.
const MAX_PANICS: u64 = 10;

fn main() -> ExitCode {
    ndp_files::program(
        <Args as clap::CommandFactory>::command(),
        std::env::args_os(),
        |args: Args| run(&args),
        |_| 2,
    )
}

fn run(args: &Args) -> Result<u8> {
    let known = || TARGETS.map(|target| target.name).join(", ");
    if let Some(name) = args.targets.iter().find(|name| TARGETS.iter().all(|target| target.name != **name)) {
        bail!("no target is called {name}; there are {}", known());
    }
    ensure!(args.limit_s > 0, "--limit-s = 0 must be at least 1");
    let chosen =
        |target: &&Target| args.targets.is_empty() || args.targets.iter().any(|name| name == target.name);
    // The report has the panic's message, with the input.
    std::panic::set_hook(Box::new(|_| {}));
    let mut panics = 0;
    for target in TARGETS.iter().filter(chosen) {
        panics += fuzz(target, args)?;
    }
    Ok(u8::from(panics > 0))
}

fn fuzz(target: &Target, args: &Args) -> Result<u64> {
    let seeds = target.seeds()?;
    let (current, begun) = (AtomicU64::new(u64::MAX), Instant::now());
    let keep = |case: u64| -> Result<PathBuf> {
        let folder = args.out.join(target.name);
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let path = folder.join(format!("seed{}-case{case}", args.seed));
        std::fs::write(&path, input(&seeds, args.seed, case))
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    };
    let total = seeds.len() as u64 + args.cases;
    let panics = std::thread::scope(|scope| {
        let (done, over) = std::sync::mpsc::channel::<()>();
        let (current, keep) = (&current, &keep);
        // A hanging reader cannot be ended from outside, so the program ends.
        let watch = move || {
            let mut last = u64::MAX;
            while over
                .recv_timeout(Duration::from_secs(args.limit_s))
                .is_err_and(|e| e == std::sync::mpsc::RecvTimeoutError::Timeout)
            {
                let now = current.load(Ordering::Relaxed);
                if now == last {
                    let path = keep(now).map_or_else(|e| e.to_string(), |path| path.display().to_string());
                    note!("{}: case {now} takes longer than {} s: {path}", target.name, args.limit_s);
                    std::process::exit(1);
                }
                last = now;
            }
        };
        if let Err(reason) = std::thread::Builder::new().spawn_scoped(scope, watch) {
            note!("{}: cases may take any time: no thread for --limit-s: {reason}", target.name);
        }
        let mut panics = 0;
        for case in 0..total {
            current.store(case, Ordering::Relaxed);
            let bytes = input(&seeds, args.seed, case);
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| (target.run)(&bytes))) {
                let said = panic.downcast_ref::<String>().map(String::as_str);
                let said = said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("a panic");
                say!("{}: case {case}: {said}\n  {}", target.name, keep(case)?.display());
                panics += 1;
                if panics == MAX_PANICS {
                    break;
                }
            }
        }
        drop(done);
        Ok::<u64, anyhow::Error>(panics)
    })?;
    let seconds = begun.elapsed().as_secs_f64();
    say!(
        "{:<14} {total:>9} inputs from {:>3} seeds, {panics} panics, {seconds:.1} s",
        target.name,
        seeds.len()
    );
    Ok(panics)
}
