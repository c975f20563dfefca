//! Sizes and clocks of NPU and PIM memory (LibraPIM, table 2), and what the paper does not give.
//!
//! | number | value | source |
//! | --- | --- | --- |
//! | systolic arrays, vector units | 8 of 64 x 64, 8 of 128 | LibraPIM, table 2 |
//! | HBM2 channels, bank groups x banks | 64, 4 x 4 | LibraPIM, table 2 |
//! | row, column access, MAC units per bank | 1 KB, 256 bit, 16 | LibraPIM, section 2.2 and table 2 |
//! | tCL-tRCD-tRP | 14-14-14 | LibraPIM, table 2 |
//! | slicing | tCCD 2 % longer | LibraPIM, section 5.1, worst case |
//! | tCK 1 ns; tRAS 34, tRTP_L 6, tFAW 30, tCCD_S 1, tCCD_L 2 | clocks | assumed: the HBM2 8 Gb x128 configuration that DRAMsim3 comes with; the paper simulates with DRAMsim3 (section 6.1) and its table 2 has that file's tCL-tRCD-tRP |
//! | loading a tile of weights | a row per clock and array | assumed: weight-stationary arrays as in ONNXim |
//! | NPU clock | 1 GHz | assumed: the configuration of the published NeuPIMs simulator, on which the paper builds |
//!
//! A channel moves 32 bytes per tCCD_S, so 64 of them have 2.048 TB/s. A MAC command reads one column of each of the 16 banks
//! and the next one to the same banks is tCCD_L later: 256 MACs per 2 ns and channel, 16.4 TFLOPS in all. The NPU has 65.5.

use crate::time::Picos;
use ndp_config::{ConfigError, in_ranges, require};
use serde::{Deserialize, Serialize};

/// What of K and V goes to a channel as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "lowercase")]
pub enum KvMapping {
    /// A head of a request ("each K, V matrix is gathered", section 5.3).
    #[default]
    Heads,
    /// A request ("each of which can independently process a batch", section 4.5).
    Requests,
}

/// The NPU: the `[npu]` table of a hardware file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Npu {
    /// Systolic arrays.
    pub arrays: u32,
    /// Rows, and columns, of an array: MAC units each way.
    pub array_side: u32,
    /// Rows of weights that an array takes in per clock.
    pub load_rows: u32,
    /// Vector units.
    pub vector_units: u32,
    /// Lanes of a vector unit, an operation per clock each.
    pub vector_lanes: u32,
    /// Period of the clock, in picoseconds.
    pub clock_ps: u32,
}

impl Default for Npu {
    fn default() -> Self {
        Self { arrays: 8, array_side: 64, load_rows: 1, vector_units: 8, vector_lanes: 128, clock_ps: 1000 }
    }
}

/// The PIM memory: the `[pim]` table of a hardware file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Pim {
    /// Channels.
    pub channels: u32,
    /// Banks of a channel.
    pub banks: u32,
    /// Bytes of a row of a bank.
    pub row_bytes: u32,
    /// Bytes of a column access: what the MAC units of a bank take at once.
    pub column_bytes: u32,
    /// Period of the clock, in picoseconds.
    pub clock_ps: u32,
    /// Column to column of different bank groups, in clocks: the pace of the channel's bus.
    pub t_ccd_s: u32,
    /// Column to column of the same bank, in clocks: the pace of the MAC units.
    pub t_ccd_l: u32,
    /// ACT to column, in clocks.
    pub t_rcd: u32,
    /// PRE to ACT, in clocks.
    pub t_rp: u32,
    /// ACT to PRE, in clocks.
    pub t_ras: u32,
    /// Column to PRE, in clocks.
    pub t_rtp: u32,
    /// Window of four ACTs, in clocks.
    pub t_faw: u32,
    /// Banks that may be activated within tFAW: 4 by the standard.
    pub acts_per_window: u32,
    /// What slicing adds to tCCD, in thousandths.
    pub slicing_permille: u32,
    /// What of K and V goes to a channel.
    pub kv_mapping: KvMapping,
}

impl Default for Pim {
    fn default() -> Self {
        Self {
            channels: 64,
            banks: 16,
            row_bytes: 1024,
            column_bytes: 32,
            clock_ps: 1000,
            t_ccd_s: 1,
            t_ccd_l: 2,
            t_rcd: 14,
            t_rp: 14,
            t_ras: 34,
            t_rtp: 6,
            t_faw: 30,
            acts_per_window: 4,
            slicing_permille: 20,
            kv_mapping: KvMapping::Heads,
        }
    }
}

/// An NPU and its PIM memory. Keys that a file leaves out have the values of the table above.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Hardware {
    /// The NPU.
    pub npu: Npu,
    /// Its memory.
    pub pim: Pim,
}

impl From<Npu> for Hardware {
    fn from(npu: Npu) -> Self {
        Self { npu, ..Self::default() }
    }
}

impl From<Pim> for Hardware {
    fn from(pim: Pim) -> Self {
        Self { pim, ..Self::default() }
    }
}

ndp_config::presets!(
    Hardware,
    "hardware",
    "librapim" => "../presets/librapim.toml",
    "librapim-small-npu" => "../presets/librapim-small-npu.toml",
);

impl Hardware {
    /// Parses and checks hardware in TOML.
    ///
    /// # Errors
    /// [`ConfigError::Syntax`] for text that is no such file (unknown keys included), or as [`Hardware::validate`].
    pub fn from_toml(text: &str) -> Result<Self, ConfigError> {
        let hardware: Self = ndp_config::parse(text)?;
        hardware.validate()?;
        Ok(hardware)
    }

