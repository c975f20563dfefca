//! The protocol checker: applies a [`RuleSet`] to a sequence of commands.
//!
//! It sees commands and their clocks, no pins and no data; [`crate::Rank`] feeds it. Every rule that a command breaks
//! is reported, one violation per rule, with the earlier command that binds. After a violation the command counts as
//! if it had been legal.
//!
//! PRE and PREA are allowed for a closed bank and do not change it, but tRP counts from the last of them (JESD79-4:
//! "the precharge period will be determined by the last PRECHARGE command issued to the bank").
//!
//! RDA and WRA close the bank for further commands at once. Their precharge begins in the first clock in which a PRE
//! would have been legal, so no later than tRTP, tWR and tRAS ask for, and tRP counts from there.

use std::collections::VecDeque;

use crate::history::{Event, History, Target};
use crate::rules::{RuleSet, TimingRule, WindowRule};
use crate::violation::{Violation, ViolationLog};
use crate::{Command, CommandKind, Rule, Scope};

/// Violations that are kept unless [`Checker::keep_violations`] says otherwise.
pub const DEFAULT_KEPT: usize = 100;

/// A burst on the data bus, from its first clock.
#[derive(Clone, Copy, Debug)]
struct Burst {
    start: u64,
    event: Event,
}

/// REFs done and owed. REF number `k` (from 1) is due at `k * tREFI`.
#[derive(Clone, Copy, Debug, Default)]
struct RefreshState {
    last: Option<u64>,
    /// REFs that count: those more than the allowance ahead of time do not.
    credited: u64,
    reported: bool,
}

/// Checks commands against a [`RuleSet`].
#[derive(Clone, Debug)]
pub struct Checker {
    rules: RuleSet,
    /// The minimum distances by the kind of the later command.
    by_later: [Vec<TimingRule>; CommandKind::ALL.len()],
    history: History,
    windows: Vec<(WindowRule, VecDeque<Event>)>,
    open: Vec<bool>,
    /// Bursts that are not over, in the order of their commands.
    bursts: VecDeque<Burst>,
    refresh: RefreshState,
    log: ViolationLog,
}

impl Checker {
    /// A rank with all banks closed, at clock 0; the first REF is due at tREFI.
    pub fn new(rules: RuleSet) -> Self {
        Self {
            by_later: CommandKind::ALL
                .map(|kind| rules.timing.iter().filter(|rule| rule.later == kind).copied().collect()),
            history: History::new(&rules),
            windows: rules
                .windows
                .iter()
                .map(|&rule| (rule, VecDeque::with_capacity(rule.commands)))
                .collect(),
            open: vec![false; rules.bank_groups * rules.banks_per_group],
            bursts: VecDeque::new(),
            refresh: RefreshState::default(),
            log: ViolationLog::new(DEFAULT_KEPT),
            rules,
        }
    }

    /// Checks `command` in clock `cycle` and takes it as done. Clocks must increase from call to call.
    ///
    /// # Panics
    /// If the bank group or the bank does not exist.
    pub fn command(&mut self, cycle: u64, command: Command) {
        let Some(kind) = command.kind() else { return };
        let target = self.history.target(&command);
        self.check_distances(cycle, command, kind, target);
        self.check_windows(cycle, command, kind);
        self.check_bank_state(cycle, command, kind, target);
        self.check_refresh_interval(cycle, command);
        if matches!(kind, CommandKind::Read | CommandKind::Write) {
            self.check_bus(cycle, command, kind);
        }
        self.record(cycle, command, kind, target);
    }

    /// Checks what is due by `cycle` without a command: that refresh is not overdue. To be called at the end.
    pub fn finish(&mut self, cycle: u64) {
        self.check_refresh_interval(cycle, Command::Deselect);
    }

    /// The violations kept, in the order in which they happened.
    pub fn violations(&self) -> &[Violation] {
        self.log.kept()
    }

