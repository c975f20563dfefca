//! Commands of a rank with the implied row of a RD or WR, and the time that each row was open.

use ndp_config::DramConfig;
use ndp_dram::Command;

const BURST_COLUMNS: u32 = 8;
/// Banks are counted bank group by bank group.
pub(super) fn bank_index(bank_group: u8, bank: u8) -> usize {
    usize::from(bank_group) * DramConfig::BANKS_PER_GROUP as usize + usize::from(bank)
}

/// A row that was open from ACT until its precharge, or until the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OpenRow {
    pub bank: usize,
    pub row: u32,
    pub from: u64,
    pub until: u64,
    pub accesses: u64,
}

#[derive(Debug)]
pub(super) struct Rows {
    open: Vec<Option<OpenRow>>,
    pub closed: Vec<OpenRow>,
}

impl Rows {
    pub(super) fn new(dram: &DramConfig) -> Self {
        Self { open: vec![None; dram.banks() as usize], closed: Vec::new() }
    }

    fn close(&mut self, bank: usize, until: u64) {
        if let Some(row) = self.open[bank].take() {
            self.closed.push(OpenRow { until: until.max(row.from), ..row });
        }
    }

    /// Returns the command's text with row and column.
    pub(super) fn command(&mut self, dram: &DramConfig, clock: u64, command: &Command) -> String {
        let bank = command.bank().map_or(0, |(group, bank)| bank_index(group, bank));
        match *command {
            Command::Activate { bank_group, bank: number, row } => {
                self.close(bank, clock);
                self.open[bank] = Some(OpenRow { bank, row, from: clock, until: clock, accesses: 0 });
                format!("ACT  bg {bank_group} ba {number} row {row:#x}")
            }
            Command::Read { bank_group, bank: number, column_burst, auto_precharge }
            | Command::Write { bank_group, bank: number, column_burst, auto_precharge } => {
                let reads = matches!(command, Command::Read { .. });
                let row = self.open[bank].as_mut().map(|open| {
                    open.accesses += 1;
                    open.row
                });
                if auto_precharge {
                    let written = dram.t_cwl() + DramConfig::T_BL + dram.t_wr();
                    let delay = if reads { dram.t_rtp() } else { written };
                    self.close(bank, clock + u64::from(delay));
                }
                let row = row.map_or_else(|| "none".to_owned(), |row| format!("{row:#x}"));
                let name = match (reads, auto_precharge) {
                    (true, false) => "RD  ",
                    (true, true) => "RDA ",
                    (false, false) => "WR  ",
                    (false, true) => "WRA ",
                };
                let column = u32::from(column_burst) * BURST_COLUMNS;
                format!("{name} bg {bank_group} ba {number} row {row} col {column:#x}")
            }
            Command::Precharge { bank_group, bank: number } => {
                self.close(bank, clock);
                format!("PRE  bg {bank_group} ba {number}")
            }
            Command::PrechargeAll => {
                (0..self.open.len()).for_each(|bank| self.close(bank, clock));
                "PREA".to_owned()
            }
            Command::Refresh => "REF".to_owned(),
            Command::Deselect => "DES".to_owned(),
        }
    }

    /// Closes all rows at the end of the recording.
    pub(super) fn finish(mut self, clock: u64) -> Vec<OpenRow> {
        (0..self.open.len()).for_each(|bank| self.close(bank, clock));
        self.closed
    }
}
