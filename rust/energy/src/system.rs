//! Links, channels, the bus to the GPU, and devices around the DIMMs: energy per bit, and power by state.

use crate::constant::{self, Constant, constants};
use crate::core::CoreConstants;
use crate::dram::DramConstants;
use crate::energy::Energy;
use ndp_config::DesignConfig;
use ndp_files::Result;
use serde::Serialize;

constants! {
    /// Cost of a bit on its way.
    pub struct Wires {
        /// A bit over a DIMM-link.
        link_pj_per_bit: Constant = 0.0 to 1e3,
        /// A bit between host and DIMM.
        channel_pj_per_bit: Constant = 0.0 to 1e3,
        /// A bit to or from the GPU.
        bus_pj_per_bit: Constant = 0.0 to 1e3,
    }

    /// A device with an idle and a busy state, in W.
    pub struct Power {
        name: String,
        idle_w: Constant = 0.0 to 1e5,
        busy_w: Constant = 0.0 to 1e5,
    }

    pub struct SystemConstants {
        name: String,
        wires: Wires,
        /// The GPU's board.
        gpu: Power,
        /// The host's processor; busy while it predicts or computes.
        host: Power,
        /// The SSD; busy while it reads. By default the one in the preset `hermes`.
        #[serde(default = "known_ssd")]
        ssd: Power,
    }
}

/// SSD of all presets, from the data sheet of a Samsung 980 PRO.
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
    /// Parses and checks a file. Fails for unknown keys, bounds out of order, and missing sources.
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

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EnergyConstants {
    /// DRAM of the DIMMs.
    pub dram: DramConstants,
    /// Cores of the DIMMs.
    pub core: CoreConstants,
    pub system: SystemConstants,
}

impl EnergyConstants {
    /// Each is a preset or the path of a TOML file. By default the DRAM is the design's ([`DramConstants::of_design`]),
    /// the logic `hermes-asap7`, the system the preset of its name, or else `hermes`. Fails as the three `load`.
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

    pub fn links(&self, bytes: u64) -> Energy {
        self.link_byte * bytes
    }

    pub fn channels(&self, bytes: u64) -> Energy {
        self.channel_byte * bytes
    }

    pub fn bus(&self, bytes: u64) -> Energy {
        self.bus_byte * bytes
    }

    /// Energy idle and busy.
    pub fn gpu(&self, idle_ns: u64, busy_ns: u64) -> [Energy; 2] {
        Self::power(&self.gpu_w, idle_ns, busy_ns)
    }

    /// Energy idle and busy.
    pub fn host(&self, idle_ns: u64, busy_ns: u64) -> [Energy; 2] {
        Self::power(&self.host_w, idle_ns, busy_ns)
    }

    /// Energy idle and busy.
    pub fn ssd(&self, idle_ns: u64, busy_ns: u64) -> [Energy; 2] {
        Self::power(&self.ssd_w, idle_ns, busy_ns)
    }

    fn power([idle, busy]: &[[f64; 3]; 2], idle_ns: u64, busy_ns: u64) -> [Energy; 2] {
        [Energy::from_w_ns(*idle, idle_ns), Energy::from_w_ns(*busy, busy_ns)]
    }
}
