//! Blocks by the name of a configuration, and mutants of them.

use crate::mutations::mutant;
use ndp_config::{DesignConfig, HbmConfig};
use ndp_sim::ffi::{Rtl, rtl};
use std::path::Path;

pub use crate::mutations::Mutation;

/// A mutant, and the name of the configuration that it is one of.
pub type Mutant = (&'static str, Mutation);

/// Preset or file of `testbenches/configs`.
pub fn argument(name: &str) -> String {
    let file = format!("testbenches/configs/{name}.toml");
    if Path::new(&file).is_file() { file } else { name.to_owned() }
}

pub fn design_config(name: &str) -> ndp_files::Result<DesignConfig> {
    DesignConfig::load(&argument(name))
}

/// An HBM2 memory by its name.
pub fn hbm_config(name: &str) -> ndp_files::Result<HbmConfig> {
    HbmConfig::load(&argument(name))
}

/// The configuration that a mutant is one of, with all mutations of it.
fn of(name: &str, mutants: &[Mutant]) -> Option<(&'static str, Vec<Mutation>)> {
    let (of, _) = mutants.iter().find(|(_, mutation)| mutation.name == name)?;
    Some((of, mutants.iter().filter(|(other, _)| other == of).map(|(_, mutation)| *mutation).collect()))
}

/// A block of a configuration, or of the mutant that has this name.
pub fn design(name: &str, block: &str, mutants: &[Mutant]) -> ndp_files::Result<Rtl> {
    match of(name, mutants) {
        Some((of, mutations)) => mutant(&design_config(of)?, block, &mutations, name),
        None => rtl(&design_config(name)?, block),
    }
}

/// The same of an HBM2 memory.
pub fn hbm_design(name: &str, block: &str, mutants: &[Mutant]) -> ndp_files::Result<Rtl> {
    match of(name, mutants) {
        Some((of, mutations)) => mutant(&hbm_config(of)?, block, &mutations, name),
        None => rtl(&hbm_config(name)?, block),
    }
}
