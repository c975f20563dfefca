//! Limits of values in configuration files.

use crate::ConfigError;
use ndp_files::NameRule;

/// Checks one value.
///
/// # Errors
/// [`ConfigError::Range`] if it is outside.
pub fn in_range(key: &'static str, value: u32, min: u32, max: u32) -> Result<(), ConfigError> {
    if (min..=max).contains(&value) {
        return Ok(());
    }
    let [value, min, max] = [value, min, max].map(u64::from);
    Err(ConfigError::Range { key, value, min, max })
}

/// Checks a quantity.
///
/// # Errors
/// [`ConfigError::OutOfRange`] if it is outside, or no number.
pub fn within(key: &'static str, value: impl Into<f64>, min: f64, max: f64) -> Result<(), ConfigError> {
    let value = value.into();
    if (min..=max).contains(&value) {
        return Ok(());
    }
    Err(ConfigError::OutOfRange { key, value: value.to_string(), min, max })
}

/// Checks values in turn: key, value, least and most.
///
/// # Errors
/// [`ConfigError::Range`] for the first that is outside.
pub fn in_ranges(limits: &[(&'static str, u32, u32, u32)]) -> Result<(), ConfigError> {
    limits.iter().try_for_each(|&(key, value, min, max)| in_range(key, value, min, max))
}

/// Checks a name.
///
/// # Errors
/// [`ConfigError::Name`] if it breaks the rule.
pub fn name_is(rule: NameRule, key: &'static str, name: &str) -> Result<(), ConfigError> {
    rule.check(name).map_err(|error| ConfigError::Name { key, name: error.name, rule })
}

/// Checks a power of two.
pub(crate) fn power_of_two(key: &'static str, value: u32, min: u32, max: u32) -> Result<(), ConfigError> {
    in_range(key, value, min, max)?;
    if value.is_power_of_two() {
        return Ok(());
    }
    Err(ConfigError::PowerOfTwo { key, value: value.into() })
}

/// Checks that values fit together: `what` must do what `rule` says.
///
/// # Errors
/// [`ConfigError::Mismatch`] unless it is `ok`.
pub fn require(
    ok: bool,
    what: impl Into<String>,
    value: u32,
    rule: impl Into<String>,
) -> Result<(), ConfigError> {
    if ok {
        return Ok(());
    }
    Err(ConfigError::Mismatch { what: what.into(), value: value.into(), rule: rule.into() })
}

/// Checks what holds for the times of every DRAM.
pub(crate) fn row_and_refresh_fit(
    table: &str,
    [t_ras, t_rp, t_rc, t_rfc, t_refi]: [u32; 5],
) -> Result<(), ConfigError> {
    let row = t_ras + t_rp;
    require(t_rc >= row, format!("{table}.t_rc"), t_rc, format!("be at least t_ras + t_rp = {row}"))?;
    // Beyond the refresh itself a row cycle and the work that waited have to fit in between.
    let least = 2 * t_rfc + t_rc;
    let rule = format!("be at least 2 * t_rfc + t_rc = {least}");
    require(t_refi >= least, format!("{table}.t_refi"), t_refi, rule)
}
