//! DDR4 device parameters: geometry of a rank and the timing rules between its commands.
//!
//! Defaults: Hermes, Table II (DDR4-3200, tCK = 0.625 ns: tRC, tRCD, tCL, tRP, tBL, tCCD, tRRD, tFAW), with JESD79-4's
//! two bank groups of four banks for x16 devices (x4 and x8 have four groups). The rest is JESD79-4, speed bin 3200:
//! tRAS 32 ns, tWR 15 ns, tRTP 7.5 ns, tWTR_S 2.5 ns, tWTR_L 7.5 ns, CWL 16, and for 8 Gb devices tRFC 350 ns with
//! tREFI 7.8 us. `speed` has other grades and their limits.

use crate::keys::part;
use crate::limits::{in_range, power_of_two, row_and_refresh_fit};
use ndp_files::Result;

part! {
    "dram.", raw:
    /// Validated DDR4 parameters of a rank. All times are in clock cycles of the DRAM (tCK), from command to command.
    pub struct DramConfig(RawDram) {
        /// Transfers per pin in 10^6 a second: 2400, 2666, 2933 or 3200.
        pub speed: u32 = 3200;
        /// Whether times that the speed grade does not have are refused.
        pub(crate) jedec: bool = true;
        /// Bank groups of a rank.
        pub bank_groups: u32 = 2, power_of_two(2, 4);
        // 8 GiB at most: of four ranks the burst address has the 29 bits of the instruction.
        /// Bits of a row address.
        pub row_bits: u32 = 17, in_range(8, if raw.bank_groups == 4 { 16 } else { 17 });
        /// ACT to ACT of the same bank.
        pub t_rc: u32 = 76, in_range(8, 240);
        /// ACT to RD or WR of the same bank.
        pub t_rcd: u32 = 24, in_range(4, 120);
        /// RD to its first data.
        pub t_cl: u32 = 24, in_range(8, 60);
        /// PRE to ACT of the same bank, PRE of any bank to REF.
        pub t_rp: u32 = 24, in_range(4, 120);
        /// RD to RD, WR to WR in different bank groups.
        pub t_ccd_s: u32 = 4, in_range(DramConfig::T_BL, 32);
        /// RD to RD, WR to WR in the same bank group.
        pub t_ccd_l: u32 = 8, in_range(raw.t_ccd_s, 32);
        /// ACT to ACT of banks in different bank groups.
        pub t_rrd_s: u32 = 4, in_range(1, 32);
        /// ACT to ACT of banks in the same bank group.
        pub t_rrd_l: u32 = 6, in_range(raw.t_rrd_s, 32);
        /// ACT to the fourth ACT after it: at most four in any window of this length.
        pub t_faw: u32 = 26, in_range(4, 120);
        /// ACT to PRE of the same bank.
        pub t_ras: u32 = 52, in_range(4, 120);
        // Writing one cycle after the read's data would need a longer bus turnaround than tCL - tCWL + 6.
        /// WR to its first data.
        pub t_cwl: u32 = 16, in_range(8, raw.t_cl);
        /// End of a write's data to PRE of the same bank.
        pub t_wr: u32 = 24, in_range(4, 120);
        /// End of a write's data to RD in another bank group.
        pub t_wtr_s: u32 = 4, in_range(1, 60);
        /// End of a write's data to RD in the same bank group.
        pub t_wtr_l: u32 = 12, in_range(raw.t_wtr_s, 60);
        /// RD to PRE of the same bank.
        pub t_rtp: u32 = 12, in_range(4, 60);
        /// REF to any other command than deselect.
        pub t_rfc: u32 = 560, in_range(16, 4000);
        /// Mean interval of REFs.
        pub t_refi: u32 = 12480, in_range(512, 65532);
    }
}

impl DramConfig {
    /// In every DDR4 device.
    pub const BANKS_PER_GROUP: u32 = 4;
    /// Of 64 bytes: 1024 columns of 64 bits.
    pub const BURSTS_PER_ROW: u32 = 128;
    /// Clocks of a burst of eight on the bus (tBL).
    pub const T_BL: u32 = 4;

    pub(crate) fn validate(raw: RawDram) -> Result<Self> {
        let config = Self::checked(raw)?;
        let RawDram { t_ras, t_rp, t_rc, t_rfc, t_refi, .. } = config.0;
        row_and_refresh_fit("dram", [t_ras, t_rp, t_rc, t_rfc, t_refi])?;
        Ok(config)
    }

    /// RD to WR, any bank: `tCL + tBL + 2 - tCWL`, with two cycles for the bus to turn around (JESD79-4, 4.24.4, read
    /// preamble of one cycle).
    pub fn t_rtw(&self) -> u32 {
        self.0.t_cl + Self::T_BL + 2 - self.0.t_cwl
    }

    /// Banks of a rank.
    pub fn banks(&self) -> u32 {
        self.0.bank_groups * Self::BANKS_PER_GROUP
    }

    /// Bits of a rank's burst address: bank group, column, bank and row.
    pub fn burst_bits(&self) -> u32 {
        self.banks().trailing_zeros() + Self::BURSTS_PER_ROW.trailing_zeros() + self.0.row_bits
    }

    /// Bursts of 64 bytes in one rank.
    pub fn bursts(&self) -> u64 {
        1 << self.burst_bits()
    }

    /// Share of the time without refresh: `1 - tRFC / tREFI`.
    pub fn refresh_share(&self) -> f64 {
        1.0 - f64::from(self.0.t_rfc) / f64::from(self.0.t_refi)
    }
}
