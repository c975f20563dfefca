//! Random command streams for a PIM channel: legal, nearly legal and malformed.
//!
//! A goal is repeated clock after clock until the channel executes it, so that each rule is met one clock too early and
//! in time; some goals come only once. Campaigns of several goals open rows to compute with.

use ndp_config::{HbmConfig, HbmRefresh};
use ndp_dram::hbm::{HbmCommand, Owner, Partitions, PseudoChannel};
use ndp_numerics::SplitMix64;
use ndp_sim::hbm::{ChannelOutputs, Lockstep};
use std::collections::{BTreeMap, VecDeque};

/// A goal on a bus: its word, and the clocks for which it may still be tried.
#[derive(Clone, Copy)]
struct Goal {
    word: u32,
    tries: u32,
}

pub struct Stream {
    config: HbmConfig,
    random: SplitMix64,
    goals: [Option<Goal>; 2],
    campaign: VecDeque<u32>,
    pause: [u64; 2],
    /// The first of the four slots of the buffer that are used until the next restart.
    slots_from: u64,
    /// Pending data: clock, words.
    writes: BTreeMap<u64, [u64; 2]>,
    /// Answers by bus and code, then reports.
    pub seen: BTreeMap<u8, u64>,
    /// Commands that were carried out.
    pub done: u64,
}

impl Stream {
    pub fn new(config: &HbmConfig, seed: u64) -> Self {
        Self {
            config: config.clone(),
            random: SplitMix64::new(seed),
            goals: [None; 2],
            campaign: VecDeque::new(),
            pause: [0; 2],
            slots_from: 0,
            writes: BTreeMap::new(),
            seen: BTreeMap::new(),
            done: 0,
        }
    }

    pub fn below(&mut self, count: u64) -> u64 {
        self.random.next_u64() % count
    }

    fn one_in(&mut self, count: u64) -> bool {
        self.below(count) == 0
    }

    /// Two words of data: numbers of all magnitudes, rarely infinities or NaNs.
    pub fn data(&mut self) -> [u64; 2] {
        std::array::from_fn(|_| {
            (0..4).fold(0, |word, lane| {
                let bits = self.random.next_u64() as u16;
                let special = bits & 0x7C00 == 0x7C00;
                let bits = match special {
                    true if !self.one_in(80) => bits & !0x4000,
                    true if self.one_in(2) => bits & !0x03FF,
                    _ => bits,
                };
                word | u64::from(bits) << (16 * lane)
            })
        })
    }

    /// A new stream over the same random numbers; drops everything pending.
    pub fn restart(&mut self) {
        (self.goals, self.pause) = ([None; 2], [0; 2]);
        self.slots_from = self.below(self.config.buffer_slots().into());
        self.campaign.clear();
        self.writes.clear();
    }

    fn bank(&mut self) -> (u8, u8) {
        let (groups, banks) = (self.config.bank_groups(), self.config.banks_per_group());
        (self.below(groups.into()) as u8, self.below(banks.into()) as u8)
    }

    /// A row: of a partition, or of the whole bank.
    fn row(&mut self, state: &Partitions, bank: usize, partition: Option<u8>) -> u32 {
        let rows = self.config.rows();
        let boundary = u32::from(state.boundary(bank)) * self.config.subarray_rows();
        let range = match (boundary, partition) {
            (0, _) | (_, None) => 0..rows,
            (_, Some(0)) => 0..boundary,
            _ => boundary..rows,
        };
        // The edges more often than the middle.
        match self.below(4) {
            0 => range.start,
            1 => range.end - 1,
            _ => range.start + self.below(u64::from(range.end - range.start)) as u32,
        }
    }

    fn malformed(&mut self, word: u32) -> u32 {
        match self.below(4) {
            0 => self.random.next_u64() as u32,
            1 => word & !0xF | (8 + self.below(8) as u32),
            _ => word ^ 1 << self.below(32),
        }
    }

