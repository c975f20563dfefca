//! Blocks by the name of a configuration, and their mutants.

use ndp_config::{DesignConfig, HbmConfig};
use ndp_sim::ffi::{Hardware, Rtl, rtl};
use std::path::Path;

pub use ndp_hdl_language::mutate::Mutation;

/// A mutant, and the name of its configuration.
pub type Mutant = (&'static str, Mutation);

pub fn argument(name: &str) -> String {
    let file = format!("testbenches/configs/{name}.toml");
    if Path::new(&file).is_file() { file } else { name.to_owned() }
}

pub fn design_config(name: &str) -> ndp_files::Result<DesignConfig> {
    DesignConfig::load(&argument(name))
}

pub fn hbm_config(name: &str) -> ndp_files::Result<HbmConfig> {
    HbmConfig::load(&argument(name))
}

/// Mutants run only until the error is found.
const MUTANT_OPT_LEVEL: u32 = 0;

/// A block with an error that a test has to find: the mutation of this name. All are in one model, as choices.
///
/// # Panics
/// If one of them is not in the block: an error would be mistaken for the one that the test looks for.
pub fn mutant(hardware: &impl Hardware, block: &str, mutations: &[Mutation], name: &str) -> Rtl {
    let number = (1..).zip(mutations).find(|(_, mutation)| mutation.name == name).map(|(number, _)| number);
    let number = number.unwrap_or_else(|| panic!("no mutant of {} is called {name}", hardware.name()));
    match Rtl::with_mutants(hardware, block, mutations, number) {
        Ok(rtl) => Rtl { name: format!("{name}/{block}"), native: None, opt_level: MUTANT_OPT_LEVEL, ..rtl },
        Err(lines) => panic!("the model of {name} cannot be built: {}", lines.join("\n")),
    }
}

/// The configuration of a mutant, with all its mutations.
fn of(name: &str, mutants: &[Mutant]) -> Option<(&'static str, Vec<Mutation>)> {
    let (of, _) = mutants.iter().find(|(_, mutation)| mutation.name == name)?;
    Some((of, mutants.iter().filter(|(other, _)| other == of).map(|(_, mutation)| *mutation).collect()))
}

/// A block of a configuration, or of the mutant of this name.
pub fn design(name: &str, block: &str, mutants: &[Mutant]) -> ndp_files::Result<Rtl> {
    match of(name, mutants) {
        Some((of, mutations)) => Ok(mutant(&design_config(of)?, block, &mutations, name)),
        None => rtl(&design_config(name)?, block),
    }
}

/// Like [`design`], for an HBM2 memory.
pub fn hbm_design(name: &str, block: &str, mutants: &[Mutant]) -> ndp_files::Result<Rtl> {
    match of(name, mutants) {
        Some((of, mutations)) => Ok(mutant(&hbm_config(of)?, block, &mutations, name)),
        None => rtl(&hbm_config(name)?, block),
    }
}
