//! Constants with their sources, as configuration files have them.

use ndp_config::ConfigError;
use serde::{Deserialize, Serialize};
use std::fmt::Display;

/// A constant: `{ value = 57.0, low = 50.0, high = 60.0, source = "..." }`. Without `low` and `high` the value is certain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Constant {
    /// The value that is used.
    pub value: f64,
    /// The least value that a source gives, or that is thought possible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    /// The greatest one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
    /// Where it is from.
    pub source: String,
}

impl Constant {
    /// Least, likely and greatest value.
    pub fn range(&self) -> [f64; 3] {
        [self.low.unwrap_or(self.value), self.value, self.high.unwrap_or(self.value)]
    }

    /// Checks that the values are in order, not negative and at most `max`, and that there is a source.
    pub(crate) fn check(&self, key: impl Display, max: f64) -> Result<(), ConfigError> {
        let [low, value, high] = self.range();
        let wrong = |what: &str| {
            Err(ConfigError::Syntax(format!(
                "{key} = {{ low = {low}, value = {value}, high = {high} }} {what}"
            )))
        };
        if !(0.0 <= low && low <= value && value <= high && high <= max) {
            return wrong(&format!("must have 0 <= low <= value <= high <= {max}"));
        }
        has_source(key, &self.source)
    }
}

/// Checks that a source is named.
pub(crate) fn has_source(key: impl Display, source: &str) -> Result<(), ConfigError> {
    if source.trim().is_empty() {
        return Err(ConfigError::Syntax(format!("{key} must have a source")));
    }
    Ok(())
}
