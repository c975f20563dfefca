//! One elaborated design, reduced to what a model is made from.

use crate::Failure;
use ndp_config::{DesignConfig, HbmConfig};
use ndp_hdl::layer::{Design, Direction};

/// Optimisation of most designs.
const OPT_LEVEL: u32 = 2;
/// That of bridges, whose wide functions take three times as long to compile at level 2, and are a small part of what a system
/// evaluates.
const BRIDGE_OPT_LEVEL: u32 = 1;

/// One elaborated design.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Configuration name.
    pub config: String,
    /// Block name.
    pub block: String,
    /// The configuration as TOML; empty for the self-test.
    pub config_toml: String,
    /// Name of the top module.
    pub top: String,
    /// All modules.
    pub verilog: String,
    /// Ports of the top module.
    pub ports: Vec<Port>,
    /// Whether to build the variant whose signals can be dumped.
    pub waves: bool,
    /// How much the compiler optimises what is evaluated every cycle (`-O`).
    pub opt_level: u32,
}

/// One port of the top module.
#[derive(Clone, Debug)]
pub struct Port {
    /// Name.
    pub name: String,
    /// Width in bits.
    pub width: u32,
    /// Driven by the model.
    pub output: bool,
}

impl Entry {
    /// A design under the name of a configuration.
    pub fn new(config: &str, block: &str, config_toml: String, design: &Design, waves: bool) -> Self {
        let top = design.top();
        let ports = top.ports().iter().map(|port| Port {
            name: port.name.clone(),
            width: port.width,
            output: port.direction == Direction::Output,
        });
        Self {
            config: config.to_owned(),
            block: block.to_owned(),
            config_toml,
            top: top.title().to_owned(),
            // A model holds one design. Without hashes its scopes have the same names whatever is changed.
            verilog: design
                .definitions(|module| module.title().to_owned())
                .into_iter()
                .map(|(_, text)| text)
                .collect::<Vec<_>>()
                .join("\n"),
            ports: ports.collect(),
            waves,
            opt_level: if block == "link_bridge" { BRIDGE_OPT_LEVEL } else { OPT_LEVEL },
        }
    }

    /// Elaborates a block of a configuration.
    ///
    /// # Errors
    /// What the generator says of it.
    pub fn elaborate(config: &DesignConfig, block: &str, waves: bool) -> Result<Self, Failure> {
        let failure = |e: &dyn std::fmt::Display| vec![format!("{}/{block}: {e}", config.name())];
        let design = ndp_hdl::designs::build(config, block).map_err(|e| failure(&e))?;
        let text = toml::to_string(config).map_err(|e| failure(&e))?;
        // A harness that reads another configuration than the one that was built would test nothing.
        let again = DesignConfig::from_toml(&text).map_err(|e| failure(&e))?;
        if again != *config {
            return Err(failure(&"the configuration does not survive being written as TOML"));
        }
        Ok(Self::new(config.name(), block, text, &design, waves))
    }

    /// Elaborates a block of a memory that computes.
    ///
    /// # Errors
    /// What the generator says of it.
    pub fn elaborate_hbm(config: &HbmConfig, block: &str, waves: bool) -> Result<Self, Failure> {
        let failure = |e: &dyn std::fmt::Display| vec![format!("{}/{block}: {e}", config.name())];
        let design = ndp_hdl::designs::build_hbm(config, block).map_err(|e| failure(&e))?;
        let text = toml::to_string(config).map_err(|e| failure(&e))?;
        let again = HbmConfig::from_toml(&text).map_err(|e| failure(&e))?;
        if again != *config {
            return Err(failure(&"the memory does not survive being written as TOML"));
        }
        Ok(Self::new(config.name(), block, text, &design, waves))
    }

    /// The name under which the harness opens the design.
    pub fn name(&self) -> String {
        format!("{}/{}", self.config, self.block)
    }

    /// The name as part of an identifier.
    pub fn identifier(&self) -> String {
        self.name().replace(['/', '-'], "_")
    }

    /// Replaces part of the Verilog, wherever it occurs: a mutant, under the name of `name` in place of the configuration's.
    ///
    /// # Errors
    /// If the Verilog does not contain `from`.
    pub fn mutated(mut self, (name, from, to): (&str, &str, &str)) -> Result<Self, Failure> {
        if !self.verilog.contains(from) {
            return Err(vec![format!("{name}: the Verilog of {} does not contain `{from}`", self.top)]);
        }
        self.config = name.to_owned();
        self.verilog = self.verilog.replace(from, to);
        Ok(self)
    }
}
