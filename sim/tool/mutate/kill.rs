//! Runs the testbenches, with an active mutant or on models that count coverage.

use crate::prelude::*;
use anyhow::ensure;
use ndp_files::Child;
use serde_json::Value;
use std::ffi::OsStr;
use std::fs::File;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Part of the names of tests that inject their own errors: they test a bench, not the hardware.
const INJECTING: &str = "_caught";

pub enum Ran {
    Passed,
    /// Name of the failed test, or how the program ended.
    Failed(String),
    TooLong,
}

pub fn build() -> Result<PathBuf> {
    ensure!(
        Path::new("testbenches/main.rs").is_file(),
        "cannot find testbenches/main.rs: run this command in the folder of the project's sources, whose tests it needs"
    );
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let mut command = Command::new(&cargo);
    command.args(["test", "--release", "--package", "ndp-cosim", "--test", "testbenches", "--no-run"]);
    command.arg("--message-format=json").stdin(Stdio::null()).stdout(Stdio::piped());
    let output = Child::spawn(&mut command).and_then(Child::wait_with_output);
    let output = output.with_context(|| format!("cannot run {cargo}"))?;
    ensure!(output.status.success(), "{cargo} cannot build the testbenches");
    let text = String::from_utf8_lossy(&output.stdout);
    let executable = |line: &str| {
        let message: Value = serde_json::from_str(line).ok()?;
        let own = message["target"]["name"] == "testbenches";
        own.then(|| message["executable"].as_str().map(PathBuf::from)).flatten()
    };
    text.lines().find_map(executable).context("cargo names no program of the testbenches")
}

/// Runs the tests of `filters`, except those that inject errors, until one fails. `log` receives their output.
pub fn run_testbenches(
    program: &Path,
    filters: &[&str],
    environment: &[(&str, &OsStr)],
    log: &Path,
    limit: Duration,
) -> Result<Ran> {
    let out = File::create(log).with_context(|| format!("cannot write {}", log.display()))?;
    let mut command = Command::new(program);
    command.args(filters).args(["--skip", INJECTING]);
    // Run random series completely, as `make exhaustive` does.
    command.env("NDP_WHOLE_SERIES", "1").envs(environment.iter().copied());
    command.stdin(Stdio::null()).stderr(out.try_clone()?).stdout(out);
    let mut child =
        Child::spawn(&mut command).with_context(|| format!("cannot run {}", program.display()))?;
    let start = Instant::now();
    loop {
        let ended = child.try_wait()?;
        let text = std::fs::read(log).with_context(|| format!("cannot read {}", log.display()))?;
        let text = String::from_utf8_lossy(&text);
        // The name of the failing test is enough; `drop` terminates the other tests.
        let failed = text.lines().find_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"));
        if let Some(test) = failed {
            return Ok(Ran::Failed(test.to_owned()));
        }
        if let Some(status) = ended {
            return Ok(match status.success() {
                true if text.contains("test result: ok. 0 passed") => {
                    anyhow::bail!("no test is called {filters:?}")
                }
                true => Ran::Passed,
                false => Ran::Failed(format!("the testbenches, with {status}")),
            });
        }
        if start.elapsed() > limit {
            return Ok(Ran::TooLong);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}
