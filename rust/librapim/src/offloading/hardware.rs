//! NPU and PIM memory as the time models see them.
//!
//! [`Hardware::on`] takes sizes and times of the memory from an [`HbmConfig`]. A hardware file has the rest: the NPU,
//! the host's use of the memory, and the limits that the paper's simulator sets the baselines.
//!
//! | number | value | source |
//! | --- | --- | --- |
//! | systolic arrays, vector units | 8 of 64 x 64, 8 of 128 | LibraPIM, table 2 |
//! | slicing | tCCD 2 % longer | LibraPIM, section 5.1, worst case |
//! | loading a tile of weights | a row per clock and array | assumed: weight-stationary arrays as in ONNXim |
//! | NPU clock | 1 GHz | assumed: the configuration of the published NeuPIMs simulator, on which the paper builds |
//! | on-chip memory | 128 MiB, two halves | assumed: the same configuration's `sram_size` |
//!
//! A channel moves 32 bytes per tCCD_S = 2 clocks: 64 have 1.024 TB/s. A MAC command reads one column of each of 16
//! banks, one per tCCD_L: 256 MACs per 2 ns and channel, 16.4 TFLOPS in all. The NPU has 65.5.

use crate::offloading::time::Picos;
use ndp_config::{HbmConfig, in_ranges};
use ndp_files::{Result, bail};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// In picoseconds: the times of an [`HbmConfig`] are clocks of 1 ns.
const MEMORY_CLOCK_PS: u32 = 1000;

/// Unit of K and V that goes to a channel as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
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
    pub arrays: u32,
    /// Rows, and columns, of an array: MAC units each way.
    pub array_side: u32,
    /// Rows of weights that an array takes in per clock.
    pub load_rows: u32,
    /// Most vectors that use a loaded tile before it is loaded again for the next ones. ONNXim: `array_side`.
    pub pass_vectors: u32,
    pub vector_units: u32,
    /// Lanes of a vector unit, an operation per clock each.
    pub vector_lanes: u32,
    /// On-chip memory for vectors and weights in KiB.
    pub sram_kib: u32,
    /// Whether weights are read into one half of it while the other half is used.
    pub double_buffer: bool,
    /// Share of their peak that the arrays reach with full tiles, in thousandths.
    pub efficiency_permille: u32,
    /// Period of the clock, in picoseconds.
    pub clock_ps: u32,
}

impl Default for Npu {
    fn default() -> Self {
        Self {
            arrays: 8,
            array_side: 64,
            load_rows: 1,
            pass_vectors: 1 << 16,
            vector_units: 8,
            vector_lanes: 128,
            sram_kib: 128 << 10,
            double_buffer: true,
            efficiency_permille: 1000,
            clock_ps: 1000,
        }
    }
}

/// The PIM memory: sizes and times of an [`HbmConfig`], and the host's use of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Pim {
    pub channels: u32,
    pub banks: u32,
    /// Bank groups of a channel.
    pub bank_groups: u32,
    /// Bytes of a row of a bank.
    pub row_bytes: u32,
    /// Bytes of a column access: the MAC units of a bank take them at once.
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
    /// Banks that may be activated within tFAW: 4 by the standard, all if one command activates them.
    pub acts_per_window: u32,
    /// The `[pim]` table of a hardware file.
    #[serde(flatten)]
    pub usage: Usage,
}

/// Use of the memory by the host: the `[pim]` table of a hardware file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Usage {
    /// Increase of tCCD by slicing, in thousandths.
    pub slicing_permille: u32,
    /// Rate of the NPU's reads over a column per tCCD_S in every channel, in thousandths.
    pub bus_permille: u32,
    /// Whether a row of K or V that several heads of Q share is opened once for all of them. The host reads it again
    /// for each.
    pub shared_rows: bool,
    /// Unit of K and V that goes to a channel.
    pub kv_mapping: KvMapping,
}

impl Default for Usage {
    fn default() -> Self {
        Self { slicing_permille: 20, bus_permille: 1000, shared_rows: false, kv_mapping: KvMapping::Heads }
    }
}

impl Pim {
    /// With default usage.
    pub fn of(memory: &HbmConfig) -> Self {
        Self {
            channels: memory.channels(),
            banks: memory.banks(),
            bank_groups: memory.bank_groups(),
            row_bytes: HbmConfig::COLUMNS * HbmConfig::COLUMN_BYTES,
            column_bytes: HbmConfig::COLUMN_BYTES,
            clock_ps: MEMORY_CLOCK_PS,
            t_ccd_s: memory.t_ccd_s(),
            t_ccd_l: memory.t_ccd_l(),
            t_rcd: memory.t_rcd(),
            t_rp: memory.t_rp(),
            t_ras: memory.t_ras(),
            t_rtp: memory.t_rtp(),
            t_faw: memory.t_faw(),
            acts_per_window: if memory.all_bank_activate() { memory.banks() } else { 4 },
            usage: Usage::default(),
        }
    }
}

