//! Constants with their sources, as configuration files have them.

use ndp_config::NameRule;
use ndp_files::{Result, ensure, in_range};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fmt::Display;

/// Parts of a file of constants: structs with optional limits per key. Unknown keys are refused.
macro_rules! constants {
    (@) => { [f64::NEG_INFINITY, f64::INFINITY] };
    (@ $min:literal $max:literal) => { [$min, $max] };
    ($($(#[$meta:meta])* pub struct $name:ident {
        $($(#[$doc:meta])* $field:ident: $type:ty $(= $min:literal to $max:literal)?,)*
    })+) => {$(
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        pub struct $name {
            $($(#[$doc])* pub $field: $type,)*
        }

        impl $crate::constant::Checked for $name {
            fn check(&self, key: &str, _: [f64; 2]) -> ndp_files::Result<()> {
                let key = |field: &str| if key.is_empty() { field.to_owned() } else { format!("{key}.{field}") };
                $($crate::constant::Checked::check(
                    &self.$field,
                    &key(stringify!($field)),
                    constants!(@ $($min $max)?),
                )?;)*
                Ok(())
            }
        }
    )+};
}

pub(crate) use constants;

pub(crate) trait Checked {
    /// Checks the value of a key, and those below it.
    fn check(&self, key: &str, limits: [f64; 2]) -> Result<()>;
}

pub(crate) fn read<T: Checked + DeserializeOwned>(text: &str) -> Result<T> {
    let constants: T = ndp_config::parse(text)?;
    constants.check("", [0.0; 2])?;
    Ok(constants)
}

/// A name, or the source of the numbers beside it.
impl Checked for String {
    fn check(&self, key: &str, _: [f64; 2]) -> Result<()> {
        match key.strip_suffix(".source") {
            Some(of) => has_source(of, self),
            None => ndp_config::name_is(NameRule::Title, key, self),
        }
    }
}

impl Checked for u32 {
    fn check(&self, key: &str, [min, max]: [f64; 2]) -> Result<()> {
        in_range(key, f64::from(*self), min, max)
    }
}

/// A number limited by other numbers of the file.
impl Checked for f64 {
    fn check(&self, _: &str, _: [f64; 2]) -> Result<()> {
        Ok(())
    }
}

/// Range relative to a value.
impl Checked for [f64; 2] {
    fn check(&self, key: &str, _: [f64; 2]) -> Result<()> {
        in_range(key, self[0], 0.0, 1.0)?;
        in_range(key, self[1], 1.0, 100.0)
    }
}

/// A constant: `{ value = 57.0, low = 50.0, high = 60.0, source = "..." }`. Without `low` and `high` it is certain.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, expecting = "a table such as { value = 57.0, source = \"...\" }")]
pub struct Constant {
    pub value: f64,
    /// The least value of any source, or thought possible.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<f64>,
    pub source: String,
}

impl Constant {
    /// Least, likely and greatest value.
    pub fn range(&self) -> [f64; 3] {
        [self.low.unwrap_or(self.value), self.value, self.high.unwrap_or(self.value)]
    }
}

impl Checked for Constant {
    /// Checks order, limits and source. Voltages, currents and energies of work are above 0. Power at rest and parts of
    /// a bit's way may be 0, which omits them.
    fn check(&self, key: &str, [min, max]: [f64; 2]) -> Result<()> {
        let [low, value, high] = self.range();
        ensure!(
            min <= low && low <= value && value <= high && high <= max,
            "not a valid configuration: {key} = {{ low = {low}, value = {value}, high = {high} }} must have {min} <= low <= value <= high <= {max}"
        );
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

fn has_source(key: &str, source: &str) -> Result<()> {
    ensure!(!source.trim().is_empty(), "not a valid configuration: {key} must have a source");
    Ok(())
}
