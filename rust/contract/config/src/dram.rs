//! DDR4 device parameters: geometry of a rank and the timing rules between its commands.
//!
//! Defaults: Hermes, Table II (DDR4-3200, tCK = 0.625 ns: tRC, tRCD, tCL, tRP, tBL, tCCD, tRRD, tFAW; two bank groups of
//! four banks, which JESD79-4 gives x16 devices; x4 and x8 devices have four bank groups). What the table leaves out comes from the DDR4 standard, JEDEC JESD79-4, speed bin 3200: tRAS 32 ns, tWR 15 ns,
//! tRTP 7.5 ns, tWTR_S 2.5 ns, tWTR_L 7.5 ns, CWL 16, and for 8 Gb devices tRFC 350 ns with tREFI 7.8 us. Other speed grades,
//! and which times a grade allows: `speed`.

use crate::ConfigError;
use crate::limits::{in_ranges, power_of_two, row_and_refresh_fit};
use serde::{Deserialize, Serialize};

/// The `[dram]` table as written: every key optional, the paper's value the default.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawDram {
    speed: u32,
    jedec: bool,
    bank_groups: u32,
    row_bits: u32,
    t_rc: u32,
    t_rcd: u32,
    t_cl: u32,
    t_rp: u32,
    t_ccd_s: u32,
    t_ccd_l: u32,
    t_rrd_s: u32,
    t_rrd_l: u32,
    t_faw: u32,
    t_ras: u32,
    t_cwl: u32,
    t_wr: u32,
    t_wtr_s: u32,
    t_wtr_l: u32,
    t_rtp: u32,
    t_rfc: u32,
    t_refi: u32,
}

impl Default for RawDram {
    fn default() -> Self {
        Self {
            speed: 3200,
            jedec: true,
            bank_groups: 2,
            row_bits: 17,
            t_rc: 76,
            t_rcd: 24,
            t_cl: 24,
            t_rp: 24,
            t_ccd_s: 4,
            t_ccd_l: 8,
            t_rrd_s: 4,
            t_rrd_l: 6,
            t_faw: 26,
            t_ras: 52,
            t_cwl: 16,
            t_wr: 24,
            t_wtr_s: 4,
            t_wtr_l: 12,
            t_rtp: 12,
            t_rfc: 560,
            t_refi: 12480,
        }
    }
}

/// Validated DDR4 parameters of a rank. All times are in clock cycles of the DRAM (tCK), from command to command.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct DramConfig(RawDram);

macro_rules! times {
    ($($(#[doc = $doc:literal])* $name:ident),* $(,)?) => {
        $($(#[doc = $doc])* pub fn $name(&self) -> u32 { self.0.$name })*
    };
}

impl DramConfig {
    /// Banks of a bank group, in every DDR4 device.
    pub const BANKS_PER_GROUP: u32 = 4;
    /// Bursts of 64 bytes in one row of one bank (1024 columns of 64 bits).
    pub const BURSTS_PER_ROW: u32 = 128;
    /// Clock cycles in which the data of one burst of eight are on the bus (tBL).
    pub const T_BL: u32 = 4;

    pub(crate) fn validate(raw: RawDram) -> Result<Self, ConfigError> {
        power_of_two("dram.bank_groups", raw.bank_groups, 2, 4)?;
        // 8 GiB at most: of four ranks the burst address has the 29 bits of the instruction.
        let row_bits = if raw.bank_groups == 4 { 16 } else { 17 };
        in_ranges(&[
            ("dram.row_bits", raw.row_bits, 8, row_bits),
            ("dram.t_rc", raw.t_rc, 8, 240),
            ("dram.t_rcd", raw.t_rcd, 4, 120),
            ("dram.t_cl", raw.t_cl, 8, 60),
            ("dram.t_rp", raw.t_rp, 4, 120),
            ("dram.t_ccd_s", raw.t_ccd_s, Self::T_BL, 32),
            ("dram.t_ccd_l", raw.t_ccd_l, raw.t_ccd_s, 32),
            ("dram.t_rrd_s", raw.t_rrd_s, 1, 32),
            ("dram.t_rrd_l", raw.t_rrd_l, raw.t_rrd_s, 32),
            ("dram.t_faw", raw.t_faw, 4, 120),
            ("dram.t_ras", raw.t_ras, 4, 120),
            // Writing one cycle after the read's data would need a longer bus turnaround than tCL - tCWL + 6.
            ("dram.t_cwl", raw.t_cwl, 8, raw.t_cl),
            ("dram.t_wr", raw.t_wr, 4, 120),
            ("dram.t_wtr_s", raw.t_wtr_s, 1, 60),
            ("dram.t_wtr_l", raw.t_wtr_l, raw.t_wtr_s, 60),
            ("dram.t_rtp", raw.t_rtp, 4, 60),
            ("dram.t_rfc", raw.t_rfc, 16, 4000),
            ("dram.t_refi", raw.t_refi, 512, 65532),
        ])?;
        row_and_refresh_fit("dram", [raw.t_ras, raw.t_rp, raw.t_rc, raw.t_rfc, raw.t_refi])?;
        Ok(Self(raw))
    }

    /// Transfers per pin in 10^6 a second: 2400, 2666, 2933 or 3200.
    pub fn speed(&self) -> u32 {
        self.0.speed
    }

    /// Whether times that the speed grade does not have are refused.
    pub(crate) fn jedec(&self) -> bool {
        self.0.jedec
    }

    times! {
        /// Bank groups of a rank.
        bank_groups,
        /// Bits of a row address.
        row_bits,
        /// ACT to ACT of the same bank.
        t_rc,
        /// ACT to RD or WR of the same bank.
        t_rcd,
        /// RD to its first data.
        t_cl,
        /// PRE to ACT of the same bank, PRE of any bank to REF.
        t_rp,
        /// RD to RD, WR to WR in different bank groups.
        t_ccd_s,
        /// RD to RD, WR to WR in the same bank group.
        t_ccd_l,
        /// ACT to ACT of banks in different bank groups.
        t_rrd_s,
        /// ACT to ACT of banks in the same bank group.
        t_rrd_l,
        /// ACT to the fourth ACT after it: at most four in any window of this length.
        t_faw,
        /// ACT to PRE of the same bank.
        t_ras,
        /// WR to its first data.
        t_cwl,
        /// End of a write's data to PRE of the same bank.
        t_wr,
        /// End of a write's data to RD in another bank group.
        t_wtr_s,
        /// End of a write's data to RD in the same bank group.
        t_wtr_l,
        /// RD to PRE of the same bank.
        t_rtp,
        /// REF to any other command than deselect.
        t_rfc,
        /// Mean interval of REFs.
        t_refi,
    }

    /// RD to WR, any bank: the data of the read, two cycles for the bus to turn around, and a write's later start,
    /// `tCL + tBL + 2 - tCWL` (JESD79-4, 4.24.4, read preamble of one cycle).
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

    /// Share of the time that refresh leaves: `1 - tRFC / tREFI`.
    pub fn refresh_share(&self) -> f64 {
        1.0 - f64::from(self.0.t_rfc) / f64::from(self.0.t_refi)
    }
}
