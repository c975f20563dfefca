//! What a rank of DRAM was used for, as a model or the device behind RTL has counted it.

use ndp_dram::{BankCounts, BusBits, Counts, counts};
use serde::Serialize;
use std::ops::AddAssign;

counts! {
    /// What one rank, or several together, were used for.
    #[derive(Copy)]
    pub struct RankCounts {
        /// Clocks of the DRAM; of several ranks the sum.
        cycles: u64,
        /// Clocks in which at least one bank of the rank is open.
        active_cycles: u64,
        /// REF.
        refreshes: u64,
        /// Commands of all banks.
        #[serde(flatten)]
        commands: BankCounts,
    }
}

counts! {
    /// The bits that a rank and its controller have driven.
    #[derive(Copy)]
    pub struct BusCounts {
        /// Driven by the rank.
        read: BusBits,
        /// Driven by the controller.
        write: BusBits,
    }
}

/// What ranks together were used for in some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DramUse {
    /// Commands and clocks.
    #[serde(flatten)]
    pub counts: RankCounts,
    /// Bits on the bus; only RTL moves data over a bus.
    pub bus: Option<BusCounts>,
}

counts! {
    /// A rank with its banks.
    pub struct RankActivity {
        counts: RankCounts,
        /// By bank: `bank_group * 4 + bank`.
        banks: Vec<BankCounts>,
        /// Bits on the bus; only RTL moves data over a bus.
        bus: Option<BusCounts>,
    }
}

impl RankActivity {
    /// A rank of these banks.
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

    /// Without the banks.
    pub fn dram_use(&self) -> DramUse {
        DramUse { counts: self.counts, bus: self.bus }
    }
}

impl DramUse {
    /// What has come to all ranks together since `before`.
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
