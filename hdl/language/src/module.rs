//! A finished module: ports, Verilog text, children, and what a parent has to know of its insides.

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

/// What drives or is driven in a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// A port of the module.
    Port,
    /// The instance of that number.
    Instance(usize),
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

impl Module {
    /// Name that the author gave, with the parameters that tell the module from others of its design.
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

    /// The beginning of a module with these ports and another name, up to its first line.
    pub fn header(&self, name: &str) -> String {
        header(name, &self.ports, |_| "")
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

    /// Which ports and instances drive which, through whatever logic and registers, without clocks and resets: bits of the inputs, or of the
    /// module's outputs, that depend on them.
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
