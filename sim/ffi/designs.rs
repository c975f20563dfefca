//! The list of designs that build.rs compiled in.
//!
//! Which ones these are is decided by the catalogue of the build script; here they are only looked up. Others are left to `demand`.
#![allow(unsafe_code)]

use super::interface::{Interface, LINKED};
use super::{SimError, raw};
use ndp_config::DesignConfig;
use std::ffi::{CStr, c_char};

/// One design.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DesignInfo {
    /// `<configuration>/<block>`, the name under which it is opened.
    pub name: &'static str,
    /// Name of the configuration; `selftest` for the blocks on which the harness tests itself.
    pub config: &'static str,
    /// Name of the block.
    pub block: &'static str,
    /// The configuration it was built from, as TOML; empty for the self-test.
    pub config_toml: &'static str,
    /// Whether its signals can be dumped.
    pub waves: bool,
}

/// A design whose models can be opened.
#[derive(Clone, Copy, Debug)]
pub(super) struct Opened {
    /// The functions of its models.
    pub interface: &'static Interface,
    /// Its row in their table of designs.
    pub row: u32,
    /// Its number among all designs, those that were built on demand included.
    pub number: u32,
    /// What the row says.
    pub info: DesignInfo,
}

/// All designs, in the order of the catalogue.
pub fn designs() -> impl Iterator<Item = DesignInfo> {
    (0..u32::MAX).map_while(|index| row(&LINKED, index))
}

/// A row of a table of designs, if there is such a one.
pub(super) fn row(interface: &'static Interface, index: u32) -> Option<DesignInfo> {
    // SAFETY: any index may be passed; what comes back is null or a row of a constant table. Libraries stay loaded.
    let row = unsafe { (interface.design)(index).as_ref() }?;
    Some(DesignInfo {
        name: text(row.name),
        config: text(row.config),
        block: text(row.block),
        config_toml: text(row.config_toml),
        waves: row.waves,
    })
}

/// Version of the Verilator that built the models, such as `5.006 2023-01-22`.
pub fn verilator_version() -> &'static str {
    // SAFETY: no arguments, and the result is a constant.
    text(unsafe { raw::ndp_verilator_version() })
}

/// A design of the catalogue.
pub(super) fn find(name: &str) -> Result<Opened, SimError> {
    let found = (0..).zip(designs()).find(|(_, design)| design.name == name);
    let (row, info) = found.ok_or_else(|| SimError::UnknownDesign {
        name: name.to_owned(),
        known: designs().map(|design| design.name).collect::<Vec<_>>().join(", "),
    })?;
    Ok(Opened { interface: &LINKED, row, number: row, info })
}

/// The design of the catalogue that simulates a block of a configuration: clocks and names are nowhere in the Verilog, so one model
/// serves all configurations of the same hardware. That of the same name comes first.
pub(super) fn compiled_in(config: &DesignConfig, block: &str) -> Option<Opened> {
    let same = |design: &DesignInfo| {
        let built = DesignConfig::from_toml(design.config_toml).ok().filter(|_| design.block == block);
        // What goes by another name than its configuration is a mutant.
        built.is_some_and(|built| built.name() == design.config && built.same_hardware(config))
    };
    let found = designs().filter(same).max_by_key(|design| design.config == config.name())?;
    find(found.name).ok()
}

/// The error for a design whose signals cannot be dumped.
pub(super) fn without_waves(info: DesignInfo) -> SimError {
    let traced = designs().filter(|design| design.waves).map(|design| design.name).collect::<Vec<_>>();
    let known = if traced.is_empty() { "none".to_owned() } else { traced.join(", ") };
    SimError::WavesNotBuilt { design: info.name.to_owned(), config: info.config.to_owned(), known }
}

/// A string of a constant table. Generated names are ASCII; anything else reads as empty.
pub(super) fn text(pointer: *const c_char) -> &'static str {
    // SAFETY: callers pass strings of the generated tables, which are constants of the program or of libraries that stay loaded.
    unsafe { CStr::from_ptr(pointer) }.to_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_clocks_and_another_name_have_the_same_model() -> Result<(), Box<dyn std::error::Error>> {
        let text = include_str!("../../rust/config/presets/tiny.toml").replace("\"tiny\"", "\"other\"");
        let built = |text: &str| {
            let config = DesignConfig::from_toml(text)?;
            Ok::<_, ndp_config::ConfigError>(compiled_in(&config, "ndp_core").map(|found| found.info.config))
        };
        assert_eq!(built(&text)?, Some("tiny"));
        assert_eq!(built(&format!("{text}\n[core]\nclock_mhz = 800"))?, Some("tiny"));
        // Other times in clocks are other hardware.
        assert_eq!(built(&format!("{text}\n[dram]\nspeed = 2666"))?, None);
        Ok(())
    }
}
