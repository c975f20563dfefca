//! Random legal commands, as early as the rules allow. They do not depend on the checker: each command moves the first
//! legal clocks of later commands forward, computed only from `DramConfig`.

use ndp_config::DramConfig;
use ndp_dram::Command;

use super::Random;

/// Banks of four bank groups; with two, the last eight are not used.
const BANKS: usize = 16;

/// First legal clocks. Bank `b` is bank `b / groups` of bank group `b % groups`.
pub struct Traffic {
    config: DramConfig,
    pub random: Random,
    next_act: [u64; BANKS],
    next_read: [u64; BANKS],
    next_write: [u64; BANKS],
    next_pre: [u64; BANKS],
    next_refresh: u64,
    open: [bool; BANKS],
    acts: Vec<u64>,
    refreshes: u64,
    postpone: u64,
    now: u64,
}

impl Traffic {
    pub fn new(config: &DramConfig, seed: u64) -> Self {
        Self {
            config: config.clone(),
            random: Random(seed),
            next_act: [0; BANKS],
            next_read: [0; BANKS],
            next_write: [0; BANKS],
            next_pre: [0; BANKS],
            next_refresh: 0,
            open: [false; BANKS],
            acts: Vec::new(),
            refreshes: 0,
            postpone: 0,
            now: 0,
        }
    }

    pub fn next(&mut self) -> (u64, Command) {
        let (cycle, command) = if self.refresh_is_due() {
            self.refresh_step()
        } else {
            let candidates = 1 + self.random.below(5);
            let mut best = self.candidate();
            for _ in 1..candidates {
                let other = self.candidate();
                if other.0 < best.0 {
                    best = other;
                }
            }
            if self.random.one_in(8) {
                best.0 += self.random.below(20);
            }
            if self.random.one_in(300) {
                best.0 += self.random.below(400);
            }
            best
        };
        self.apply(cycle, command);
        self.now = cycle + 1;
        (cycle, command)
    }

    /// Up to `postpone` REFs are postponed; work of a few hundred clocks still fits before the limit of eight.
    fn refresh_is_due(&self) -> bool {
        self.now >= (self.refreshes + 1 + self.postpone) * u64::from(self.config.t_refi())
    }

    fn refresh_step(&mut self) -> (u64, Command) {
        let Some(bank) = self.open.iter().position(|&open| open) else {
            self.postpone = self.random.below(7);
            return (self.now.max(self.next_refresh), Command::Refresh);
        };
        if self.random.one_in(2) {
            let all = self.next_pre.iter().copied().max().unwrap();
            return (self.now.max(all), Command::PrechargeAll);
        }
        let (bank_group, bank_of_group) = self.split(bank);
        (self.now.max(self.next_pre[bank]), Command::Precharge { bank_group, bank: bank_of_group })
    }

    fn candidate(&mut self) -> (u64, Command) {
        let index = self.random.below(self.config.banks().into()) as usize;
        let (bank_group, bank) = self.split(index);
        if !self.open[index] {
            let row = self.random.below(5) as u32 * 63;
            return (self.now.max(self.next_act[index]), Command::Activate { bank_group, bank, row });
        }
        if self.random.one_in(12) {
            return (self.now.max(self.next_pre[index]), Command::Precharge { bank_group, bank });
        }
        let column_burst = self.random.below(16) as u8;
        let auto_precharge = self.random.one_in(10);
        if self.random.one_in(2) {
            let command = Command::Read { bank_group, bank, column_burst, auto_precharge };
            (self.now.max(self.next_read[index]), command)
        } else {
            let command = Command::Write { bank_group, bank, column_burst, auto_precharge };
            (self.now.max(self.next_write[index]), command)
        }
    }

    fn apply(&mut self, t: u64, command: Command) {
        let c = self.config.clone();
        let end_of_write = t + u64::from(c.t_cwl()) + 4;
        let at = |cycles: u32| t + u64::from(cycles);
        let groups = c.bank_groups() as usize;
        let join = |bank_group: u8, bank: u8| usize::from(bank) * groups + usize::from(bank_group);
        match command {
            Command::Deselect => {}
            Command::Activate { bank_group, bank, .. } => {
                let index = join(bank_group, bank);
                self.open[index] = true;
                self.acts.push(t);
                for b in 0..BANKS {
                    let distance = if b % groups == index % groups { c.t_rrd_l() } else { c.t_rrd_s() };
                    raise(&mut self.next_act[b], at(distance));
                    if self.acts.len() >= 4 {
                        let fourth = self.acts[self.acts.len() - 4];
                        raise(&mut self.next_act[b], fourth + u64::from(c.t_faw()));
                    }
                }
                raise(&mut self.next_act[index], at(c.t_rc()));
                raise(&mut self.next_read[index], at(c.t_rcd()));
                raise(&mut self.next_write[index], at(c.t_rcd()));
                raise(&mut self.next_pre[index], at(c.t_ras()));
            }
            Command::Read { bank_group, bank, auto_precharge, .. } => {
                let index = join(bank_group, bank);
                for b in 0..BANKS {
                    let distance = if b % groups == index % groups { c.t_ccd_l() } else { c.t_ccd_s() };
                    raise(&mut self.next_read[b], at(distance));
                    raise(&mut self.next_write[b], at(c.t_cl() + 4 + 2 - c.t_cwl()));
                }
                raise(&mut self.next_pre[index], at(c.t_rtp()));
                if auto_precharge {
                    self.close(index, self.next_pre[index]);
                }
            }
            Command::Write { bank_group, bank, auto_precharge, .. } => {
                let index = join(bank_group, bank);
                for b in 0..BANKS {
                    let same = b % groups == index % groups;
                    raise(&mut self.next_write[b], at(if same { c.t_ccd_l() } else { c.t_ccd_s() }));
                    let turn = u64::from(if same { c.t_wtr_l() } else { c.t_wtr_s() });
                    raise(&mut self.next_read[b], end_of_write + turn);
                }
                raise(&mut self.next_pre[index], end_of_write + u64::from(c.t_wr()));
                if auto_precharge {
                    self.close(index, self.next_pre[index]);
                }
            }
            Command::Precharge { bank_group, bank } => self.close(join(bank_group, bank), t),
            Command::PrechargeAll => (0..BANKS).for_each(|b| self.close(b, t)),
            Command::Refresh => {
                self.refreshes += 1;
                let over = at(c.t_rfc());
                raise(&mut self.next_refresh, over);
                for next in [&mut self.next_act, &mut self.next_pre] {
                    next.iter_mut().for_each(|next| raise(next, over));
                }
            }
        }
    }

    fn split(&self, index: usize) -> (u8, u8) {
        let groups = self.config.bank_groups() as usize;
        ((index % groups) as u8, (index / groups) as u8)
    }

    fn close(&mut self, index: usize, precharge: u64) {
        let ready = precharge + u64::from(self.config.t_rp());
        self.open[index] = false;
        raise(&mut self.next_act[index], ready);
        raise(&mut self.next_refresh, ready);
    }
}

fn raise(next: &mut u64, to: u64) {
    *next = (*next).max(to);
}
