//! The distances of `docs/hbm-pim.md` as the earliest clock of each command.
//!
//! Written from that page without code of the device model, which checks it.

use ndp_config::HbmConfig;
use std::collections::VecDeque;
use std::ops::Range;

/// Owner of an open row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum User {
    /// Reads and writes over the bus.
    Host,
    Pim,
}

/// A row buffer: one per partition.
#[derive(Clone, Copy, Debug, Default)]
struct Buffer {
    open: Option<(u32, User)>,
    activate: u64,
    column: u64,
    precharge: u64,
}

impl Buffer {
    fn is_free(&self, now: u64) -> bool {
        self.open.is_none() && now >= self.activate
    }
}

#[derive(Clone, Debug, Default)]
pub struct Timing {
    config: HbmConfig,
    sliced: bool,
    /// At `2 * bank + partition`. A joined bank uses partition 0.
    buffers: Vec<Buffer>,
    /// By bank group.
    activate_group: Vec<u64>,
    read_group: Vec<u64>,
    write_group: Vec<u64>,
    activate: u64,
    read: u64,
    write: u64,
    result: u64,
    buffer_write: u64,
    mac: u64,
    /// By buffer slot: earliest clock of use; `None` if never written.
    slots: Vec<Option<u64>>,
    /// After the two clocks of an ACT on the row bus.
    row_bus: u64,
    refresh: u64,
    /// After a REF: all commands.
    all: u64,
    /// After a REFB: activations, and the next REFB.
    bank_refresh: u64,
    /// Clocks of the last activations, one per row.
    window: VecDeque<u64>,
}

impl Timing {
    /// Starts with all rows closed and all banks joined.
    pub fn new(config: &HbmConfig) -> Self {
        let groups = config.bank_groups() as usize;
        Self {
            buffers: vec![Buffer::default(); 2 * config.banks() as usize],
            activate_group: vec![0; groups],
            read_group: vec![0; groups],
            write_group: vec![0; groups],
            slots: vec![None; config.buffer_slots() as usize],
            config: config.clone(),
            ..Self::default()
        }
    }

    fn index(&self, bank: u32, partition: u32) -> usize {
        2 * bank as usize + if self.sliced { partition as usize } else { 0 }
    }

    fn pim_partition(&self) -> u32 {
        u32::from(self.sliced)
    }

    fn group(&self, bank: u32) -> usize {
        (bank / self.config.banks_per_group()) as usize
    }

    pub fn partition_of(&self, row: u32) -> u32 {
        u32::from(self.sliced && row >= self.config.weight_rows())
    }

    /// Open row of a partition and its owner.
    pub fn open(&self, bank: u32, partition: u32) -> Option<(u32, User)> {
        self.buffers[self.index(bank, partition)].open
    }

    pub fn any_open(&self) -> bool {
        self.buffers.iter().any(|buffer| buffer.open.is_some())
    }

    /// Open row of the multipliers' buffer of a bank, and its owner.
    pub fn pim_open(&self, bank: u32) -> Option<(u32, User)> {
        self.open(bank, self.pim_partition())
    }

    fn in_window(&self, now: u64) -> usize {
        let first = now.saturating_sub(u64::from(self.config.t_faw()) - 1);
        self.window.iter().filter(|&&clock| clock >= first).count()
    }

    fn activated(&mut self, now: u64, rows: u32) {
        (0..rows).for_each(|_| self.window.push_back(now));
        while self.window.len() > 8 {
            self.window.pop_front();
        }
        self.activate = now + u64::from(self.config.t_rrd_s());
        self.row_bus = now + u64::from(HbmConfig::ACTIVATE_CLOCKS);
    }

    fn open_row(&mut self, index: usize, now: u64, row: u32, user: User) {
        let c = &self.config;
        let buffer = &mut self.buffers[index];
        buffer.open = Some((row, user));
        buffer.column = now + u64::from(c.t_rcd());
        buffer.precharge = buffer.precharge.max(now + u64::from(c.t_ras()));
        buffer.activate = now + u64::from(c.t_rc());
    }

    /// SLICE of a closed bank.
    pub fn can_slice(&self, now: u64, bank: u32) -> bool {
        let free = [0, 1].iter().all(|half| self.buffers[2 * bank as usize + half].activate <= now);
        free && now >= self.all && now >= self.row_bus
    }

    /// Records the last SLICE of all banks.
    pub fn sliced(&mut self, now: u64) {
        self.sliced = true;
        let ready = now + u64::from(self.config.t_slice());
        self.buffers.iter_mut().for_each(|buffer| buffer.activate = buffer.activate.max(ready));
        self.refresh = self.refresh.max(ready);
    }

    /// Whether other rows allow to open one in this bank group.
    fn may_open(&self, now: u64, group: usize) -> bool {
        let earliest = [self.activate, self.activate_group[group], self.bank_refresh, self.all];
        earliest.iter().all(|&clock| now >= clock)
    }

