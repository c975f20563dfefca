//! HBM2 with computing banks: geometry of a pseudo channel, what its banks can do, and the timing rules.
//!
//! A memory as in LibraPIM (sections 4 and 5, Table 2): banks that can be cut into two partitions, 16 FP16 multipliers
//! per bank, a buffer per channel. The paper's `channel` (64 data lines, 1 KB rows, 256 bits per column access) is a
//! pseudo channel of HBM2. Times are clocks (tCK = 1 ns), command to command. `docs/hbm-pim.md` has rules and sources
//! of defaults.

use crate::keys::keys;
use crate::limits::{in_range, name_is, power_of_two, require, row_and_refresh_fit};
use crate::{NameRule, parse, presets};
use ndp_files::Result;
use serde::{Deserialize, Serialize};

/// Unknown keys are refused.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawHbm {
    name: String,
    #[serde(default)]
    device: RawDevice,
    #[serde(default)]
    timing: RawTiming,
}

/// Refresh mode of a memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HbmRefresh {
    /// All banks at once, every tREFI.
    #[default]
    All,
    /// One bank after the other, each every tREFI.
    Bank,
}

/// Commands that a memory takes, and their buses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HbmCommandSet {
    /// All of `docs/hbm-pim.md`, a row and a column command per clock.
    #[default]
    LibraPim,
    /// The commands that Newton and GDDR6-AiM also have, one at a time.
    Aim,
}

/// Owner of the command buses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HbmCommandBuses {
    /// Each channel has its own.
    #[default]
    Own,
    /// Channels `2 k` and `2 k + 1` share them: pseudo channels of a channel of HBM2.
    Shared,
}

keys! {
    "device.", raw:
    /// The `[device]` table; the paper's values are the defaults.
    RawDevice for HbmConfig.device {
        /// Channels of the memory, each with a data bus of its own.
        pub channels: u32 = 64, power_of_two(1, 1024);
        /// Bank groups of a channel.
        pub bank_groups: u32 = 4, power_of_two(1, 4);
        /// Banks of a bank group.
        pub banks_per_group: u32 = 4, power_of_two(1, 4);
        /// Bits of a row address.
        pub row_bits: u32 = 14, in_range(2, 15);
        /// Rows of a subarray, at most half of all; a partition ends between two subarrays. The default is assumed.
        pub subarray_rows: u32 = 512, power_of_two(1, 1 << (raw.row_bits - 1));
        /// Whether banks can be cut in two.
        pub slicing: bool = true;
        /// Subarrays of the weight partition that software chooses before inference (`n` of `n : m`), fewer than all; the device
        /// itself starts with joined banks. Without slicing it has no meaning.
        pub weight_subarrays: u32 = 16;
        /// Whether one command may activate a row in all banks, beside tFAW: banks with charge of their own (LibraPIM, section
        /// 5.2).
        pub all_bank_activate: bool = false;
        /// Banks that a refresh stops: all (REF), or one after the other (REFB).
        pub refresh: HbmRefresh = HbmRefresh::All;
        /// Which commands it takes; "aim" only without `slicing` and `all_bank_activate`.
        pub command_set: HbmCommandSet = HbmCommandSet::LibraPim;
        /// Whether each channel has its own command buses, or channels `2 k` and `2 k + 1` share them; not with "aim".
        pub command_buses: HbmCommandBuses = HbmCommandBuses::Own;
        /// Columns that the channel's global buffer holds; the default is assumed: a row.
        pub buffer_slots: u32 = 32, in_range(1, 32);
        // A sum with its flags fits half a column.
        /// Bits of a bank's exact accumulator.
        pub acc_bits: u32 = 104, in_range(97, 120);
    }
}

