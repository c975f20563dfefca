//! Watches the result stream: the handshake's rules and the order of the results.
//!
//! Sees the stream as it is before each rising edge. Rules: valid stays with the same result until ready; results come
//! only for commands that were accepted, rows ascending, batch ascending within the row, `last` on the final one only.
//! Whether the numbers are right is left to `check`.

use super::pins::ResultBeat;
use std::collections::VecDeque;

/// A broken rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Violation {
    /// The signal.
    pub signal: &'static str,
    /// What the rule asks for.
    pub expected: String,
    /// What was there.
    pub actual: String,
}

/// State of the result stream.
#[derive(Debug, Default)]
pub(super) struct Monitor {
    /// Rows and batch of the commands whose results are not complete.
    pending: VecDeque<(u32, u32)>,
    /// Place of the next result in the first of them.
    row: u32,
    batch: u32,
    /// What was offered in the last cycle and not taken.
    held: Option<ResultBeat>,
}

impl Monitor {
    /// A command was accepted.
    pub(super) fn expect(&mut self, rows: u32, batch: u32) {
        self.pending.push_back((rows, batch));
    }

    /// Whether every result of every accepted command has been taken.
    pub(super) fn is_idle(&self) -> bool {
        self.pending.is_empty() && self.held.is_none()
    }

    /// The next result: row and batch index.
    pub(super) fn position(&self) -> (u32, u32) {
        (self.row, self.batch)
    }

    /// One cycle of the stream; returns the result if one is taken.
    #[inline]
    pub(super) fn observe(
        &mut self,
        offered: Option<ResultBeat>,
        ready: bool,
    ) -> Result<Option<ResultBeat>, Violation> {
        let Some(beat) = offered else {
            if let Some(held) = self.held {
                return Err(violation("result_valid_o", format!("1 until {held} is taken"), "0".into()));
            }
            return Ok(None);
        };
        match self.held {
            Some(held) if held != beat => {
                return Err(violation(
                    "result_data_o",
                    format!("{held} until it is taken"),
                    beat.to_string(),
                ));
            }
            Some(_) => {}
            None => self.check_order(beat)?,
        }
        if !ready {
            self.held = Some(beat);
            return Ok(None);
        }
        self.held = None;
        self.advance();
        Ok(Some(beat))
    }

    fn check_order(&self, beat: ResultBeat) -> Result<(), Violation> {
        let Some(&(rows, batch)) = self.pending.front() else {
            return Err(violation(
                "result_valid_o",
                "0, no command is waiting for results".into(),
                beat.to_string(),
            ));
        };
        let last = self.row + 1 == rows && self.batch + 1 == batch;
        let found = (beat.row, beat.batch, beat.last);
        if found == (self.row, self.batch, last) {
            return Ok(());
        }
        let signal = match found {
            (row, ..) if row != self.row => "result_row_o",
            (_, batch, _) if batch != self.batch => "result_batch_o",
            _ => "result_last_o",
        };
        let expected = format!("row {}, batch {}, last {}", self.row, self.batch, u8::from(last));
        Err(violation(signal, expected, beat.to_string()))
    }

    fn advance(&mut self) {
        let Some(&(rows, batch)) = self.pending.front() else { return };
        self.batch += 1;
        if self.batch == batch {
            (self.row, self.batch) = (self.row + 1, 0);
        }
        if self.row == rows {
            self.row = 0;
            self.pending.pop_front();
        }
    }
}

fn violation(signal: &'static str, expected: String, actual: String) -> Violation {
    Violation { signal, expected, actual }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn beat(row: u32, batch: u32, last: bool) -> ResultBeat {
        ResultBeat { data: 0x3C00, row, batch, last }
    }

    fn expecting(rows: u32, batch: u32) -> Monitor {
        let mut monitor = Monitor::default();
        monitor.expect(rows, batch);
        monitor
    }

    fn signal(result: Result<Option<ResultBeat>, Violation>) -> &'static str {
        result.expect_err("a violation").signal
    }

    #[test]
    fn a_correct_stream_passes() {
        let mut monitor = expecting(2, 2);
        monitor.expect(1, 1);
        let all =
            [beat(0, 0, false), beat(0, 1, false), beat(1, 0, false), beat(1, 1, true), beat(0, 0, true)];
        for beat in all {
            assert_eq!(monitor.observe(None, true), Ok(None));
            assert_eq!(monitor.observe(Some(beat), false), Ok(None));
            assert!(!monitor.is_idle());
            assert_eq!(monitor.observe(Some(beat), true), Ok(Some(beat)));
        }
        assert!(monitor.is_idle());
    }

    #[test]
    fn valid_that_drops_without_ready_is_caught() {
        let mut monitor = expecting(1, 1);
        assert_eq!(monitor.observe(Some(beat(0, 0, true)), false), Ok(None));
        assert_eq!(signal(monitor.observe(None, true)), "result_valid_o");
    }

    #[test]
    fn a_result_that_changes_while_it_waits_is_caught() {
        for changed in [ResultBeat { data: 0x3C01, ..beat(0, 0, true) }, beat(0, 0, false)] {
            let mut monitor = expecting(1, 1);
            assert_eq!(monitor.observe(Some(beat(0, 0, true)), false), Ok(None));
            assert_eq!(signal(monitor.observe(Some(changed), true)), "result_data_o");
        }
    }

    #[test]
    fn each_kind_of_disorder_is_caught() {
        let wrong = |beat| signal(expecting(2, 2).observe(Some(beat), true));
        assert_eq!(wrong(beat(1, 0, false)), "result_row_o");
        assert_eq!(wrong(beat(0, 1, false)), "result_batch_o");
        assert_eq!(wrong(beat(0, 0, true)), "result_last_o");
        assert_eq!(signal(expecting(1, 1).observe(Some(beat(0, 0, false)), true)), "result_last_o");
    }

    #[test]
    fn results_that_nobody_asked_for_are_caught() {
        assert_eq!(signal(Monitor::default().observe(Some(beat(0, 0, true)), true)), "result_valid_o");
        let mut monitor = expecting(1, 1);
        assert!(monitor.observe(Some(beat(0, 0, true)), true).is_ok());
        assert_eq!(signal(monitor.observe(Some(beat(0, 0, true)), true)), "result_valid_o");
    }
}
