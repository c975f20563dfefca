//! A second opinion on HBM2: every rule written out pair by pair over the whole history. It shares only `HbmConfig` and
//! the names of commands and rules with the checker.

use ndp_config::{HbmCommandSet, HbmConfig, HbmRefresh};
use ndp_dram::Rule;
use ndp_dram::hbm::HbmCommand::{self, *};

/// The paper's memory, small ones, those with other times, two with all numbers odd or different, and one without
/// slicing.
pub fn hbm_configs() -> Vec<HbmConfig> {
    let device = "row_bits = 7\nsubarray_rows = 16\nweight_subarrays = 3\nall_bank_activate = true";
    let times = "[timing]\nt_cl = 15\nt_rcd = 13\nt_rp = 11\nt_ras = 29\nt_rc = 47\nt_cwl = 7\nt_ccd_s = 3\nt_ccd_l = 5\n\
               t_rrd_s = 4\nt_rrd_l = 7\nt_faw = 37\nt_wr = 17\nt_wtr_s = 5\nt_wtr_l = 9\nt_rtp = 8\nt_rfc = 101\n\
               t_refi = 1003\nt_slice = 19\nt_mac = 23\nt_rfc_pb = 37\nt_rrefd = 5";
    let odd = format!("name = \"odd\"\n[device]\n{device}\n{times}");
    let banks =
        format!("name = \"odd-banks\"\n[device]\nbank_groups = 2\nrefresh = \"bank\"\n{device}\n{times}");
    let presets = ["librapim", "librapim-tiny", "hbm2", "hbm2-tiny"];
    let mut all: Vec<_> = presets.map(|name| HbmConfig::preset(name).unwrap()).into();
    all.extend([odd, banks].map(|text| HbmConfig::from_toml(&text).unwrap()));
    all.push(HbmConfig::preset("newton-aim").unwrap());
    let aim = HbmConfig::preset("aim").unwrap();
    all.extend([aim.clone(), aim.with_t_cmd(3).unwrap()]);
    all
}

#[derive(Clone, Copy, Debug)]
struct Done {
    at: u64,
    /// First clock of the precharge: later than `at` for RDA and WRA.
    precharge: u64,
    command: HbmCommand,
    units: u64,
    groups: u64,
}

#[derive(Clone, Debug)]
pub struct Oracle {
    c: HbmConfig,
    done: Vec<Done>,
    /// Subarrays of partition 0; 0 if joined.
    pub boundary: Vec<u32>,
    /// Open row and whether it is to compute with, at `[bank][partition]`; of a joined bank at partition 0.
    pub open: Vec<[Option<(u32, bool)>; 2]>,
    slot_ready: Vec<Option<u64>>,
    pub next_refresh: usize,
}

/// The refresh that the memory has, for the bank whose turn it is at the start.
pub fn first_refresh(c: &HbmConfig) -> HbmCommand {
    match c.refresh() {
        HbmRefresh::All => Refresh,
        HbmRefresh::Bank => RefreshBank { bank_group: 0, bank: 0 },
    }
}

pub fn is_row(command: HbmCommand) -> bool {
    matches!(
        command,
        Activate { .. }
            | Precharge { .. }
            | PrechargeAll
            | Refresh
            | RefreshBank { .. }
            | Slice { .. }
            | PimActivate { .. }
            | PimActivateAll { .. }
            | PimPrecharge
    )
}

fn activates(command: HbmCommand) -> bool {
    matches!(command, Activate { .. } | PimActivate { .. } | PimActivateAll { .. })
}

fn precharges(command: HbmCommand) -> bool {
    matches!(command, Precharge { .. } | PrechargeAll | PimPrecharge)
}

fn reads(command: HbmCommand) -> bool {
    matches!(command, Read { .. } | ReadToBuffer { .. })
}

fn results(command: HbmCommand) -> bool {
    matches!(command, ReadResults | ReadSum { .. })
}

