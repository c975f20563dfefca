//! The rules that a module has to keep before it is emitted.

use crate::bits::{Node, Signal};
use crate::body::{Declaration, Inner, InstanceBody, Kind, MemoryBody, RegBody};
use crate::domain::{ClockCrossing, PortDomains, implicit_names};
use crate::domains;
use crate::module::Direction;
use crate::{Bits, HdlError};
use std::collections::{BTreeMap, BTreeSet};

pub(crate) struct Report {
    pub clocked: bool,
    pub resettable: bool,
    pub comb_paths: BTreeMap<String, Vec<String>>,
    /// Resets of the further domains that are used.
    pub domain_resets: BTreeSet<String>,
    pub port_domains: PortDomains,
    pub crossings: Vec<ClockCrossing>,
}

pub(crate) fn check(inner: &Inner) -> Result<Report, HdlError> {
    check_names(inner)?;
    check_sizes(inner)?;
    check_instances(inner)?;
    domains::check_connections(inner)?;
    let (expressions, properties) = (expressions(inner), of_properties(inner));
    for (signal, width, expression) in expressions.iter().chain(&properties) {
        check_expression(inner, signal, expression)?;
        if let Some(width) = width
            && *width != expression.width()
        {
            return Err(HdlError::Width {
                module: inner.name().to_owned(),
                signal: signal.clone(),
                what: "assignment".into(),
                left: *width,
                right: expression.width(),
            });
        }
    }
    check_resets(inner)?;
    check_drivers(inner)?;
    check_memories(inner)?;
    check_readers(inner, &expressions, |id| !inner.is_ghost(id))?;
    check_readers(inner, &properties, |id| inner.is_ghost(id))?;
    check_ghosts(inner, &expressions)?;
    let comb_paths = check_loops(inner)?;
    let needed = domains::needed_ports(inner);
    let clocked = inner.hardware_regs().next().is_some()
        || inner.memories.iter().any(|m| !m.writes.is_empty())
        || needed.contains("clk_i");
    let resettable = inner.hardware_regs().any(|r| r.reset.is_some()) || needed.contains("rst_ni");
    if let Some(property) = inner.properties.first()
        && !(clocked && resettable)
    {
        return Err(HdlError::Expression {
            module: inner.name().to_owned(),
            signal: property.name.clone(),
            what: "a property needs a module with clk_i and rst_ni".into(),
        });
    }
    let (port_domains, crossings) = domains::check_crossings(inner, clocked)?;
    Ok(Report { clocked, resettable, comb_paths, domain_resets: needed, port_domains, crossings })
}

/// The number of write enables of a word: `enables` if it divides the word, else one.
fn lanes_of(word_bits: u32, enables: u32) -> u32 {
    if word_bits.is_multiple_of(enables) { enables } else { 1 }
}

/// Every expression of the module: the target that it drives, the width required there (if fixed), the expression.
fn expressions(inner: &Inner) -> Vec<(String, Option<u32>, &Bits)> {
    let target = |id: usize| (inner.declarations[id].name.clone(), Some(inner.declarations[id].width));
    let mut all = Vec::new();
    for (id, value) in &inner.drives {
        let (name, width) = target(*id);
        all.push((name, width, value));
    }
    all.extend(inner.hardware_regs().flat_map(|reg| of_reg(inner, reg)));
    for memory in &inner.memories {
        let addr_bits = addr_bits(memory);
        for (enable, addr, data) in &memory.writes {
            let lanes = if enable.width() > 1 { lanes_of(memory.width, enable.width()) } else { 1 };
            all.push((format!("{} (write enable)", memory.name), Some(lanes), enable));
            all.push((format!("{} (write address)", memory.name), addr_bits, addr));
            all.push((format!("{} (write data)", memory.name), Some(memory.width), data));
        }
        all.extend(of_reads(memory).filter(|(.., addr)| !inner.reads_ghost(addr)));
    }
    for instance in &inner.instances {
        for (port, value) in &instance.inputs {
            let width = instance.module.port(port).map(|p| p.width);
            all.push((format!("{}.{port}", instance.name), width, value));
        }
    }
    all.extend(inner.unused.iter().map(|(value, _)| ("unused".to_owned(), None, value)));
    all
}

