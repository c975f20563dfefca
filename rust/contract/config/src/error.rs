//! Errors of reading and validating a configuration: each names the value and the limit.

use crate::nearest::nearest;
use ndp_files::{NameRule, visible};
use thiserror::Error;

/// The end of a message about an unknown name: what to do with a file of another kind, or the name that was meant.
fn advice(name: &str, known: &[&str]) -> String {
    if name.to_lowercase().ends_with(".json") {
        return "; a .json is not read here: write its values into a .toml".to_owned();
    }
    nearest(name, known)
}

/// Why a configuration or a shape was refused.
#[derive(Debug, Error, Clone, PartialEq)]
#[non_exhaustive]
pub enum ConfigError {
    /// No preset has that name.
    #[error("unknown {kind} '{name}', expected one of {}{}{}", known.join(", "), if *file { " or a path ending in .toml" } else { "" }, advice(name, known))]
    UnknownPreset {
        /// What it would be: a preset of the core, a system, a model ...
        kind: &'static str,
        /// The name that was asked for.
        name: String,
        /// The names that exist.
        known: Vec<&'static str>,
        /// Whether a file could be named as well.
        file: bool,
    },
    /// The text is not TOML, has an unknown key or a value of the wrong type.
    #[error("not a valid configuration: {0}")]
    Syntax(String),
    /// The file could not be read.
    #[error("cannot read configuration '{path}': {reason}")]
    Read {
        /// Path as given.
        path: String,
        /// The operating system's words.
        reason: String,
    },
    /// An error inside a configuration file.
    #[error("in '{path}': {error}")]
    InFile {
        /// Path as given.
        path: String,
        /// What is wrong in it.
        error: Box<ConfigError>,
    },
    /// A name that cannot be used where names are written: files, modules, tables.
    #[error("{key} = \"{}\" {rule}", visible(name))]
    Name {
        /// Key as written in the file.
        key: &'static str,
        /// The name found.
        name: String,
        /// Names that may be given.
        rule: NameRule,
    },
    /// A value is outside of its range.
    #[error("{key} = {value} must be in {min}..={max}")]
    Range {
        /// Key as written in the file.
        key: &'static str,
        /// Value found.
        value: u64,
        /// Smallest legal value.
        min: u64,
        /// Largest legal value.
        max: u64,
    },
    /// A quantity with a unit is outside of its range.
    #[error("{key} = {value} must be in {min}..={max}")]
    OutOfRange {
        /// Key as written in the file.
        key: &'static str,
        /// Value found.
        value: String,
        /// Smallest legal value.
        min: f64,
        /// Largest legal value.
        max: f64,
    },
    /// A time of the DRAM that its speed grade does not have.
    #[error("{key} = {clocks} clocks ({ns:.3} ns at DDR4-{speed}) must be {rule}; jedec = false takes any")]
    SpeedGrade {
        /// Key as written in the file.
        key: &'static str,
        /// Value found, in clocks.
        clocks: u32,
        /// The same in ns.
        ns: f64,
        /// The grade, in 10^6 transfers a second.
        speed: u32,
        /// The limit, in clocks and as the standard has it.
        rule: String,
    },
    /// A value has to be a power of two.
    #[error("{key} = {value} must be a power of two")]
    PowerOfTwo {
        /// Key as written in the file.
        key: &'static str,
        /// Value found.
        value: u64,
    },
    /// A system without NDP-DIMMs where some are needed.
    #[error("the system '{system}' has no DIMMs; another one is needed, such as hermes or small")]
    NoDimms {
        /// Name of the key.
        system: String,
    },
    /// Two values do not fit together.
    #[error("{what} = {value} must {rule}")]
    Mismatch {
        /// The quantity, with the formula where it is a derived one.
        what: String,
        /// Its value.
        value: u64,
        /// The rule it breaks, with the limit.
        rule: String,
    },
}

impl ConfigError {
    /// A name that no preset and no file has.
    pub fn unknown_preset(kind: &'static str, name: &str, known: &[&'static str]) -> Self {
        Self::UnknownPreset { kind, name: name.to_owned(), known: known.to_vec(), file: true }
    }
}
