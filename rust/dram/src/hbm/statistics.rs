//! Use of a channel: commands, and a cause for every clock of the data bus and of the multipliers.
//!
//! Every clock belongs to exactly one class of [`HbmBusCycles`], the first that applies:
//!
//! 1. `read`, `result`, `write`, `buffer`: data of RD, of RES or SUM are on the bus, or are due for WR, for GBW.
//! 2. `refresh`: in `REF .. REF + tRFC`.
//! 3. `row_cycle`: in `ACT .. ACT + tRCD`, or in `PRE .. PRE + tRP` (PREA and the precharge of RDA and WRA likewise).
//! 4. `turnaround`: data are pending for a command already given; or a write's data ended less than `max(tWR, tWTR_L)`
//!    ago.
//! 5. `pim`: a joined bank has a row open to compute with, which keeps the host from it.
//! 6. `refresh` again: in `REFB .. REFB + tRFCpb`, which keeps the host from one bank only.
//! 7. `idle`: none of these.
//!
//! and to exactly one class of [`PimCycles`]:
//!
//! 1. `mac`: in `MAC .. MAC + tCCD_L`.
//! 2. `refresh`: in `REF .. REF + tRFC` or `REFB .. REFB + tRFCpb`.
//! 3. `row_cycle`: in `PACT .. PACT + tRCD` (PACTA likewise) or `PPRE .. PPRE + tRP`; or some banks have a row open to
//!    compute with and others have not: PACTs at a distance of tFAW.
//! 4. `drain`: in `MAC .. MAC + tMAC`, the result is on its way.
//! 5. `waiting`: all banks have a row open to compute with, and wait for the buffer, the data bus, or a command.
//! 6. `host`: a row that the multipliers could use is open for the host.
//! 7. `idle`: none of these.

use ndp_config::HbmConfig;
use serde::Serialize;

use crate::counts;
use crate::hbm::command::{HbmCommand, HbmKind};
use crate::hbm::partitions::{Owner, Partitions};
use crate::rules::CommandSet;

/// Commands that were carried out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HbmCommandCounts {
    pub activate: u64,
    /// PACT and PACTA.
    pub pim_activate: u64,
    /// PRE, PREA and PPRE.
    pub precharge: u64,
    /// REF and REFB.
    pub refresh: u64,
    pub slice: u64,
    /// RD, RDA and RDG.
    pub read: u64,
    /// WR and WRA.
    pub write: u64,
    pub buffer_write: u64,
    pub mac: u64,
    /// RES and SUM.
    pub result_read: u64,
    pub refused: u64,
}

counts! {
    /// Clocks of the data bus by cause; the module documentation defines the classes.
    pub classes HbmBusCycles {
        read,
        result,
        write,
        /// Data for the global buffer.
        buffer,
        refresh,
        /// A partition is being precharged or activated for the host.
        row_cycle,
        /// Between commands and data that could not follow each other faster.
        turnaround,
        pim,
        idle,
    }
}