fn addr_bits(memory: &MemoryBody) -> Option<u32> {
    Some(memory.depth.next_power_of_two().trailing_zeros().max(1))
}

fn of_reads(memory: &MemoryBody) -> impl Iterator<Item = (String, Option<u32>, &Bits)> {
    let (name, bits) = (format!("{} (read address)", memory.name), addr_bits(memory));
    memory.read_addrs.iter().map(move |addr| (name.clone(), bits, addr))
}

fn of_reg<'a>(inner: &Inner, reg: &'a RegBody) -> impl Iterator<Item = (String, Option<u32>, &'a Bits)> {
    let Declaration { name, width, .. } = inner.declarations[reg.id].clone();
    let enable = format!("{name} (enable)");
    let next = reg.next.iter().map(move |next| (name.clone(), Some(width), next));
    next.chain(reg.enable.iter().map(move |value| (enable.clone(), Some(1), value)))
}

fn of_properties(inner: &Inner) -> Vec<(String, Option<u32>, &Bits)> {
    let ghosts = inner.regs.iter().filter(|reg| inner.is_ghost(reg.id));
    let properties = inner.properties.iter().map(|p| (p.name.clone(), Some(1), &p.holds));
    let reads = inner.memories.iter().flat_map(of_reads).filter(|(.., addr)| inner.reads_ghost(addr));
    ghosts.flat_map(|reg| of_reg(inner, reg)).chain(properties).chain(reads).collect()
}

fn check_names(inner: &Inner) -> Result<(), HdlError> {
    let legal = |name: &str| {
        name.starts_with(|c: char| c.is_ascii_lowercase())
            && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_')
            && !crate::keywords::KEYWORDS.contains(&name)
    };
    let names = inner.declarations.iter().map(|d| &d.name);
    let names = names.chain(inner.memories.iter().map(|m| &m.name));
    let names = names.chain(inner.instances.iter().map(|i| &i.name));
    let names = names.chain(inner.properties.iter().map(|p| &p.name));
    let mut seen = BTreeSet::from(["clk_i", "rst_ni"]);
    for name in std::iter::once(&inner.owner.module).chain(&inner.domains).chain(names.clone()) {
        if !legal(name) {
            return Err(HdlError::IllegalName { module: inner.name().to_owned(), name: name.clone() });
        }
    }
    let domain_ports: Vec<String> = inner.domains.iter().flat_map(|d| implicit_names(d)).collect();
    for name in names.chain(&domain_ports) {
        if !seen.insert(name) {
            return Err(HdlError::DuplicateName { module: inner.name().to_owned(), name: name.clone() });
        }
    }
    Ok(())
}

/// Longest vector that every Verilog-2005 tool must accept.
const MAX_WIDTH: u32 = 1 << 16;
/// Deepest memory: more than any tool could simulate.
const MAX_DEPTH: u32 = 1 << 28;

fn check_sizes(inner: &Inner) -> Result<(), HdlError> {
    let widths = inner.declarations.iter().map(|d| (&d.name, "width", d.width, MAX_WIDTH));
    let words = inner.memories.iter().map(|m| (&m.name, "word width", m.width, MAX_WIDTH));
    let depths = inner.memories.iter().map(|m| (&m.name, "depth", m.depth, MAX_DEPTH));
    for (signal, what, value, max) in widths.chain(words).chain(depths) {
        if !(1..=max).contains(&value) {
            return Err(HdlError::Expression {
                module: inner.name().to_owned(),
                signal: signal.clone(),
                what: format!("{what} {value} must be in 1..={max}"),
            });
        }
    }
    Ok(())
}

fn check_instances(inner: &Inner) -> Result<(), HdlError> {
    for instance in &inner.instances {
        let connected = instance.inputs.iter().map(|(port, _)| (port, Direction::Input));
        let connected = connected.chain(instance.outputs.iter().map(|(port, _)| (port, Direction::Output)));
        for (port, direction) in connected.clone() {
            if instance.module.port(port).is_none_or(|p| p.direction != direction) {
                return Err(HdlError::NoSuchPort {
                    module: inner.name().to_owned(),
                    instance: instance.name.clone(),
                    child: instance.module.name().to_owned(),
                    port: port.clone(),
                    direction: if direction == Direction::Input { "input" } else { "output" },
                });
            }
        }
        for port in instance.module.ports().iter().filter(|p| !instance.module.is_clock_or_reset(&p.name)) {
            let drivers = connected.clone().filter(|(name, _)| **name == port.name).count();
            if drivers == 0 {
                return Err(HdlError::Unconnected {
                    module: inner.name().to_owned(),
                    instance: instance.name.clone(),
                    child: instance.module.name().to_owned(),
                    port: port.name.clone(),
                    width: port.width,
                });
            }
            if drivers > 1 {
                let signal = format!("{}.{}", instance.name, port.name);
                return Err(HdlError::MultipleDrivers { module: inner.name().to_owned(), signal, drivers });
            }
        }
    }
    Ok(())
}

