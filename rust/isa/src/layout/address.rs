//! Burst addresses of the DIMM and of a rank, and their places inside the DRAM.
//!
//! `burst of the DIMM = rank + ranks * (burst of the rank)`; a rank's burst address is, from bit 0, bit 0 of the
//! bank group, column burst (7), bit 1 of the bank group if there are four, bank (2), row.

use ndp_config::{DesignConfig, DramConfig};

/// The 64 bytes of a burst. FP16 element `e` is bits `16 * (e mod 4)` and up of word `e div 4`; a 32-bit word likewise.
pub type Burst = [u64; 8];

/// FP16 values to a burst; places without a value become 0.
pub fn pack_elements(values: impl IntoIterator<Item = u16>) -> Burst {
    let mut burst = [0; 8];
    for (e, value) in values.into_iter().take(32).enumerate() {
        burst[e / 4] |= u64::from(value) << (16 * (e % 4));
    }
    burst
}

/// The 32 FP16 values of a burst.
pub fn elements_of(burst: &Burst) -> [u16; 32] {
    std::array::from_fn(|e| (burst[e / 4] >> (16 * (e % 4))) as u16)
}

/// 32-bit words to a burst; places without a word become 0.
pub fn pack_words(words: impl IntoIterator<Item = u32>) -> Burst {
    let mut burst = [0; 8];
    for (e, word) in words.into_iter().take(16).enumerate() {
        burst[e / 2] |= u64::from(word) << (32 * (e % 2));
    }
    burst
}

/// The 16 words of a burst.
pub fn words_of(burst: &Burst) -> [u32; 16] {
    std::array::from_fn(|e| (burst[e / 2] >> (32 * (e % 2))) as u32)
}

/// A burst of the DIMM, taken apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DimmAddress {
    /// The rank.
    pub rank: u32,
    /// Burst of the rank.
    pub burst: u32,
}

impl DimmAddress {
    /// From a burst address of the DIMM, which goes on at the first burst after the last.
    pub fn from_burst(config: &DesignConfig, address: u64) -> Self {
        let ranks = u64::from(config.gemv().ranks());
        let burst = (address / ranks) % config.dram().bursts();
        Self { rank: (address % ranks) as u32, burst: burst as u32 }
    }

    /// The burst address of the DIMM.
    pub fn to_burst(self, config: &DesignConfig) -> u64 {
        u64::from(self.rank) + u64::from(config.gemv().ranks()) * u64::from(self.burst)
    }
}

/// Place that a rank's burst address selects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DramPlace {
    /// Bank group.
    pub bank_group: u32,
    /// Bank of the group.
    pub bank: u32,
    /// Row of the bank.
    pub row: u32,
    /// Burst of the row.
    pub column: u32,
}

const COLUMN_BITS: u32 = DramConfig::BURSTS_PER_ROW.trailing_zeros();
const BANK_BITS: u32 = DramConfig::BANKS_PER_GROUP.trailing_zeros();

/// Bursts that share an open row in each of two bank groups, which alternate.
pub const BLOCK_BURSTS: u32 = 2 << COLUMN_BITS;

/// Blocks that can be open at the same time: two banks each.
pub(crate) fn open_blocks(dram: &DramConfig) -> u32 {
    dram.banks() / 2
}

fn upper_group_bits(dram: &DramConfig) -> u32 {
    dram.bank_groups().trailing_zeros() - 1
}

impl DramPlace {
    /// From a burst address of a rank.
    pub fn from_burst(dram: &DramConfig, burst: u32) -> Self {
        let take = |low: u32, bits: u32| burst >> low & ((1 << bits) - 1);
        let upper_bits = upper_group_bits(dram);
        let upper = 1 + COLUMN_BITS;
        let bank = upper + upper_bits;
        Self {
            bank_group: take(0, 1) | take(upper, upper_bits) << 1,
            column: take(1, COLUMN_BITS),
            bank: take(bank, BANK_BITS),
            row: burst >> (bank + BANK_BITS),
        }
    }

    /// The burst address of the rank.
    pub fn to_burst(self, dram: &DramConfig) -> u32 {
        let bank = (self.row << BANK_BITS) | self.bank;
        let block = (bank << upper_group_bits(dram)) | (self.bank_group >> 1);
        (((block << COLUMN_BITS) | self.column) << 1) | (self.bank_group & 1)
    }
}
