//! Input of a channel's energy: rows, columns and results by bank, buffer, multipliers, refreshes, and the time in
//! which a row buffer is open.
//!
//! - **Active**: at least one row buffer holds a row. It does from the clock of ACT, PACT or PACTA to the clock before
//!   PRE, PREA or PPRE, or before the precharge of RDA or WRA begins.
//! - **Rows** are opened by ACT in one bank, by PACT in each bank of the group, by PACTA in all banks.
//! - MAC accesses a column in every bank, so one count covers all of them.

use ndp_config::HbmConfig;

use crate::counts;
use crate::hbm::command::{HbmCommand, HbmKind};
use crate::hbm::partitions::Partitions;
use crate::open_time::OpenTime;
use crate::rules::CommandSet;

counts! {
    #[derive(Copy)]
    pub struct HbmBankCounts {
        /// Rows that were opened, by ACT, PACT or PACTA.
        activates: u64,
        /// RD and RDA.
        reads: u64,
        /// RDG.
        buffer_reads: u64,
        /// WR and WRA.
        writes: u64,
        /// SUM.
        sums: u64,
    }
}

counts! {
    /// Counts up to now.
    pub struct HbmActivity {
        /// Clocks.
        cycles: u64,
        /// Clocks in which at least one row buffer is open.
        active_cycles: u64,
        /// REF.
        refreshes: u64,
        /// REFB.
        bank_refreshes: u64,
        /// GBW.
        buffer_writes: u64,
        /// MAC: as many columns in every bank.
        macs: u64,
        /// RES.
        results: u64,
        /// By bank: `bank_group * banks_per_group + bank`.
        banks: Vec<HbmBankCounts>,
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Meter {
    activity: HbmActivity,
    banks_per_group: usize,
    /// A bit for each row buffer.
    open: OpenTime,
}

impl Meter {
    pub fn new(config: &HbmConfig) -> Self {
        let banks = vec![HbmBankCounts::default(); config.banks() as usize];
        let activity = HbmActivity { banks, ..HbmActivity::default() };
        let banks_per_group = config.banks_per_group() as usize;
        Self { activity, banks_per_group, open: OpenTime::default() }
    }

    /// Counts of the clocks before `cycle`.
    pub fn activity(&self, cycle: u64) -> HbmActivity {
        let active_cycles = self.open.active_cycles(cycle);
        HbmActivity { cycles: cycle, active_cycles, ..self.activity.clone() }
    }

    /// Counts a command that was carried out; `state`: the row buffers after it. `precharge_start`: for RDA and WRA, the
    /// first clock of the precharge.
    pub fn command(
        &mut self,
        cycle: u64,
        command: &HbmCommand,
        state: &Partitions,
        precharge_start: Option<u64>,
    ) {
        self.open.close_before(cycle + 1);
        let bank = command.bank().map(|(group, bank)| state.bank_index(group, bank));
        let activity = &mut self.activity;
        match (command, bank) {
            (HbmCommand::Activate { .. }, Some(bank)) => activity.banks[bank].activates += 1,
            (HbmCommand::PimActivate { bank_group, .. }, _) => {
                let first = usize::from(*bank_group) * self.banks_per_group;
                let banks = &mut activity.banks[first..first + self.banks_per_group];
                banks.iter_mut().for_each(|bank| bank.activates += 1);
            }
            (HbmCommand::PimActivateAll { .. }, _) => {
                activity.banks.iter_mut().for_each(|bank| bank.activates += 1);
            }
            (HbmCommand::Read { .. }, Some(bank)) => activity.banks[bank].reads += 1,
            (HbmCommand::ReadToBuffer { .. }, Some(bank)) => activity.banks[bank].buffer_reads += 1,
            (HbmCommand::Write { .. }, Some(bank)) => activity.banks[bank].writes += 1,
            (HbmCommand::ReadSum { .. }, Some(bank)) => activity.banks[bank].sums += 1,
            (HbmCommand::BufferWrite { .. }, _) => activity.buffer_writes += 1,
            (HbmCommand::Mac { .. }, _) => activity.macs += 1,
            (HbmCommand::ReadResults, _) => activity.results += 1,
            (HbmCommand::Refresh, _) => activity.refreshes += 1,
            (HbmCommand::RefreshBank { .. }, _) => activity.bank_refreshes += 1,
            _ => {}
        }
        let on_row_bus = command.kind().is_some_and(HbmKind::is_row);
        if on_row_bus || precharge_start.is_some() {
            let held = state.open_units();
            if let Some(start) = precharge_start {
                // The rows that this command closes later; rows closed by other commands are in `closing` already.
                self.open.close_at(start, self.open.open() & !held & !self.open.pending());
            }
            self.open.set(cycle, held | self.open.pending());
        }
    }
}