    /// All banks closed, perhaps cut anew, and open to compute.
    fn plan_campaign(&mut self, state: &Partitions) {
        let c = self.config.clone();
        self.campaign.push_back(HbmCommand::PrechargeAll.encode());
        let mut boundary = state.boundary(0);
        let same = (0..state.banks()).all(|bank| state.boundary(bank) == boundary);
        if c.slicing() && (!same || self.one_in(3)) {
            boundary = self.below(c.subarrays().into()) as u16;
            for bank_group in 0..c.bank_groups() as u8 {
                for bank in 0..c.banks_per_group() as u8 {
                    self.campaign.push_back(HbmCommand::Slice { bank_group, bank, boundary }.encode());
                }
            }
        }
        let first = u32::from(boundary) * c.subarray_rows();
        let row = first + self.below(u64::from(c.rows() - first)) as u32;
        if c.all_bank_activate() && self.one_in(2) {
            self.campaign.push_back(HbmCommand::PimActivateAll { row }.encode());
            return;
        }
        for bank_group in 0..c.bank_groups() as u8 {
            self.campaign.push_back(HbmCommand::PimActivate { bank_group, row }.encode());
        }
    }

    fn row_goal(&mut self, state: &Partitions) -> u32 {
        if let Some(word) = self.campaign.pop_front() {
            return word;
        }
        let (bank_group, bank) = self.bank();
        let index = state.bank_index(bank_group, bank);
        let sliced = state.boundary(index) > 0;
        let partition = if sliced || self.one_in(20) { self.below(2) as u8 } else { 0 };
        let open = state.open_row(index, partition).is_some();
        let precharge = HbmCommand::Precharge { bank_group, bank, partition };
        let per_group = self.config.banks_per_group() as usize;
        let turn = state.next_refresh();
        let turn =
            HbmCommand::RefreshBank { bank_group: (turn / per_group) as u8, bank: (turn % per_group) as u8 };
        let (own, other) = match self.config.refresh() {
            HbmRefresh::All => (HbmCommand::Refresh, turn),
            HbmRefresh::Bank => (turn, HbmCommand::Refresh),
        };
        let command = match self.below(40) {
            0 => HbmCommand::PrechargeAll,
            1 if self.one_in(8) => other,
            1 if self.one_in(8) => HbmCommand::RefreshBank { bank_group, bank },
            1 => own,
            2 => {
                self.campaign.push_back(own.encode());
                // The next bank too early, and then in time.
                if let (HbmRefresh::Bank, true) = (self.config.refresh(), self.one_in(2)) {
                    let next = (state.next_refresh() + 1) % state.banks();
                    let (bank_group, bank) = ((next / per_group) as u8, (next % per_group) as u8);
                    self.campaign.push_back(HbmCommand::RefreshBank { bank_group, bank }.encode());
                }
                HbmCommand::PrechargeAll
            }
            3 | 4 => HbmCommand::PimPrecharge,
            5 => {
                let most = u64::from(self.config.subarrays()) + 1;
                HbmCommand::Slice { bank_group, bank, boundary: self.below(most) as u16 }
            }
            6 | 7 => precharge,
            8 | 9 => {
                let row = self.row(state, index, Some(1));
                HbmCommand::PimActivate { bank_group, row }
            }
            10 => {
                let row = self.row(state, index, Some(1));
                HbmCommand::PimActivateAll { row }
            }
            11..=13 => {
                self.plan_campaign(state);
                return self.row_goal(state);
            }
            _ if open && !self.one_in(10) => precharge,
            _ => {
                let within = (!self.one_in(12)).then_some(partition);
                let row = self.row(state, index, within);
                HbmCommand::Activate { bank_group, bank, partition, row }
            }
        };
        command.encode()
    }

