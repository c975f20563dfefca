//! DDR4's side of the checker: its commands as a [`CommandSet`], and which banks are open.

use super::pins::{Command, CommandKind};
use crate::rules::command_set::{Breach, CommandSet, Direction, RowState, Target};
use crate::rules::{Checker, Rule, RuleSet};

impl CommandSet for Command {
    type Kind = CommandKind;
    type State = OpenBanks;
    type Features = ();

    const KINDS: usize = CommandKind::ALL.len();
    const DESELECT: Self = Self::Deselect;
    const PRECHARGE: CommandKind = CommandKind::Precharge;
    const WRITES: &'static [CommandKind] = &[CommandKind::Write];

    #[inline]
    fn kind(&self) -> Option<CommandKind> {
        Self::kind(self)
    }

    #[inline]
    fn index(kind: CommandKind) -> usize {
        kind as usize
    }

    fn transfer(kind: CommandKind) -> Option<Direction> {
        match kind {
            CommandKind::Read => Some(Direction::Read),
            CommandKind::Write => Some(Direction::Write),
            _ => None,
        }
    }

    fn precharges_itself(&self) -> bool {
        self.auto_precharge()
    }

    fn refreshes(&self) -> bool {
        *self == Self::Refresh
    }
}

#[derive(Clone, Debug)]
pub struct OpenBanks {
    banks_per_group: usize,
    open: Vec<bool>,
}

impl OpenBanks {
    pub(crate) fn is_open(&self, bank_group: u8, bank: u8) -> bool {
        self.open[self.index(bank_group, bank)]
    }

    fn index(&self, bank_group: u8, bank: u8) -> usize {
        usize::from(bank_group) * self.banks_per_group + usize::from(bank)
    }
}

impl RowState<Command> for OpenBanks {
    fn new(rules: &RuleSet<Command>) -> Self {
        let &RuleSet { bank_groups, banks_per_group, .. } = rules;
        Self { banks_per_group, open: vec![false; bank_groups * banks_per_group] }
    }

    #[inline]
    fn target(&self, command: &Command) -> Target {
        match command.bank() {
            Some((group, bank)) => Target::Bank { group: usize::from(group), index: self.index(group, bank) },
            None => Target::All,
        }
    }

    fn breach(&self, _: u64, command: &Command) -> Option<Breach<Command>> {
        match (command.kind()?, self.target(command)) {
            (CommandKind::Activate, Target::Bank { index, .. }) if self.open[index] => {
                Some(Breach::after(Rule::ActivateOpenBank, CommandKind::Activate))
            }
            (CommandKind::Read | CommandKind::Write, Target::Bank { index, .. }) if !self.open[index] => {
                Some(Breach::after(Rule::AccessClosedBank, CommandKind::Precharge))
            }
            (CommandKind::Refresh, _) if self.open.contains(&true) => {
                Some(Breach::after(Rule::RefreshOpenBank, CommandKind::Activate))
            }
            _ => None,
        }
    }

    fn apply(&mut self, _: u64, command: &Command) {
        match (command, self.target(command)) {
            (Command::Activate { .. }, Target::Bank { index, .. }) => self.open[index] = true,
            (Command::Precharge { .. }, Target::Bank { index, .. }) => self.open[index] = false,
            (Command::PrechargeAll, _) => self.open.fill(false),
            (_, Target::Bank { index, .. }) if command.auto_precharge() => self.open[index] = false,
            _ => {}
        }
    }
}

impl Checker<Command> {
    /// # Panics
    /// If the bank does not exist.
    pub fn is_open(&self, bank_group: u8, bank: u8) -> bool {
        self.state().is_open(bank_group, bank)
    }

    /// Clock in which the bank's last precharge begins; in the future for a pending auto precharge.
    pub fn precharge_cycle(&self, bank_group: u8, bank: u8) -> Option<u64> {
        self.last_precharge(&Command::Precharge { bank_group, bank })
    }
}