keys! {
    "timing.", raw:
    /// The `[timing]` table.
    RawTiming for HbmConfig.timing {
        /// RD to its first data.
        pub t_cl: u32 = 14, in_range(2, 60);
        /// ACT to RD or WR, PIM ACT to MAC, of the same partition.
        pub t_rcd: u32 = 14, in_range(2, 120);
        /// PRE to ACT of the same partition, PRE of any to REF.
        pub t_rp: u32 = 14, in_range(2, 120);
        /// ACT to PRE of the same partition.
        pub t_ras: u32 = 34, in_range(2, 120);
        /// ACT to ACT of the same partition.
        pub t_rc: u32 = 48, in_range(4, 240);
        /// WR to its first data.
        pub t_cwl: u32 = 4, in_range(1, raw.t_cl);
        /// RD to RD, WR to WR in different bank groups.
        pub t_ccd_s: u32 = 2, in_range(HbmConfig::T_BL, 32);
        /// RD to RD, WR to WR in the same bank group; MAC to MAC.
        pub t_ccd_l: u32 = 2, in_range(raw.t_ccd_s, 32);
        /// ACT to ACT in different bank groups.
        pub t_rrd_s: u32 = 4, in_range(HbmConfig::ACTIVATE_CLOCKS, 32);
        /// ACT to ACT in the same bank group, the other partition of the same bank included.
        pub t_rrd_l: u32 = 6, in_range(raw.t_rrd_s, 32);
        /// At most four rows are activated in any window of this length.
        pub t_faw: u32 = 30, in_range(4, 120);
        /// End of a write's data to PRE of the same partition.
        pub t_wr: u32 = 16, in_range(1, 120);
        /// End of a write's data to RD in another bank group.
        pub t_wtr_s: u32 = 6, in_range(1, 60);
        /// End of a write's data to RD in the same bank group.
        pub t_wtr_l: u32 = 8, in_range(raw.t_wtr_s, 60);
        /// RD or MAC to PRE of the same partition.
        pub t_rtp: u32 = 6, in_range(HbmConfig::ACTIVATE_CLOCKS, 60);
        /// REF to any other command.
        pub t_rfc: u32 = 260, in_range(16, 4000);
        /// REFB to ACT, PIM ACT, SLICE or REFB of the same bank.
        pub t_rfc_pb: u32 = 160, in_range(16, 4000);
        /// REFB to ACT, PIM ACT or REFB of another bank.
        pub t_rrefd: u32 = 8, in_range(HbmConfig::ACTIVATE_CLOCKS, raw.t_rfc_pb);
        /// Mean interval of a bank's refreshes.
        pub t_refi: u32 = 3900, in_range(128, 65532);
        /// SLICE to ACT or SLICE of the same bank, SLICE of any bank to REF.
        pub t_slice: u32 = 15, in_range(1, 240);
        /// MAC to a reading of its result.
        pub t_mac: u32 = 16, in_range(1, 240);
        /// Command to command, with [`HbmCommandSet::Aim`].
        pub t_cmd: u32 = 1, in_range(1, 4096);
    }
}

/// A validated HBM2 memory with computing banks.
///
/// ```
/// let hbm = ndp_config::HbmConfig::preset("librapim").unwrap();
/// assert_eq!(hbm.banks(), 16);
/// assert_eq!(hbm.bytes(), 16 << 30);
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct HbmConfig {
    name: String,
    device: RawDevice,
    timing: RawTiming,
}

// The paper's memory, two of its channels with a small model, a small one for tests, and the paper's baseline without
// slicing, also with its own command set; the first three with slower columns of the same bank group.
presets!(
    HbmConfig,
    "HBM memory",
    "aim" => "../presets/hbm/aim.toml",
    "hbm2" => "../presets/hbm/hbm2.toml",
    "hbm2-pseudo" => "../presets/hbm/hbm2-pseudo.toml",
    "hbm2-refpb" => "../presets/hbm/hbm2-refpb.toml",
    "hbm2-small" => "../presets/hbm/hbm2-small.toml",
    "hbm2-tiny" => "../presets/hbm/hbm2-tiny.toml",
    "librapim" => "../presets/hbm/librapim.toml",
    "librapim-small" => "../presets/hbm/librapim-small.toml",
    "librapim-tiny" => "../presets/hbm/librapim-tiny.toml",
    "newton-aim" => "../presets/hbm/newton-aim.toml",
);

impl Default for HbmConfig {
    fn default() -> Self {
        Self { name: "librapim".to_owned(), device: RawDevice::default(), timing: RawTiming::default() }
    }
}

impl HbmConfig {
    /// Clocks of a column's 256 bits on the bus: four transfers of 64 bits.
    pub const T_BL: u32 = 2;
    /// Clocks of an activation on the row command bus (JESD235).
    pub const ACTIVATE_CLOCKS: u32 = 2;
    /// FP16 lanes of a column, and multipliers of a bank.
    pub const LANES: u32 = 16;
    /// Bytes of a column.
    pub const COLUMN_BYTES: u32 = 32;
    /// A row has 1 KB.
    pub const COLUMNS: u32 = 32;
    /// Partitions of a sliced bank.
    pub const PARTITIONS: u32 = 2;

