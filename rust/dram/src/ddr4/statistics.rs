//! Use of a rank: commands, row hits, and a cause for every clock of the data bus.
//!
//! Every clock belongs to exactly one class of [`BusCycles`]. The first that applies:
//!
//! 1. `read`, `write`: data of a RD are on the bus, or are due for a WR. (If both, which is a violation: `read`.)
//! 2. `refresh`: the clock is in `REF .. REF + tRFC`; or it was `row_cycle` and lies between the last precharge before
//!    a REF and the REF, without an ACT in between: closing the banks is part of the refresh. It is counted when the
//!    REF comes.
//! 3. `row_cycle`: a bank is being made ready, in `PRE .. PRE + tRP` (PREA and the precharge of RDA and WRA likewise,
//!    from where it begins) or in `ACT .. ACT + tRCD`; or in `RD .. RD + tCL` or `WR .. WR + tCWL`, up to the first
//!    data of the first access after an ACT, if no clock lies between that access and a row cycle.
//! 4. `turnaround`: data are pending for a command already given, so that no earlier command could have filled the
//!    clock (gaps of tCCD_L, tRTW, tWTR, and the latency of the first access after a pause); or a write's data ended
//!    less than `max(tWR, tWTR_L)` ago, so its bank cannot do anything else yet.
//! 5. `idle`: none of these; the controller had nothing to do or did not do it.

use ndp_config::DramConfig;
use serde::Serialize;

use super::{Command, CommandKind};
use crate::counts;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CommandCounts {
    pub activate: u64,
    /// RD and RDA.
    pub read: u64,
    /// Only RDA.
    pub read_auto_precharge: u64,
    /// WR and WRA.
    pub write: u64,
    /// Only WRA.
    pub write_auto_precharge: u64,
    pub precharge: u64,
    pub precharge_all: u64,
    pub refresh: u64,
    /// Clocks with other pins.
    pub undefined: u64,
}

