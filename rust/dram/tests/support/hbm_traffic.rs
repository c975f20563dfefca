//! Random legal commands for HBM2, each as early as the second opinion allows, with the data that belong to them.

use ndp_config::{HbmConfig, HbmRefresh};
use ndp_dram::hbm::HbmCommand;

use super::Random;
use super::hbm::{Oracle, is_row};

#[derive(Clone, Copy, Debug)]
pub struct Step {
    pub at: u64,
    pub command: HbmCommand,
    /// Whether it would be illegal one clock earlier, in which its bus is free.
    pub tight: bool,
}

pub struct HbmTraffic {
    config: HbmConfig,
    pub random: Random,
    oracle: Oracle,
    now: u64,
    /// Whether the last command was on the row bus: a column command may share its clock.
    row_last: bool,
    /// Commands until the phase changes; phases alternate between computing and reading.
    phase: u64,
    computing: bool,
    refreshes: u64,
}

impl HbmTraffic {
    pub fn new(config: &HbmConfig, seed: u64) -> Self {
        Self {
            config: config.clone(),
            random: Random(seed),
            oracle: Oracle::new(config),
            now: 0,
            row_last: false,
            phase: 0,
            computing: false,
            refreshes: 0,
        }
    }

    /// Rows, columns and places of the buffer in use: few, so that data meet.
    pub fn rows(&self) -> [u32; 6] {
        let c = &self.config;
        let boundary = c.weight_subarrays() * c.subarray_rows();
        [0, 1, boundary - 1, boundary, boundary + 1, c.rows() - 1]
    }

    pub fn next(&mut self) -> Step {
        if self.phase == 0 {
            self.phase = 20 + self.random.below(120);
            self.computing = !self.computing;
        }
        self.phase -= 1;
        let command = self.choose();
        let from = if is_row(command) || !self.row_last { self.now + 1 } else { self.now };
        let earliest = self.oracle.earliest(from, command).unwrap();
        let at = if self.random.one_in(10) {
            let late = earliest + self.random.below(25);
            self.oracle.earliest(late, command).unwrap()
        } else {
            earliest
        };
        let tight = at > from && !self.oracle.rules(at - 1, command).is_empty();
        self.oracle.apply(at, command);
        (self.now, self.row_last) = (at, is_row(command));
        let refreshes = matches!(command, HbmCommand::Refresh | HbmCommand::RefreshBank { .. });
        self.refreshes += u64::from(refreshes);
        Step { at, command, tight }
    }

    fn choose(&mut self) -> HbmCommand {
        if self.now >= (self.refreshes + 1) * u64::from(self.config.refresh_interval()) {
            let is_open = |bank: &[_; 2]| bank.iter().any(Option::is_some);
            let (open, refresh) = match self.config.refresh() {
                HbmRefresh::All => (self.oracle.open.iter().any(is_open), HbmCommand::Refresh),
                HbmRefresh::Bank => {
                    (is_open(&self.oracle.open[self.oracle.next_refresh]), self.refresh_of_bank())
                }
            };
            return if open { HbmCommand::PrechargeAll } else { refresh };
        }
        // The earliest of a few legal commands.
        let mut best: Option<(u64, HbmCommand)> = None;
        let mut wanted = 1 + self.random.below(4);
        while wanted > 0 {
            let command = self.candidate();
            let from = if is_row(command) || !self.row_last { self.now + 1 } else { self.now };
            let Some(at) = self.oracle.earliest(from, command) else { continue };
            if best.is_none_or(|(other, _)| at < other) {
                best = Some((at, command));
            }
            wanted -= 1;
        }
        best.unwrap().1
    }

    fn refresh_of_bank(&self) -> HbmCommand {
        let per_group = self.config.banks_per_group() as usize;
        let bank = self.oracle.next_refresh;
        HbmCommand::RefreshBank { bank_group: (bank / per_group) as u8, bank: (bank % per_group) as u8 }
    }

    fn candidate(&mut self) -> HbmCommand {
        let c = self.config.clone();
        let rows = self.rows();
        let early_refresh = self.refresh_of_bank();
        let r = &mut self.random;
        let bank_group = r.below(c.bank_groups().into()) as u8;
        let bank = r.below(c.banks_per_group().into()) as u8;
        let index = self.oracle.bank(bank_group, bank);
        let partition = if self.oracle.boundary[index] == 0 { 0 } else { r.below(2) as u8 };
        let pim = usize::from(partition) == self.oracle.pim_part(index);
        let (row, column) = (r.pick(&rows), r.below(4) as u8);
        let slot = r.below(4) as u8;
        let auto_precharge = r.one_in(12);
        match r.below(24) {
            // In a phase of computing the host keeps to the other partition.
            0..=3 if !self.computing || !pim => HbmCommand::Activate { bank_group, bank, partition, row },
            4 if !self.computing || !pim || r.one_in(20) => {
                HbmCommand::Precharge { bank_group, bank, partition }
            }
            5 if r.one_in(40) => HbmCommand::PrechargeAll,
            6 if r.one_in(if self.computing { 40 } else { 3 }) => HbmCommand::PimPrecharge,
            7..=9 => HbmCommand::Read { bank_group, bank, partition, column, auto_precharge },
            10..=11 => HbmCommand::Write { bank_group, bank, partition, column, auto_precharge },
            12 => HbmCommand::ReadToBuffer { bank_group, bank, partition, column, slot },
            13 if r.one_in(3) => HbmCommand::BufferWrite { slot },
            14..=16 if self.computing => {
                if r.one_in(4) {
                    HbmCommand::PimActivateAll { row }
                } else {
                    HbmCommand::PimActivate { bank_group, row }
                }
            }
            17..=20 => HbmCommand::Mac { column, slot, first: r.one_in(6) },
            21 if r.one_in(3) => HbmCommand::ReadResults,
            22 if r.one_in(3) => HbmCommand::ReadSum { bank_group, bank },
            22 if c.refresh() == HbmRefresh::Bank && r.one_in(4) => early_refresh,
            23 if r.one_in(4) => {
                let boundary = if r.one_in(4) { 0 } else { c.weight_subarrays() as u16 };
                HbmCommand::Slice { bank_group, bank, boundary }
            }
            _ => HbmCommand::Precharge { bank_group, bank, partition: 1 - partition },
        }
    }
}
