//! Runs a child process with a time limit, its output going to a file.
//!
//! Output goes to a file rather than a pipe so that a talkative tool can never block on us. Knows nothing of what it runs.

use crate::SynthError;
use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Runs `command` with standard output and error going to `log`; `None` when it had to be killed at the limit.
///
/// # Errors
/// The operating system's, from creating the log or starting the program.
pub fn run(command: &mut Command, log: &Path, limit: Duration) -> std::io::Result<Option<ExitStatus>> {
    let out = File::create(log)?;
    let error = out.try_clone()?;
    let mut child = command.stdin(Stdio::null()).stdout(out).stderr(error).spawn()?;
    let start = Instant::now();
    let mut pause = Duration::from_millis(1);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if start.elapsed() >= limit {
            kill_tree(&mut child);
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(pause.min(limit.saturating_sub(start.elapsed())));
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}

/// Kills the child and what it started: Yosys runs ABC as a process of its own, which would live on.
fn kill_tree(child: &mut Child) {
    let mut pids = vec![child.id().to_string()];
    let mut next = 0;
    while next < pids.len() {
        let pid = &pids[next];
        // Linux; elsewhere only the child itself is found.
        let below = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
        pids.extend(below.split_whitespace().map(str::to_owned));
        next += 1;
    }
    if pids.len() > 1 {
        // A descendant that has ended in between is no error.
        let _ = Command::new("kill").arg("-KILL").args(&pids[1..]).stderr(Stdio::null()).status();
    }
    let _ = child.kill();
}

/// The last `count` lines of a log; empty when there is none.
pub fn tail(log: &Path, count: usize) -> String {
    let text =
        std::fs::read(log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}

/// Finds out before a long run whether [`write_whole`] will work; creates the folder.
///
/// # Errors
/// [`SynthError::Write`] with the path.
pub fn check_writable(path: &Path) -> Result<(), SynthError> {
    let check = || {
        if path.is_dir() {
            return Err(std::io::ErrorKind::IsADirectory.into());
        }
        temporary_beside(path).map(drop)
    };
    check().map_err(|reason| SynthError::Write { path: path.into(), reason })
}

/// A temporary file in the folder of `path`, which is created.
fn temporary_beside(path: &Path) -> std::io::Result<tempfile::NamedTempFile> {
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder)?;
    tempfile::Builder::new().prefix(".synth-").tempfile_in(folder)
}

/// Writes a file completely or not at all: into a temporary file beside it, then renamed.
///
/// # Errors
/// [`SynthError::Write`] with the path.
pub fn write_whole(path: &Path, text: &str) -> Result<(), SynthError> {
    let write = || {
        let mut file = temporary_beside(path)?;
        std::io::Write::write_all(&mut file, text.as_bytes())?;
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            // Temporary files are private; a report is not.
            file.as_file().set_permissions(std::fs::Permissions::from_mode(0o644))?;
        }
        file.persist(path).map(drop).map_err(|e| e.error)
    };
    write().map_err(|reason| SynthError::Write { path: path.into(), reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_past_its_limit_is_killed_with_its_children() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let mark = dir.path().join("survived");
        let script = format!("(sleep 1; touch {}) & wait", mark.display());
        let start = Instant::now();
        let status = run(Command::new("sh").args(["-c", &script]), &log, Duration::from_millis(200)).unwrap();
        assert!(status.is_none());
        assert!(start.elapsed() < Duration::from_millis(900));
        std::thread::sleep(Duration::from_millis(1500));
        assert!(!mark.exists(), "the grandchild lived on");
    }

    #[test]
    fn output_and_status_are_kept() {
        let dir = tempfile::tempdir().unwrap();
        let log = dir.path().join("log");
        let mut command = Command::new("sh");
        let status =
            run(command.args(["-c", "echo a; echo b >&2; echo c; exit 3"]), &log, Duration::from_secs(9));
        assert_eq!(status.unwrap().unwrap().code(), Some(3));
        assert_eq!(tail(&log, 2), "b\nc");
    }

    #[test]
    fn an_unwritable_report_leaves_nothing_behind() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("taken");
        std::fs::create_dir(&target).unwrap();
        std::fs::write(target.join("x"), "").unwrap();
        for error in [write_whole(&target, "text"), check_writable(&target)] {
            let error = error.unwrap_err().to_string();
            assert!(error.starts_with("cannot write '") && error.contains("taken"), "{error}");
        }
        let below_a_file = target.join("x/report.md");
        assert!(check_writable(&below_a_file).unwrap_err().to_string().contains("x/report.md"));
        check_writable(&dir.path().join("report.md")).unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
        write_whole(&dir.path().join("new/report.md"), "text").unwrap();
        assert_eq!(std::fs::read_to_string(dir.path().join("new/report.md")).unwrap(), "text");
    }
}
