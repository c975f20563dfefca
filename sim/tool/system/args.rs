//! Arguments of several DIMMs, and their values.

use crate::prelude::*;
use ndp_config::Ssd;
use ndp_files::Result;
use ndp_hermes::placement::{Placement, PlacementFile};
use ndp_hermes::scheduler::Policy;
use ndp_sim::system::FlashOptions;
use ndp_traces::NeuronShape;
use std::num::NonZeroU32;

/// The SSD of systems that have none.
const SSD: &str = "flash-m1";

/// Options of an SSD below the DIMMs.
#[derive(clap::Args, Clone, Debug)]
pub struct FlashArgs {
    /// Percentage of the MLP neurons that have slots in the DIMMs, while an SSD holds all of them (1..=100,
    /// docs/flash.md); slots for the neurons that a --placement with an SSD puts in the DIMMs always exist. Needs
    /// --activity oracle or predicted, and --policy random or partition
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(1..=100))]
    pub flash_resident: Option<u32>,
    /// With --flash-resident: number of tokens for which a neuron keeps its slot after it was needed, that token
    /// included
    #[arg(long, value_name = "TOKENS", default_value = "5", requires = "flash_resident")]
    pub flash_window: NonZeroU32,
    /// With --flash-resident: SSD: flash-m1, flash-linux, nvme-pcie4 or a path ending in .toml [default: that of the
    /// system, otherwise flash-m1]
    #[arg(long, value_name = "PRESET|FILE.toml", requires = "flash_resident")]
    pub ssd: Option<String>,
}

impl FlashArgs {
    pub fn options(&self) -> Option<FlashOptions> {
        let of = |resident_percent| FlashOptions { resident_percent, window: self.flash_window };
        self.flash_resident.map(of)
    }

    pub fn files(&self, files: FileSet) -> FileSet {
        self.ssd.iter().fold(files, |files, ssd| files.configuration("the SSD", ssd))
    }

    pub fn with_ssd(&self, system: SystemConfig) -> Result<SystemConfig> {
        let known = system.ssd().is_some() && self.ssd.is_none();
        if known || self.flash_resident.is_none() {
            return Ok(system);
        }
        Ok(system.with_ssd(Ssd::load(self.ssd.as_deref().unwrap_or(SSD))?))
    }
}

/// Live predictor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, clap::ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum PredictorChoice {
    /// Hermes' predictor: states and parents
    Hermes,
    /// Low-rank matrices, from predictor.safetensors in the model's folder
    LowRank,
}

/// Model of the links between DIMMs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LinksChoice {
    /// Controllers, bridge and lanes, bit by bit
    Rtl,
    /// Number of bytes over bandwidth; the host moves the data
    Bandwidth,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyChoice {
    /// All policies in the order of the paper.
    All,
    One(Policy),
}

impl std::str::FromStr for PolicyChoice {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        if name == "all" { Ok(Self::All) } else { name.parse().map(Self::One) }
    }
}

impl PolicyChoice {
    /// The chosen policies, without duplicates.
    pub fn policies(choices: &[Self]) -> Vec<Policy> {
        let of = |choice: &Self| match choice {
            Self::All => Policy::ALL.to_vec(),
            Self::One(policy) => vec![*policy],
        };
        choices.iter().flat_map(of).unique().collect()
    }
}

/// Bound on the file of a placement in bytes: 16 times the placement of the largest preset.
const MOST_BYTES: u64 = 1 << 27;

/// Initial placement of the neurons.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct PlacementArg {
    /// Start from the placement in this file, as `ndp place --out` writes it, instead of one computed from the
    /// profile; --policy random ignores it. It must match the model's sizes and the number of DIMMs, and fit the GPU
    #[arg(long, value_name = "FILE.json")]
    pub placement: Option<PathBuf>,
}

impl PlacementArg {
    pub fn files(&self, files: FileSet) -> FileSet {
        self.placement.iter().fold(files, |files, path| files.input("the placement", path))
    }

    /// Refuses a placement file if the option that it needs is missing.
    pub fn needs(&self, option: &str) -> anyhow::Result<()> {
        let path = self.placement.as_deref().unwrap_or("".as_ref());
        ensure!(self.placement.is_none(), "--placement {} needs {option}", path.display());
        Ok(())
    }

    /// Refuses a placement file that none of the policies uses.
    pub fn check(&self, policies: &[Policy]) -> anyhow::Result<()> {
        match policies.iter().all(|&policy| policy == Policy::Random) {
            true => self.needs("another --policy than random, which has a placement of its own"),
            false => Ok(()),
        }
    }

    pub fn load(
        &self,
        shape: &NeuronShape,
        dimms: u32,
        flash: &FlashArgs,
    ) -> anyhow::Result<Option<Placement>> {
        let Some(path) = &self.placement else { return Ok(None) };
        let read = || -> anyhow::Result<Placement> {
            let file: PlacementFile = crate::tools::read_json(path, MOST_BYTES)?;
            let fitting = file.placement(shape, dimms);
            fitting.with_context(|| format!("it is of the model '{}' on {} DIMMs", file.model, file.dimms))
        };
        let placement = read().with_context(|| format!("cannot use the placement '{}'", path.display()))?;
        ensure!(
            !placement.has_ssd() || flash.flash_resident.is_some(),
            "--placement {} has neurons on an SSD: it needs --flash-resident",
            path.display()
        );
        Ok(Some(placement))
    }

    /// Context for errors about the file.
    pub fn context(&self) -> String {
        self.placement
            .as_ref()
            .map_or_else(String::new, |path| format!(" by the placement '{}'", path.display()))
    }
}

pub fn bit_error_rate(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(rate) if (0.0..=1e-3).contains(&rate) => Ok(rate),
        _ => Err("expected a number from 0 to 0.001".into()),
    }
}
