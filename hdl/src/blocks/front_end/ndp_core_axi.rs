//! The NDP core with an AXI4 subordinate in place of its host port.

use super::axi_subordinate::{PREFIX, axi_subordinate};
use super::ndp_core::ndp_core;
use super::prelude::*;
use ndp_hdl_language::Direction;

/// Prefixes of the core's ports that the subordinate uses.
const HOST: [&str; 2] = ["host_", "response_"];

/// The core with AXI4 in place of its host port; all other ports equal [`ndp_core`]'s.
#[block(m)]
pub fn ndp_core_axi(config: &DesignConfig) -> Block {
    let (core_module, axi_module) = (ndp_core(config)?, axi_subordinate(config)?);
    let shape = axi_module.name().trim_start_matches("axi_subordinate_").to_owned();
    let title = core_module.name().replace("ndp_core", "ndp_core_axi");
    let m = ModuleBuilder::new(format!("{title}_{shape}"), "NDP core of a DIMM behind an AXI4 subordinate.");
    let clock = m.clock_domain("dram");
    let is_host = |name: &str| HOST.iter().any(|prefix| name.starts_with(prefix));
    let of_axi = |name: &str| name.starts_with(PREFIX);
    let axi = m.instance("axi", &axi_module).expose(Direction::Input, of_axi);
    let core = m.instance("core", &core_module).pass_domain("dram", &clock);
    core.expose(Direction::Input, |name| !is_host(name));
    core.input("response_ready_i", lit(1, 1));
    for name in ["valid", "write", "addr", "tag", "data"] {
        core.input(format!("host_{name}_i"), axi.output(&format!("host_{name}_o")));
    }
    axi.input("host_ready_i", core.output("host_ready_o"));
    for name in ["valid", "write", "tag", "data"] {
        axi.input(format!("response_{name}_i"), core.output(&format!("response_{name}_o")));
    }
    axi.expose(Direction::Output, of_axi);
    core.expose(Direction::Output, |name| !is_host(name));
    m.finish()
}
