//! Use of a core's DRAM: counted by the device models of the RTL, or by the cycle model, which lacks the bits on the
//! bus.

use super::dimm::Dimm;
use ndp_energy::{BankCounts, BusCounts, RankActivity};

impl Dimm {
    /// Per rank, in clocks since the last reset.
    pub(super) fn activity(&self) -> Vec<RankActivity> {
        let of_rank = |rank: &ndp_dram::Rank| {
            let ndp_dram::Activity { cycles, active_cycles, refreshes, banks, read_bus, write_bus } =
                rank.activity();
            let bus = BusCounts { read: read_bus, write: write_bus };
            RankActivity::new([cycles - self.origin(), active_cycles, refreshes], banks, Some(bus))
        };
        self.ranks.iter().map(of_rank).collect()
    }
}

pub(super) fn of_model(ranks: Vec<ndp_cycles::RankActivity>) -> Vec<RankActivity> {
    let of_rank = |rank: ndp_cycles::RankActivity| {
        let ndp_cycles::RankActivity { cycles, active_cycles, refreshes, banks, .. } = rank;
        let banks =
            banks.iter().map(|of| BankCounts { activates: of.activates, reads: of.reads, writes: of.writes });
        RankActivity::new([cycles, active_cycles, refreshes], banks.collect(), None)
    };
    ranks.into_iter().map(of_rank).collect()
}