impl Default for Pim {
    fn default() -> Self {
        Self::of(&HbmConfig::default())
    }
}

/// Source of the channels' PIM commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dispatch {
    /// Each channel has a stream of its own, a command per clock.
    #[default]
    Channel,
    /// One stream of `commands_per_us` for all channels.
    Shared,
}

/// Limits of the baselines: the `[baselines]` table of a hardware file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Baselines {
    /// Source of the commands for NPU+AiM and AttAcc (header, COMP, READRES).
    pub dispatch: Dispatch,
    /// PIM commands per microsecond of a shared stream.
    pub commands_per_us: u32,
    /// Rate at which AttAcc's banks multiply the weights of co-processed FFNs, over their peak, in thousandths.
    pub coprocessing_permille: u32,
    /// Share of its reads that NeuPIMs does while its banks compute, in thousandths.
    pub overlap_permille: u32,
}

impl Default for Baselines {
    fn default() -> Self {
        Self {
            dispatch: Dispatch::Channel,
            commands_per_us: 1000,
            coprocessing_permille: 1000,
            overlap_permille: 1000,
        }
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Hardware {
    pub npu: Npu,
    pub pim: Pim,
    pub baselines: Baselines,
}

/// Missing keys have the default's value.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct RawHardware {
    npu: Npu,
    pim: Usage,
    baselines: Baselines,
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
    "librapim" => "../../presets/librapim.toml",
    "librapim-published" => "../../presets/librapim-published.toml",
    "librapim-small-npu" => "../../presets/librapim-small-npu.toml",
);

impl Hardware {
    /// Parses and checks hardware in TOML, on the default memory. Fails for unknown keys, or as [`Hardware::validate`].
    pub fn from_toml(text: &str) -> Result<Self> {
        if ndp_config::parse::<BTreeMap<String, IgnoredAny>>(text)?.is_empty() {
            bail!("not a valid configuration: the file has no keys: expected [npu], [pim] or [baselines]");
        }
        let RawHardware { npu, pim: usage, baselines } = ndp_config::parse(text)?;
        let hardware = Self { npu, pim: Pim { usage, ..Pim::default() }, baselines };
        hardware.validate()?;
        Ok(hardware)
    }

    /// This hardware with another memory, used in the same way.
    #[must_use]
    pub fn on(mut self, memory: &HbmConfig) -> Self {
        self.pim = Pim { usage: self.pim.usage, ..Pim::of(memory) };
        self
    }

    /// Checks all numbers of a hardware file: none is 0 or too large.
    pub fn validate(&self) -> Result<()> {
        let Self { npu, pim, baselines } = self;
        in_ranges(&[
            ("npu.arrays", npu.arrays, 1, 4096),
            ("npu.array_side", npu.array_side, 1, 4096),
            ("npu.load_rows", npu.load_rows, 1, 4096),
            ("npu.pass_vectors", npu.pass_vectors, 1, 1 << 16),
            ("npu.vector_units", npu.vector_units, 1, 4096),
            ("npu.vector_lanes", npu.vector_lanes, 1, 4096),
            ("npu.sram_kib", npu.sram_kib, 1, 1 << 22),
            ("npu.efficiency_permille", npu.efficiency_permille, 1, 1000),
            ("npu.clock_ps", npu.clock_ps, 1, 1_000_000),
            ("pim.slicing_permille", pim.usage.slicing_permille, 0, 1000),
            ("pim.bus_permille", pim.usage.bus_permille, 1, 4000),
            ("baselines.commands_per_us", baselines.commands_per_us, 1, 1_000_000),
            ("baselines.coprocessing_permille", baselines.coprocessing_permille, 1, 1000),
            ("baselines.overlap_permille", baselines.overlap_permille, 0, 1000),
        ])
    }

    fn ccd(&self, clocks: u32, sliced: bool) -> u64 {
        let permille = 1000 + if sliced { u64::from(self.pim.usage.slicing_permille) } else { 0 };
        u64::from(clocks) * u64::from(self.pim.clock_ps) * permille
    }

    /// Column to column on a channel's bus: reads rotate over bank groups, one per tCCD_S, and per tCCD_L of a group.
    pub fn bus_column(&self, sliced: bool) -> Picos {
        let groups = self.pim.bank_groups;
        let round = self.ccd((self.pim.t_ccd_s * groups).max(self.pim.t_ccd_l), sliced);
        Picos(round.div_ceil(u64::from(groups) * u64::from(self.pim.usage.bus_permille)))
    }

    /// MAC command to MAC command.
    pub fn mac_column(&self, sliced: bool) -> Picos {
        Picos(self.ccd(self.pim.t_ccd_l, sliced).div_ceil(1000))
    }

    pub fn column_elements(&self) -> u32 {
        self.pim.column_bytes / 2
    }

    pub fn row_columns(&self) -> u32 {
        self.pim.row_bytes / self.pim.column_bytes
    }

