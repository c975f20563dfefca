//! A finished module: ports, Verilog text, children, and properties of its contents that a parent needs.

use crate::Bits;
use crate::body::{Inner, Kind};
use crate::constants::constants;
use crate::domain::{ClockCrossing, PortDomains, implicit_names};
use crate::lower::header;
use std::collections::{BTreeMap, BTreeSet};
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

/// A port of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Port {
    /// Name, ending in `_i` or `_o`.
    pub name: String,
    /// Direction.
    pub direction: Direction,
    /// Width in bits.
    pub width: u32,
    /// Line for the port table.
    pub doc: String,
}

/// A driver or a driven part in a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// A port of the module.
    Port,
    /// The instance of that number.
    Instance(usize),
}

/// Comments in the text for one tool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pragmas {
    /// No pragmas.
    None,
    /// Verilator's, which keep code that instances share ([`crate::ModuleBuilder::share_code`]).
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
    /// Name of the signal or memory.
    pub name: &'a str,
    /// File and line of its description; for a memory, of the written data.
    pub place: String,
    /// For each bit, lowest first, whether the description makes it constant; empty for a memory.
    pub constant: Vec<bool>,
}

/// A checked module, ready to be instantiated or emitted.
#[derive(Debug)]
pub struct Module {
    pub(crate) name: String,
    pub(crate) doc: String,
    pub(crate) ports: Vec<Port>,
    pub(crate) verilog: String,
    /// The text with pragmas, if it has any.
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

impl Module {
    /// The author's name, with the parameters that distinguish the module in its design.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The module's purpose.
    pub fn doc(&self) -> &str {
        &self.doc
    }

    /// Ports in order; `clk_i` and `rst_ni` first where they exist.
    pub fn ports(&self) -> &[Port] {
        &self.ports
    }

    /// File and line where the module's description begins, from the root of the workspace. Not part of this crate's
    /// texts: names and models would change with every line above.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The module's signals, then its memories.
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

    /// The beginning of a module with these ports and another name, up to its first line.
    pub fn header(&self, name: &str) -> String {
        header(name, &self.ports, |_| "")
    }

    /// The Verilog-2005 definition of this module only.
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

    /// Which ports and instances drive which, through any logic and registers, without clocks and resets: number of
    /// bits of the inputs, or of the module's outputs, that depend on them.
    pub fn connections(&self) -> Vec<(End, End, u32)> {
        let inner = &self.body;
        let mut driven: BTreeMap<usize, Vec<&Bits>> = BTreeMap::new();
        inner.drives.iter().for_each(|(id, value)| driven.entry(*id).or_default().push(value));
        inner
            .regs
            .iter()
            .for_each(|reg| driven.entry(reg.id).or_default().extend(reg.next.iter().chain(&reg.enable)));
        let sources: BTreeMap<usize, End> = (0..)
            .zip(&inner.instances)
            .flat_map(|(number, instance)| {
                instance.outputs.iter().map(move |(_, id)| (*id, End::Instance(number)))
            })
            .chain(
                inner
                    .declarations
                    .iter()
                    .enumerate()
                    .filter(|(_, own)| matches!(own.kind, Kind::Input { .. }))
                    .map(|(id, _)| (id, End::Port)),
            )
            .collect();
        let reached = |value: &Bits| {
            let (mut found, mut seen, mut todo) = (BTreeSet::new(), BTreeSet::new(), value.signals());
            while let Some(id) = todo.pop() {
                match sources.get(&id) {
                    Some(end) => _ = found.insert(*end),
                    None if seen.insert(id) => {
                        todo.extend(driven.get(&id).into_iter().flatten().flat_map(|value| value.signals()));
                    }
                    None => {}
                }
            }
            found
        };
        let outputs =
            inner.drives.iter().filter(|(id, _)| matches!(inner.declarations[*id].kind, Kind::Output { .. }));
        let mut ends: Vec<(End, &Bits)> = outputs.map(|(_, value)| (End::Port, value)).collect();
        for (number, instance) in inner.instances.iter().enumerate() {
            ends.extend(instance.inputs.iter().map(|(_, value)| (End::Instance(number), value)));
        }
        let mut bits = BTreeMap::new();
        for (to, value) in ends {
            reached(value).into_iter().for_each(|from| *bits.entry((from, to)).or_insert(0) += value.width());
        }
        bits.into_iter().map(|((from, to), bits)| (from, to, bits)).collect()
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

    /// Signals that go from one clock of the module to another, in the module itself.
    pub fn crossings(&self) -> &[ClockCrossing] {
        &self.crossings
    }

    /// The clock of the module that an instance in it has as `clock`, if it has such a clock.
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