counts! {
    /// Clocks of the data bus by cause; the module documentation defines the classes.
    pub classes BusCycles {
        read,
        write,
        /// Refresh, with the precharge before it.
        refresh,
        /// A bank is being precharged or activated.
        row_cycle,
        /// Between commands and data that could not follow each other faster.
        turnaround,
        idle,
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Statistics {
    pub cycles: u64,
    pub commands: CommandCounts,
    pub bus: BusCycles,
    /// Clocks in `REF .. REF + tRFC`.
    pub refresh_cycles: u64,
    /// RD and WR of a row that has been accessed since its ACT.
    pub row_hits: u64,
    /// RD and WR that are the first since the ACT of their row, or find no open row.
    pub row_misses: u64,
}

/// Keeps [`Statistics`], from the commands and from the clocks in which the bus is used.
#[derive(Clone, Debug)]
pub(crate) struct Accountant {
    config: DramConfig,
    statistics: Statistics,
    /// First clocks after the spans that the module documentation names.
    refresh_until: u64,
    row_until: u64,
    data_until: u64,
    recovery_until: u64,
    /// First clocks of pending auto precharges.
    auto_precharges: Vec<u64>,
    /// Clocks counted as row cycle since the last precharge; `None` after an ACT.
    row_since_precharge: Option<u64>,
}

impl Accountant {
    pub(crate) fn new(config: &DramConfig) -> Self {
        Self {
            config: config.clone(),
            statistics: Statistics::default(),
            refresh_until: 0,
            row_until: 0,
            data_until: 0,
            recovery_until: 0,
            auto_precharges: Vec::new(),
            row_since_precharge: None,
        }
    }

    /// The statistics after `cycles` clocks. A clock that [`Accountant::clock`] did not count, or was not called for,
    /// is idle.
    pub(crate) fn statistics(&self, cycles: u64) -> Statistics {
        let mut statistics = self.statistics;
        statistics.cycles = cycles;
        statistics.bus.idle = cycles - statistics.bus.total();
        statistics
    }

    pub(crate) fn undefined(&mut self) {
        self.statistics.commands.undefined += 1;
    }

    /// First clock that is idle unless another command comes before it.
    pub(crate) fn busy_until(&self) -> u64 {
        let precharged = self.auto_precharges.iter().map(|start| start + u64::from(self.config.t_rp()));
        let ends = [self.refresh_until, self.row_until, self.data_until, self.recovery_until];
        precharged.chain(ends).max().unwrap_or(0)
    }

    /// `row_hit`: for RD and WR, whether the open row has been accessed before; `precharge_start`: for RDA and WRA, the
    /// first clock of the precharge.
    pub(crate) fn command(
        &mut self,
        cycle: u64,
        command: &Command,
        row_hit: bool,
        precharge_start: Option<u64>,
    ) {
        let Some(kind) = command.kind() else { return };
        self.count(command, kind, row_hit);
        let c = &self.config;
        let after = |clocks: u32| cycle + u64::from(clocks);
        match kind {
            CommandKind::Activate => {
                self.row_until = self.row_until.max(after(c.t_rcd()));
                self.row_since_precharge = None;
            }
            CommandKind::Precharge => self.begin_precharge(cycle),
            CommandKind::Read => {
                let data = after(c.t_cl());
                self.access(cycle, data, row_hit);
            }
            CommandKind::Write => {
                let recovery = c.t_wr().max(c.t_wtr_l());
                self.recovery_until = after(c.t_cwl() + DramConfig::T_BL + recovery);
                let data = after(c.t_cwl());
                self.access(cycle, data, row_hit);
            }
            CommandKind::Refresh => {
                self.refresh_until = after(c.t_rfc());
                let moved = self.row_since_precharge.take().unwrap_or(0);
                self.statistics.bus.row_cycle -= moved;
                self.statistics.bus.refresh += moved;
            }
        }
        self.auto_precharges.extend(precharge_start);
    }

    /// Counts one clock, after its command.
    pub(crate) fn clock(&mut self, cycle: u64, reading: bool, writing: bool) {
        if !self.auto_precharges.is_empty() {
            let count = self.auto_precharges.len();
            self.auto_precharges.retain(|&start| start > cycle);
            if self.auto_precharges.len() < count {
                self.begin_precharge(cycle);
            }
        }
        let in_refresh = cycle < self.refresh_until;
        self.statistics.refresh_cycles += u64::from(in_refresh);
        let bus = &mut self.statistics.bus;
        if reading {
            bus.read += 1;
        } else if writing {
            bus.write += 1;
        } else if in_refresh {
            bus.refresh += 1;
        } else if cycle < self.row_until {
            bus.row_cycle += 1;
            if let Some(clocks) = &mut self.row_since_precharge {
                *clocks += 1;
            }
        } else if cycle < self.data_until.max(self.recovery_until) {
            bus.turnaround += 1;
        }
    }

    fn begin_precharge(&mut self, cycle: u64) {
        self.row_until = self.row_until.max(cycle + u64::from(self.config.t_rp()));
        self.row_since_precharge = Some(0);
    }

    fn access(&mut self, cycle: u64, data: u64, row_hit: bool) {
        self.data_until = self.data_until.max(data + u64::from(DramConfig::T_BL));
        if !row_hit && cycle <= self.row_until {
            self.row_until = self.row_until.max(data);
        }
    }

    fn count(&mut self, command: &Command, kind: CommandKind, row_hit: bool) {
        let counts = &mut self.statistics.commands;
        let auto = u64::from(command.auto_precharge());
        match kind {
            CommandKind::Activate => counts.activate += 1,
            CommandKind::Read => {
                counts.read += 1;
                counts.read_auto_precharge += auto;
            }
            CommandKind::Write => {
                counts.write += 1;
                counts.write_auto_precharge += auto;
            }
            CommandKind::Precharge if *command == Command::PrechargeAll => counts.precharge_all += 1,
            CommandKind::Precharge => counts.precharge += 1,
            CommandKind::Refresh => counts.refresh += 1,
        }
        if matches!(kind, CommandKind::Read | CommandKind::Write) {
            let figure =
                if row_hit { &mut self.statistics.row_hits } else { &mut self.statistics.row_misses };
            *figure += 1;
        }
    }
}