    /// Number of violations, those not kept included.
    pub fn violation_count(&self) -> u64 {
        self.log.count()
    }

    /// Keeps the first `limit` violations instead of [`DEFAULT_KEPT`].
    pub fn keep_violations(&mut self, limit: usize) {
        self.log.set_limit(limit);
    }

    /// Whether a row of the bank is open.
    ///
    /// # Panics
    /// If the bank does not exist.
    pub fn is_open(&self, bank_group: u8, bank: u8) -> bool {
        self.open[usize::from(bank_group) * self.rules.banks_per_group + usize::from(bank)]
    }

    /// Clock in which the bank's last precharge begins; later than now for an auto precharge that is still to come.
    pub fn precharge_cycle(&self, bank_group: u8, bank: u8) -> Option<u64> {
        let target = self.history.target(&Command::Precharge { bank_group, bank });
        self.history.latest(CommandKind::Precharge, Scope::SameBank, target).map(|event| event.effective)
    }

    /// Reports that no data were driven for the `command` (a WR) of clock `issued`.
    pub(crate) fn write_data_missing(&mut self, cycle: u64, issued: u64, command: Command) {
        self.log.push(Violation {
            cycle,
            rule: Rule::WriteDataMissing,
            command,
            earlier: Some((issued, command)),
            required: self.rules.write_latency,
            actual: cycle - issued,
        });
    }

    /// Reports that data were driven although no WR needs them.
    pub(crate) fn write_data_unexpected(&mut self, cycle: u64) {
        let last = self.history.latest(CommandKind::Write, Scope::Rank, Target::All);
        self.log.push(Violation {
            cycle,
            rule: Rule::WriteDataUnexpected,
            command: Command::Deselect,
            earlier: last.map(|event| (event.issued, event.command)),
            required: self.rules.write_latency,
            actual: last.map_or(cycle, |event| cycle - event.issued),
        });
    }

    /// Reports pins that are no command of this rank.
    pub(crate) fn undefined(&mut self, cycle: u64, error: crate::DramError) {
        self.log.push(Violation {
            cycle,
            rule: Rule::Undefined(error),
            command: Command::Deselect,
            earlier: None,
            required: 0,
            actual: cycle,
        });
    }

    fn check_distances(&mut self, cycle: u64, command: Command, kind: CommandKind, target: Target) {
        // One violation per rule: two lines of the table with one name exclude each other (tCCD of RD and WR, tRP to
        // ACT and REF).
        for rule in &self.by_later[kind.index()] {
            let Some(event) = self.history.latest(rule.earlier, rule.scope, target) else { continue };
            if cycle < event.effective + rule.cycles {
                self.log.push(Violation {
                    cycle,
                    rule: rule.rule,
                    command,
                    earlier: Some((event.issued, event.command)),
                    required: event.effective + rule.cycles - event.issued,
                    actual: cycle - event.issued,
                });
            }
        }
    }

    fn check_windows(&mut self, cycle: u64, command: Command, kind: CommandKind) {
        for (rule, recent) in self.windows.iter().filter(|(rule, _)| rule.kind == kind) {
            // `recent` holds the last `commands` ones: this is one too many for a window that begins with the first
            // of them.
            if recent.len() < rule.commands {
                continue;
            }
            let Some(first) = recent.front() else { continue };
            if cycle < first.issued + rule.cycles {
                self.log.push(Violation {
                    cycle,
                    rule: rule.rule,
                    command,
                    earlier: Some((first.issued, first.command)),
                    required: rule.cycles,
                    actual: cycle - first.issued,
                });
            }
        }
    }

