//! The design of `ndp-hdl` reduced to plain data that threads can share. Memory macros are black boxes here.

use ndp_files::{Result, refusal};
use ndp_hdl_language::{Design, Direction, Module};
use std::collections::BTreeMap;
use std::fmt::Write;

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct MemoryShape {
    pub depth: u32,
    /// Bits of a word.
    pub width: u32,
}

impl MemoryShape {
    pub fn bits(self) -> u64 {
        u64::from(self.depth) * u64::from(self.width)
    }
}

#[derive(Clone, Debug)]
pub struct Unit {
    pub name: String,
    /// Verilog definition; for a flattened block, all definitions.
    pub verilog: String,
    /// Ports only, as a black box.
    pub stub: String,
    /// Distinct black boxes below, with their numbers of instances in this module.
    pub children: BTreeMap<String, u64>,
    /// Instances in the top; 1 for the top itself.
    pub instances: u64,
    pub memory: Option<MemoryShape>,
    pub clocks: Vec<String>,
}

impl Unit {
    /// Whether the unit has a clock and is not a memory macro.
    pub fn has_registers(&self) -> bool {
        self.memory.is_none() && !self.clocks.is_empty()
    }

    /// `name` is an input of one bit.
    pub fn stub_with_input(&self, name: &str) -> String {
        self.stub.replacen("(\n", &format!("(\n    input {name},\n"), 1)
    }
}

/// Children before parents, the top last.
#[derive(Clone, Debug)]
pub struct Hierarchy {
    pub units: Vec<Unit>,
}

impl Hierarchy {
    pub fn from_design(design: &Design) -> Self {
        let mut counts: BTreeMap<&str, u64> = BTreeMap::from([(design.top().name(), 1)]);
        for module in design.modules().iter().rev() {
            let own = counts.get(module.name()).copied().unwrap_or(0);
            for child in children(module) {
                *counts.entry(child).or_insert(0) += own;
            }
        }
        let unit = |module: &std::rc::Rc<Module>| {
            let instances = counts.get(module.name()).copied()?;
            let mut below = BTreeMap::new();
            for child in children(module) {
                *below.entry(child.to_owned()).or_insert(0) += 1;
            }
            let clocks = module.ports().iter().map(|port| &port.name).filter(|name| name.ends_with("clk_i"));
            Some(Unit {
                name: module.name().to_owned(),
                verilog: module.verilog().to_owned(),
                stub: stub(module),
                children: below,
                instances,
                memory: module.memory().map(|m| MemoryShape { depth: m.depth, width: m.width }),
                clocks: clocks.cloned().collect(),
            })
        };
        Self { units: design.modules().iter().filter_map(unit).collect() }
    }

    pub fn unit(&self, name: &str) -> Option<&Unit> {
        self.units.iter().find(|unit| unit.name == name)
    }

    /// All logic in one module; memory macros stay apart.
    pub fn flattened(&self) -> Self {
        let (memories, logic): (Vec<Unit>, Vec<Unit>) =
            self.units.iter().cloned().partition(|unit| unit.memory.is_some());
        let mut units = memories;
        if let Some(top) = logic.last() {
            let children = units.iter().map(|unit| (unit.name.clone(), unit.instances)).collect();
            let verilog = logic.iter().map(|unit| unit.verilog.as_str()).collect::<Vec<_>>().join("\n");
            let whole = Unit { verilog, children, ..top.clone() };
            units.push(whole);
        }
        Self { units }
    }
}

/// `config` is a preset's name or the path of a file; the result has the configuration's own name. PIM blocks (`pim_*`)
/// need the configuration of a memory.
///
/// # Errors
/// An unusable configuration; an unknown block; an error of the generator.
pub fn design(config: &str, block: &str) -> Result<(String, Design)> {
    let (name, design) = if ndp_hdl::designs::HBM_BLOCKS.contains(&block) {
        let config = ndp_config::HbmConfig::load(config)?;
        (config.name().to_owned(), ndp_hdl::designs::build_hbm(&config, block))
    } else {
        let config = ndp_config::DesignConfig::load(config)?;
        (config.name().to_owned(), ndp_hdl::designs::build(&config, block))
    };
    let design = design.map_err(|e| refusal!("cannot build block '{block}': {e}"))?;
    Ok((name, design))
}

/// Like [`design`], for Yosys.
pub fn block(config: &str, block: &str) -> Result<(String, Hierarchy)> {
    let (name, design) = design(config, block)?;
    Ok((name, Hierarchy::from_design(&design)))
}

