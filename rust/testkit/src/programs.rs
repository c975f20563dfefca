//! Tests of binaries from outside: starting one, losing its output, and checking the files left. Failed checks panic
//! with the call and its output.

#![allow(clippy::unwrap_used)]

use std::fs;
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Exit code of a program whose reader went away.
pub const CLOSED_PIPE: i32 = 128 + 13;
/// Patience for events that come soon. It only turns a hang into a failure: on a loaded machine "soon" may be minutes.
const PATIENCE: Duration = Duration::from_secs(1800);

/// A binary, and where it runs: a folder of its own by default.
#[derive(Debug)]
pub struct Program {
    binary: PathBuf,
    /// Arguments that every call begins with.
    prefix: Vec<String>,
    /// For the files of a test.
    pub folder: TempDir,
    current: PathBuf,
}

impl Program {
    /// `binary` is `env!("CARGO_BIN_EXE_<name>")`.
    pub fn new(binary: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { binary: binary.into(), prefix: Vec::new(), current: folder.path().to_owned(), folder }
    }

    /// Every call is one of this subcommand.
    #[must_use]
    pub fn subcommand(mut self, name: &str) -> Self {
        self.prefix.push(name.to_owned());
        self
    }

    #[must_use]
    pub fn current(mut self, folder: &str) -> Self {
        self.current = folder.into();
        self
    }

    pub fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> String {
        fs::write(self.path(name), content).unwrap();
        self.path(name)
    }

    /// Names of everything in the folder of the test.
    pub fn left(&self) -> Vec<String> {
        let entries = fs::read_dir(self.folder.path()).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// The command; arguments are separated by spaces. Signals have their default effect, even if a shell that runs the
    /// tests in the background ignores them.
    pub fn command(&self, line: &str) -> Command {
        let mut command = Command::new("env");
        command.arg("--default-signal=HUP,INT,QUIT,USR1,USR2,ALRM,TERM,XCPU").arg(&self.binary);
        command
            .args(&self.prefix)
            .args(line.split_whitespace())
            .current_dir(&self.current)
            .stdin(Stdio::null());
        command
    }

    pub fn run(&self, line: &str) -> Output {
        self.command(line).output().unwrap()
    }

    pub fn succeeds(&self, line: &str) -> Output {
        let output = self.run(line);
        assert_eq!(output.status.code(), Some(0), "`{line}`: {}", said(&output));
        output
    }

    /// Runs a line that must end with exit code 2 (refused) or 3 (missing file or program) and with `message`. Returns
    /// all output.
    pub fn refused(&self, line: &str, message: &str) -> String {
        let output = self.run(line);
        let code = output.status.code();
        assert!(matches!(code, Some(2 | 3)), "`{line}` ends with {code:?}: {}", said(&output));
        says(line, &output, message)
    }

    /// Runs a line that must end with this exit code and with `message`. Returns all output.
    pub fn ends_with(&self, line: &str, code: i32, message: &str) -> String {
        let output = self.run(line);
        assert_eq!(output.status.code(), Some(code), "`{line}`: {}", said(&output));
        says(line, &output, message)
    }

    /// A standard output that cannot be written is an error with exit code 3; one whose reader has gone ends the
    /// program quietly, with the shell's code for that.
    pub fn loses_its_output(&self, line: &str) {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let output = self.command(line).stdout(full).output().unwrap();
        let text = said(&output);
        assert_eq!(output.status.code(), Some(3), "`{line} > /dev/full`: {text}");
        assert!(text.contains("error: cannot write to standard output: No space left"), "{line}: {text}");
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let output = self.command(line).stdout(writer).output().unwrap();
        assert_eq!(output.status.code(), Some(CLOSED_PIPE), "`{line} | head -c 0`: {}", said(&output));
        assert!(!said(&output).contains("error"), "`{line} | head -c 0`: {}", said(&output));
        // Before `main`, Rust replaces closed standard streams by /dev/null.
        for redirection in [">&-", "1< /dev/null"] {
            let output = self.in_shell(&format!("exec \"$@\" {redirection}"), line).output().unwrap();
            let text = said(&output);
            assert_eq!(output.status.code(), Some(3), "`{line} {redirection}`: {text}");
            let message = "error: cannot write to standard output: it is closed, or open for reading only";
            assert!(text.contains(message), "`{line} {redirection}`: {text}");
        }
        // Two ways to discard it on purpose.
        for redirection in ["> /dev/null", "<> /dev/null >&0"] {
            let output = self.in_shell(&format!("exec \"$@\" {redirection}"), line).output().unwrap();
            assert_eq!(output.status.code(), Some(0), "`{line} {redirection}`: {}", said(&output));
        }
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let output = self.command(line).stderr(full).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "`{line} 2> /dev/full`");
    }