counts! {
    /// Clocks of the multipliers by cause; the module documentation defines the classes.
    pub classes PimCycles {
        /// The multipliers take a column.
        mac,
        refresh,
        /// Rows are being precharged or activated to compute with.
        row_cycle,
        /// A result is on its way.
        drain,
        /// All rows are open, and there is no MAC.
        waiting,
        /// The host has the rows.
        host,
        idle,
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct HbmStatistics {
    pub cycles: u64,
    pub commands: HbmCommandCounts,
    pub bus: HbmBusCycles,
    pub pim: PimCycles,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Traffic {
    Read,
    Result,
    Write,
    Buffer,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Accountant {
    config: HbmConfig,
    statistics: HbmStatistics,
    /// First clocks after the spans that the module documentation names.
    refresh_until: u64,
    bank_refresh_until: u64,
    row_until: u64,
    data_until: u64,
    mac_until: u64,
    pim_row_until: u64,
    drain_until: u64,
    /// First clocks of pending auto precharges.
    auto_precharges: Vec<u64>,
    /// From the state of the row buffers.
    joined_pim: bool,
    open_for_pim: usize,
    host_in_pim: bool,
    banks: usize,
}

impl Accountant {
    pub(crate) fn new(config: &HbmConfig) -> Self {
        Self { config: config.clone(), banks: config.banks() as usize, ..Self::default() }
    }

    pub(crate) fn statistics(&self) -> HbmStatistics {
        self.statistics
    }

    pub(crate) fn refused(&mut self) {
        self.statistics.commands.refused += 1;
    }

    /// Counts a command that was carried out; `state`: the row buffers after it. `precharge_start`: for RDA and WRA, the
    /// first clock of the precharge.
    pub(crate) fn command(
        &mut self,
        cycle: u64,
        command: &HbmCommand,
        state: &Partitions,
        precharge_start: Option<u64>,
    ) {
        let Some(kind) = command.kind() else { return };
        let c = &self.config;
        let after = |cycles: u32| cycle + u64::from(cycles);
        let counts = &mut self.statistics.commands;
        match kind {
            HbmKind::Activate => {
                counts.activate += 1;
                raise(&mut self.row_until, after(c.t_rcd()));
            }
            HbmKind::PimActivate | HbmKind::PimActivateAll => {
                counts.pim_activate += 1;
                raise(&mut self.pim_row_until, after(c.t_rcd()));
            }
            HbmKind::Precharge => {
                counts.precharge += 1;
                let end = after(c.t_rp());
                let until = if *command == HbmCommand::PimPrecharge {
                    &mut self.pim_row_until
                } else {
                    &mut self.row_until
                };
                raise(until, end);
            }
            HbmKind::Refresh => {
                counts.refresh += 1;
                raise(&mut self.refresh_until, after(c.t_rfc()));
            }
            HbmKind::RefreshBank => {
                counts.refresh += 1;
                raise(&mut self.bank_refresh_until, after(c.t_rfc_pb()));
            }
            HbmKind::Slice => counts.slice += 1,
            HbmKind::Read | HbmKind::ResultRead => {
                let count = if kind == HbmKind::Read { &mut counts.read } else { &mut counts.result_read };
                *count += 1;
                raise(&mut self.data_until, after(c.t_cl() + HbmConfig::T_BL));
            }
            HbmKind::Write => {
                counts.write += 1;
                let recovery = c.t_wr().max(c.t_wtr_l());
                raise(&mut self.data_until, after(c.t_cwl() + HbmConfig::T_BL + recovery));
            }
            HbmKind::BufferWrite => {
                counts.buffer_write += 1;
                raise(&mut self.data_until, after(c.t_cwl() + HbmConfig::T_BL));
            }
            HbmKind::Mac => {
                counts.mac += 1;
                raise(&mut self.mac_until, after(c.t_ccd_l()));
                raise(&mut self.drain_until, after(c.t_mac()));
            }
        }
        self.auto_precharges.extend(precharge_start);
        self.look_at(state);
    }

    fn look_at(&mut self, state: &Partitions) {
        (self.joined_pim, self.open_for_pim, self.host_in_pim) = (false, 0, false);
        for bank in 0..self.banks {
            match state.open_row(bank, state.pim_partition(bank)) {
                Some((_, Owner::Pim)) => {
                    self.open_for_pim += 1;
                    self.joined_pim |= state.boundary(bank) == 0;
                }
                Some((_, Owner::Host)) => self.host_in_pim = true,
                None => {}
            }
        }
    }

    /// Counts one clock, after its commands.
    pub(crate) fn clock(&mut self, cycle: u64, traffic: Option<Traffic>) {
        let end = cycle + u64::from(self.config.t_rp());
        let row_until = &mut self.row_until;
        self.auto_precharges.retain(|&start| {
            if start <= cycle {
                raise(row_until, end);
            }
            start > cycle
        });
        self.statistics.cycles += 1;
        let bus = &mut self.statistics.bus;
        let class = match traffic {
            Some(Traffic::Read) => &mut bus.read,
            Some(Traffic::Result) => &mut bus.result,
            Some(Traffic::Write) => &mut bus.write,
            Some(Traffic::Buffer) => &mut bus.buffer,
            None if cycle < self.refresh_until => &mut bus.refresh,
            None if cycle < self.row_until => &mut bus.row_cycle,
            None if cycle < self.data_until => &mut bus.turnaround,
            None if self.joined_pim => &mut bus.pim,
            None if cycle < self.bank_refresh_until => &mut bus.refresh,
            None => &mut bus.idle,
        };
        *class += 1;
        let pim = &mut self.statistics.pim;
        let some_open = self.open_for_pim > 0;
        let all_open = self.open_for_pim == self.banks;
        let class = if cycle < self.mac_until {
            &mut pim.mac
        } else if cycle < self.refresh_until.max(self.bank_refresh_until) {
            &mut pim.refresh
        } else if cycle < self.pim_row_until || some_open && !all_open {
            &mut pim.row_cycle
        } else if cycle < self.drain_until {
            &mut pim.drain
        } else if all_open {
            &mut pim.waiting
        } else if self.host_in_pim {
            &mut pim.host
        } else {
            &mut pim.idle
        };
        *class += 1;
    }
}

fn raise(until: &mut u64, to: u64) {
    *until = (*until).max(to);
}
