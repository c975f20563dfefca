//! The protocol checker: applies a [`RuleSet`] to a sequence of commands.
//!
//! It sees commands and their clocks, no pins and no data. [`CommandSet`] defines the effect of a memory's commands on
//! its row buffers. Every broken rule is reported, one violation per line of the table, with the earlier command that
//! binds. After a violation the command counts as legal ([`Checker::command`], DDR4), or it is refused and ignored
//! ([`Checker::admit`], HBM2).
//!
//! PRE and PREA are allowed for a closed bank and do not change it, but tRP counts from the last of them (JESD79-4:
//! "the precharge period will be determined by the last PRECHARGE command issued to the bank").
//!
//! RDA and WRA close the bank for further commands at once. Their precharge begins in the first clock in which a PRE
//! would have been legal (tRTP, tWR, tRAS), and tRP counts from there.

use std::collections::VecDeque;

use super::command_set::{Breach, CommandSet, Direction, RowState, Target};
use super::history::{Event, History};
use super::violation::{Violation, ViolationLog};
use super::{Rule, RuleSet, Scope, TimingRule, WindowRule};

/// Violations that are kept unless [`Checker::keep_violations`] is called.
pub const DEFAULT_KEPT: usize = 100;

/// Methods of a memory that forward to its field `checker`; the present clock is its field `cycle`.
macro_rules! checked {
    ($memory:ty, $command:ty) => {
        impl $memory {
            /// Reports an overdue refresh. To be called when the simulation ends.
            pub fn finish(&mut self) {
                self.checker.finish(self.cycle);
            }

            /// The first violations, in order of time.
            pub fn violations(&self) -> &[$crate::Violation<$command>] {
                self.checker.violations()
            }

            pub fn violation_count(&self) -> u64 {
                self.checker.violation_count()
            }

            /// Keeps the first `limit` violations instead of [`crate::rules::checker::DEFAULT_KEPT`].
            pub fn keep_violations(&mut self, limit: usize) {
                self.checker.keep_violations(limit);
            }
        }
    };
}

pub(crate) use checked;

/// A burst on the data bus; `start` is its first clock.
#[derive(Clone, Copy, Debug)]
struct Burst<C> {
    start: u64,
    event: Event<C>,
}

/// Refreshes done and owed. Number `k` (from 1) is due at `k * refresh_interval`.
#[derive(Clone, Copy, Debug)]
struct RefreshState<C> {
    last: Option<(u64, C)>,
    /// REFs that count: those ahead of time by more than the allowance do not.
    credited: u64,
    reported: bool,
}

/// The last events that count in a window, an event of weight `w` as `w` of them.
#[derive(Clone, Debug)]
struct Window<C: CommandSet> {
    rule: WindowRule<C::Kind>,
    recent: VecDeque<Event<C>>,
}

#[derive(Clone, Debug)]
pub struct Checker<C: CommandSet> {
    rules: RuleSet<C>,
    /// Minimum distances by the kind of the later command.
    by_later: Vec<Vec<TimingRule<C::Kind>>>,
    history: History<C>,
    windows: Vec<Window<C>>,
    state: C::State,
    /// Bursts that are not over, in the order of their commands.
    bursts: VecDeque<Burst<C>>,
    refresh: RefreshState<C>,
    log: ViolationLog<C>,
}

impl<C: CommandSet> Checker<C> {
    /// A memory with all banks closed, at clock 0; the first REF is due at tREFI.
    pub fn new(rules: RuleSet<C>) -> Self {
        let mut by_later = vec![Vec::new(); C::KINDS];
        rules.timing.iter().for_each(|rule| by_later[C::index(rule.later)].push(*rule));
        Self {
            by_later,
            history: History::new(&rules),
            windows: rules
                .windows
                .iter()
                .map(|rule| Window { rule: rule.clone(), recent: VecDeque::with_capacity(rule.commands) })
                .collect(),
            state: C::State::new(&rules),
            bursts: VecDeque::new(),
            refresh: RefreshState { last: None, credited: 0, reported: false },
            log: ViolationLog::new(DEFAULT_KEPT),
            rules,
        }
    }

