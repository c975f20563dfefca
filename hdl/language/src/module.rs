//! A finished module: ports, Verilog text, children, and what a parent has to know of its insides.

use crate::body::Inner;
use crate::constants::constants;
use crate::domain::{ClockCrossing, PortDomains, implicit_names};
use crate::lower::{one_line, range, wrap};
use std::collections::BTreeMap;
use std::panic::Location;
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

impl Port {
    /// The declaration in Verilog with what the port means, and a line break.
    pub fn declaration(&self) -> String {
        self.declared("")
    }

    pub(crate) fn declared(&self, pragma: &str) -> String {
        let direction = if self.direction == Direction::Input { "input" } else { "output" };
        let declaration = format!("    {direction} wire {}{}{pragma};", range(self.width), self.name);
        // A quoted name would be a macro's in Verilog.
        let doc = one_line(&self.doc).replace('`', "");
        if declaration.len() + doc.len() < 120 {
            return format!("{declaration} // {doc}\n");
        }
        let above: String = wrap(&doc, 110).iter().map(|line| format!("    // {line}\n")).collect();
        format!("{above}{declaration}\n")
    }
}

/// Comments in the text for the one tool that reads them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pragmas {
    /// None.
    None,
    /// Those of Verilator, which keep code that instances share ([`crate::ModuleBuilder::share_code`]).
    Verilator,
}

/// Shape of a module that is a memory macro.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryInfo {
    /// Words.
    pub depth: u32,
    /// Bits of a word.
    pub width: u32,
}

/// A signal or memory of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignalInfo<'a> {
    /// Its name.
    pub name: &'a str,
    /// The file and line that describe it; of a memory, the data that are written.
    pub place: String,
    /// For each bit, the lowest first, whether the description makes it constant; nothing of a memory.
    pub constant: Vec<bool>,
}

/// A checked module, ready to be instantiated or emitted.
#[derive(Debug)]
pub struct Module {
    pub(crate) title: String,
    pub(crate) name: String,
    pub(crate) doc: String,
    pub(crate) ports: Vec<Port>,
    pub(crate) verilog: String,
    /// The same with pragmas, if it has any.
    pub(crate) verilated: Option<String>,
    pub(crate) source: String,
    pub(crate) instances: Vec<(String, Rc<Module>)>,
    pub(crate) memory: Option<MemoryInfo>,
    /// For each output, the inputs it depends on without a register in between.
    pub(crate) comb_paths: BTreeMap<String, Vec<String>>,
    pub(crate) domains: Vec<String>,
    pub(crate) port_domains: PortDomains,
    pub(crate) crossings: Vec<ClockCrossing>,
    pub(crate) body: Inner,
}

/// The name of a module: its title and 32 bits of the FNV-1a hash of its text.
pub(crate) fn hashed_name(title: &str, text: &str) -> String {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("{title}_h{:08x}", (hash >> 32) ^ (hash & 0xffff_ffff))
}

impl Module {
    /// Name that the author gave, with the parameters that tell the module from others of its design.
    pub fn title(&self) -> &str {
        &self.title
    }

    /// Name in Verilog: the title, `_h` and a hash of the text, names of children included. So it depends on the body and on
    /// nothing else, and modules of different designs have one name only if they have one body.
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

    /// File and line where the description of the module begins, from the root of the workspace. No text of this crate has it: names
    /// and models would change with every line above.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// What is declared and written in the module: signals, then memories.
    pub fn signals(&self) -> Vec<SignalInfo<'_>> {
        let text = |place: &Location<'_>| format!("{}:{}", place.file(), place.line());
        let declared = self.body.declarations.iter().zip(constants(&self.body));
        let signals = declared.map(|(own, known)| {
            let constant = known.iter().map(Option::is_some).collect();
            SignalInfo { name: &own.name, place: text(own.place), constant }
        });
        let memories = self.body.memories.iter().filter_map(|memory| {
            let (_, _, data) = memory.writes.first()?;
            Some(SignalInfo { name: &memory.name, place: text(data.place()), constant: Vec::new() })
        });
        signals.chain(memories).collect()
    }

    /// The Verilog-2005 definition of this module alone.
    pub fn verilog(&self) -> &str {
        &self.verilog
    }

    pub(crate) fn text(&self, pragmas: Pragmas) -> &str {
        match (pragmas, &self.verilated) {
            (Pragmas::Verilator, Some(text)) => text,
            _ => &self.verilog,
        }
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

    /// The signals that go from one clock of the module to another, in the module itself.
    pub fn crossings(&self) -> &[ClockCrossing] {
        &self.crossings
    }

    /// The clock of the module that an instance in it has as `clock`; none if the instance has no such clock.
    pub fn clock_of(&self, instance: &str, clock: &str) -> Option<String> {
        let instance = self.body.instances.iter().find(|other| other.name == instance)?;
        instance.module.port(clock)?;
        instance.clock_or_reset(&self.body, clock)
    }

    /// Whether its registers catch signals of other clocks.
    pub fn is_synchroniser(&self) -> bool {
        self.body.synchroniser
    }

    /// Whether an input is a clock or a reset, which parents connect through domains.
    pub fn is_clock_or_reset(&self, input: &str) -> bool {
        let of_domain = |domain: &String| implicit_names(domain).iter().any(|port| port == input);
        self.port(input).is_some_and(|port| port.direction == Direction::Input)
            && (matches!(input, "clk_i" | "rst_ni") || self.domains.iter().any(of_domain))
    }

    pub(crate) fn body(&self) -> &Inner {
        &self.body
    }

    pub(crate) fn port(&self, name: &str) -> Option<&Port> {
        self.ports.iter().find(|p| p.name == name)
    }

    /// The port table in Markdown.
    pub fn port_table(&self) -> String {
        let mut text = format!(
            "### `{}`\n\n{}\n\n| port | direction | bits | meaning |\n| --- | --- | ---: | --- |\n",
            self.title, self.doc
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
