//! Common to all binaries: arguments, standard output and error, signals, exit codes.

use crate::exit::{REFUSED, UNUSABLE};
use crate::name::printable;
use crate::pending::undo;
use anyhow::Error;
use clap::{Arg, Command, FromArgMatches};
use rustix::fs::{OFlags, fcntl_getfl};
use signal_hook::consts::{SIGALRM, SIGHUP, SIGINT, SIGPIPE, SIGPROF, SIGQUIT, SIGTERM};
use signal_hook::consts::{SIGUSR1, SIGUSR2, SIGVTALRM, SIGXCPU, SIGXFSZ};
use signal_hook::iterator::Signals;
use std::ffi::OsString;
use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};
use std::ops::Range;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;

/// Meaning of the exit codes, for `--help`.
pub const EXIT_CODES: &str = "Exit codes: 0 all right; 1 the hardware is wrong; 2 refused: an argument, or what a file says; 3 a file, folder or \
    tool that cannot be used, or lost output; 128 + n ended by signal n, 141 if the reader of standard output went away. Partial files are removed.";

/// Prints a line on standard output; see [`print`](fn@crate::print).
#[macro_export]
macro_rules! say {
    () => { $crate::print("\n") };
    ($($argument:tt)*) => { $crate::print(&(format!($($argument)*) + "\n")) };
}

/// Prints a line on standard error, which may be lost.
#[macro_export]
macro_rules! note {
    ($($argument:tt)*) => { $crate::warn(format_args!($($argument)*)) };
}

/// Whether the process started without a writable standard output (`>&-`, `1< FILE`).
static CANNOT_PRINT: AtomicBool = AtomicBool::new(false);

/// Called by the loader before `main`: Rust's runtime opens `/dev/null` for a closed standard output and ignores "bad
/// file descriptor", so lost text would go unnoticed. Later it looks like a redirection to `/dev/null`.
extern "C" fn look_at_output() {
    let flags = fcntl_getfl(rustix::stdio::stdout());
    let can = flags.is_ok_and(|flags| flags & OFlags::RWMODE != OFlags::RDONLY);
    CANNOT_PRINT.store(!can, Ordering::Relaxed);
}

// No code of ours is unsafe here: the section is a list of such functions, which use neither heap nor runtime.
#[allow(unsafe_code)]
#[used]
#[unsafe(link_section = ".init_array")]
static BEFORE_MAIN: extern "C" fn() = look_at_output;

fn check_output() {
    if CANNOT_PRINT.load(Ordering::Relaxed) {
        lost(&io::Error::new(ErrorKind::NotConnected, "it is closed, or open for reading only"));
    }
}

/// Prints on standard output at once, without control characters ([`printable`]). On failure the program ends without
/// partial files: quietly, like `cat`, if the reader has gone, with a message and [`UNUSABLE`] if text is lost.
pub fn print(text: &str) {
    print_styled(text, &[]);
}

/// [`print`](fn@print) with styles for ranges, in order: parameters of control sequences (ECMA-48, SGR).
pub fn print_styled(text: &str, styles: &[(Range<usize>, &str)]) {
    check_output();
    let (mut shown, mut end) = (String::with_capacity(text.len()), 0);
    for (range, style) in styles {
        shown += &printable(&text[end..range.start]);
        shown += &format!("\u{1b}[{style}m{}\u{1b}[0m", printable(&text[range.clone()]));
        end = range.end;
    }
    shown += &printable(&text[end..]);
    let mut out = io::stdout().lock();
    if let Err(error) = out.write_all(shown.as_bytes()).and_then(|()| out.flush()) {
        lost(&error);
    }
}

/// Prints a line on standard error, without control characters. A failure cannot be reported.
pub fn warn(text: Arguments<'_>) {
    let _ = writeln!(io::stderr(), "{}", printable(&text.to_string()));
}

fn lost(error: &io::Error) -> ! {
    if error.kind() == ErrorKind::BrokenPipe {
        end(128 + SIGPIPE);
    }
    warn(format_args!("error: cannot write to standard output: {error}"));
    end(UNUSABLE.into())
}