    /// Checks `command` in clock `cycle` and takes it as done, legal or not. Clocks must not decrease; commands of one
    /// clock are on different command buses.
    ///
    /// # Panics
    /// If the bank group or the bank does not exist.
    pub fn command(&mut self, cycle: u64, command: C) {
        let Some(kind) = command.kind() else { return };
        let target = self.state.target(&command);
        self.check(cycle, command, kind, target);
        self.record(cycle, command, kind, target);
    }

    /// As [`Checker::command`], but a command that breaks a rule is reported and refused, and changes nothing. An
    /// overdue refresh is reported, but refuses nothing.
    ///
    /// # Errors
    /// The first rule that a refused command breaks.
    ///
    /// # Panics
    /// If the bank group or the bank does not exist.
    pub fn admit(&mut self, cycle: u64, command: C) -> Result<(), Rule> {
        let Some(kind) = command.kind() else { return Ok(()) };
        let target = self.state.target(&command);
        match self.check(cycle, command, kind, target) {
            Some(rule) => Err(rule),
            None => {
                self.record(cycle, command, kind, target);
                Ok(())
            }
        }
    }

    /// Reports an overdue refresh at the end, `cycle`.
    pub fn finish(&mut self, cycle: u64) {
        self.check_refresh_interval(cycle, C::DESELECT);
    }

    /// The violations kept, in order of time.
    pub fn violations(&self) -> &[Violation<C>] {
        &self.log.kept
    }

    /// Includes violations that were not kept.
    pub fn violation_count(&self) -> u64 {
        self.log.count
    }

    /// Keeps the first `limit` violations instead of [`DEFAULT_KEPT`].
    pub fn keep_violations(&mut self, limit: usize) {
        self.log.limit = limit;
    }

    /// Clock in which the last precharge of the units of `command` begins; in the future for a pending auto precharge.
    pub(crate) fn last_precharge(&self, command: &C) -> Option<u64> {
        let target = self.state.target(command);
        self.history.latest(C::PRECHARGE, Scope::SameBank, target).map(|event| event.effective)
    }

    pub(crate) fn state(&self) -> &C::State {
        &self.state
    }

    /// Reports that no data were driven for the `command` (a WR) of clock `issued`.
    pub(crate) fn write_data_missing(&mut self, cycle: u64, issued: u64, command: C) {
        let earlier = Some((issued, command));
        self.log.report(cycle, Rule::WriteDataMissing, command, earlier, self.rules.write_latency);
    }

    /// Reports data that no WR needs.
    pub(crate) fn write_data_unexpected(&mut self, cycle: u64) {
        let last = C::WRITES
            .iter()
            .filter_map(|&kind| self.history.latest(kind, Scope::Rank, Target::All))
            .max_by_key(|event| event.issued);
        let (rule, earlier) = (Rule::WriteDataUnexpected, last.map(Event::given));
        self.log.report(cycle, rule, C::DESELECT, earlier, self.rules.write_latency);
    }

    /// Reports that `command` is refused for a reason outside the checker.
    pub(crate) fn refuse(&mut self, cycle: u64, command: C, rule: Rule) {
        self.log.report(cycle, rule, command, None, 0);
    }

    /// Reports pins that encode no command of this memory.
    pub(crate) fn undefined(&mut self, cycle: u64, error: crate::DramError) {
        self.refuse(cycle, C::DESELECT, Rule::Undefined(error));
    }

    /// Reports all rules that `command` breaks. Returns the first one that refuses it: of the state, else of time (of
    /// distances the first in the order of [`Rule`]), else of the bus.
    fn check(&mut self, cycle: u64, command: C, kind: C::Kind, target: Target) -> Option<Rule> {
        let distance = self.check_distances(cycle, command, kind, target);
        let window = self.check_windows(cycle, command, kind);
        let state = self.check_bank_state(cycle, command, target);
        self.check_refresh_interval(cycle, command);
        let bus = C::transfer(kind).and_then(|direction| self.check_bus(cycle, command, direction));
        state.or(distance).or(window).or(bus)
    }

    fn check_distances(&mut self, cycle: u64, command: C, kind: C::Kind, target: Target) -> Option<Rule> {
        // In DDR4's table this is one violation per rule: two lines with one name exclude each other (tCCD of RD and
        // WR, tRP to ACT and REF).
        let mut first: Option<Rule> = None;
        for rule in &self.by_later[C::index(kind)] {
            let Some(event) = self.history.latest(rule.earlier, rule.scope, target) else { continue };
            if cycle < event.effective + rule.cycles {
                first = Some(first.map_or(rule.rule, |first| first.min(rule.rule)));
                let required = event.effective + rule.cycles - event.issued;
                self.log.report(cycle, rule.rule, command, Some(event.given()), required);
            }
        }
        first
    }

