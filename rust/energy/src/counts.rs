//! What a rank of DRAM was used for, as a model or the device behind RTL has counted it.

use serde::Serialize;
use std::ops::AddAssign;

/// Commands of a bank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BankCounts {
    /// ACT; each is followed by a PRE.
    pub activates: u64,
    /// RD.
    pub reads: u64,
    /// WR.
    pub writes: u64,
}

/// Bits on a data bus in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BusBits {
    /// Transferred bits.
    pub bits: u64,
    /// Those that are 1.
    pub ones: u64,
    /// Changes of data pins.
    pub toggles: u64,
}

/// What one rank, or several together, were used for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RankCounts {
    /// Clocks of the DRAM; of several ranks the sum.
    pub cycles: u64,
    /// Clocks in which at least one bank of the rank is open.
    pub active_cycles: u64,
    /// REF.
    pub refreshes: u64,
    /// Commands of all banks.
    #[serde(flatten)]
    pub commands: BankCounts,
}

/// The bits that a rank and its controller have driven.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct BusCounts {
    /// Driven by the rank.
    pub read: BusBits,
    /// Driven by the controller.
    pub write: BusBits,
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

/// A rank with its banks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RankActivity {
    /// All of it.
    pub counts: RankCounts,
    /// By bank: `bank_group * 4 + bank`.
    pub banks: Vec<BankCounts>,
    /// Bits on the bus; only RTL moves data over a bus.
    pub bus: Option<BusCounts>,
}

/// Sums and differences, field by field.
#[macro_export]
macro_rules! sums {
    ($type:ident: $($field:ident),+) => {
        impl std::ops::AddAssign for $type {
            fn add_assign(&mut self, other: Self) {
                $(self.$field += other.$field;)+
            }
        }

        impl std::ops::Sub for $type {
            type Output = Self;

            fn sub(self, before: Self) -> Self {
                Self { $($field: self.$field - before.$field),+ }
            }
        }
    };
}

sums!(BankCounts: activates, reads, writes);
sums!(BusBits: bits, ones, toggles);
sums!(BusCounts: read, write);
sums!(RankCounts: cycles, active_cycles, refreshes, commands);

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

    /// What has come since `before`, which has as many banks.
    pub fn since(&self, before: &Self) -> Self {
        let banks = self.banks.iter().zip(&before.banks).map(|(now, before)| *now - *before);
        Self {
            counts: self.counts - before.counts,
            banks: banks.collect(),
            bus: self.bus.zip(before.bus).map(|(now, before)| now - before),
        }
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
        if let Some(bus) = other.bus {
            *self.bus.get_or_insert_default() += bus;
        }
    }
}
