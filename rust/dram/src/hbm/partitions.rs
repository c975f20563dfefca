//! Row buffers of sliced banks, their boundaries, and the commands that they allow.
//!
//! Partition 0 has the subarrays below the boundary (weights), partition 1 those above (keys and values). A joined bank
//! is one partition of all rows; its commands concern both row buffers, so that no distance is lost when the boundary
//! moves. A row is open for the host (ACT) or to compute (PACT), never for both: the path from a row buffer leads
//! either to the data bus or to the multipliers. Therefore reads and computing exclude each other in a joined bank.

use ndp_config::{HbmCommandSet, HbmConfig, HbmRefresh};

use crate::hbm::command::{HbmCommand, HbmKind};
use crate::rules::command_set::{Breach, CommandSet, Direction, RowState, Target};
use crate::rules::{Rule, RuleSet};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// The host, by ACT.
    Host,
    /// The multipliers, by PACT or PACTA.
    Pim,
}

/// The last command that fills a column of the global buffer, and the clock from which MAC may use it.
type Filling = Option<(u64, HbmCommand, u64)>;

#[derive(Clone, Debug)]
pub struct Partitions {
    config: HbmConfig,
    banks_per_group: usize,
    /// Subarrays of partition 0 by bank; 0 if joined.
    boundaries: Vec<u16>,
    /// Open rows at `2 * bank + partition`; the row of a joined bank is in both places.
    open: Vec<Option<(u32, Owner)>>,
    slots: Vec<Filling>,
    next_refresh: usize,
}

impl Partitions {
    pub fn bank_index(&self, bank_group: u8, bank: u8) -> usize {
        usize::from(bank_group) * self.banks_per_group + usize::from(bank)
    }

    /// Subarrays of partition 0 of a bank; 0 if it is joined.
    pub fn boundary(&self, bank: usize) -> u16 {
        self.boundaries[bank]
    }

    pub fn open_row(&self, bank: usize, partition: u8) -> Option<(u32, Owner)> {
        self.open[2 * bank + usize::from(partition)]
    }

    /// The partition of a bank with whose rows it computes.
    pub fn pim_partition(&self, bank: usize) -> u8 {
        u8::from(self.boundaries[bank] > 0)
    }

    /// Bank that REFB refreshes next.
    pub fn next_refresh(&self) -> usize {
        self.next_refresh
    }

    pub fn banks(&self) -> usize {
        self.boundaries.len()
    }

    /// Row buffers that hold a row, one bit each: `2 * bank + partition`, both of a joined bank.
    pub(crate) fn open_units(&self) -> u64 {
        self.open.iter().enumerate().fold(0, |units, (unit, row)| units | u64::from(row.is_some()) << unit)
    }

    /// Row buffers of partition `partition` of a bank: both if it is joined.
    fn units(&self, bank: usize, partition: u8) -> u64 {
        if self.boundaries[bank] == 0 { 0b11 << (2 * bank) } else { 1 << (2 * bank + usize::from(partition)) }
    }

    fn target_of(&self, bank: usize, partition: u8) -> Target {
        let group = bank / self.banks_per_group;
        if self.boundaries[bank] == 0 {
            Target::Set { groups: 1 << group, units: 0b11 << (2 * bank) }
        } else {
            Target::Bank { group, index: 2 * bank + usize::from(partition) }
        }
    }

    /// Banks in which PACT or PACTA opens a row.
    fn activated(&self, command: &HbmCommand) -> std::ops::Range<usize> {
        match command {
            HbmCommand::PimActivate { bank_group, .. } => {
                let first = usize::from(*bank_group) * self.banks_per_group;
                first..first + self.banks_per_group
            }
            _ => 0..self.banks(),
        }
    }

    fn pim_target(&self, banks: std::ops::Range<usize>) -> Target {
        let (mut groups, mut units) = (0, 0);
        for bank in banks {
            groups |= 1 << (bank / self.banks_per_group);
            units |= self.units(bank, self.pim_partition(bank));
        }
        Target::Set { groups, units }
    }

    /// Whether partition `partition` of a bank exists and, if `row` is given, contains it.
    fn check_place(&self, bank: usize, partition: u8, row: Option<u32>) -> Result<(), Rule> {
        let boundary = u32::from(self.boundaries[bank]) * self.config.subarray_rows();
        match (boundary, row) {
            (0, _) if partition != 0 => Err(Rule::PartitionAbsent),
            (1.., Some(row)) if (row >= boundary) != (partition == 1) => Err(Rule::RowOutsidePartition),
            _ => Ok(()),
        }
    }

    fn breach_of_slot(&self, cycle: u64, slot: u8) -> Option<Breach<HbmCommand>> {
        let Some((issued, command, ready)) = self.slots[usize::from(slot)] else {
            return Some(Breach::alone(Rule::BufferEmpty));
        };
        (cycle < ready).then(|| Breach {
            rule: Rule::BufferNotReady,
            earlier: None,
            since: Some((issued, command, ready - issued)),
        })
    }

