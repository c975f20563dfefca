//! Violations: one broken rule each, and their log.

use serde::Serialize;

use super::Rule;
use super::command_set::CommandSet;

/// A rule broken by a command, or by its data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Violation<C> {
    pub cycle: u64,
    pub rule: Rule,
    /// The command that broke it; deselect if there is none (data without WR, undefined pins, end of the simulation).
    pub command: C,
    /// The earlier command that it was too close to (too far from, for tREFI), with its clock.
    pub earlier: Option<(u64, C)>,
    /// Clocks from the earlier command that the rule requires: the minimum; the maximum for tREFI; the start of the
    /// data for the rules of write data; 0 for rules of the state of a bank only.
    pub required: u64,
    /// Clocks from the earlier command to this one; from the first clock if there is none.
    pub actual: u64,
}

impl<C: CommandSet> std::fmt::Display for Violation<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { cycle, rule, command, earlier, required, actual } = self;
        write!(f, "cycle {cycle}: {rule}: {command}")?;
        match earlier {
            Some((cycle, command)) => write!(f, ", {actual} cycles after {command} at cycle {cycle}")?,
            None if *rule == Rule::Refi => write!(f, ", {actual} cycles after the start")?,
            None => {}
        }
        match rule {
            rule if rule.is_of_state() => Ok(()),
            Rule::Refi => write!(f, ", at most {required} allowed"),
            Rule::WriteDataMissing | Rule::WriteDataUnexpected => {
                write!(f, ", data begin {required} cycles after WR")
            }
            _ => write!(f, ", at least {required} required"),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct ViolationLog<C> {
    pub kept: Vec<Violation<C>>,
    pub limit: usize,
    pub count: u64,
}

impl<C> ViolationLog<C> {
    pub(crate) fn new(limit: usize) -> Self {
        Self { kept: Vec::new(), limit, count: 0 }
    }

    /// Adds a violation; computes its actual distance.
    #[cold]
    pub(crate) fn report(
        &mut self,
        cycle: u64,
        rule: Rule,
        command: C,
        earlier: Option<(u64, C)>,
        required: u64,
    ) {
        self.count += 1;
        if self.kept.len() < self.limit {
            let actual = cycle - earlier.as_ref().map_or(0, |(issued, _)| *issued);
            self.kept.push(Violation { cycle, rule, command, earlier, required, actual });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Command;

    #[test]
    fn the_line_names_everything() {
        let act = Command::Activate { bank_group: 1, bank: 2, row: 0x1F };
        let command = Command::Read { bank_group: 1, bank: 2, column_burst: 9, auto_precharge: true };
        let mut v = Violation {
            cycle: 123,
            rule: Rule::Rcd,
            command,
            earlier: Some((100, act)),
            required: 24,
            actual: 23,
        };
        let line = "cycle 123: tRCD: RDA bank group 1 bank 2 burst 9, 23 cycles after ACT bank group 1 bank 2 row 0x1f \
                    at cycle 100, at least 24 required";
        assert_eq!(v.to_string(), line);
        (v.rule, v.command, v.earlier) = (Rule::Refi, Command::Refresh, None);
        assert_eq!(v.to_string(), "cycle 123: tREFI: REF, 23 cycles after the start, at most 24 allowed");
    }

    #[test]
    fn the_first_ones_are_kept_and_all_are_counted() {
        let mut log = ViolationLog::new(3);
        for cycle in 0..10 {
            log.report(cycle, Rule::Rp, Command::Refresh, None, 0);
        }
        assert_eq!(log.count, 10);
        assert_eq!(log.kept.iter().map(|v| v.cycle).collect::<Vec<_>>(), [0, 1, 2]);
    }
}
