//! Limits of values in configuration files.

pub use ndp_files::in_range;
use ndp_files::{NameRule, Result, ensure, refusal, visible};
use std::fmt::Display;

/// Checks values in turn: key, value, least and most.
pub fn in_ranges(limits: &[(&'static str, u32, u32, u32)]) -> Result<()> {
    limits.iter().try_for_each(|&(key, value, min, max)| in_range(key, value, min, max))
}

/// Checks a name.
pub fn name_is(rule: NameRule, key: &str, name: &str) -> Result<()> {
    rule.check(name).map_err(|error| refusal!("{key} = \"{}\" {rule}", visible(&error.name)))
}

pub(crate) fn power_of_two(key: &'static str, value: u32, min: u32, max: u32) -> Result<()> {
    in_range(key, value, min, max)?;
    ensure!(value.is_power_of_two(), "{key} = {value} must be a power of two");
    Ok(())
}

/// Fails unless `ok`, with `what` and `rule`.
pub fn require(ok: bool, what: impl Display, value: u32, rule: impl Display) -> Result<()> {
    ensure!(ok, "{what} = {value} must {rule}");
    Ok(())
}

/// Rules for the times of every DRAM.
pub(crate) fn row_and_refresh_fit(table: &str, [t_ras, t_rp, t_rc, t_rfc, t_refi]: [u32; 5]) -> Result<()> {
    let row = t_ras + t_rp;
    require(t_rc >= row, format!("{table}.t_rc"), t_rc, format!("be at least t_ras + t_rp = {row}"))?;
    // Besides the refresh, a row cycle and delayed work have to fit.
    let least = 2 * t_rfc + t_rc;
    let rule = format!("be at least 2 * t_rfc + t_rc = {least}");
    require(t_refi >= least, format!("{table}.t_refi"), t_refi, rule)
}
