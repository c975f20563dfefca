//! Constants with their sources, as configuration files have them.

use ndp_files::{Result, ensure, refusal};
use serde::{Deserialize, Serialize};
use std::fmt::Display;

/// A constant: `{ value = 57.0, low = 50.0, high = 60.0, source = "..." }`. Without `low` and `high` the value is certain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table such as { value = 57.0, source = \"...\" }")]
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

    /// Checks that the values are in order and from `min` to `max`, and that there is a source. Voltages, currents and the energy of
    /// work are above 0. Power at rest and parts of a bit's way may be 0, which leaves them out.
    pub(crate) fn check(&self, key: impl Display, min: f64, max: f64) -> Result<()> {
        let [low, value, high] = self.range();
        let wrong = |what: &str| {
            Err(refusal!(
                "not a valid configuration: {key} = {{ low = {low}, value = {value}, high = {high} }} {what}"
            ))
        };
        if !(min <= low && low <= value && value <= high && high <= max) {
            return wrong(&format!("must have {min} <= low <= value <= high <= {max}"));
        }
        has_source(key, &self.source)
    }
}

/// Checks that a device takes no more power idle than busy.
pub(crate) fn in_order(
    (rest_key, rest): (impl Display, &Constant),
    (work_key, work): (impl Display, &Constant),
) -> Result<()> {
    ensure!(
        rest.value <= work.value,
        "not a valid configuration: {rest_key} = {} must be at most {work_key} = {}",
        rest.value,
        work.value
    );
    Ok(())
}

/// Checks that a source is named.
pub(crate) fn has_source(key: impl Display, source: &str) -> Result<()> {
    ensure!(!source.trim().is_empty(), "not a valid configuration: {key} must have a source");
    Ok(())
}
