//! Design configuration: reads and checks the parameters of the hardware, and derives widths.
//!
//! Generator (`hdl`), harness and synthesis take a [`DesignConfig`], which is validated on construction and immutable.
//! Every derived width is a method of [`GemvConfig`] with its formula. Presets are the paper's design point, the sweep
//! of its Fig. 16 and a small one for tests. For software: [`LlmShape`], sizes of a language model, and
//! [`SystemConfig`], the machine around the cores. [`HbmConfig`] is HBM2 whose banks compute.

#![deny(missing_docs)]

mod axi;
mod core;
mod dfi;
mod dram;
mod gemv;
mod hbm;
mod hugging_face;
mod keys;
mod limits;
mod link;
mod llm;
mod named;
mod nearest;
mod presets;
mod shape;
mod speed;
mod ssd;
mod system;

pub use axi::AxiConfig;
pub use core::CoreConfig;
pub use dfi::DfiConfig;
pub use dram::DramConfig;
pub use gemv::{GemvConfig, Multiplier, WeightFormat};
pub use hbm::{HbmCommandBuses, HbmCommandSet, HbmConfig, HbmRefresh};
pub use limits::{in_range, in_ranges, name_is, require};
pub use link::LinkConfig;
pub use llm::{Activation, BlockKind, LlmFamily, LlmShape};
pub use ndp_files::NameRule;
pub use nearest::{nearest, with_advice};
pub use presets::{from_file, parse, unknown_preset};
pub use shape::{GemvShape, RowLayout};
pub use ssd::Ssd;
pub use system::{Bus, Channel, Dimms, Gpu, SystemConfig};

pub use ndp_files::Result;
use serde::{Deserialize, Serialize};

/// One DDR4 burst on a 64-bit rank (BL8): the unit of weights and activations.
pub const BEAT_BITS: u32 = 512;
/// FP16 elements of one beat.
pub const BEAT_ELEMS: u32 = BEAT_BITS / 16;

/// A complete, validated design.
///
/// ```
/// let config = ndp_config::DesignConfig::preset("hermes").unwrap();
/// assert_eq!(config.gemv().window_cycles(), 11);
/// assert!(ndp_config::DesignConfig::from_toml("name = \"x\"\n[gemv]\nlanes = 3").is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DesignConfig {
    name: String,
    gemv: GemvConfig,
    dram: DramConfig,
    core: CoreConfig,
    link: LinkConfig,
    axi: AxiConfig,
    dfi: DfiConfig,
}

/// Unknown keys are refused, so that a typo cannot silently select a default.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawDesign {
    name: String,
    #[serde(default)]
    gemv: gemv::RawGemv,
    #[serde(default)]
    dram: dram::RawDram,
    #[serde(default)]
    core: core::RawCore,
    #[serde(default)]
    link: link::RawLink,
    #[serde(default)]
    axi: axi::RawAxi,
    #[serde(default)]
    dfi: dfi::RawDfi,
}

presets!(
    DesignConfig,
    "preset",
    "hermes" => "../presets/hermes.toml",
    "hermes-32" => "../presets/hermes-32.toml",
    "hermes-64" => "../presets/hermes-64.toml",
    "hermes-128" => "../presets/hermes-128.toml",
    "hermes-512" => "../presets/hermes-512.toml",
    "hermes-2400" => "../presets/hermes-2400.toml",
    "hermes-2666" => "../presets/hermes-2666.toml",
    "hermes-2933" => "../presets/hermes-2933.toml",
    "hermes-x8" => "../presets/hermes-x8.toml",
    "hermes-x16" => "../presets/hermes-x16.toml",
    "ndp-best" => "../presets/ndp-best.toml",
    "tiny" => "../presets/tiny.toml",
);

getters!(DesignConfig {
    /// Lower-case letters, digits and `-`, at most 64.
    name: &str,
    /// The GEMV unit.
    gemv: &GemvConfig,
    /// The DRAM behind each rank controller.
    dram: &DramConfig,
    /// The core around the GEMV unit.
    core: &CoreConfig,
    /// The DIMM-link.
    link: &LinkConfig,
    /// The AXI4 subordinate in front of the host port.
    axi: &AxiConfig,
    /// The DFI port of a rank.
    dfi: &DfiConfig,
});

impl DesignConfig {
    /// Parses and validates a configuration in TOML. Unknown keys are errors; otherwise the first limit that a value
    /// breaks.
    pub fn from_toml(text: &str) -> Result<Self> {
        let raw: RawDesign = parse(text)?;
        name_is(NameRule::Identifier, "name", &raw.name)?;
        Ok(Self {
            name: raw.name,
            gemv: GemvConfig::validate(raw.gemv)?,
            dram: speed::validate(raw.dram, text)?,
            core: CoreConfig::checked(raw.core)?,
            link: LinkConfig::validate(raw.link)?,
            axi: AxiConfig::checked(raw.axi)?,
            dfi: DfiConfig::checked(raw.dfi)?,
        })
    }

    /// Design of a bridge with `ports` links for these DIMMs: `<name>-bridge<ports>`. Fails as
    /// [`LinkConfig::with_bridge_ports`].
    pub fn with_bridge(&self, ports: u32) -> Result<Self> {
        let name = format!("{}-bridge{ports}", self.name);
        Ok(Self { name, link: self.link.with_bridge_ports(ports)?, ..self.clone() })
    }

    /// Most FP16 weights from all ranks per core cycle: `ranks * GB/s of a rank / 2 * ns of a cycle` (51.2 for four
    /// ranks of DDR4-3200 at 1 GHz).
    pub fn dram_weights_per_cycle(&self) -> f64 {
        f64::from(self.gemv.ranks()) * self.dram.rank_gbps() / 2.0 / self.core.clock_ghz()
    }

    /// Roofline in MACs per core cycle with refresh: `min(dram * (1 - tRFC / tREFI) * batch, peak)`.
    pub fn roofline_macs_per_cycle(&self, batch: u32) -> f64 {
        let dram = self.dram_weights_per_cycle() * self.dram.refresh_share();
        (dram * f64::from(batch)).min(self.gemv.peak_macs_per_cycle())
    }

    /// Roofline for weights of another format, by their bits in DRAM.
    pub fn roofline_macs_per_cycle_of(&self, weights: WeightFormat, batch: u32) -> f64 {
        let dram = self.dram_weights_per_cycle() * self.dram.refresh_share();
        let share = f64::from(WeightFormat::Fp16.bits()) / weights.bits_with_scale();
        (dram * share * f64::from(batch)).min(self.gemv.peak_macs_per_cycle())
    }

    /// Bits of a DIMM's burst address: `rank + ranks * (burst of the rank)`.
    pub fn dimm_burst_bits(&self) -> u32 {
        self.dram.burst_bits() + self.gemv.ranks().trailing_zeros()
    }
}