    pub fn can_activate(&self, now: u64, bank: u32, partition: u32) -> bool {
        self.buffers[self.index(bank, partition)].is_free(now)
            && self.may_open(now, self.group(bank))
            && self.in_window(now) < 4
    }

    /// Records an ACT.
    pub fn activate(&mut self, now: u64, bank: u32, partition: u32, row: u32) {
        self.open_row(self.index(bank, partition), now, row, User::Host);
        let group = self.group(bank);
        self.activate_group[group] = now + u64::from(self.config.t_rrd_l());
        self.activated(now, 1);
    }

    fn banks_of(&self, group: u32) -> Range<u32> {
        let per_group = self.config.banks_per_group();
        group * per_group..(group + 1) * per_group
    }

    fn are_free(&self, now: u64, mut banks: Range<u32>) -> bool {
        banks.all(|bank| self.buffers[self.index(bank, self.pim_partition())].is_free(now))
    }

    fn open_for_pim(&mut self, now: u64, banks: Range<u32>, row: u32) {
        banks.for_each(|bank| self.open_row(self.index(bank, self.pim_partition()), now, row, User::Pim));
    }

    /// PACT of a bank group.
    pub fn can_activate_group(&self, now: u64, group: u32) -> bool {
        self.are_free(now, self.banks_of(group))
            && self.may_open(now, group as usize)
            && self.in_window(now) + self.config.banks_per_group() as usize <= 4
    }

    /// Records a PACT.
    pub fn activate_group(&mut self, now: u64, group: u32, row: u32) {
        self.open_for_pim(now, self.banks_of(group), row);
        self.activate_group[group as usize] = now + u64::from(self.config.t_rrd_l());
        self.activated(now, self.config.banks_per_group());
    }

    pub fn can_activate_all(&self, now: u64) -> bool {
        self.are_free(now, 0..self.config.banks())
            && (0..self.activate_group.len()).all(|group| self.may_open(now, group))
    }

    /// Records a PACTA.
    pub fn activate_all(&mut self, now: u64, row: u32) {
        self.open_for_pim(now, 0..self.config.banks(), row);
        self.activate_group.fill(now + u64::from(self.config.t_rrd_l()));
        self.activated(now, 0);
    }

    pub fn can_precharge(&self, now: u64, bank: u32, partition: u32) -> bool {
        self.may_close(now, self.index(bank, partition))
    }

    fn may_close(&self, now: u64, index: usize) -> bool {
        now >= self.buffers[index].precharge && now >= self.row_bus && now >= self.all
    }

    fn close(&mut self, now: u64, index: usize) {
        let ready = now + u64::from(self.config.t_rp());
        let buffer = &mut self.buffers[index];
        buffer.open = None;
        buffer.activate = buffer.activate.max(ready);
        self.refresh = self.refresh.max(ready);
    }

    /// Records a PRE.
    pub fn precharge(&mut self, now: u64, bank: u32, partition: u32) {
        self.close(now, self.index(bank, partition));
    }

    fn pim_buffers(&self) -> impl Iterator<Item = usize> + use<> {
        let partition = self.pim_partition() as usize;
        (0..self.config.banks() as usize).map(move |bank| 2 * bank + partition)
    }

    /// PPRE.
    pub fn can_precharge_pim(&self, now: u64) -> bool {
        self.pim_buffers().all(|index| self.may_close(now, index))
    }

    /// Records a PPRE.
    pub fn precharge_pim(&mut self, now: u64) {
        self.pim_buffers().for_each(|index| self.close(now, index));
    }

    pub fn can_precharge_all(&self, now: u64) -> bool {
        (0..self.buffers.len()).all(|index| self.may_close(now, index))
    }

    /// Records a PREA.
    pub fn precharge_all(&mut self, now: u64) {
        (0..self.buffers.len()).for_each(|index| self.close(now, index));
    }

    /// REF, with all rows closed.
    pub fn can_refresh(&self, now: u64) -> bool {
        !self.any_open() && now >= self.refresh && now >= self.row_bus && now >= self.all
    }

    /// Records a REF.
    pub fn refresh(&mut self, now: u64) {
        self.all = now + u64::from(self.config.t_rfc());
    }

    /// REFB of a closed bank.
    pub fn can_refresh_bank(&self, now: u64, bank: u32) -> bool {
        let both = 2 * bank as usize..2 * bank as usize + 2;
        self.buffers[both].iter().all(|buffer| buffer.is_free(now)) && self.may_open(now, self.group(bank))
    }

