//! Maps burst addresses of a rank to bank, row and column.
//!
//! From bit 0: bit 0 of the bank group, burst of the row (7), bit 1 of the bank group if there are four, bank (2), row.
//! Consecutive bursts alternate between two bank groups, so a sequential stream runs at tCCD_S, and 256 of them share
//! an open row in each of the two.

use ndp_config::DramConfig;
use serde::Serialize;

const COLUMN_BITS: u32 = DramConfig::BURSTS_PER_ROW.trailing_zeros();
const BANK_BITS: u32 = DramConfig::BANKS_PER_GROUP.trailing_zeros();

/// Place of a burst of 64 bytes in a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Location {
    pub bank_group: u8,
    /// Bank of the bank group.
    pub bank: u8,
    pub row: u32,
    /// Burst of the row.
    pub column_burst: u8,
}

impl Location {
    /// Place of burst number `burst` in a rank like `config`; drops bits beyond a 32-bit row.
    pub fn of_burst(config: &DramConfig, burst: u64) -> Self {
        let mut rest = burst;
        let mut take = |bits: u32| {
            let field = rest & ((1 << bits) - 1);
            rest >>= bits;
            field
        };
        // At most seven bits each.
        let (low, column_burst) = (take(1) as u8, take(COLUMN_BITS) as u8);
        let high = if config.bank_groups() == 4 { take(1) as u8 } else { 0 };
        let (bank_group, bank) = (high << 1 | low, take(BANK_BITS) as u8);
        Self { bank_group, bank, row: take(u32::BITS) as u32, column_burst }
    }

    /// Number of the burst in a rank like `config`.
    pub fn burst(&self, config: &DramConfig) -> u64 {
        let bank = u64::from(self.row) << BANK_BITS | u64::from(self.bank);
        let bank = if config.bank_groups() == 4 { bank << 1 | u64::from(self.bank_group >> 1) } else { bank };
        (bank << COLUMN_BITS | u64::from(self.column_burst)) << 1 | u64::from(self.bank_group & 1)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn preset(name: &str) -> DramConfig {
        ndp_config::DesignConfig::preset(name).unwrap().dram().clone()
    }

    #[test]
    fn the_fields_are_in_the_order_of_the_instruction_set() {
        let at = |bank_group, bank, row, column_burst| Location { bank_group, bank, row, column_burst };
        let two = preset("hermes");
        assert_eq!(Location::of_burst(&two, 0), at(0, 0, 0, 0));
        assert_eq!(Location::of_burst(&two, 1), at(1, 0, 0, 0));
        assert_eq!(Location::of_burst(&two, 2), at(0, 0, 0, 1));
        assert_eq!(Location::of_burst(&two, 255), at(1, 0, 0, 127));
        assert_eq!(Location::of_burst(&two, 256), at(0, 1, 0, 0));
        assert_eq!(Location::of_burst(&two, 1024), at(0, 0, 1, 0));
        assert_eq!(Location::of_burst(&two, (1 << 27) - 1), at(1, 3, (1 << 17) - 1, 127));
        let four = preset("hermes-x8");
        assert_eq!(Location::of_burst(&four, 1), at(1, 0, 0, 0));
        assert_eq!(Location::of_burst(&four, 255), at(1, 0, 0, 127));
        assert_eq!(Location::of_burst(&four, 256), at(2, 0, 0, 0));
        assert_eq!(Location::of_burst(&four, 257 + 512), at(3, 1, 0, 0));
        assert_eq!(Location::of_burst(&four, 1024), at(0, 2, 0, 0));
        assert_eq!(Location::of_burst(&four, 2048), at(0, 0, 1, 0));
        assert_eq!(Location::of_burst(&four, (1 << 27) - 1), at(3, 3, (1 << 16) - 1, 127));
    }

    #[test]
    fn burst_is_the_inverse() {
        for config in ["hermes", "hermes-x8", "hermes-x16"].map(preset) {
            for burst in (0..1 << 27).step_by(4099).chain([0, 1, (1 << 27) - 1]) {
                assert_eq!(Location::of_burst(&config, burst).burst(&config), burst);
            }
        }
    }
}