    /// Checks all numbers.
    ///
    /// # Errors
    /// [`ConfigError::Range`] for a size of 0 or too large, [`ConfigError::Mismatch`] if columns do not divide a row.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let Self { npu, pim } = self;
        in_ranges(&[
            ("npu.arrays", npu.arrays, 1, 4096),
            ("npu.array_side", npu.array_side, 1, 4096),
            ("npu.load_rows", npu.load_rows, 1, 4096),
            ("npu.vector_units", npu.vector_units, 1, 4096),
            ("npu.vector_lanes", npu.vector_lanes, 1, 4096),
            ("npu.clock_ps", npu.clock_ps, 1, 1_000_000),
            ("pim.channels", pim.channels, 1, 4096),
            ("pim.banks", pim.banks, 1, 256),
            ("pim.row_bytes", pim.row_bytes, 2, 1 << 16),
            ("pim.column_bytes", pim.column_bytes, 2, 1 << 10),
            ("pim.clock_ps", pim.clock_ps, 1, 1_000_000),
            ("pim.t_ccd_s", pim.t_ccd_s, 1, 1000),
            ("pim.t_ccd_l", pim.t_ccd_l, pim.t_ccd_s, 1000),
            ("pim.t_rcd", pim.t_rcd, 0, 1000),
            ("pim.t_rp", pim.t_rp, 0, 1000),
            ("pim.t_ras", pim.t_ras, 0, 1000),
            ("pim.t_rtp", pim.t_rtp, 0, 1000),
            ("pim.t_faw", pim.t_faw, 0, 1000),
            ("pim.acts_per_window", pim.acts_per_window, 1, 256),
            ("pim.slicing_permille", pim.slicing_permille, 0, 1000),
        ])?;
        require(
            pim.row_bytes.is_multiple_of(pim.column_bytes) && pim.column_bytes.is_multiple_of(2),
            "pim.column_bytes",
            pim.column_bytes,
            format!("be even and divide pim.row_bytes = {}", pim.row_bytes),
        )
    }

    fn ccd(&self, clocks: u32, sliced: bool) -> Picos {
        let permille = 1000 + if sliced { u64::from(self.pim.slicing_permille) } else { 0 };
        Picos((u64::from(clocks) * u64::from(self.pim.clock_ps) * permille).div_ceil(1000))
    }

    /// From column to column on a channel's bus.
    pub fn bus_column(&self, sliced: bool) -> Picos {
        self.ccd(self.pim.t_ccd_s, sliced)
    }

    /// From MAC command to MAC command.
    pub fn mac_column(&self, sliced: bool) -> Picos {
        self.ccd(self.pim.t_ccd_l, sliced)
    }

    /// FP16 numbers of a column.
    pub fn column_elements(&self) -> u32 {
        self.pim.column_bytes / 2
    }

    /// Columns of a row.
    pub fn row_columns(&self) -> u32 {
        self.pim.row_bytes / self.pim.column_bytes
    }

    /// MACs per second of the NPU's arrays.
    pub fn npu_macs_per_second(&self) -> f64 {
        f64::from(self.npu.arrays) * f64::from(self.npu.array_side).powi(2) * 1e12
            / f64::from(self.npu.clock_ps)
    }

    /// MACs per second of all banks.
    pub fn pim_macs_per_second(&self, sliced: bool) -> f64 {
        let lanes =
            f64::from(self.pim.channels) * f64::from(self.pim.banks) * f64::from(self.column_elements());
        lanes * 1e12 / self.mac_column(sliced).0 as f64
    }

    /// Bytes per second of all channels' buses.
    pub fn bus_bytes_per_second(&self, sliced: bool) -> f64 {
        f64::from(self.pim.channels) * f64::from(self.pim.column_bytes) * 1e12
            / self.bus_column(sliced).0 as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_has_the_papers_rates() {
        let hardware = Hardware::default();
        hardware.validate().unwrap();
        assert_eq!(hardware.npu_macs_per_second() * 2.0, 65.536e12);
        assert_eq!(hardware.pim_macs_per_second(false) * 2.0, 16.384e12);
        assert_eq!(hardware.bus_bytes_per_second(false), 2.048e12);
        assert_eq!((hardware.mac_column(false), hardware.mac_column(true)), (Picos(2000), Picos(2040)));
    }

    #[test]
    fn a_file_changes_what_it_names_and_nothing_else() {
        let read = Hardware::from_toml("[npu]\narrays = 2\n[pim]\nkv_mapping = \"requests\"").unwrap();
        let pim = Pim { kv_mapping: KvMapping::Requests, ..Pim::default() };
        assert_eq!(read, Hardware { npu: Npu { arrays: 2, ..Npu::default() }, pim });
        assert_eq!(Hardware::from_toml("").unwrap(), Hardware::default());
        let refused = |text| Hardware::from_toml(text).unwrap_err().to_string();
        assert!(refused("[npu]\nsides = 4").contains("unknown field `sides`"));
        assert_eq!(refused("[pim]\nbanks = 0"), "pim.banks = 0 must be in 1..=256");
    }

    #[test]
    fn sizes_that_do_not_fit_are_refused_by_name() {
        let refused = |pim: Pim| Hardware::from(pim).validate().unwrap_err().to_string();
        assert_eq!(refused(Pim { channels: 0, ..Pim::default() }), "pim.channels = 0 must be in 1..=4096");
        assert!(refused(Pim { column_bytes: 48, ..Pim::default() }).contains("pim.row_bytes = 1024"));
        assert!(
            refused(Pim { t_ccd_l: 1, t_ccd_s: 2, ..Pim::default() })
                .contains("pim.t_ccd_l = 1 must be in 2..=1000")
        );
    }
}