    /// The command in a shell whose script has it as `"$@"`.
    pub fn in_shell(&self, script: &str, line: &str) -> Command {
        let command = self.command(line);
        let mut shell = Command::new("sh");
        shell.args(["-c", script, "sh"]).arg(command.get_program()).args(command.get_args());
        shell.current_dir(&self.current).stdin(Stdio::null());
        shell
    }

    /// A run succeeds even if the operating system has no further thread for it: none can have a stack this large.
    pub fn needs_no_threads(&self, line: &str) {
        let output = self.command(line).env("RUST_MIN_STACK", (1u64 << 47).to_string()).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "`{line}` without threads: {}", said(&output));
    }

    /// Every output option writes through special files, keeps modes, and refuses write-protected files. `line` lacks
    /// the option's value; `name` is one that the option takes.
    pub fn writes_with_care(&self, line: &str, name: &str) {
        let with = |path: &str| format!("{line} {path}");
        self.succeeds(&with(&self.path(name)));
        let content = fs::read(self.path(name)).unwrap();
        fs::set_permissions(self.path(name), fs::Permissions::from_mode(0o640)).unwrap();
        self.succeeds(&with(&self.path(name)));
        assert_eq!(fs::metadata(self.path(name)).unwrap().mode() & 0o777, 0o640, "`{line}` changes the mode");

        let link = format!("link-{name}");
        std::os::unix::fs::symlink(name, self.path(&link)).unwrap();
        fs::write(self.path(name), "old").unwrap();
        self.succeeds(&with(&self.path(&link)));
        assert!(fs::symlink_metadata(self.path(&link)).unwrap().is_symlink(), "`{line}` replaces a link");
        assert_eq!(fs::read(self.path(name)).unwrap().len(), content.len(), "`{line}` through a link");

        // A link whose name the option takes leads to the device.
        let device = format!("device-{name}");
        std::os::unix::fs::symlink("/dev/null", self.path(&device)).unwrap();
        self.succeeds(&with(&self.path(&device)));
        assert!(fs::metadata(self.path(&device)).unwrap().file_type().is_char_device(), "`{line}` /dev/null");
        assert!(fs::symlink_metadata(self.path(&device)).unwrap().is_symlink(), "`{line}` /dev/null");
        let full = format!("full-{name}");
        std::os::unix::fs::symlink("/dev/full", self.path(&full)).unwrap();
        let text = self.fails(&with(&self.path(&full)));
        assert!(text.contains("No space left"), "`{line}` /dev/full: {text}");

        let pipe = self.path(&format!("pipe-{name}"));
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let reader = std::thread::spawn({
            let pipe = pipe.clone();
            move || {
                let mut bytes = Vec::new();
                fs::File::open(pipe).unwrap().read_to_end(&mut bytes).unwrap();
                bytes
            }
        });
        self.succeeds(&with(&pipe));
        assert!(fs::metadata(&pipe).unwrap().file_type().is_fifo(), "`{line}` replaces a pipe");
        assert_eq!(reader.join().unwrap().len(), content.len(), "`{line}` through a pipe");

        let kept = self.file(&format!("kept-{name}"), "kept");
        fs::set_permissions(&kept, fs::Permissions::from_mode(0o444)).unwrap();
        self.refused(&with(&kept), "it is write-protected (mode 444)");
        assert_eq!(fs::read(&kept).unwrap(), b"kept");
        assert!(!self.left().iter().any(|name| name.starts_with('.')), "`{line}` leaves {:?}", self.left());
    }

    /// Runs a line that must end with an error of any code, and returns its output.
    pub fn fails(&self, line: &str) -> String {
        let output = self.run(line);
        assert!(
            matches!(output.status.code(), Some(1..128)),
            "`{line}`: {:?} {}",
            output.status,
            said(&output)
        );
        assert!(!said(&output).contains("panicked"), "{}", said(&output));
        said(&output)
    }

    /// An endless input, from a device or through a pipe, is refused with its limit, in bounded memory. `line` lacks
    /// the path of the input; `name` is one that the option takes.
    pub fn refuses_endless(&self, line: &str, name: &str) {
        let (device, pipe) = (self.path(name), self.path(&format!("pipe-{name}")));
        let _ = fs::remove_file(&device);
        std::os::unix::fs::symlink("/dev/zero", &device).unwrap();
        let _ = fs::remove_file(&pipe);
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        let endless = fs::File::open("/dev/zero").unwrap();
        let mut writer = Command::new("sh");
        writer.args(["-c", "exec cat > \"$0\"", &pipe]).stdin(endless).stdout(Stdio::null());
        let _writer = Killed(writer.stderr(Stdio::null()).spawn().unwrap());
        for path in [&device, &pipe] {
            let line = format!("{line} {path}");
            let mut command = Command::new("sh");
            command.args(["-c", "ulimit -v 6000000; exec \"$@\"", "sh"]).arg(&self.binary);
            let output = command
                .args(&self.prefix)
                .args(line.split_whitespace())
                .current_dir(&self.current)
                .output()
                .unwrap();
            let text = said(&output);
            assert_eq!(output.status.code(), Some(2), "`{line}`: {:?} {text}", output.status);
            assert!(text.contains(name) && text.contains("which is the limit"), "`{line}` says {text}");
        }
    }

    /// `line` lacks the path of an output. With `input`, which it reads, under any name, it is refused, and the input
    /// stays unchanged.
    pub fn spares_its_input(&self, line: &str, input: &str) {
        let content = fs::read(input).unwrap();
        let name = Path::new(input).file_name().unwrap().to_string_lossy().into_owned();
        // The option may ask for an ending.
        let (symbolic, hard) = (self.path(&format!("symbolic-{name}")), self.path(&format!("hard-{name}")));
        let _ = fs::remove_file(&symbolic);
        let _ = fs::remove_file(&hard);
        std::os::unix::fs::symlink(input, &symbolic).unwrap();
        fs::hard_link(input, &hard).unwrap();
        for path in [input, &symbolic, &hard] {
            self.refused(&format!("{line} {path}"), "would overwrite");
            assert!(fs::read(input).unwrap() == content, "`{line} {path}` changes its input");
        }
        fs::remove_file(symbolic).unwrap();
        fs::remove_file(hard).unwrap();
        let other = self.path(&format!("other-{name}"));
        self.spares_what_it_reads(&format!("{line} {other}"), input);
        let _ = fs::remove_file(other);
    }

    /// With standard output appended to a file that it reads, `line` is refused, and the file stays unchanged.
    pub fn spares_what_it_reads(&self, line: &str, input: &str) {
        let content = fs::read(input).unwrap();
        let appended = fs::File::options().append(true).open(input).unwrap();
        let output = self.command(line).stdout(appended).output().unwrap();
        let text = said(&output);
        assert_eq!(output.status.code(), Some(2), "`{line} >> {input}`: {text}");
        assert!(text.contains("standard output"), "`{line} >> {input}` says {text}");
        assert!(fs::read(input).unwrap() == content, "`{line} >> {input}` changes its input");
    }

    /// Starts a long run with `line` and the environment, sends the signal once the folder has files that `begun`
    /// accepts, and checks how the run ends.
    pub fn ends_by(&self, line: &str, begun: impl Fn(&[String]) -> bool, signal: &str) {
        let before = self.left();
        let child = self.start(line, begun);
        let numbers = [
            ("HUP", 1),
            ("INT", 2),
            ("QUIT", 3),
            ("USR1", 10),
            ("USR2", 12),
            ("ALRM", 14),
            ("TERM", 15),
            ("XCPU", 24),
        ];
        let number = numbers.into_iter().find(|(name, _)| *name == signal).map(|(_, number)| number);
        let code = ended_by(child, signal);
        assert_eq!(code, Some(128 + number.unwrap()), "`{line}` ended by {signal}");
        assert_eq!(self.left(), before, "`{line}` ended by {signal} leaves something");
    }

    /// Starts a run and waits until the folder has files that `begun` accepts.
    pub fn start(&self, line: &str, begun: impl Fn(&[String]) -> bool) -> Child {
        let mut command = self.command(line);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        self.wait_for(child, line, begun)
    }

    pub fn wait_for(&self, mut child: Child, line: &str, begun: impl Fn(&[String]) -> bool) -> Child {
        let start = Instant::now();
        while !begun(&self.left()) {
            assert_eq!(child.try_wait().unwrap(), None, "`{line}` has ended");
            assert!(start.elapsed() < PATIENCE, "`{line}` does not begin: {:?}", self.left());
            std::thread::sleep(Duration::from_millis(5));
        }
        child
    }
}