fn writes(command: HbmCommand) -> bool {
    matches!(command, Write { .. })
}

fn fills(command: HbmCommand) -> bool {
    matches!(command, BufferWrite { .. })
}

impl Oracle {
    pub fn new(c: &HbmConfig) -> Self {
        Self {
            c: c.clone(),
            done: Vec::new(),
            boundary: vec![0; c.banks() as usize],
            open: vec![[None; 2]; c.banks() as usize],
            slot_ready: vec![None; c.buffer_slots() as usize],
            next_refresh: 0,
        }
    }

    pub fn bank(&self, group: u8, bank: u8) -> usize {
        usize::from(group) * self.c.banks_per_group() as usize + usize::from(bank)
    }

    pub fn pim_part(&self, bank: usize) -> usize {
        usize::from(self.boundary[bank] > 0)
    }

    pub fn rows_of(&self, bank: usize, part: usize) -> std::ops::Range<u32> {
        let first = self.boundary[bank] * self.c.subarray_rows();
        match (first, part) {
            (0, _) => 0..self.c.rows(),
            (_, 0) => 0..first,
            _ => first..self.c.rows(),
        }
    }

    fn pim_banks(&self, command: HbmCommand) -> Vec<usize> {
        let per_group = self.c.banks_per_group() as usize;
        (0..self.c.banks() as usize)
            .filter(|bank| match command {
                PimActivate { bank_group, .. } => bank / per_group == usize::from(bank_group),
                _ => true,
            })
            .collect()
    }

    /// Row buffers and bank groups concerned.
    fn concerns(&self, command: HbmCommand) -> (u64, u64) {
        let per_group = self.c.banks_per_group() as usize;
        let of = |bank: usize, part: usize| match self.boundary[bank] {
            0 => (0b11 << (2 * bank), 1 << (bank / per_group)),
            _ => (1 << (2 * bank + part), 1 << (bank / per_group)),
        };
        match command {
            Activate { bank_group, bank, partition, .. }
            | Precharge { bank_group, bank, partition }
            | Read { bank_group, bank, partition, .. }
            | ReadToBuffer { bank_group, bank, partition, .. }
            | Write { bank_group, bank, partition, .. } => {
                of(self.bank(bank_group, bank), usize::from(partition))
            }
            Slice { bank_group, bank, .. } | RefreshBank { bank_group, bank } => {
                (0b11 << (2 * self.bank(bank_group, bank)), 1 << bank_group)
            }
            PimActivate { .. } | PimActivateAll { .. } | PimPrecharge | Mac { .. } => {
                let all = self.pim_banks(command).into_iter().map(|bank| of(bank, self.pim_part(bank)));
                all.fold((0, 0), |sum, one| (sum.0 | one.0, sum.1 | one.1))
            }
            _ => (u64::MAX, u64::MAX),
        }
    }