fn check_expression(inner: &Inner, signal: &str, expression: &Bits) -> Result<(), HdlError> {
    let mut failure = None;
    expression.visit(&mut |bits| {
        if failure.is_some() {
            return;
        }
        let (module, signal) = (inner.name().to_owned(), signal.to_owned());
        failure = match bits.node() {
            Node::Mismatch { what, left, right } => {
                Some(HdlError::Width { module, signal, what: (*what).into(), left: *left, right: *right })
            }
            Node::Invalid(what) => Some(HdlError::Expression { module, signal, what: what.clone() }),
            Node::Later(_) => {
                let what = "what comes later can drive inputs of instances only".into();
                Some(HdlError::Expression { module, signal, what })
            }
            Node::Signal(Signal { name, owner, .. }) | Node::MemoryRead { memory: name, owner, .. }
                if *owner != inner.owner =>
            {
                let (foreign, owner) = (name.clone(), owner.module.clone());
                Some(HdlError::ForeignSignal { module, signal, foreign, owner })
            }
            _ if bits.width() > MAX_WIDTH => {
                let what = format!("an expression of {} bits must have at most {MAX_WIDTH}", bits.width());
                Some(HdlError::Expression { module, signal, what })
            }
            _ => None,
        };
    });
    failure.map_or(Ok(()), Err)
}

fn check_resets(inner: &Inner) -> Result<(), HdlError> {
    for reg in &inner.regs {
        let declaration = &inner.declarations[reg.id];
        if let Some(value) = reg.reset
            && declaration.width < 128
            && value >> declaration.width != 0
        {
            return Err(HdlError::Expression {
                module: inner.name().to_owned(),
                signal: declaration.name.clone(),
                what: format!("reset value {value} in {} bits", declaration.width),
            });
        }
    }
    Ok(())
}

/// A memory has one write port (two writes to one address have no defined order) and is read.
fn check_memories(inner: &Inner) -> Result<(), HdlError> {
    for memory in &inner.memories {
        let (module, signal) = (inner.name().to_owned(), memory.name.clone());
        match memory.writes.len() {
            0 => return Err(HdlError::Undriven { module, signal }),
            1 => {}
            drivers => return Err(HdlError::MultipleDrivers { module, signal, drivers }),
        }
        if memory.read_addrs.iter().all(|addr| inner.reads_ghost(addr)) {
            return Err(HdlError::Unread { module, signal });
        }
    }
    Ok(())
}

fn check_drivers(inner: &Inner) -> Result<(), HdlError> {
    let mut drivers = vec![0; inner.declarations.len()];
    for (id, _) in &inner.drives {
        drivers[*id] += 1;
    }
    for reg in &inner.regs {
        drivers[reg.id] += reg.next.len();
        if reg.enable.len() > 1 {
            let signal = format!("{} (enable)", inner.declarations[reg.id].name);
            let drivers = reg.enable.len();
            return Err(HdlError::MultipleDrivers { module: inner.name().to_owned(), signal, drivers });
        }
    }
    for (declaration, drivers) in inner.declarations.iter().zip(drivers) {
        let (module, signal) = (inner.name().to_owned(), declaration.name.clone());
        match declaration.kind {
            Kind::Input { .. } | Kind::InstanceOutput | Kind::Free { .. } if drivers == 0 => {}
            Kind::Input { .. } | Kind::InstanceOutput | Kind::Free { .. } => {
                return Err(HdlError::MultipleDrivers { module, signal, drivers: drivers + 1 });
            }
            _ if drivers == 0 => return Err(HdlError::Undriven { module, signal }),
            _ if drivers > 1 => return Err(HdlError::MultipleDrivers { module, signal, drivers }),
            _ => {}
        }
    }
    Ok(())
}