    fn column_goal(&mut self, state: &Partitions) -> u32 {
        let pim_open = (0..state.banks())
            .all(|bank| matches!(state.open_row(bank, state.pim_partition(bank)), Some((_, Owner::Pim))));
        let column = if self.one_in(3) { self.below(32) } else { self.below(4) } as u8;
        let slot = ((self.slots_from + self.below(4)) % u64::from(self.config.buffer_slots())) as u8;
        let auto_precharge = self.one_in(8);
        let pim = if pim_open { 10 } else { 1 };
        let mac = HbmCommand::Mac { column, slot, first: self.one_in(6) };
        let start = self.below(2 * state.banks() as u64) as usize;
        let is_open =
            |unit: &usize| matches!(state.open_row(unit / 2, (unit % 2) as u8), Some((_, Owner::Host)));
        let unit = (start..start + 2 * state.banks()).map(|unit| unit % (2 * state.banks())).find(is_open);
        let unit = unit.filter(|_| !self.one_in(16)).unwrap_or(start);
        let index = unit / 2;
        let partition = if state.boundary(index) > 0 || self.one_in(30) { (unit % 2) as u8 } else { 0 };
        let per_group = self.config.banks_per_group() as usize;
        let (bank_group, bank) = ((index / per_group) as u8, (index % per_group) as u8);
        let command = match self.below(20 + 2 * pim) {
            0..=6 => HbmCommand::Read { bank_group, bank, partition, column, auto_precharge },
            7..=11 => HbmCommand::Write { bank_group, bank, partition, column, auto_precharge },
            12 | 13 => HbmCommand::ReadToBuffer { bank_group, bank, partition, column, slot },
            14 | 15 => HbmCommand::BufferWrite { slot },
            16 => HbmCommand::ReadResults,
            17 | 18 => {
                let (bank_group, bank) = self.bank();
                HbmCommand::ReadSum { bank_group, bank }
            }
            _ => mac,
        };
        command.encode()
    }

    /// Steps both sides by one clock.
    pub fn step(&mut self, sides: &mut Lockstep) -> ndp_files::Result<()> {
        let clock = sides.device.cycle();
        let (words, write) = self.draw(&sides.device);
        let out = sides.clock(words[0], words[1], write)?;
        self.answered(clock, words, &out);
        Ok(())
    }

    /// The words of a clock on both buses, and the data bus.
    pub fn draw(&mut self, device: &PseudoChannel) -> ([u32; 2], Option<[u64; 2]>) {
        let clock = device.cycle();
        let mut words = [0; 2];
        for (bus, word) in words.iter_mut().enumerate() {
            if self.pause[bus] > 0 {
                self.pause[bus] -= 1;
                continue;
            }
            let goal = match self.goals[bus] {
                Some(goal) => goal,
                None => {
                    let state = device.partitions().clone();
                    let wanted = if bus == 0 { self.row_goal(&state) } else { self.column_goal(&state) };
                    let wanted = if self.one_in(40) { self.malformed(wanted) } else { wanted };
                    let longest = if self.one_in(10) { u64::from(self.config.t_rfc()) } else { 60 };
                    let once = self.one_in(4) && self.campaign.is_empty();
                    Goal { word: wanted, tries: if once { 1 } else { longest as u32 } }
                }
            };
            *word = goal.word;
            self.goals[bus] = Some(goal);
        }
        let mut write = self.writes.remove(&clock);
        if self.one_in(if write.is_some() { 30 } else { 300 }) {
            write = if write.is_some() { None } else { Some(self.data()) };
        }
        (words, write)
    }

    /// Records the answers to the words of a clock.
    pub fn answered(&mut self, clock: u64, words: [u32; 2], out: &ChannelOutputs) {
        for (report, code) in out.reports.into_iter().zip(64..) {
            *self.seen.entry(code).or_insert(0) += u64::from(report);
        }
        for (bus, word) in words.into_iter().enumerate() {
            if word == 0 {
                continue;
            }
            *self.seen.entry(out.status[bus]).or_insert(0) += 1;
            let Some(goal) = &mut self.goals[bus] else { continue };
            goal.tries -= 1;
            // Waiting does not make commands legal that the state forbids.
            let hopeless = (1..32).contains(&out.status[bus]) && !(goal.tries > 1 && bus == 0);
            if out.status[bus] == 0 || goal.tries == 0 || hopeless {
                self.goals[bus] = None;
                self.pause[bus] = if self.below(2) == 0 { 0 } else { self.below(7) };
            }
            if out.status[bus] == 0 {
                self.done += 1;
                let opcode = word & 0xF;
                if bus == 1 && (opcode == 2 || opcode == 4) {
                    let due = clock + u64::from(self.config.t_cwl());
                    let data = [self.data(), self.data()];
                    self.writes.extend([(due, data[0]), (due + 1, data[1])]);
                }
            }
        }
    }
}
