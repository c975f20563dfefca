//! The command that repeats a run, for messages.
//!
//! Built from the values in effect, defaults included, so that it still means the same when a default changes.

use crate::args::UnitArgs;
use crate::gemv::name;
use ndp_sim::core::Backend;

/// A command line under construction.
#[derive(Debug)]
pub struct Rerun {
    line: String,
}

impl Rerun {
    /// Starts with a job and the options that all jobs share.
    pub fn new(job: &str, unit: &UnitArgs) -> Self {
        let mut rerun = Self::bare(job);
        rerun.option("config", &unit.config);
        if unit.backend != Backend::Rtl {
            rerun.option("backend", name(unit.backend));
        }
        rerun.option("stalls", unit.stalls);
        rerun.option("watchdog", unit.watchdog);
        if let Some(flip) = &unit.flip {
            rerun.option("flip", flip);
        }
        rerun
    }

    /// Starts with a job that has none of these options.
    pub fn bare(job: &str) -> Self {
        Self { line: format!("cargo run --release --bin ndp -- {job}") }
    }

    /// Adds an option.
    pub fn option(&mut self, name: &str, value: impl std::fmt::Display) {
        self.line += &format!(" --{name} {}", quoted(&value.to_string()));
    }

    /// Adds an option without a value.
    pub fn flag(&mut self, name: &str) {
        self.line += &format!(" --{name}");
    }

    /// Adds an argument without a name.
    pub fn argument(&mut self, value: impl std::fmt::Display) {
        self.line += &format!(" {}", quoted(&value.to_string()));
    }

    /// The line.
    pub fn line(&self) -> &str {
        &self.line
    }
}

/// Quotes for a POSIX shell where needed.
fn quoted(value: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+".contains(c);
    if !value.is_empty() && value.chars().all(plain) {
        return value.to_owned();
    }
    format!("'{}'", value.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_survive_a_shell() {
        assert_eq!(quoted("a/b-1.toml"), "a/b-1.toml");
        assert_eq!(quoted("it's late"), r"'it'\''s late'");
        assert_eq!(quoted(""), "''");
    }
}