    pub fn npu_macs_per_second(&self) -> f64 {
        f64::from(self.npu.arrays) * f64::from(self.npu.array_side).powi(2) * 1e12
            / f64::from(self.npu.clock_ps)
    }

    pub fn pim_macs_per_second(&self, sliced: bool) -> f64 {
        let lanes =
            f64::from(self.pim.channels) * f64::from(self.pim.banks) * f64::from(self.column_elements());
        lanes * 1e12 / self.mac_column(sliced).0 as f64
    }

    pub fn bus_bytes_per_second(&self, sliced: bool) -> f64 {
        f64::from(self.pim.channels) * f64::from(self.pim.column_bytes) * 1e12
            / self.bus_column(sliced).0 as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_has_the_papers_arithmetic_and_the_buses_of_the_rtl() {
        let hardware = Hardware::default();
        hardware.validate().unwrap();
        assert_eq!(hardware.npu_macs_per_second() * 2.0, 65.536e12);
        assert_eq!(hardware.pim_macs_per_second(false) * 2.0, 16.384e12);
        assert_eq!(hardware.bus_bytes_per_second(false), 1.024e12);
        assert_eq!((hardware.mac_column(false), hardware.mac_column(true)), (Picos(2000), Picos(2040)));
        let wide = Usage { bus_permille: 2000, ..Usage::default() };
        let wide = Hardware::from(Pim { usage: wide, ..Pim::default() });
        assert_eq!((wide.bus_column(false), wide.bus_column(true)), (Picos(1000), Picos(1020)));
    }

    #[test]
    fn reads_go_round_the_bank_groups_and_keep_their_pace() {
        let on = |groups: u32, t_ccd_l: u32| {
            let text = format!("name = 'x'\n[device]\nbank_groups = {groups}\n[timing]\nt_ccd_l = {t_ccd_l}");
            Hardware::default().on(&HbmConfig::from_toml(&text).unwrap()).bus_column(false)
        };
        // Two clocks at least; a group every tCCD_L.
        assert_eq!([on(4, 2), on(4, 8), on(2, 4)], [Picos(2000); 3]);
        assert_eq!([on(1, 3), on(1, 4), on(2, 5), on(4, 9)], [3000, 4000, 2500, 2250].map(Picos));
    }

    #[test]
    fn the_memory_is_that_of_the_rtl_key_by_key() {
        let memory = HbmConfig::from_toml(
            "name = 'x'\n[device]\nchannels = 2\nbank_groups = 2\nall_bank_activate = true\n\
            [timing]\nt_ccd_s = 3\nt_ccd_l = 4\nt_rcd = 15\nt_rp = 16\nt_ras = 35\nt_rc = 51\nt_rtp = 7\nt_faw = 31",
        )
        .unwrap();
        let usage = Usage { kv_mapping: KvMapping::Requests, ..Usage::default() };
        let on = Hardware::from(Pim { usage, ..Pim::default() }).on(&memory);
        let expected = Pim {
            channels: 2,
            banks: 8,
            bank_groups: 2,
            row_bytes: 1024,
            column_bytes: 32,
            clock_ps: 1000,
            t_ccd_s: 3,
            t_ccd_l: 4,
            t_rcd: 15,
            t_rp: 16,
            t_ras: 35,
            t_rtp: 7,
            t_faw: 31,
            acts_per_window: 8,
            usage,
        };
        assert_eq!(on, Hardware { pim: expected, ..Hardware::default() });
        assert_eq!(HbmConfig::default(), HbmConfig::preset("librapim").unwrap());
    }

    #[test]
    fn a_file_changes_what_it_names_and_nothing_else() {
        let read = Hardware::from_toml("[npu]\narrays = 2\n[pim]\nkv_mapping = \"requests\"").unwrap();
        let usage = Usage { kv_mapping: KvMapping::Requests, ..Usage::default() };
        let pim = Pim { usage, ..Pim::default() };
        assert_eq!(
            read,
            Hardware { npu: Npu { arrays: 2, ..Npu::default() }, pim, baselines: Baselines::default() }
        );
        assert_eq!(Hardware::preset("librapim").unwrap(), Hardware::default());
        let refused = |text| Hardware::from_toml(text).unwrap_err().to_string();
        assert!(refused("# empty").contains("the file has no keys"));
        assert!(refused("[npu]\nsides = 4").contains("unknown field `sides`"));
        assert!(refused("[pim]\nchannels = 4").contains("unknown field `channels`"));
        assert_eq!(refused("[npu]\narrays = 0"), "npu.arrays = 0 must be in 1..=4096");
        assert_eq!(
            refused("[baselines]\ncommands_per_us = 0"),
            "baselines.commands_per_us = 0 must be in 1..=1000000"
        );
        assert!(refused("[baselines]\ndispatch = \"bank\"").contains("unknown variant `bank`"));
    }
}
