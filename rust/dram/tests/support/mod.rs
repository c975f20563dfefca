//! What the tests share: configurations, short names of commands, random numbers, and the random legal traffic.

pub mod hbm;
pub mod hbm_traffic;
pub mod traffic;

use ndp_config::{DesignConfig, DramConfig};
use ndp_dram::{Checker, Command, Rule, RuleSet, Violation};

/// The distances that DDR4 and HBM2 both have.
pub const DISTANCES: [Rule; 15] = [
    Rule::Rc,
    Rule::Ras,
    Rule::Rcd,
    Rule::Rp,
    Rule::RrdS,
    Rule::RrdL,
    Rule::Faw,
    Rule::CcdS,
    Rule::CcdL,
    Rule::Rtp,
    Rule::Wr,
    Rule::WtrS,
    Rule::WtrL,
    Rule::Rtw,
    Rule::Rfc,
];

/// The default, one with all numbers odd or different, one in which reads and writes have the same latency, and one
/// with four bank groups.
pub fn configs() -> [DramConfig; 4] {
    let odd = "t_rc = 80\nt_rcd = 19\nt_cl = 22\nt_cwl = 14\nt_rp = 21\nt_ccd_s = 5\nt_ccd_l = 9\nt_rrd_s = 5\nt_rrd_l = 7\n\
               t_faw = 37\nt_ras = 50\nt_wr = 17\nt_wtr_s = 3\nt_wtr_l = 11\nt_rtp = 9\nt_rfc = 301\nt_refi = 2003\nrow_bits = 9";
    let even_latency = "t_cl = 13\nt_cwl = 13\nt_rfc = 33\nt_refi = 600\nt_faw = 41\nt_rp = 7\nt_ras = 31\nt_rc = 47\nt_wtr_s = 1";
    let four_groups = "bank_groups = 4\nrow_bits = 16\nt_rrd_l = 8\nt_faw = 34";
    ["", odd, even_latency, four_groups].map(config)
}

pub fn config(dram: &str) -> DramConfig {
    DesignConfig::from_toml(&format!("name = \"x\"\n[dram]\njedec = false\n{dram}")).unwrap().dram().clone()
}

pub fn act(bank_group: u8, bank: u8) -> Command {
    Command::Activate { bank_group, bank, row: 3 }
}

pub fn rd(bank_group: u8, bank: u8) -> Command {
    Command::Read { bank_group, bank, column_burst: 5, auto_precharge: false }
}

pub fn wr(bank_group: u8, bank: u8) -> Command {
    Command::Write { bank_group, bank, column_burst: 5, auto_precharge: false }
}

pub fn rda(bank_group: u8, bank: u8) -> Command {
    Command::Read { bank_group, bank, column_burst: 5, auto_precharge: true }
}

pub fn wra(bank_group: u8, bank: u8) -> Command {
    Command::Write { bank_group, bank, column_burst: 5, auto_precharge: true }
}

pub fn pre(bank_group: u8, bank: u8) -> Command {
    Command::Precharge { bank_group, bank }
}

pub const PREA: Command = Command::PrechargeAll;
pub const REF: Command = Command::Refresh;

/// The violations of `command` in clock `cycle`, without the violations of the commands before it.
pub fn violations_of(
    config: &DramConfig,
    before: &[(u64, Command)],
    cycle: u64,
    command: Command,
) -> Vec<Violation<Command>> {
    let mut checker = Checker::new(RuleSet::ddr4(config));
    for &(cycle, command) in before {
        checker.command(cycle, command);
    }
    let count = checker.violations().len();
    checker.command(cycle, command);
    assert!(checker.violation_count() < 100);
    checker.violations()[count..].to_vec()
}

/// Sorted.
pub fn rules_of(config: &DramConfig, before: &[(u64, Command)], cycle: u64, command: Command) -> Vec<Rule> {
    let mut rules: Vec<Rule> = violations_of(config, before, cycle, command).iter().map(|v| v.rule).collect();
    rules.sort();
    rules
}

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ z >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ z >> 31
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.below(from.len() as u64) as usize]
    }
}
