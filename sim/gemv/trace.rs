//! A readable record of the handshakes, for tests of timing and for looking at a small product.
//!
//! One line per event, in the order of the cycles. For the streams that the harness sends, the event is the cycle in
//! which a beat is first offered; for commands and results it is the transfer.

use std::fmt::{Arguments, Write};

/// The record.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    lines: String,
}

impl Trace {
    /// A beat is offered.
    pub(super) fn offer(&mut self, cycle: u64, what: Arguments<'_>) {
        self.line(cycle, "offer", what);
    }

    /// A command or a result is transferred.
    pub(super) fn take(&mut self, cycle: u64, what: Arguments<'_>) {
        self.line(cycle, "take", what);
    }

    fn line(&mut self, cycle: u64, verb: &str, what: Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = writeln!(self.lines, "{cycle:>5} {verb:<5} {what}");
    }

    /// All lines so far.
    pub fn text(&self) -> &str {
        &self.lines
    }
}
