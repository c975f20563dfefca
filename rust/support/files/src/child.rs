//! Other programs that this one starts, each in a process group of its own: what ends them ends what they started too.

use crate::pending::{kill, pending};
use rustix::process::Pid;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitStatus};

/// A running program. Dropping it before it has ended kills its group, and so does the end of this process by a signal.
#[derive(Debug)]
pub struct Child {
    child: std::process::Child,
    group: Pid,
    ended: bool,
}

impl Child {
    /// Starts `command` in a process group of its own.
    ///
    /// # Errors
    /// The operating system's.
    pub fn spawn(command: &mut Command) -> io::Result<Self> {
        let mut list = pending();
        let child = command.process_group(0).spawn()?;
        let group = Pid::from_child(&child);
        list.add_group(group);
        Ok(Self { child, group, ended: false })
    }

    /// Its status if it has ended.
    ///
    /// # Errors
    /// The operating system's.
    pub fn try_wait(&mut self) -> io::Result<Option<ExitStatus>> {
        // Once it has been waited for, its number may be another's: no kill in between.
        let mut list = pending();
        let status = self.child.try_wait()?;
        if status.is_some() {
            list.remove_group(self.group);
            self.ended = true;
        }
        Ok(status)
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        let mut list = pending();
        kill(self.group);
        let _ = self.child.wait();
        list.remove_group(self.group);
    }
}
