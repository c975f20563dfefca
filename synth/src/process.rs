//! Runs a child process with a time limit. Its output goes to a file, not a pipe, so that a talkative tool never blocks
//! on us.

use ndp_files::Child;
use std::fs::File;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// `None` if the limit was reached. Then all descendants are killed: Yosys runs ABC as a process of its own.
///
/// # Errors
/// Errors of the operating system in creating the log or starting the program.
pub fn run(command: &mut Command, log: &Path, limit: Duration) -> std::io::Result<Option<ExitStatus>> {
    let out = File::create(log)?;
    let error = out.try_clone()?;
    let mut child = Child::spawn(command.stdin(Stdio::null()).stdout(out).stderr(error))?;
    let start = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if start.elapsed() >= limit {
            return Ok(None);
        }
        std::thread::sleep(pause.min(limit.saturating_sub(start.elapsed())));
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

/// Last lines of a log; empty without one.
pub fn tail(log: &Path, count: usize) -> String {
    let text =
        std::fs::read(log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_past_its_limit_is_killed_with_its_children() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        // A machine may be too busy for the child to begin within a short limit.
        for limit in (0..).map(|doublings| Duration::from_millis(50 << doublings)) {
            let mut command = Command::new("sh");
            command.args(["-c", "sleep 100000 & echo $!; sleep 100000"]);
            assert!(run(&mut command, &log, limit).unwrap().is_none());
            if let Ok(grandchild) = tail(&log, 1).parse() {
                return ndp_testkit::programs::has_ended(grandchild);
            }
        }
    }

    #[test]
    fn output_and_status_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let mut command = Command::new("sh");
        let status =
            run(command.args(["-c", "echo a; echo b >&2; echo c; exit 3"]), &log, Duration::from_secs(3600));
        assert_eq!(status.unwrap().unwrap().code(), Some(3));
        assert_eq!(tail(&log, 2), "b\nc");
    }
}