    /// Parses and validates a memory in TOML. Unknown keys are errors; otherwise the first limit that a value breaks.
    pub fn from_toml(text: &str) -> Result<Self> {
        let RawHbm { name, device, timing } = parse(text)?;
        name_is(NameRule::Identifier, "name", &name)?;
        check_device(&device)?;
        check_timing(&timing)?;
        check_refresh(&device, &timing)?;
        Ok(Self { name, device, timing })
    }

    /// Makes banks uncuttable.
    #[must_use]
    pub fn unsliced(mut self) -> Self {
        if self.device.slicing {
            self.name.push_str("-unsliced");
            self.device.slicing = false;
        }
        self
    }

    /// Changes the distance from command to command; an error unless in 1..=4096.
    pub fn with_t_cmd(mut self, t_cmd: u32) -> Result<Self> {
        self.timing.t_cmd = t_cmd;
        check_timing(&self.timing)?;
        Ok(self)
    }

    /// Changes the number of channels; an error unless a power of two in 1..=1024.
    pub fn with_channels(mut self, channels: u32) -> Result<Self> {
        self.device.channels = channels;
        check_device(&self.device)?;
        Ok(self)
    }

    /// Name of the memory.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// RD to WR, any bank: `tCL + tBL + 2 - tCWL`, with two clocks for the bus to turn around.
    pub fn t_rtw(&self) -> u32 {
        self.timing.t_cl + Self::T_BL + 2 - self.timing.t_cwl
    }

    /// Mean interval of refreshes, REF or REFB: tREFI, or `tREFI / banks`, rounded down, for single banks.
    pub fn refresh_interval(&self) -> u32 {
        match self.device.refresh {
            HbmRefresh::All => self.timing.t_refi,
            HbmRefresh::Bank => self.timing.t_refi / self.banks(),
        }
    }

    /// Banks of a channel.
    pub fn banks(&self) -> u32 {
        self.device.bank_groups * self.device.banks_per_group
    }

    /// Rows of a bank.
    pub fn rows(&self) -> u32 {
        1 << self.device.row_bits
    }

    /// `n + m` of any boundary.
    pub fn subarrays(&self) -> u32 {
        self.rows() / self.device.subarray_rows
    }

    /// Rows of the weight partition; all rows without slicing.
    pub fn weight_rows(&self) -> u32 {
        if self.device.slicing {
            self.device.weight_subarrays * self.device.subarray_rows
        } else {
            self.rows()
        }
    }

    /// Capacity of all channels.
    pub fn bytes(&self) -> u64 {
        let columns = u64::from(self.device.channels) * u64::from(self.banks()) * u64::from(self.rows());
        columns * u64::from(Self::COLUMNS * Self::COLUMN_BYTES)
    }
}

fn check_device(raw: &RawDevice) -> Result<()> {
    raw.check_keys()?;
    let subarrays = (1 << raw.row_bits) / raw.subarray_rows;
    in_range("device.weight_subarrays", raw.weight_subarrays, 1, subarrays - 1)?;
    let paired = raw.command_buses == HbmCommandBuses::Own || raw.channels > 1;
    require(paired, "device.channels", raw.channels, "be even: two share command buses")?;
    let own = raw.command_buses == HbmCommandBuses::Own || raw.command_set == HbmCommandSet::LibraPim;
    require(own, "device.command_buses", 2, "be \"own\" with the command set \"aim\"")?;
    let fits = raw.command_set == HbmCommandSet::LibraPim || !raw.slicing && !raw.all_bank_activate;
    let rule = "be 0: the command set \"aim\" has no slicing and no activation of all banks";
    require(
        fits,
        "device.slicing + device.all_bank_activate",
        u32::from(raw.slicing) + u32::from(raw.all_bank_activate),
        rule,
    )
}

fn check_timing(raw: &RawTiming) -> Result<()> {
    raw.check_keys()?;
    row_and_refresh_fit("timing", [raw.t_ras, raw.t_rp, raw.t_rc, raw.t_rfc, raw.t_refi])
}

/// A single-bank refresh, with the row cycle it may wait for, must end before the next begins.
fn check_refresh(device: &RawDevice, timing: &RawTiming) -> Result<()> {
    let banks = device.bank_groups * device.banks_per_group;
    let least = banks * (timing.t_rfc_pb + timing.t_rc);
    let rule = format!("be at least banks * (t_rfc_pb + t_rc) = {least} to refresh single banks");
    let fits = device.refresh == HbmRefresh::All || timing.t_refi >= least;
    require(fits, "timing.t_refi", timing.t_refi, rule)
}
