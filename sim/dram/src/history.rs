//! The last command of each kind, per bank and per bank group: all that a minimum distance depends on.

use crate::rules::{RuleSet, TimingRule};
use crate::{Command, CommandKind, Scope};

/// A command that rules count from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Event {
    /// Clock of the command.
    pub(crate) issued: u64,
    /// Clock that distances count from: `issued`, but for an auto precharge the clock in which the precharge begins.
    pub(crate) effective: u64,
    /// The command.
    pub(crate) command: Command,
}

/// Whom a command concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    /// One bank, with its index in the rank.
    Bank {
        /// Bank group.
        group: usize,
        /// Bank of the rank: `group * banks_per_group + bank`.
        index: usize,
    },
    /// All banks.
    All,
}

/// Last events by kind. "Last" is the one with the latest `effective`: it is the one that binds.
#[derive(Clone, Debug)]
pub(crate) struct History {
    bank_groups: usize,
    banks_per_group: usize,
    banks: [Vec<Option<Event>>; CommandKind::ALL.len()],
    groups: [Vec<Option<Event>>; CommandKind::ALL.len()],
}

impl History {
    pub(crate) fn new(rules: &RuleSet) -> Self {
        let &RuleSet { bank_groups, banks_per_group, .. } = rules;
        Self {
            bank_groups,
            banks_per_group,
            banks: std::array::from_fn(|_| vec![None; bank_groups * banks_per_group]),
            groups: std::array::from_fn(|_| vec![None; bank_groups]),
        }
    }

    /// Whom `command` concerns.
    pub(crate) fn target(&self, command: &Command) -> Target {
        match command.bank() {
            Some((group, bank)) => {
                let (group, bank) = (usize::from(group), usize::from(bank));
                Target::Bank { group, index: group * self.banks_per_group + bank }
            }
            None => Target::All,
        }
    }

    /// The last event of `kind` in `scope` of `target`.
    #[inline]
    pub(crate) fn latest(&self, kind: CommandKind, scope: Scope, target: Target) -> Option<&Event> {
        let groups = &self.groups[kind.index()];
        match (scope, target) {
            (Scope::SameBank, Target::Bank { index, .. }) => self.banks[kind.index()][index].as_ref(),
            (Scope::SameGroup, Target::Bank { group, .. }) => groups[group].as_ref(),
            (Scope::OtherGroup, Target::Bank { group, .. }) => {
                let others = (0..self.bank_groups).filter(|&other| other != group);
                others.filter_map(|other| groups[other].as_ref()).max_by_key(|event| event.effective)
            }
            (Scope::OtherGroup, Target::All) => None,
            (Scope::Rank, _) | (_, Target::All) => {
                groups.iter().flatten().max_by_key(|event| event.effective)
            }
        }
    }

    /// First clock in which a command to `target` satisfies all of `rules`, which are those of its kind.
    pub(crate) fn earliest(&self, rules: &[TimingRule], target: Target) -> u64 {
        let bounds = rules.iter().filter_map(|rule| {
            let event = self.latest(rule.earlier, rule.scope, target)?;
            Some(event.effective + rule.cycles)
        });
        bounds.max().unwrap_or(0)
    }

    pub(crate) fn record(&mut self, kind: CommandKind, target: Target, event: Event) {
        let (banks, groups) = (&mut self.banks[kind.index()], &mut self.groups[kind.index()]);
        match target {
            Target::Bank { group, index } => {
                replace_if_later(&mut banks[index], event);
                replace_if_later(&mut groups[group], event);
            }
            Target::All => {
                banks.iter_mut().chain(groups).for_each(|last| replace_if_later(last, event));
            }
        }
    }
}

fn replace_if_later(last: &mut Option<Event>, event: Event) {
    if last.is_none_or(|last| last.effective <= event.effective) {
        *last = Some(event);
    }
}