    fn check_windows(&mut self, cycle: u64, command: C, kind: C::Kind) -> Option<Rule> {
        let mut broken = None;
        for Window { rule, recent } in &self.windows {
            let weight = rule.weight(kind);
            // `recent` holds the last `commands` ones. The newest `commands - weight` of them may share a window with
            // this one; the one before them must be outside.
            let before = recent.len().checked_sub(rule.commands - weight + 1);
            let Some(binding) = before.filter(|_| weight > 0).map(|index| &recent[index]) else { continue };
            if cycle < binding.issued + rule.cycles {
                broken = broken.or(Some(rule.rule));
                self.log.report(cycle, rule.rule, command, Some(binding.given()), rule.cycles);
            }
        }
        broken
    }

    fn check_bank_state(&mut self, cycle: u64, command: C, target: Target) -> Option<Rule> {
        let Breach { rule, earlier, since } = self.state.breach(cycle, &command)?;
        let event = earlier.and_then(|kind| self.history.latest(kind, Scope::SameBank, target));
        let (earlier, required) = match since {
            Some((issued, command, required)) => (Some((issued, command)), required),
            None => (event.map(Event::given), 0),
        };
        self.log.report(cycle, rule, command, earlier, required);
        Some(rule)
    }

    /// The last clock in which the next REF is in time: `postponed + 1` intervals after the last one, and with at most
    /// `postponed` REFs missing from the schedule. Reported once until a REF comes.
    fn check_refresh_interval(&mut self, cycle: u64, command: C) {
        let RefreshState { last, credited, reported } = self.refresh;
        let intervals = self.rules.refresh_postponed + 1;
        let since = last.map_or(0, |(cycle, _)| cycle);
        let deadline = (since + intervals * self.rules.refresh_interval)
            .min((credited + intervals) * self.rules.refresh_interval);
        if cycle <= deadline || reported {
            return;
        }
        self.refresh.reported = true;
        // A deadline that passed before the last REF leaves nothing.
        self.log.report(cycle, Rule::Refi, command, last, deadline.saturating_sub(since));
    }

    fn check_bus(&mut self, cycle: u64, command: C, direction: Direction) -> Option<Rule> {
        let burst_cycles = self.rules.burst_cycles;
        let latency = self.latency(direction);
        let start = cycle + latency;
        while self.bursts.front().is_some_and(|burst| burst.start + burst_cycles <= cycle) {
            self.bursts.pop_front();
        }
        let overlaps = |burst: &&Burst<C>| burst.start.abs_diff(start) < burst_cycles;
        let &Burst { start: other, event } = self.bursts.iter().rev().find(overlaps)?;
        let required = other + burst_cycles - latency - event.issued;
        self.log.report(cycle, Rule::BusCollision, command, Some(event.given()), required);
        Some(Rule::BusCollision)
    }

    fn latency(&self, direction: Direction) -> u64 {
        match direction {
            Direction::Read => self.rules.read_latency,
            Direction::Write => self.rules.write_latency,
        }
    }

    fn record(&mut self, cycle: u64, command: C, kind: C::Kind, target: Target) {
        let event = Event { issued: cycle, effective: cycle, command };
        self.history.record(kind, target, event);
        for Window { rule, recent } in &mut self.windows {
            for _ in 0..rule.weight(kind) {
                if recent.len() == rule.commands {
                    recent.pop_front();
                }
                recent.push_back(event);
            }
        }
        if let Some(direction) = C::transfer(kind) {
            self.bursts.push_back(Burst { start: cycle + self.latency(direction), event });
        }
        self.state.apply(cycle, &command);
        if command.precharges_itself() {
            let rules = &self.by_later[C::index(C::PRECHARGE)];
            let effective = self.history.earliest(rules, target);
            self.history.record(C::PRECHARGE, target, Event { effective, ..event });
        }
        if command.refreshes() {
            let ahead = cycle / self.rules.refresh_interval + self.rules.refresh_postponed;
            let credited = (self.refresh.credited + 1).min(ahead);
            self.refresh = RefreshState { last: Some((cycle, command)), credited, reported: false };
        }
    }
}
