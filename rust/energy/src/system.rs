//! Links, channels, the bus to the GPU, and the devices around the DIMMs: energy of a bit, and power by state.

use crate::constant::{self, Constant, constants};
use crate::core::CoreConstants;
use crate::dram::DramConstants;
use crate::energy::Energy;
use ndp_config::DesignConfig;
use ndp_files::Result;
use serde::Serialize;

constants! {
    /// What a bit costs on its way.
    pub struct Wires {
        /// A bit over a DIMM-link, in pJ.
        link_pj_per_bit: Constant = 0.0 to 1e3,
        /// A bit over a memory channel between the host and a DIMM, in pJ.
        channel_pj_per_bit: Constant = 0.0 to 1e3,
        /// A bit over the bus to the GPU, in pJ.
        bus_pj_per_bit: Constant = 0.0 to 1e3,
    }

    /// A device with an idle and a busy state, in W.
    pub struct Power {
        name: String,
        /// With nothing to do.
        idle_w: Constant = 0.0 to 1e5,
        busy_w: Constant = 0.0 to 1e5,
    }

    /// What a file of constants of a system holds.
    pub struct SystemConstants {
        name: String,
        wires: Wires,
        /// The GPU's board.
        gpu: Power,
        /// The host's processor; busy while it predicts or computes.
        host: Power,
        /// The SSD, of systems that have one; busy while it reads. That of the preset `hermes`, if a file names none.
        #[serde(default = "known_ssd")]
        ssd: Power,
    }
}

/// The SSD of all presets, by the data sheet of a Samsung 980 PRO.
fn known_ssd() -> Power {
    let constant = |value, low, high, source: &str| Constant {
        value,
        low: Some(low),
        high: Some(high),
        source: source.to_owned(),
    };
    Power {
        name: "NVMe, PCIe 4.0 x4".to_owned(),
        idle_w: constant(
            0.035,
            0.005,
            1.0,
            "Samsung 980 PRO 1 TB, data sheet; low: sleep; high: without power states, a guess",
        ),
        busy_w: constant(
            6.2,
            4.0,
            8.9,
            "Samsung 980 PRO 1 TB, data sheet: average; high: burst mode; low: a guess",
        ),
    }
}

ndp_config::presets!(
    SystemConstants,
    "energy of a system",
    "hermes" => "../presets/hermes.toml",
    "hermes-3090" => "../presets/hermes-3090.toml",
    "hermes-t4" => "../presets/hermes-t4.toml",
    "pc-high" => "../presets/pc-high.toml",
    "pc-low" => "../presets/pc-low.toml",
    "a100x5" => "../presets/a100x5.toml",
    "a100-80gb" => "../presets/a100-80gb.toml",
    "m1-max" => "../presets/m1-max.toml",
);

impl SystemConstants {
    /// Parses and checks a file.
    ///
    /// # Errors
    /// Text in another form, an unknown constant, and one whose bounds are out of order or whose source is missing.
    pub fn from_toml(text: &str) -> Result<Self> {
        let constants: Self = constant::read(text)?;
        let Self { gpu, host, ssd, .. } = &constants;
        for (device, Power { idle_w, busy_w, .. }) in [("gpu", gpu), ("host", host), ("ssd", ssd)] {
            let [idle_key, busy_key] = ["idle_w", "busy_w"].map(|key| format!("{device}.{key}"));
            constant::in_order((idle_key, idle_w), (busy_key, busy_w))?;
        }
        Ok(constants)
    }
}

/// All constants of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EnergyConstants {
    /// The DRAM of the DIMMs.
    pub dram: DramConstants,
    /// The logic of their cores.
    pub core: CoreConstants,
    pub system: SystemConstants,
}

impl EnergyConstants {
    /// Those that are asked for, each a preset or the path of a TOML file. Of none the DRAM is that of the design
    /// ([`DramConstants::of_design`]), the logic `hermes-asap7`, and the system the preset of the same name, or `hermes` if there is none.
    ///
    /// # Errors
    /// As [`DramConstants::load`], [`CoreConstants::load`] and [`SystemConstants::load`].
    pub fn load(
        design: &DesignConfig,
        system: &str,
        [dram_asked, core_asked, system_asked]: [Option<&str>; 3],
    ) -> Result<Self> {
        let known = SystemConstants::PRESETS.contains(&system);
        Ok(Self {
            dram: dram_asked.map_or_else(|| DramConstants::of_design(design.dram()), DramConstants::load)?,
            core: CoreConstants::load(core_asked.unwrap_or("hermes-asap7"))?,
            system: SystemConstants::load(system_asked.unwrap_or(if known { system } else { "hermes" }))?,
        })
    }
}

/// What work and time cost.
#[derive(Clone, Debug, PartialEq)]
pub struct SystemCosts {
    link_byte: Energy,
    channel_byte: Energy,
    bus_byte: Energy,
    gpu_w: [[f64; 3]; 2],
    host_w: [[f64; 3]; 2],
    ssd_w: [[f64; 3]; 2],
}

impl SystemCosts {
    pub fn new(constants: &SystemConstants) -> Self {
        let byte = |bit: &Constant| Energy::from_pj(bit.range()) * 8;
        let power = |power: &Power| [&power.idle_w, &power.busy_w].map(Constant::range);
        Self {
            link_byte: byte(&constants.wires.link_pj_per_bit),
            channel_byte: byte(&constants.wires.channel_pj_per_bit),
            bus_byte: byte(&constants.wires.bus_pj_per_bit),
            gpu_w: power(&constants.gpu),
            host_w: power(&constants.host),
            ssd_w: power(&constants.ssd),
        }
    }

    /// Bytes over links.
    pub fn links(&self, bytes: u64) -> Energy {
        self.link_byte * bytes
    }

    /// Bytes over memory channels.
    pub fn channels(&self, bytes: u64) -> Energy {
        self.channel_byte * bytes
    }

    /// Bytes over the bus to the GPU.
    pub fn bus(&self, bytes: u64) -> Energy {
        self.bus_byte * bytes
    }

    /// The GPU, so many nanoseconds idle and busy.
    pub fn gpu(&self, idle_ns: u64, busy_ns: u64) -> [Energy; 2] {
        Self::power(&self.gpu_w, idle_ns, busy_ns)
    }

    /// The host's processor, so many nanoseconds idle and busy.
    pub fn host(&self, idle_ns: u64, busy_ns: u64) -> [Energy; 2] {
        Self::power(&self.host_w, idle_ns, busy_ns)
    }

    /// The SSD, so many nanoseconds idle and busy.
    pub fn ssd(&self, idle_ns: u64, busy_ns: u64) -> [Energy; 2] {
        Self::power(&self.ssd_w, idle_ns, busy_ns)
    }

    fn power([idle, busy]: &[[f64; 3]; 2], idle_ns: u64, busy_ns: u64) -> [Energy; 2] {
        [Energy::from_w_ns(*idle, idle_ns), Energy::from_w_ns(*busy, busy_ns)]
    }
}