    /// Records a REFB.
    pub fn refresh_bank(&mut self, now: u64, bank: u32) {
        let ready = now + u64::from(self.config.t_rfc_pb());
        for buffer in &mut self.buffers[2 * bank as usize..2 * bank as usize + 2] {
            buffer.activate = buffer.activate.max(ready);
        }
        self.bank_refresh = now + u64::from(self.config.t_rrefd());
    }

    fn row_is_open(&self, now: u64, bank: u32, row: u32) -> bool {
        let buffer = &self.buffers[self.index(bank, self.partition_of(row))];
        buffer.open == Some((row, User::Host)) && now >= buffer.column && now >= self.all
    }

    /// RD of an open row.
    pub fn can_read(&self, now: u64, bank: u32, row: u32) -> bool {
        self.row_is_open(now, bank, row) && now >= self.read && now >= self.read_group[self.group(bank)]
    }

    /// Records a RD.
    pub fn read(&mut self, now: u64, bank: u32, row: u32) {
        let (group, index) = (self.group(bank), self.index(bank, self.partition_of(row)));
        let c = &self.config;
        let buffer = &mut self.buffers[index];
        buffer.precharge = buffer.precharge.max(now + u64::from(c.t_rtp()));
        self.read_group[group] = self.read_group[group].max(now + u64::from(c.t_ccd_l()));
        self.read_on_bus(now);
    }

    /// Records a RDG: a RD whose data also reach the global buffer once they have passed the bus.
    pub fn read_to_buffer(&mut self, now: u64, bank: u32, row: u32, slot: u8) {
        self.read(now, bank, row);
        self.slots[usize::from(slot)] = Some(now + u64::from(self.config.t_cl() + HbmConfig::T_BL));
    }

    fn read_on_bus(&mut self, now: u64) {
        let c = &self.config;
        let (next, turned) = (now + u64::from(c.t_ccd_s()), now + u64::from(c.t_rtw()));
        self.read = self.read.max(next);
        self.result = self.result.max(next);
        self.write = self.write.max(turned);
        self.buffer_write = self.buffer_write.max(turned);
    }

    /// WR to an open row.
    pub fn can_write(&self, now: u64, bank: u32, row: u32) -> bool {
        self.row_is_open(now, bank, row) && now >= self.write && now >= self.write_group[self.group(bank)]
    }

    /// Records a WR.
    pub fn write(&mut self, now: u64, bank: u32, row: u32) {
        let (group, index) = (self.group(bank), self.index(bank, self.partition_of(row)));
        let c = &self.config;
        let end = now + u64::from(c.t_cwl() + HbmConfig::T_BL);
        let buffer = &mut self.buffers[index];
        buffer.precharge = buffer.precharge.max(end + u64::from(c.t_wr()));
        self.write_group[group] = self.write_group[group].max(now + u64::from(c.t_ccd_l()));
        self.read_group[group] = self.read_group[group].max(end + u64::from(c.t_wtr_l()));
        self.write_on_bus(now);
    }

    fn write_on_bus(&mut self, now: u64) {
        let c = &self.config;
        let next = now + u64::from(c.t_ccd_s());
        let turned = now + u64::from(c.t_cwl() + HbmConfig::T_BL + c.t_wtr_s());
        self.write = self.write.max(next);
        self.buffer_write = self.buffer_write.max(next);
        self.read = self.read.max(turned);
        self.result = self.result.max(turned);
    }

    /// GBW.
    pub fn can_load(&self, now: u64) -> bool {
        now >= self.buffer_write && now >= self.all
    }

    /// Records a GBW.
    pub fn load(&mut self, now: u64, slot: u8) {
        self.slots[usize::from(slot)] = Some(now + u64::from(self.config.t_cwl() + HbmConfig::T_BL));
        self.write_on_bus(now);
    }

    /// MAC on rows open for the multipliers in all banks.
    pub fn can_mac(&self, now: u64, row: u32, slot: u8) -> bool {
        let open = |index: usize| {
            let buffer = &self.buffers[index];
            buffer.open == Some((row, User::Pim)) && now >= buffer.column
        };
        now >= self.mac
            && now >= self.all
            && self.slots[usize::from(slot)].is_some_and(|ready| now >= ready)
            && self.pim_buffers().all(open)
    }

    /// Records a MAC.
    pub fn mac(&mut self, now: u64) {
        let closed = now + u64::from(self.config.t_rtp());
        for index in self.pim_buffers() {
            let buffer = &mut self.buffers[index];
            buffer.precharge = buffer.precharge.max(closed);
        }
        self.mac = now + u64::from(self.config.t_ccd_l());
        self.result = self.result.max(now + u64::from(self.config.t_mac()));
    }

    /// RES or SUM.
    pub fn can_result(&self, now: u64) -> bool {
        now >= self.result && now >= self.all
    }

    /// Records a RES or SUM.
    pub fn result(&mut self, now: u64) {
        self.read_on_bus(now);
    }
}
