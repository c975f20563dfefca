//! Warnings about keys of a system file that a command ignores. Otherwise a user would believe that they had an
//! effect. Presets serve all commands, so their keys cause no warning.

use crate::prelude::*;

/// A section or a key, and the value that the command uses instead.
pub type Ignored = (&'static str, &'static str);

/// Keys that the formulas of `compare` ignore; `serve` on Hermes' machine ignores them as well.
pub const COMPARE: [Ignored; 5] = [
    ("bus.sync_us", "the assumption sync"),
    ("channel", "the bandwidth of bus and DIMMs"),
    ("host.cores", "the assumption host_layer"),
    ("host.predictor_ps_per_neuron", "the assumption host_layer"),
    ("dimms.bandwidth_gbps", "the cycle model of the core in --config"),
];

/// Key that the formulas of `compare` ignore: they model no links between DIMMs.
pub const COMPARE_LINKS: Ignored = ("dimms.link_gbps", "neurons that stay where they are");

/// Section that `serve` ignores: it reports no prices.
pub const SERVE: Ignored = ("price", "no price");

/// Keys that `evaluate` and `generate` ignore: their host only predicts activity and moves neurons.
#[cfg(feature = "rtl")]
pub const HOST: [Ignored; 4] = [
    ("host.memory_gb", "a host that holds no weights"),
    ("host.bandwidth_gbps", "a host that holds no weights"),
    ("host.tflops", "a host that computes no neurons"),
    ("price", "no price"),
];

/// Keys that `place` ignores: its objective is the one in equations 1 to 7.
pub const PLACE: [Ignored; 7] = [
    ("gpu.tflops", "the bandwidth of the GPU's memory"),
    ("gpu.compute_efficiency", "the bandwidth of the GPU's memory"),
    ("bus.bandwidth_gbps", "bus.sync_us"),
    ("channel", "no channel"),
    ("host", "the options --cpu-gbps and --cpu-gb"),
    ("dimms.link_gbps", "neurons that stay where they are"),
    ("price", "no price"),
];

pub fn warn(command: &str, system: &str, ignored: &[Ignored]) -> Result<()> {
    if let Some(text) = warning(command, system, ignored)? {
        note!("{text}");
    }
    Ok(())
}

fn warning(command: &str, system: &str, ignored: &[Ignored]) -> Result<Option<String>> {
    // A pipe can be read once, by the command itself.
    if !system.ends_with(".toml") || !Path::new(system).is_file() {
        return Ok(None);
    }
    let table: toml::Table = ndp_config::from_file(system, ndp_config::parse)?;
    let has = |key: &str| match key.split_once('.') {
        Some((section, key)) => table.get(section).is_some_and(|section| section.get(key).is_some()),
        None => table.contains_key(key),
    };
    let found = ignored.iter().filter(|(key, _)| has(key));
    let found = found.map(|(key, instead)| format!("{key} (goes by: {instead})")).join(", ");
    Ok((!found.is_empty()).then(|| format!("warning: {command} ignores these keys of '{system}': {found}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_are_there_and_ignored_are_said() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let path = folder.path().join("mine.toml");
        let name = path.to_string_lossy().into_owned();
        std::fs::write(&path, "name = 'x'\n[channel]\ndimms = 2\n[dimms]\nlink_gbps = 1.0\ncount = 2\n")?;
        let text = warning("place", &name, &PLACE)?.unwrap_or_default();
        let expected = format!(
            "warning: place ignores these keys of '{name}': channel (goes by: no channel), dimms.link_gbps (goes by: neurons that stay where they are)"
        );
        assert_eq!(text, expected);
        assert_eq!(warning("place", &name, &PLACE[..3])?, None);
        assert_eq!(warning("place", "hermes", &PLACE)?, None);
        Ok(())
    }
}
