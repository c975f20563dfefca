//! The last command of each kind, per row buffer and per bank group: all that a minimum distance depends on.

use super::command_set::{CommandSet, Target};
use super::{RuleSet, Scope, TimingRule};

#[derive(Clone, Copy, Debug)]
pub(crate) struct Event<C> {
    /// Clock of the command.
    pub(crate) issued: u64,
    /// Clock that distances count from: `issued`, or for an auto precharge the first clock of the precharge.
    pub(crate) effective: u64,
    pub(crate) command: C,
}

impl<C: Copy> Event<C> {
    pub(crate) fn given(&self) -> (u64, C) {
        (self.issued, self.command)
    }
}

/// Last events by kind. "Last" means the latest `effective`, as that one binds.
#[derive(Clone, Debug)]
pub(crate) struct History<C> {
    bank_groups: usize,
    /// By kind.
    units: Vec<Vec<Option<Event<C>>>>,
    groups: Vec<Vec<Option<Event<C>>>>,
}

/// Numbers of the set bits.
fn bits(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lowest = (mask != 0).then(|| mask.trailing_zeros() as usize)?;
        mask &= mask - 1;
        Some(lowest)
    })
}

impl<C: CommandSet> History<C> {
    pub(crate) fn new(rules: &RuleSet<C>) -> Self {
        let bank_groups = rules.bank_groups;
        Self {
            bank_groups,
            units: vec![vec![None; rules.units()]; C::KINDS],
            groups: vec![vec![None; bank_groups]; C::KINDS],
        }
    }

    #[inline]
    pub(crate) fn latest(&self, kind: C::Kind, scope: Scope, target: Target) -> Option<&Event<C>> {
        let kind = C::index(kind);
        let groups = &self.groups[kind];
        let last_of = |mask: u64| {
            bits(mask).filter_map(|group| groups[group].as_ref()).max_by_key(|event| event.effective)
        };
        match (scope, target) {
            (Scope::SameBank, Target::Bank { index, .. }) => self.units[kind][index].as_ref(),
            (Scope::SameBank, Target::Set { units, .. }) => bits(units)
                .filter_map(|unit| self.units[kind][unit].as_ref())
                .max_by_key(|event| event.effective),
            (Scope::SameGroup, Target::Bank { group, .. }) => groups[group].as_ref(),
            (Scope::SameGroup, Target::Set { groups, .. }) => last_of(groups),
            (Scope::OtherGroup, Target::Bank { group, .. }) => last_of(self.all_groups() & !(1 << group)),
            (Scope::OtherGroup, Target::Set { groups, .. }) => last_of(self.all_groups() & !groups),
            (Scope::OtherGroup, Target::All) => None,
            (Scope::Rank, _) | (_, Target::All) => {
                groups.iter().flatten().max_by_key(|event| event.effective)
            }
        }
    }

    /// First clock in which a command to `target` satisfies all of `rules`, the rules of its kind.
    pub(crate) fn earliest(&self, rules: &[TimingRule<C::Kind>], target: Target) -> u64 {
        let bounds = rules.iter().filter_map(|rule| {
            let event = self.latest(rule.earlier, rule.scope, target)?;
            Some(event.effective + rule.cycles)
        });
        bounds.max().unwrap_or(0)
    }

    pub(crate) fn record(&mut self, kind: C::Kind, target: Target, event: Event<C>) {
        let kind = C::index(kind);
        let (units, groups) = (&mut self.units[kind], &mut self.groups[kind]);
        match target {
            Target::Bank { group, index } => {
                replace_if_later(&mut units[index], event);
                replace_if_later(&mut groups[group], event);
            }
            Target::Set { groups: group_mask, units: unit_mask } => {
                bits(unit_mask).for_each(|unit| replace_if_later(&mut units[unit], event));
                bits(group_mask).for_each(|group| replace_if_later(&mut groups[group], event));
            }
            Target::All => {
                units.iter_mut().chain(groups).for_each(|last| replace_if_later(last, event));
            }
        }
    }

    fn all_groups(&self) -> u64 {
        (1 << self.bank_groups) - 1
    }
}

fn replace_if_later<C>(last: &mut Option<Event<C>>, event: Event<C>) {
    if last.as_ref().is_none_or(|last| last.effective <= event.effective) {
        *last = Some(event);
    }
}