pub fn blocks() -> Vec<String> {
    let all = ndp_hdl::designs::BLOCKS.iter().chain(ndp_hdl::designs::HBM_BLOCKS);
    all.map(|name| name.to_string()).collect()
}

/// Instances for the flow: none in a memory macro.
fn children(module: &Module) -> impl Iterator<Item = &str> {
    let visible = module.instances().iter().filter(|_| module.memory().is_none());
    visible.map(|(_, child)| child.name())
}

fn stub(module: &Module) -> String {
    let mut text = format!("(* blackbox *)\nmodule {} (\n", module.name());
    for (index, port) in module.ports().iter().enumerate() {
        let direction = match port.direction {
            Direction::Input => "input",
            Direction::Output => "output",
        };
        let range = if port.width == 1 { String::new() } else { format!("[{}:0] ", port.width - 1) };
        let comma = if index + 1 == module.ports().len() { "" } else { "," };
        let _ = writeln!(text, "    {direction} {range}{}{comma}", port.name);
    }
    text + ");\nendmodule\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndp_hdl_language::ModuleBuilder;
    use std::rc::Rc;

    fn two_level() -> Design {
        let ram = ModuleBuilder::new("ram_4x8", "A memory.");
        let addr = ram.input("addr_i", 2, "address");
        let data = ram.input("data_i", 8, "data");
        let write = ram.input("write_i", 1, "write");
        let words = ram.memory("words_q", 8, 4);
        words.write(write, addr, data);
        ram.output("data_o", words.read(addr), "data");
        ram.memory_macro(4, 8);
        let ram = ram.finish().unwrap();
        let leaf = |name: &str, ram: Option<&Rc<Module>>| {
            let m = ModuleBuilder::new(name, "A leaf.");
            let a = m.input("a_i", 8, "a");
            let q = m.reg("a_q", 8);
            q.next(a);
            match ram {
                None => {
                    m.output("y_o", q, "y");
                }
                Some(ram) => {
                    let instance = m
                        .instance("ram", ram)
                        .input("addr_i", q.low(2))
                        .input("data_i", q)
                        .input("write_i", q.msb());
                    m.output("y_o", instance.output("data_o"), "y");
                }
            }
            m.finish().unwrap()
        };
        let plain = leaf("plain", None);
        let holder = leaf("holder", Some(&ram));
        let top = ModuleBuilder::new("top", "Two levels.");
        let a = top.input("a_i", 8, "a");
        let first = top.instance("first", &holder).input("a_i", a).output("y_o");
        let second = top.instance("second", &holder).input("a_i", first).output("y_o");
        let third = top.instance("third", &plain).input("a_i", second).output("y_o");
        top.output("y_o", third, "y");
        Design::new(&top.finish().unwrap()).unwrap()
    }

    #[test]
    fn a_stub_lists_every_port_and_nothing_else() {
        let hierarchy = Hierarchy::from_design(&two_level());
        let stub = &hierarchy.unit("ram_4x8").unwrap().stub;
        assert!(stub.starts_with("(* blackbox *)\nmodule ram_4x8 (\n    input clk_i,\n"), "{stub}");
        assert!(
            stub.contains("    input [7:0] data_i,\n") && stub.contains("    output [7:0] data_o\n);"),
            "{stub}"
        );
        assert!(!stub.contains("reg"), "{stub}");
    }

    #[test]
    fn children_are_counted_per_module_and_memories_marked() {
        let hierarchy = Hierarchy::from_design(&two_level());
        let top = hierarchy.unit("top").unwrap();
        assert_eq!(top.children, BTreeMap::from([("holder".into(), 2), ("plain".into(), 1)]));
        let ram = hierarchy.unit("ram_4x8").unwrap();
        assert_eq!((ram.instances, ram.memory.map(MemoryShape::bits)), (2, Some(32)));
    }

    #[test]
    fn flattening_keeps_memories_apart() {
        let flat = Hierarchy::from_design(&two_level()).flattened();
        let names: Vec<&str> = flat.units.iter().map(|unit| unit.name.as_str()).collect();
        assert_eq!(names, ["ram_4x8", "top"]);
        let top = &flat.units[1];
        assert_eq!(top.children, BTreeMap::from([("ram_4x8".into(), 2)]));
        for name in ["module top", "module holder", "module plain"] {
            assert!(top.verilog.contains(name));
        }
        assert!(!top.verilog.contains("module ram_4x8"));
    }
}
