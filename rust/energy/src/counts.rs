//! Use of a DRAM rank, as counted by a model or the device behind RTL.

use ndp_dram::{BankCounts, BusBits, Counts, counts};
use serde::Serialize;
use std::ops::AddAssign;

counts! {
    /// Use of one rank, or of several.
    #[derive(Copy)]
    pub struct RankCounts {
        /// DRAM clocks, summed over ranks.
        cycles: u64,
        /// Clocks with a bank of the rank open.
        active_cycles: u64,
        refreshes: u64,
        /// Commands of all banks.
        #[serde(flatten)]
        commands: BankCounts,
    }
}

counts! {
    /// Bits that a rank and its controller drove.
    #[derive(Copy)]
    pub struct BusCounts {
        /// By the rank.
        read: BusBits,
        /// By the controller.
        write: BusBits,
    }
}

/// Use of several ranks in some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DramUse {
    #[serde(flatten)]
    pub counts: RankCounts,
    /// Only with RTL, which moves data over a bus.
    pub bus: Option<BusCounts>,
}

counts! {
    /// A rank with its banks.
    pub struct RankActivity {
        counts: RankCounts,
        /// By bank: `bank_group * 4 + bank`.
        banks: Vec<BankCounts>,
        /// Only with RTL, which moves data over a bus.
        bus: Option<BusCounts>,
    }
}

impl RankActivity {
    pub fn new(
        [cycles, active_cycles, refreshes]: [u64; 3],
        banks: Vec<BankCounts>,
        bus: Option<BusCounts>,
    ) -> Self {
        let commands = banks.iter().fold(BankCounts::default(), |mut sum, bank| {
            sum += *bank;
            sum
        });
        Self { counts: RankCounts { cycles, active_cycles, refreshes, commands }, banks, bus }
    }

    pub fn dram_use(&self) -> DramUse {
        DramUse { counts: self.counts, bus: self.bus }
    }
}

impl DramUse {
    /// Use of all ranks since `before`.
    pub fn since(now: &[RankActivity], before: &[RankActivity]) -> Self {
        let mut sum = Self::default();
        for (now, before) in now.iter().zip(before) {
            sum += now.since(before).dram_use();
        }
        sum
    }
}

impl AddAssign for DramUse {
    fn add_assign(&mut self, other: Self) {
        self.counts += other.counts;
        self.bus.add_counts(&other.bus);
    }
}