/// Ends the process after removing partial files and children. Other threads may be busy, so nothing is run at exit.
fn end(code: i32) -> ! {
    undo();
    signal_hook::low_level::exit(code)
}

/// Whether a signal was ignored at the start (`nohup`, background jobs); it stays so.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (signal - 1) & 1 == 1)
}

/// Signals that end a process by default, except crashes (`SIGSEGV`, `SIGABRT`), after which nothing is reliable.
const ENDING: [(i32, &str); 10] = [
    (SIGINT, "SIGINT"),
    (SIGTERM, "SIGTERM"),
    (SIGHUP, "SIGHUP"),
    (SIGQUIT, "SIGQUIT"),
    (SIGUSR1, "SIGUSR1"),
    (SIGUSR2, "SIGUSR2"),
    (SIGALRM, "SIGALRM"),
    (SIGVTALRM, "SIGVTALRM"),
    (SIGPROF, "SIGPROF"),
    (SIGXCPU, "SIGXCPU"),
];

/// Ends the process properly on a signal.
fn watch_signals() {
    // Makes a file over its limit (`ulimit -f`) a write error that names the file. Unlike "ignore", children do not
    // inherit a handler.
    if !is_ignored(SIGXFSZ) {
        let _ = signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)));
    }
    let watched = ENDING.into_iter().filter(|(signal, _)| !is_ignored(*signal));
    // Only taken over once the thread runs; without it, signals keep their effect.
    let (give, take) = channel::<Signals>();
    let started = std::thread::Builder::new().spawn(move || {
        let Some(signal) = take.recv().ok().and_then(|mut signals| signals.forever().next()) else { return };
        let name =
            ENDING.into_iter().find(|(number, _)| *number == signal).map_or("a signal", |(_, name)| name);
        undo();
        warn(format_args!("stopped by {name}; files that were not complete are gone"));
        signal_hook::low_level::exit(128 + signal)
    });
    if started.is_ok()
        && let Ok(signals) = Signals::new(watched.map(|(signal, _)| signal))
    {
        let _ = give.send(signals);
    }
}

/// Replacements for reasons of number parsers.
const REASONS: [(&str, &str); 3] = [
    ("invalid digit found in string", "expected a whole number of 0 or more"),
    ("cannot parse integer from empty string", "expected a whole number of 0 or more"),
    ("invalid float literal", "expected a number"),
];

/// Makes options refuse negative numbers as values, rather than take them for options.
fn taking_negative_numbers(command: Command) -> Command {
    let named = |arg: Arg| match arg.is_positional() || !arg.get_action().takes_values() {
        true => arg,
        false => arg.allow_negative_numbers(true),
    };
    command.mut_args(named).mut_subcommands(taking_negative_numbers)
}

/// Runs a program: `arguments`, starting with its name, then its job, which returns the exit code. Bad arguments and
/// errors go to standard error; `code` gives an error's exit code.
pub fn program<A: FromArgMatches>(
    command: Command,
    arguments: impl IntoIterator<Item = OsString>,
    job: impl FnOnce(A) -> Result<u8, Error>,
    code: impl FnOnce(&Error) -> u8,
) -> ExitCode {
    watch_signals();
    let matches = taking_negative_numbers(command).try_get_matches_from(arguments);
    let arguments = match matches.and_then(|matches| A::from_arg_matches(&matches)) {
        Ok(arguments) => arguments,
        Err(text) => {
            let plain = text.to_string();
            if let Some((reason, better)) = REASONS.iter().find(|(reason, _)| plain.contains(reason)) {
                warn(format_args!("{}", plain.replace(reason, better).trim_end()));
                return ExitCode::from(REFUSED);
            }
            if !text.use_stderr() {
                check_output();
            }
            let printed = text.print().and_then(|()| io::stdout().flush());
            if let Err(error) = printed
                && !text.use_stderr()
            {
                lost(&error);
            }
            return ExitCode::from(if text.use_stderr() { REFUSED } else { 0 });
        }
    };
    match job(arguments) {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            warn(format_args!("error: {error:#}"));
            ExitCode::from(code(&error))
        }
    }
}