    /// Distances that `later` has to keep from `first`.
    fn pair(&self, first: &Done, later: HbmCommand, units: u64, groups: u64) -> Vec<(Rule, u64)> {
        let c = &self.c;
        let a = first.command;
        let share = first.units & units != 0;
        let group = first.groups & groups != 0;
        let written = c.t_cwl() + 2;
        let mut need: Vec<(Rule, u32)> = Vec::new();
        if c.command_set() == HbmCommandSet::Aim {
            need.push((Rule::CommandBus, c.t_cmd()));
        }
        if a == Refresh {
            need.push((Rule::Rfc, c.t_rfc()));
        }
        let of_bank = matches!(later, RefreshBank { .. });
        // Commands that need a closed bank that is ready.
        let begins = activates(later) || of_bank || matches!(later, Slice { .. });
        if matches!(a, RefreshBank { .. }) {
            if share && begins {
                need.push((Rule::RfcBank, c.t_rfc_pb()));
            }
            if activates(later) || of_bank {
                need.push((Rule::RrefD, c.t_rrefd()));
            }
        }
        if activates(a) {
            if activates(later) || of_bank {
                if share {
                    need.push((Rule::Rc, c.t_rc()));
                }
                need.push(if group { (Rule::RrdL, c.t_rrd_l()) } else { (Rule::RrdS, c.t_rrd_s()) });
            }
            if share && matches!(a, Activate { .. }) && (reads(later) || writes(later)) {
                need.push((Rule::Rcd, c.t_rcd()));
            }
            if share && !matches!(a, Activate { .. }) && matches!(later, Mac { .. }) {
                need.push((Rule::Rcd, c.t_rcd()));
            }
            if share && precharges(later) {
                need.push((Rule::Ras, c.t_ras()));
            }
            if precharges(later) || matches!(later, Refresh | Slice { .. }) {
                need.push((Rule::RowBus, 2));
            }
        }
        if precharges(a) && (share && begins || later == Refresh) {
            need.push((Rule::Rp, c.t_rp()));
        }
        let ccd = if group { (Rule::CcdL, c.t_ccd_l()) } else { (Rule::CcdS, c.t_ccd_s()) };
        if reads(a) && reads(later) || writes(a) && writes(later) {
            need.push(ccd);
        }
        if matches!((a, later), (Mac { .. }, Mac { .. })) && share {
            need.push((Rule::CcdL, c.t_ccd_l()));
        }
        if results(a) && (reads(later) || results(later)) || reads(a) && results(later) {
            need.push((Rule::CcdS, c.t_ccd_s()));
        }
        if fills(a) && (writes(later) || fills(later)) || writes(a) && fills(later) {
            need.push((Rule::CcdS, c.t_ccd_s()));
        }
        if (reads(a) || results(a)) && (writes(later) || fills(later)) {
            need.push((Rule::Rtw, c.t_cl() + 4 - c.t_cwl()));
        }
        if writes(a) && reads(later) && group {
            need.push((Rule::WtrL, written + c.t_wtr_l()));
        } else if (writes(a) || fills(a)) && (reads(later) || results(later)) {
            need.push((Rule::WtrS, written + c.t_wtr_s()));
        }
        if precharges(later) && share {
            if reads(a) || matches!(a, Mac { .. }) {
                need.push((Rule::Rtp, c.t_rtp()));
            }
            if writes(a) {
                need.push((Rule::Wr, written + c.t_wr()));
            }
        }
        if matches!(a, Mac { .. }) && results(later) {
            need.push((Rule::MacLatency, c.t_mac()));
        }
        if matches!(a, Slice { .. }) && (share && begins || later == Refresh) {
            need.push((Rule::SliceRecovery, c.t_slice()));
        }
        let mut bounds: Vec<(Rule, u64)> =
            need.into_iter().map(|(rule, cycles)| (rule, first.at + u64::from(cycles))).collect();
        if a.auto_precharge() && (share && begins || later == Refresh) {
            bounds.push((Rule::Rp, first.precharge + u64::from(c.t_rp())));
        }
        bounds
    }

