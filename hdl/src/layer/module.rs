//! A finished module: ports, Verilog text, children, and what a parent has to know of its insides.

use super::domains::{self, PortDomains};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Direction of a port, seen from the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// Driven from outside.
    Input,
    /// Driven by the module.
    Output,
}

/// One port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Name, ending in `_i` or `_o`.
    pub name: String,
    /// Direction.
    pub direction: Direction,
    /// Width in bits.
    pub width: u32,
    /// One line for the port table.
    pub doc: String,
}

/// Shape of a module that is a memory macro.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryInfo {
    /// Words.
    pub depth: u32,
    /// Bits of a word.
    pub width: u32,
}

/// A checked module, ready to be instantiated or emitted.
#[derive(Debug)]
pub struct Module {
    pub(super) name: String,
    pub(super) doc: String,
    pub(super) ports: Vec<Port>,
    pub(super) verilog: String,
    pub(super) instances: Vec<(String, Rc<Module>)>,
    pub(super) memory: Option<MemoryInfo>,
    /// For each output, the inputs it depends on without a register in between.
    pub(super) comb_paths: BTreeMap<String, Vec<String>>,
    pub(super) domains: Vec<String>,
    pub(super) port_domains: PortDomains,
}

impl Module {
    /// Module name, parameters included.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the module does.
    pub fn doc(&self) -> &str {
        &self.doc
    }

    /// Ports in order; `clk_i` and `rst_ni` first where they exist.
    pub fn ports(&self) -> &[Port] {
        &self.ports
    }

    /// The Verilog-2005 definition of this module alone.
    pub fn verilog(&self) -> &str {
        &self.verilog
    }

    /// Instances: name and module.
    pub fn instances(&self) -> &[(String, Rc<Module>)] {
        &self.instances
    }

    /// Set for a module that stands for an SRAM or register-file macro.
    pub fn memory(&self) -> Option<MemoryInfo> {
        self.memory
    }

    /// Inputs that reach `output` without passing a register.
    pub fn comb_inputs_of(&self, output: &str) -> &[String] {
        self.comb_paths.get(output).map_or(&[], Vec::as_slice)
    }

    /// Clock domains beside the module's own.
    pub fn domains(&self) -> &[String] {
        &self.domains
    }

    /// Whether an input is a clock or a reset, which parents connect through domains.
    pub fn is_clock_or_reset(&self, input: &str) -> bool {
        domains::is_implicit(self, input)
    }

    pub(super) fn port(&self, name: &str) -> Option<&Port> {
        self.ports.iter().find(|p| p.name == name)
    }

    /// The port table in Markdown.
    pub fn port_table(&self) -> String {
        let mut text = format!(
            "### `{}`\n\n{}\n\n| port | direction | bits | meaning |\n| --- | --- | ---: | --- |\n",
            self.name, self.doc
        );
        for port in &self.ports {
            let direction = match port.direction {
                Direction::Input => "in",
                Direction::Output => "out",
            };
            text += &format!("| `{}` | {direction} | {} | {} |\n", port.name, port.width, port.doc);
        }
        text
    }
}
