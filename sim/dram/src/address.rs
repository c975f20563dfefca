//! Burst addresses of a rank: which bank, row and column a burst is in.
//!
//! From bit 0: bank group (1 bit), burst of the row (7), bank (2), row. Consecutive bursts alternate between the bank
//! groups, so a sequential stream runs at tCCD_S, and 256 of them share an open row in each group.

use ndp_config::DramConfig;
use serde::Serialize;

const GROUP_BITS: u32 = DramConfig::BANK_GROUPS.trailing_zeros();
const COLUMN_BITS: u32 = DramConfig::BURSTS_PER_ROW.trailing_zeros();
const BANK_BITS: u32 = DramConfig::BANKS_PER_GROUP.trailing_zeros();

/// The place of a burst of 64 bytes in a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Location {
    /// Bank group.
    pub bank_group: u8,
    /// Bank of the bank group.
    pub bank: u8,
    /// Row of the bank.
    pub row: u32,
    /// Burst of the row.
    pub column_burst: u8,
}

impl Location {
    /// Where burst number `burst` is; bits beyond a 32-bit row are dropped.
    pub fn of_burst(burst: u64) -> Self {
        let mut rest = burst;
        let mut take = |bits: u32| {
            let field = rest & ((1 << bits) - 1);
            rest >>= bits;
            field
        };
        // At most seven bits each.
        let (bank_group, column_burst, bank) =
            (take(GROUP_BITS) as u8, take(COLUMN_BITS) as u8, take(BANK_BITS) as u8);
        Self { bank_group, bank, row: take(u32::BITS) as u32, column_burst }
    }

    /// The burst's number.
    pub fn burst(&self) -> u64 {
        let row_and_bank = u64::from(self.row) << BANK_BITS | u64::from(self.bank);
        let burst_of_group = row_and_bank << COLUMN_BITS | u64::from(self.column_burst);
        burst_of_group << GROUP_BITS | u64::from(self.bank_group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_are_in_the_order_of_the_instruction_set() {
        let at = |bank_group, bank, row, column_burst| Location { bank_group, bank, row, column_burst };
        assert_eq!(Location::of_burst(0), at(0, 0, 0, 0));
        assert_eq!(Location::of_burst(1), at(1, 0, 0, 0));
        assert_eq!(Location::of_burst(2), at(0, 0, 0, 1));
        assert_eq!(Location::of_burst(255), at(1, 0, 0, 127));
        assert_eq!(Location::of_burst(256), at(0, 1, 0, 0));
        assert_eq!(Location::of_burst(1024), at(0, 0, 1, 0));
        assert_eq!(Location::of_burst((1 << 27) - 1), at(1, 3, (1 << 17) - 1, 127));
    }

    #[test]
    fn burst_is_the_inverse() {
        for burst in (0..1 << 27).step_by(4099).chain([0, 1, (1 << 27) - 1]) {
            assert_eq!(Location::of_burst(burst).burst(), burst);
        }
    }
}