    fn check_bank_state(&mut self, cycle: u64, command: Command, kind: CommandKind, target: Target) {
        let (rule, earlier) = match (kind, target) {
            (CommandKind::Activate, Target::Bank { index, .. }) if self.open[index] => {
                (Rule::ActivateOpenBank, CommandKind::Activate)
            }
            (CommandKind::Read | CommandKind::Write, Target::Bank { index, .. }) if !self.open[index] => {
                (Rule::AccessClosedBank, CommandKind::Precharge)
            }
            (CommandKind::Refresh, _) if self.open.contains(&true) => {
                (Rule::RefreshOpenBank, CommandKind::Activate)
            }
            _ => return,
        };
        let event = self.history.latest(earlier, Scope::SameBank, target);
        self.log.push(Violation {
            cycle,
            rule,
            command,
            earlier: event.map(|event| (event.issued, event.command)),
            required: 0,
            actual: event.map_or(cycle, |event| cycle - event.issued),
        });
    }

    /// The last clock in which the next REF is in time: `postponed + 1` intervals after the last one, and no more
    /// than `postponed` REFs behind the schedule. Reported once until a REF comes.
    fn check_refresh_interval(&mut self, cycle: u64, command: Command) {
        let RefreshState { last, credited, reported } = self.refresh;
        let intervals = self.rules.refresh_postponed + 1;
        let since = last.unwrap_or(0);
        let deadline = (since + intervals * self.rules.refresh_interval)
            .min((credited + intervals) * self.rules.refresh_interval);
        if cycle <= deadline || reported {
            return;
        }
        self.refresh.reported = true;
        self.log.push(Violation {
            cycle,
            rule: Rule::Refi,
            command,
            earlier: last.map(|last| (last, Command::Refresh)),
            // A deadline that passed before the last REF leaves nothing.
            required: deadline.saturating_sub(since),
            actual: cycle - since,
        });
    }

    fn check_bus(&mut self, cycle: u64, command: Command, kind: CommandKind) {
        let burst_cycles = self.rules.burst_cycles;
        let latency = self.latency(kind);
        let start = cycle + latency;
        while self.bursts.front().is_some_and(|burst| burst.start + burst_cycles <= cycle) {
            self.bursts.pop_front();
        }
        let overlaps = |burst: &&Burst| burst.start.abs_diff(start) < burst_cycles;
        if let Some(&Burst { start: other, event }) = self.bursts.iter().rev().find(overlaps) {
            self.log.push(Violation {
                cycle,
                rule: Rule::BusCollision,
                command,
                earlier: Some((event.issued, event.command)),
                required: other + burst_cycles - latency - event.issued,
                actual: cycle - event.issued,
            });
        }
        self.bursts.push_back(Burst { start, event: Event { issued: cycle, effective: cycle, command } });
    }

    fn latency(&self, kind: CommandKind) -> u64 {
        if kind == CommandKind::Read { self.rules.read_latency } else { self.rules.write_latency }
    }

    fn record(&mut self, cycle: u64, command: Command, kind: CommandKind, target: Target) {
        let event = Event { issued: cycle, effective: cycle, command };
        self.history.record(kind, target, event);
        for (rule, recent) in self.windows.iter_mut().filter(|(rule, _)| rule.kind == kind) {
            if recent.len() == rule.commands {
                recent.pop_front();
            }
            recent.push_back(event);
        }
        match (kind, target) {
            (CommandKind::Activate, Target::Bank { index, .. }) => self.open[index] = true,
            (CommandKind::Precharge, Target::Bank { index, .. }) => self.open[index] = false,
            (CommandKind::Precharge, Target::All) => self.open.fill(false),
            (CommandKind::Read | CommandKind::Write, Target::Bank { index, .. })
                if command.auto_precharge() =>
            {
                self.open[index] = false;
                let rules = &self.by_later[CommandKind::Precharge.index()];
                let effective = self.history.earliest(rules, target);
                self.history.record(CommandKind::Precharge, target, Event { effective, ..event });
            }
            (CommandKind::Refresh, _) => {
                let ahead = cycle / self.rules.refresh_interval + self.rules.refresh_postponed;
                let credited = (self.refresh.credited + 1).min(ahead);
                self.refresh = RefreshState { last: Some(cycle), credited, reported: false };
            }
            _ => {}
        }
    }
}
