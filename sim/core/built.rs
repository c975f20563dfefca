//! Which of the compiled designs simulates a configuration: clocks are nowhere in the Verilog, so one model serves them all.

use crate::ffi::designs;
use ndp_config::DesignConfig;

/// The configuration under whose name a block of the same hardware was compiled in: the configuration's own name if that was, else
/// the first one that differs from it in name and clocks at most. Its own name if there is none.
pub(crate) fn built_as(config: &DesignConfig, block: &str) -> String {
    let of_block = || designs().filter(|design| design.block == block);
    let own = of_block().any(|design| design.config == config.name());
    let other = || {
        let found = of_block().find(|design| {
            let built = DesignConfig::from_toml(design.config_toml).ok();
            // What goes by another name than its configuration has a planted error.
            built.is_some_and(|built| built.name() == design.config && built.same_hardware(config))
        });
        found.map(|design| design.config)
    };
    if own { None } else { other() }.unwrap_or(config.name()).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_clocks_and_another_name_have_the_same_model() -> Result<(), Box<dyn std::error::Error>> {
        let text = include_str!("../../rust/config/presets/tiny.toml").replace("\"tiny\"", "\"other\"");
        let built = |text: &str| {
            Ok::<_, ndp_config::ConfigError>(built_as(&DesignConfig::from_toml(text)?, "ndp_core"))
        };
        assert_eq!(built_as(&DesignConfig::preset("tiny")?, "ndp_core"), "tiny");
        assert_eq!(built(&text)?, "tiny");
        assert_eq!(built(&format!("{text}\n[core]\nclock_mhz = 800"))?, "tiny");
        // Other times in clocks are other hardware.
        assert_eq!(built(&format!("{text}\n[dram]\nspeed = 2666"))?, "other");
        Ok(())
    }
}
