//! Child processes that never outlive this process, however it ends.
//!
//! Each has its own process group with a guardian: a shell that reads from a pipe to this process. When this process is
//! gone the pipe closes, and the guardian kills the group. That covers `kill -9`, programs without a handler (build
//! scripts, tests), and grandchildren. The kernel's death signal covers none of these: it follows the thread that
//! started the program, and ends at the first child.

use crate::pending::{kill, pending};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::Pid;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus, Output, Stdio};

/// `read` returns when all write ends are closed. Signals for the group must not end the guardian before.
const GUARDIAN: &str = "trap '' HUP INT QUIT TERM; read -r line; kill -KILL 0";

const BETWEEN_LOOKS: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// Most bytes of each output stream. Nothing that runs here prints a tenth of it.
const MOST_BYTES: usize = 256 << 20;

/// A process group that ends with this process.
#[derive(Debug)]
struct Group {
    /// Leader of the group. Until it is waited for, the group's number is not reused.
    guardian: std::process::Child,
    id: Pid,
    ended: bool,
}

impl Group {
    fn start() -> io::Result<Self> {
        let mut list = pending();
        let mut shell = Command::new("/bin/sh");
        shell.args(["-c", GUARDIAN]).env_clear().current_dir("/").process_group(0);
        // The shell must not hold a pipe that is read to its end.
        let guardian = shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        let id = Pid::from_child(&guardian);
        list.add_group(id);
        Ok(Self { guardian, id, ended: false })
    }

    fn end(&mut self) {
        if self.ended {
            return;
        }
        kill(self.id);
        let mut list = pending();
        let _ = self.guardian.wait();
        list.remove_group(self.id);
        self.ended = true;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.end();
    }
}

/// A running program. Its group is killed when this is dropped, or when the program or this process ends.
#[derive(Debug)]
pub struct Child {
    // Dropped first, so that the program has ended when it is waited for.
    group: Group,
    child: Reaped,
}

/// Waits for the program when dropped.
#[derive(Debug)]
struct Reaped(std::process::Child);

impl Drop for Reaped {
    fn drop(&mut self) {
        let _ = self.0.wait();
    }
}

impl Child {
    /// Starts `command` in its own process group.
    pub fn spawn(command: &mut Command) -> io::Result<Self> {
        let group = Group::start()?;
        command.process_group(group.id.as_raw_nonzero().get());
        let spawned = {
            let _list = pending();
            command.spawn()
        };
        Ok(Self { group, child: Reaped(spawned?) })
    }

    /// Status if it has ended.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        let status = self.child.0.try_wait()?;
        if status.is_some() {
            self.group.end();
        }
        Ok(status)
    }

    /// Waits for its end.
    pub fn wait(self) -> io::Result<ExitStatus> {
        self.wait_with_output().map(|output| output.status)
    }

    /// Waits for its end and collects output from pipes. Then kills any process that still holds a pipe.
    pub fn wait_with_output(mut self) -> io::Result<Output> {
        let child = &mut self.child.0;
        let pipes = [child.stdout.take().map(OwnedFd::from), child.stderr.take().map(OwnedFd::from)];
        let mut open = pipes.map(|pipe| pipe.map(File::from));
        let mut read = [Vec::new(), Vec::new()];
        let mut buffer = vec![0; 1 << 16];
        let mut status = None;
        // Without threads, so that programs run even when the system has no more.
        while open.iter().any(Option::is_some) {
            status = status.map_or_else(|| self.try_wait(), |status| Ok(Some(status)))?;
            let mut ready = Vec::new();
            let mut waited: Vec<PollFd<'_>> =
                open.iter().flatten().map(|pipe| PollFd::new(pipe, PollFlags::IN)).collect();
            // All writers have ended with the program.
            match poll(&mut waited, if status.is_some() { None } else { Some(&BETWEEN_LOOKS) }) {
                Ok(_) => ready.extend(waited.iter().map(|pipe| !pipe.revents().is_empty())),
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
            drop(waited);
            let pipes = open.iter_mut().zip(&mut read).filter(|(pipe, _)| pipe.is_some());
            for ((pipe, bytes), ready) in pipes.zip(ready) {
                let count = match pipe {
                    Some(file) if ready => file.read(&mut buffer)?,
                    _ => continue,
                };
                bytes.extend_from_slice(&buffer[..count]);
                if bytes.len() > MOST_BYTES {
                    let what = format!("it prints more than {} MiB", MOST_BYTES >> 20);
                    return Err(io::Error::new(io::ErrorKind::FileTooLarge, what));
                }
                if count == 0 {
                    *pipe = None;
                }
            }
        }
        let status = status.map_or_else(|| self.child.0.wait(), Ok)?;
        self.group.end();
        let [stdout, stderr] = read;
        Ok(Output { status, stdout, stderr })
    }
}

/// [`Command::output`] whose group ends with this process.
pub fn output(command: &mut Command) -> io::Result<Output> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Child::spawn(command)?.wait_with_output()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn output_and_status_are_those_of_the_program() {
        let long = "i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done";
        let done = output(&mut shell(&format!("{long}; {long} >&2; exit 3"))).unwrap();
        assert_eq!(done.status.code(), Some(3));
        assert_eq!((done.stdout.len(), &done.stdout), (done.stderr.len(), &done.stderr));
        assert_eq!(done.stdout.split(|byte| *byte == b'\n').count(), 20_001);
        assert!(output(&mut Command::new("/no/such/program")).is_err());
    }

    #[test]
    fn a_program_that_prints_for_ever_is_ended() {
        let error = output(&mut shell("yes")).unwrap_err();
        assert_eq!(error.to_string(), "it prints more than 256 MiB");
    }

    #[test]
    fn a_program_that_leaves_another_with_its_output_is_not_waited_for() {
        let done = output(&mut shell("sleep 100000 & echo begun")).unwrap();
        assert_eq!((done.status.code(), &*done.stdout), (Some(0), &b"begun\n"[..]));
    }
}