/// Every signal of the given kinds is read by some expression.
fn check_readers(
    inner: &Inner,
    expressions: &[(String, Option<u32>, &Bits)],
    asked: impl Fn(usize) -> bool,
) -> Result<(), HdlError> {
    let mut read = vec![false; inner.declarations.len()];
    for (target, _, expression) in expressions {
        expression.visit(&mut |bits| {
            // A register that only feeds itself is as useless as one that feeds nothing.
            if let Node::Signal(signal) = bits.node()
                && signal.name != *target
            {
                read[signal.id] = true;
            }
        });
    }
    for (id, (declaration, read)) in inner.declarations.iter().zip(read).enumerate() {
        if !read && asked(id) && !matches!(declaration.kind, Kind::Output { .. }) {
            return Err(HdlError::Unread {
                module: inner.name().to_owned(),
                signal: declaration.name.clone(),
            });
        }
    }
    Ok(())
}

fn check_ghosts(inner: &Inner, expressions: &[(String, Option<u32>, &Bits)]) -> Result<(), HdlError> {
    for (target, _, expression) in expressions {
        if let Some(ghost) = inner.ghosts_in(expression).next() {
            return Err(HdlError::Expression {
                module: inner.name().to_owned(),
                signal: target.clone(),
                what: format!(
                    "reads {}, a ghost, which only properties may read",
                    inner.declarations[ghost].name
                ),
            });
        }
    }
    Ok(())
}

/// Finds loops and, for every output, the inputs that reach it combinationally.
fn check_loops(inner: &Inner) -> Result<BTreeMap<String, Vec<String>>, HdlError> {
    let mut sources: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); inner.declarations.len()];
    for (id, value) in &inner.drives {
        sources[*id].extend(value.signals());
    }
    for instance in &inner.instances {
        for (port, id) in &instance.outputs {
            for input in instance.module.comb_inputs_of(port) {
                sources[*id].extend(input_expression(instance, input).into_iter().flat_map(Bits::signals));
            }
        }
    }
    let mut search =
        Search { inner, sources, state: vec![State::New; inner.declarations.len()], path: Vec::new() };
    for id in 0..inner.declarations.len() {
        search.visit(id)?;
    }
    let mut paths = BTreeMap::new();
    for (id, declaration) in inner.declarations.iter().enumerate() {
        if matches!(declaration.kind, Kind::Output { .. }) {
            let State::Done(inputs) = &search.state[id] else { continue };
            let names = inputs.iter().map(|i| inner.declarations[*i].name.clone()).collect();
            paths.insert(declaration.name.clone(), names);
        }
    }
    Ok(paths)
}

fn input_expression<'a>(instance: &'a InstanceBody, port: &str) -> Option<&'a Bits> {
    instance.inputs.iter().find(|(name, _)| name == port).map(|(_, value)| value)
}

#[derive(Clone)]
enum State {
    New,
    Open,
    Done(BTreeSet<usize>),
}

struct Search<'a> {
    inner: &'a Inner,
    sources: Vec<BTreeSet<usize>>,
    state: Vec<State>,
    path: Vec<usize>,
}

impl Search<'_> {
    fn visit(&mut self, id: usize) -> Result<BTreeSet<usize>, HdlError> {
        match &self.state[id] {
            State::Done(inputs) => return Ok(inputs.clone()),
            State::Open => {
                let start = self.path.iter().position(|p| *p == id).unwrap_or(0);
                let names = self.path[start..].iter().chain([&id]);
                let path = names.map(|i| self.inner.declarations[*i].name.clone()).collect();
                return Err(HdlError::CombinationalLoop { module: self.inner.name().to_owned(), path });
            }
            State::New => {}
        }
        self.state[id] = State::Open;
        self.path.push(id);
        let mut inputs = BTreeSet::new();
        if matches!(self.inner.declarations[id].kind, Kind::Input { .. }) {
            inputs.insert(id);
        }
        for source in self.sources[id].clone() {
            inputs.extend(self.visit(source)?);
        }
        self.path.pop();
        self.state[id] = State::Done(inputs.clone());
        Ok(inputs)
    }
}