    fn set(&mut self, bank: usize, partition: u8, row: Option<(u32, Owner)>) {
        let units = self.units(bank, partition);
        for unit in [2 * bank, 2 * bank + 1] {
            if units >> unit & 1 != 0 {
                self.open[unit] = row;
            }
        }
    }
}

impl CommandSet for HbmCommand {
    type Kind = HbmKind;
    type State = Partitions;
    type Features = HbmConfig;

    const KINDS: usize = HbmKind::ALL.len();
    const DESELECT: Self = Self::Nop;
    const PRECHARGE: HbmKind = HbmKind::Precharge;
    const WRITES: &'static [HbmKind] = &[HbmKind::Write, HbmKind::BufferWrite];

    fn kind(&self) -> Option<HbmKind> {
        self.kind_of()
    }

    fn index(kind: HbmKind) -> usize {
        kind as usize
    }

    fn transfer(kind: HbmKind) -> Option<Direction> {
        match kind {
            HbmKind::Read | HbmKind::ResultRead => Some(Direction::Read),
            HbmKind::Write | HbmKind::BufferWrite => Some(Direction::Write),
            _ => None,
        }
    }

    fn precharges_itself(&self) -> bool {
        self.auto_precharge()
    }

    fn refreshes(&self) -> bool {
        matches!(self, Self::Refresh | Self::RefreshBank { .. })
    }
}

impl RowState<HbmCommand> for Partitions {
    fn new(rules: &RuleSet<HbmCommand>) -> Self {
        let &RuleSet { bank_groups, banks_per_group, .. } = rules;
        Self {
            banks_per_group,
            boundaries: vec![0; bank_groups * banks_per_group],
            open: vec![None; rules.units()],
            slots: vec![None; rules.features.buffer_slots() as usize],
            next_refresh: 0,
            config: rules.features.clone(),
        }
    }

    fn target(&self, command: &HbmCommand) -> Target {
        match *command {
            HbmCommand::Activate { bank_group, bank, partition, .. }
            | HbmCommand::Precharge { bank_group, bank, partition }
            | HbmCommand::Read { bank_group, bank, partition, .. }
            | HbmCommand::ReadToBuffer { bank_group, bank, partition, .. }
            | HbmCommand::Write { bank_group, bank, partition, .. } => {
                self.target_of(self.bank_index(bank_group, bank), partition)
            }
            HbmCommand::Slice { bank_group, bank, .. } | HbmCommand::RefreshBank { bank_group, bank } => {
                Target::Set {
                    groups: 1 << bank_group,
                    units: 0b11 << (2 * self.bank_index(bank_group, bank)),
                }
            }
            HbmCommand::PimActivate { .. }
            | HbmCommand::PimActivateAll { .. }
            | HbmCommand::PimPrecharge
            | HbmCommand::Mac { .. } => self.pim_target(self.activated(command)),
            HbmCommand::Nop
            | HbmCommand::PrechargeAll
            | HbmCommand::Refresh
            | HbmCommand::BufferWrite { .. }
            | HbmCommand::ReadResults
            | HbmCommand::ReadSum { .. } => Target::All,
        }
    }