    pub fn state_rule(&self, command: HbmCommand) -> Option<Rule> {
        if self.c.command_set() == HbmCommandSet::Aim
            && (matches!(command, ReadToBuffer { .. } | ReadSum { .. }) || command.auto_precharge())
        {
            return Some(Rule::CommandAbsent);
        }
        let host = |group: u8, bank: u8, part: u8| {
            let bank = self.bank(group, bank);
            (bank, usize::from(part), part == 1 && self.boundary[bank] == 0)
        };
        match command {
            Activate { bank_group, bank, partition, row } => {
                let (bank, part, absent) = host(bank_group, bank, partition);
                if absent {
                    Some(Rule::PartitionAbsent)
                } else if !self.rows_of(bank, part).contains(&row) {
                    Some(Rule::RowOutsidePartition)
                } else {
                    self.open[bank][part].map(|_| Rule::ActivateOpenPartition)
                }
            }
            Precharge { bank_group, bank, partition } => {
                host(bank_group, bank, partition).2.then_some(Rule::PartitionAbsent)
            }
            Read { bank_group, bank, partition, .. }
            | ReadToBuffer { bank_group, bank, partition, .. }
            | Write { bank_group, bank, partition, .. } => {
                let (bank, part, absent) = host(bank_group, bank, partition);
                match self.open[bank][part] {
                    _ if absent => Some(Rule::PartitionAbsent),
                    None => Some(Rule::AccessClosedBank),
                    Some((_, true)) => Some(Rule::AccessDuringPim),
                    Some((_, false)) => None,
                }
            }
            Refresh | RefreshBank { .. } if (command == Refresh) != (self.c.refresh() == HbmRefresh::All) => {
                Some(Rule::RefreshAbsent)
            }
            RefreshBank { bank_group, bank } => {
                let bank = self.bank(bank_group, bank);
                if bank == self.next_refresh {
                    self.open[bank].iter().flatten().next().map(|_| Rule::RefreshOpenBank)
                } else {
                    Some(Rule::RefreshTurn)
                }
            }
            Refresh => self.open.iter().flatten().flatten().next().map(|_| Rule::RefreshOpenBank),
            Slice { bank_group, bank, boundary } => {
                let bank = self.bank(bank_group, bank);
                if !self.c.slicing() {
                    Some(Rule::SlicingAbsent)
                } else if u32::from(boundary) >= self.c.subarrays() {
                    Some(Rule::Boundary)
                } else {
                    self.open[bank].iter().flatten().next().map(|_| Rule::SliceOpenBank)
                }
            }
            PimActivate { row, .. } | PimActivateAll { row } => {
                if matches!(command, PimActivateAll { .. }) && !self.c.all_bank_activate() {
                    return Some(Rule::AllBankActivateAbsent);
                }
                let banks = self.pim_banks(command);
                if banks.iter().any(|&bank| !self.rows_of(bank, self.pim_part(bank)).contains(&row)) {
                    return Some(Rule::RowOutsidePartition);
                }
                let open = banks.iter().any(|&bank| self.open[bank][self.pim_part(bank)].is_some());
                open.then_some(Rule::ActivateOpenPartition)
            }
            Mac { slot, .. } => {
                let mut rows = (0..self.open.len()).map(|bank| self.open[bank][self.pim_part(bank)]);
                if rows.clone().any(|row| row.is_none()) {
                    Some(Rule::MacClosedRow)
                } else if rows.any(|row| matches!(row, Some((_, false)))) {
                    Some(Rule::MacHostRow)
                } else {
                    self.slot_ready[usize::from(slot)].is_none().then_some(Rule::BufferEmpty)
                }
            }
            _ => None,
        }
    }

    fn data(&self, at: u64, command: HbmCommand) -> Option<u64> {
        if reads(command) || results(command) {
            Some(at + u64::from(self.c.t_cl()))
        } else if writes(command) || fills(command) {
            Some(at + u64::from(self.c.t_cwl()))
        } else {
            None
        }
    }

    /// First clock that each rule of time allows, without the data bus.
    fn bounds(&self, command: HbmCommand) -> Vec<(Rule, u64)> {
        let (units, groups) = self.concerns(command);
        let mut bounds: Vec<_> =
            self.done.iter().flat_map(|first| self.pair(first, command, units, groups)).collect();
        let weight = |command: HbmCommand| match command {
            Activate { .. } => 1,
            PimActivate { .. } => self.c.banks_per_group() as usize,
            _ => 0,
        };
        let acts: Vec<u64> = self.done.iter().flat_map(|done| vec![done.at; weight(done.command)]).collect();
        let own = weight(command);
        if own > 0 && acts.len() + own > 4 {
            bounds.push((Rule::Faw, acts[acts.len() + own - 5] + u64::from(self.c.t_faw())));
        }
        // The device looks at the buffer only if the rows are open.
        if let (Mac { slot, .. }, None) = (command, self.state_rule(command)) {
            bounds.extend(self.slot_ready[usize::from(slot)].map(|ready| (Rule::BufferNotReady, ready)));
        }
        bounds
    }