/// All output of a run, which must contain `message`.
fn says(line: &str, output: &Output, message: &str) -> String {
    let text = said(output);
    assert!(text.contains(message), "`{line}` says\n{text}instead of\n{message}");
    assert!(!text.contains("panicked"), "{text}");
    text
}

/// A child that does not outlive its test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sends a signal to a program and returns its exit code.
pub fn ended_by(mut child: Child, signal: &str) -> Option<i32> {
    let sent = Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
    let start = Instant::now();
    while start.elapsed() < PATIENCE {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    panic!("a program goes on for {PATIENCE:?} after {signal}");
}

/// Waits until the process with this number has ended; a zombie has ended.
pub fn has_ended(process: u32) {
    let start = Instant::now();
    let runs = || {
        let status = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        // The name in parentheses may have any character.
        status.rsplit_once(") ").is_some_and(|(_, state)| !state.starts_with(['Z', 'X']))
    };
    while runs() {
        assert!(start.elapsed() < PATIENCE, "process {process} lives on");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Standard error without the lines that a slow run adds: on a slow machine any run is slow.
pub fn remarks(output: &Output) -> String {
    let slow = |line: &&str| {
        line.contains(" % of ") || line.starts_with("building the model") || line.starts_with("built ")
    };
    said(output).lines().filter(|line| !slow(line)).map(|line| format!("{line}\n")).collect()
}