    fn breach(&self, cycle: u64, command: &HbmCommand) -> Option<Breach<HbmCommand>> {
        let alone = |rule| Some(Breach::alone(rule));
        // A separate precharge would be no command on the bus either.
        let extra = matches!(command, HbmCommand::ReadToBuffer { .. } | HbmCommand::ReadSum { .. });
        if self.config.command_set() == HbmCommandSet::Aim && (extra || command.auto_precharge()) {
            return alone(Rule::CommandAbsent);
        }
        match *command {
            HbmCommand::Activate { bank_group, bank, partition, row } => {
                let bank = self.bank_index(bank_group, bank);
                if let Err(rule) = self.check_place(bank, partition, Some(row)) {
                    return alone(rule);
                }
                let (_, owner) = self.open_row(bank, partition)?;
                Some(Breach::after(Rule::ActivateOpenPartition, activation(owner)))
            }
            HbmCommand::Precharge { bank_group, bank, partition } => {
                alone(self.check_place(self.bank_index(bank_group, bank), partition, None).err()?)
            }
            HbmCommand::Read { bank_group, bank, partition, .. }
            | HbmCommand::ReadToBuffer { bank_group, bank, partition, .. }
            | HbmCommand::Write { bank_group, bank, partition, .. } => {
                let bank = self.bank_index(bank_group, bank);
                if let Err(rule) = self.check_place(bank, partition, None) {
                    return alone(rule);
                }
                match self.open_row(bank, partition) {
                    None => Some(Breach::after(Rule::AccessClosedBank, HbmKind::Precharge)),
                    Some((_, Owner::Pim)) => Some(Breach::after(Rule::AccessDuringPim, HbmKind::PimActivate)),
                    Some((_, Owner::Host)) => None,
                }
            }
            HbmCommand::Refresh | HbmCommand::RefreshBank { .. }
                if (*command == HbmCommand::Refresh) != (self.config.refresh() == HbmRefresh::All) =>
            {
                alone(Rule::RefreshAbsent)
            }
            HbmCommand::RefreshBank { bank_group, bank } => {
                let bank = self.bank_index(bank_group, bank);
                if bank != self.next_refresh {
                    return alone(Rule::RefreshTurn);
                }
                let (_, owner) = self.open_row(bank, 0).or(self.open_row(bank, 1))?;
                Some(Breach::after(Rule::RefreshOpenBank, activation(owner)))
            }
            HbmCommand::Refresh => {
                let &(_, owner) = self.open.iter().flatten().next()?;
                Some(Breach::after(Rule::RefreshOpenBank, activation(owner)))
            }
            HbmCommand::Slice { bank_group, bank, boundary } => {
                if !self.config.slicing() {
                    return alone(Rule::SlicingAbsent);
                }
                if u32::from(boundary) * self.config.subarray_rows() >= self.config.rows() {
                    return alone(Rule::Boundary);
                }
                let bank = self.bank_index(bank_group, bank);
                let (_, owner) = self.open_row(bank, 0).or(self.open_row(bank, 1))?;
                Some(Breach::after(Rule::SliceOpenBank, activation(owner)))
            }
            HbmCommand::PimActivateAll { .. } if !self.config.all_bank_activate() => {
                alone(Rule::AllBankActivateAbsent)
            }
            HbmCommand::PimActivate { row, .. } | HbmCommand::PimActivateAll { row } => {
                for bank in self.activated(command) {
                    if let Err(rule) = self.check_place(bank, self.pim_partition(bank), Some(row)) {
                        return alone(rule);
                    }
                }
                let mut open =
                    self.activated(command).filter_map(|bank| self.open_row(bank, self.pim_partition(bank)));
                let (_, owner) = open.next()?;
                Some(Breach::after(Rule::ActivateOpenPartition, activation(owner)))
            }
            HbmCommand::Mac { slot, .. } => {
                let rows = || (0..self.banks()).map(|bank| self.open_row(bank, self.pim_partition(bank)));
                if rows().any(|row| row.is_none()) {
                    return Some(Breach::after(Rule::MacClosedRow, HbmKind::Precharge));
                }
                if rows().flatten().any(|(_, owner)| owner == Owner::Host) {
                    return Some(Breach::after(Rule::MacHostRow, HbmKind::Activate));
                }
                self.breach_of_slot(cycle, slot)
            }
            HbmCommand::Nop
            | HbmCommand::PrechargeAll
            | HbmCommand::PimPrecharge
            | HbmCommand::BufferWrite { .. }
            | HbmCommand::ReadResults
            | HbmCommand::ReadSum { .. } => None,
        }
    }

    fn apply(&mut self, cycle: u64, command: &HbmCommand) {
        match *command {
            HbmCommand::Activate { bank_group, bank, partition, row } => {
                self.set(self.bank_index(bank_group, bank), partition, Some((row, Owner::Host)));
            }
            HbmCommand::Precharge { bank_group, bank, partition }
            | HbmCommand::Read { bank_group, bank, partition, auto_precharge: true, .. }
            | HbmCommand::Write { bank_group, bank, partition, auto_precharge: true, .. } => {
                self.set(self.bank_index(bank_group, bank), partition, None);
            }
            HbmCommand::PrechargeAll => self.open.fill(None),
            HbmCommand::PimPrecharge => {
                (0..self.banks()).for_each(|bank| self.set(bank, self.pim_partition(bank), None));
            }
            HbmCommand::PimActivate { row, .. } | HbmCommand::PimActivateAll { row } => {
                for bank in self.activated(command) {
                    self.set(bank, self.pim_partition(bank), Some((row, Owner::Pim)));
                }
            }
            HbmCommand::Slice { bank_group, bank, boundary } => {
                let bank = self.bank_index(bank_group, bank);
                self.boundaries[bank] = boundary;
            }
            HbmCommand::RefreshBank { .. } => self.next_refresh = (self.next_refresh + 1) % self.banks(),
            HbmCommand::ReadToBuffer { slot, .. } => {
                let ready = cycle + u64::from(self.config.t_cl() + HbmConfig::T_BL);
                self.slots[usize::from(slot)] = Some((cycle, *command, ready));
            }
            HbmCommand::BufferWrite { slot } => {
                let ready = cycle + u64::from(self.config.t_cwl() + HbmConfig::T_BL);
                self.slots[usize::from(slot)] = Some((cycle, *command, ready));
            }
            HbmCommand::Nop
            | HbmCommand::Refresh
            | HbmCommand::Read { .. }
            | HbmCommand::Write { .. }
            | HbmCommand::Mac { .. }
            | HbmCommand::ReadResults
            | HbmCommand::ReadSum { .. } => {}
        }
    }
}

fn activation(owner: Owner) -> HbmKind {
    match owner {
        Owner::Host => HbmKind::Activate,
        Owner::Pim => HbmKind::PimActivate,
    }
}