    fn collides(&self, at: u64, command: HbmCommand) -> bool {
        let Some(start) = self.data(at, command) else { return false };
        let recent = self.done.iter().rev().take(64);
        recent.filter_map(|done| self.data(done.at, done.command)).any(|other| other.abs_diff(start) < 2)
    }

    pub fn rules(&self, at: u64, command: HbmCommand) -> Vec<Rule> {
        let mut rules: Vec<Rule> = self.state_rule(command).into_iter().collect();
        rules.extend(self.bounds(command).iter().filter(|(_, bound)| at < *bound).map(|&(rule, _)| rule));
        if self.collides(at, command) {
            rules.push(Rule::BusCollision);
        }
        rules
    }

    /// `None` if the state forbids the command.
    pub fn earliest(&self, from: u64, command: HbmCommand) -> Option<u64> {
        if self.state_rule(command).is_some() {
            return None;
        }
        let bound = self.bounds(command).iter().map(|&(_, bound)| bound).max().unwrap_or(0);
        (from.max(bound)..).find(|&at| !self.collides(at, command))
    }

    pub fn apply(&mut self, at: u64, command: HbmCommand) {
        let (units, groups) = self.concerns(command);
        let mut precharge = at;
        if command.auto_precharge() {
            let close = Done { at, precharge, command, units, groups };
            let all = self.done.iter().chain([&close]);
            let probe = match command {
                Read { bank_group, bank, partition, .. } | Write { bank_group, bank, partition, .. } => {
                    Precharge { bank_group, bank, partition }
                }
                _ => unreachable!(),
            };
            let bounds = all.flat_map(|first| self.pair(first, probe, units, groups));
            precharge = bounds.map(|(_, bound)| bound).max().unwrap_or(at);
        }
        match command {
            Activate { bank_group, bank, partition, row } => {
                let bank = self.bank(bank_group, bank);
                self.open[bank][usize::from(partition)] = Some((row, false));
            }
            Precharge { bank_group, bank, partition }
            | Read { bank_group, bank, partition, auto_precharge: true, .. }
            | Write { bank_group, bank, partition, auto_precharge: true, .. } => {
                let bank = self.bank(bank_group, bank);
                self.open[bank][usize::from(partition)] = None;
            }
            PrechargeAll => self.open.fill([None; 2]),
            PimPrecharge => {
                for bank in 0..self.open.len() {
                    let part = self.pim_part(bank);
                    self.open[bank][part] = None;
                }
            }
            PimActivate { row, .. } | PimActivateAll { row } => {
                for bank in self.pim_banks(command) {
                    let part = self.pim_part(bank);
                    self.open[bank][part] = Some((row, true));
                }
            }
            Slice { bank_group, bank, boundary } => {
                let bank = self.bank(bank_group, bank);
                self.boundary[bank] = boundary.into();
            }
            RefreshBank { .. } => self.next_refresh = (self.next_refresh + 1) % self.open.len(),
            ReadToBuffer { slot, .. } => {
                self.slot_ready[usize::from(slot)] = Some(at + u64::from(self.c.t_cl()) + 2);
            }
            BufferWrite { slot } => {
                self.slot_ready[usize::from(slot)] = Some(at + u64::from(self.c.t_cwl()) + 2);
            }
            _ => {}
        }
        self.done.push(Done { at, precharge, command, units, groups });
        // Commands longer ago than any distance do not bind; in these memories 150 clocks exceed all except tRFC.
        if self.done.len().is_multiple_of(64) {
            let t_rfc = u64::from(self.c.t_rfc());
            self.done
                .retain(|done| done.precharge + 150 > at || done.command == Refresh && done.at + t_rfc > at);
        }
    }
}
