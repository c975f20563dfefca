//! Configurations that differ from a preset only in their clocks, so that the preset's model simulates them.

use super::rtl::design_config;
use ndp_config::DesignConfig;
use std::error::Error;

/// A clock of the core in MHz and a speed of the DRAM: equal clocks, the core half as fast, the paper's, three that
/// drift, and the two ends: a core slower than a rank's data, and one faster than its DRAM.
pub const RATIOS: [(u32, u32); 8] = [
    (1600, 3200),
    (800, 3200),
    (1000, 3200),
    (1000, 2666),
    (1000, 2933),
    (1000, 2400),
    (200, 3200),
    (2000, 2400),
];

/// The preset with other clocks; its times in clocks of the DRAM stay, whatever these are in ns.
pub fn at(preset: &str, (core_mhz, speed): (u32, u32)) -> Result<DesignConfig, Box<dyn Error>> {
    let mut text = toml::to_string(&design_config(preset)?)?;
    let changes = [
        ("clock_mhz = 1000", format!("clock_mhz = {core_mhz}")),
        ("speed = 3200", format!("speed = {speed}")),
        ("jedec = true", "jedec = false".to_owned()),
    ];
    for (from, to) in changes {
        if !text.contains(from) {
            return Err(format!("{preset} has no `{from}`").into());
        }
        text = text.replace(from, &to);
    }
    Ok(DesignConfig::from_toml(&text)?)
}
