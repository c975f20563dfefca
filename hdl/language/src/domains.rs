//! Clock domains: the clock of every instance, and the signals that go from one clock to another.
//!
//! The registers of a module are all on `clk_i`. A second clock needs an instance in another domain
//! ([`InstanceBuilder::in_domain`](crate::InstanceBuilder::in_domain)); the module then has the ports `<domain>_clk_i`
//! and `<domain>_rst_ni`, and its parents pass one of their domains on to each of them
//! ([`InstanceBuilder::pass_domain`](crate::InstanceBuilder::pass_domain)). Nothing is passed on by name.
//!
//! Checked: every register, memory and instance input is driven from its own domain, even through wires and
//! combinational paths of instances; an input port is read in one domain and an output port comes from one; a signal
//! that crosses is connected with [`InstanceBuilder::crossing`](crate::InstanceBuilder::crossing), which takes a
//! [`Crossing`] and a reason; a Gray code comes straight from registers and goes only to synchronisers.
//!
//! Not checked: whether a Gray code is one, whether a word is stable, and whether the parent drives each port of the
//! top in its domain. Each reset has to be released in step with its own clock, and the resets of all domains have to
//! be active together for some cycles of the slowest one.

use crate::bits::Node;
use crate::body::{Inner, InstanceBody, Kind, port_of};
use crate::domain::{ClockCrossing, Crossing, PortDomains, implicit_names};
use crate::{Bits, HdlError, Module};
use std::collections::{BTreeMap, BTreeSet};

/// Clock and reset ports that the module needs for its instances, in the order of its domains.
pub(crate) fn needed_ports(inner: &Inner) -> BTreeSet<String> {
    let ports = |i: &InstanceBody| -> Vec<String> {
        i.module.ports().iter().filter_map(|p| i.clock_or_reset(inner, &p.name)).collect()
    };
    inner.instances.iter().flat_map(ports).collect()
}

/// Every named domain exists, belongs to this module, and is connected once.
pub(crate) fn check_connections(inner: &Inner) -> Result<(), HdlError> {
    let module = || inner.name().to_owned();
    for instance in &inner.instances {
        let child = || instance.module.name().to_owned();
        let no_such_port = |port: &str| HdlError::NoSuchPort {
            module: module(),
            instance: instance.name.clone(),
            child: child(),
            port: port.to_owned(),
            direction: "input",
        };
        let several = |port: &str, drivers| HdlError::MultipleDrivers {
            module: module(),
            signal: format!("{}.{port}", instance.name),
            drivers,
        };
        if instance.own_domain.len() > 1 {
            return Err(several("clk_i", instance.own_domain.len()));
        }
        if !instance.own_domain.is_empty() && instance.module.port("clk_i").is_none() {
            return Err(no_such_port("clk_i"));
        }
        let mut named = instance.own_domain.iter().chain(instance.passed.iter().map(|(_, domain)| domain));
        if let Some(domain) = named.find(|domain| domain.owner != inner.owner) {
            return Err(HdlError::ForeignSignal {
                module: module(),
                signal: format!("{}.clk_i", instance.name),
                foreign: "a clock domain".into(),
                owner: domain.owner.module.clone(),
            });
        }
        for (name, _) in &instance.passed {
            if !instance.module.domains.contains(name) {
                return Err(no_such_port(&implicit_names(name)[0]));
            }
        }
        for domain in &instance.module.domains {
            let port = implicit_names(domain)[0].clone();
            match instance.passed.iter().filter(|(name, _)| name == domain).count() {
                0 => {
                    return Err(HdlError::Unconnected {
                        module: module(),
                        instance: instance.name.clone(),
                        child: child(),
                        port,
                        width: 1,
                    });
                }
                1 => {}
                drivers => return Err(several(&port, drivers)),
            }
        }
    }
    let needed = needed_ports(inner);
    for domain in &inner.domains {
        let [clock, _] = implicit_names(domain);
        if !needed.contains(&clock) {
            return Err(HdlError::Unread { module: module(), signal: clock });
        }
    }
    Ok(())
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Source {
    Domain(Option<usize>),
    /// An input port, whose domain is not known yet.
    Input(usize),
}

/// Refuses undeclared crossings and returns the declared ones. The module has no combinational loop.
pub(crate) fn check_crossings(
    inner: &Inner,
    clocked: bool,
) -> Result<(PortDomains, Vec<ClockCrossing>), HdlError> {
    let mut found = PortDomains::default();
    let several = |i: &InstanceBody| !i.own_domain.is_empty() || !i.passed.is_empty();
    if !inner.instances.iter().any(several) {
        for declaration in inner.declarations.iter().filter(|_| clocked) {
            let ports = match declaration.kind {
                Kind::Input { .. } => &mut found.sinks,
                Kind::Output { .. } => &mut found.sources,
                _ => continue,
            };
            ports.insert(declaration.name.clone(), String::new());
        }
        return Ok((found, Vec::new()));
    }
    let mut search = Search { inner, known: vec![None; inner.declarations.len()] };
    let mut inputs: BTreeMap<usize, Option<usize>> = BTreeMap::new();
    for (signal, domain, value) in sinks(inner) {
        for source in search.of(value) {
            let from = match source {
                Source::Domain(from) => from,
                Source::Input(id) => *inputs.entry(id).or_insert(domain),
            };
            if from != domain {
                return Err(crossing(inner, signal, from, domain));
            }
        }
    }
    let name = |domain: Option<usize>| domain.map_or_else(String::new, |index| inner.domains[index].clone());
    for (id, domain) in inputs {
        found.sinks.insert(inner.declarations[id].name.clone(), name(domain));
    }
    for (id, declaration) in inner.declarations.iter().enumerate() {
        if !matches!(declaration.kind, Kind::Output { .. }) {
            continue;
        }
        let mut domains = search.visit(id).into_iter().filter_map(|source| match source {
            Source::Domain(domain) => Some(domain),
            Source::Input(_) => None,
        });
        if let Some(first) = domains.next() {
            if let Some(second) = domains.next() {
                return Err(crossing(inner, declaration.name.clone(), second, first));
            }
            found.sources.insert(declaration.name.clone(), name(first));
        }
    }
    let crossings = declared(inner, &mut search)?;
    Ok((found, crossings))
}

fn declared(inner: &Inner, search: &mut Search<'_>) -> Result<Vec<ClockCrossing>, HdlError> {
    let clock = |domain| port_of(inner, domain, "clk_i");
    let mut crossings = Vec::new();
    for instance in &inner.instances {
        for (port, kind, _) in &instance.crossings {
            let Some((_, value)) = instance.inputs.iter().find(|(name, _)| name == port) else { continue };
            if *kind == Crossing::Gray {
                check_gray(inner, instance, port, value)?;
            }
            let from = search.of(value).into_iter().find_map(|source| match source {
                Source::Domain(domain) => Some(clock(domain)),
                Source::Input(_) => None,
            });
            let to = instance.module.port_domains.sinks.get(port);
            crossings.push(ClockCrossing {
                instance: instance.name.clone(),
                port: port.clone(),
                kind: *kind,
                from,
                to: to.map(|domain| clock(instance.parent_domain(domain))),
            });
        }
    }
    Ok(crossings)
}

fn check_gray(inner: &Inner, instance: &InstanceBody, port: &str, value: &Bits) -> Result<(), HdlError> {
    let refused = |what: &str| HdlError::Expression {
        module: inner.name().to_owned(),
        signal: format!("{}.{port}", instance.name),
        what: what.to_owned(),
    };
    if !is_registered(inner, value) {
        return Err(refused("a number in Gray code has to come straight from registers"));
    }
    if !is_synchronised(&instance.module, port) {
        return Err(refused("a number in Gray code has to go to synchronisers and nowhere else"));
    }
    Ok(())
}

/// Whether the signal comes straight from registers.
fn is_registered(inner: &Inner, value: &Bits) -> bool {
    let Node::Signal(signal) = value.node() else { return false };
    match inner.declarations[signal.id].kind {
        Kind::Reg => true,
        Kind::Wire => inner.drives.iter().any(|(id, value)| *id == signal.id && is_registered(inner, value)),
        Kind::InstanceOutput => inner.instances.iter().any(|instance| {
            let mut outputs = instance.outputs.iter().filter(|(_, id)| *id == signal.id);
            outputs.any(|(port, _)| output_is_registered(instance.module.body(), port))
        }),
        _ => false,
    }
}

fn output_is_registered(inner: &Inner, port: &str) -> bool {
    inner.drives.iter().any(|(id, value)| inner.declarations[*id].name == port && is_registered(inner, value))
}

fn is_synchronised(module: &Module, port: &str) -> bool {
    if module.is_synchroniser() {
        return true;
    }
    let inner = module.body();
    let reads = |value: &Bits| value.signals().iter().any(|id| inner.declarations[*id].name == port);
    let is = |value: &Bits| matches!(value.node(), Node::Signal(signal) if signal.name == port);
    let into = |instance: &InstanceBody, (name, value): &(String, Bits)| {
        !reads(value) || is(value) && is_synchronised(&instance.module, name)
    };
    !inner.drives.iter().any(|(_, value)| reads(value))
        && !sinks(inner).iter().any(|(name, _, value)| reads(value) && !name.contains('.'))
        && inner.instances.iter().all(|instance| instance.inputs.iter().all(|input| into(instance, input)))
}

fn crossing(inner: &Inner, signal: String, from: Option<usize>, to: Option<usize>) -> HdlError {
    let clock = |domain| port_of(inner, domain, "clk_i");
    HdlError::ClockCrossing { module: inner.name().to_owned(), signal, from: clock(from), to: clock(to) }
}

/// Every clocked element: its name, its domain, its driver.
fn sinks(inner: &Inner) -> Vec<(String, Option<usize>, &Bits)> {
    let mut all = Vec::new();
    for reg in &inner.regs {
        let name = &inner.declarations[reg.id].name;
        all.extend(reg.next.iter().chain(&reg.enable).map(|value| (name.clone(), None, value)));
    }
    all.extend(inner.properties.iter().map(|property| (property.name.clone(), None, &property.holds)));
    for memory in &inner.memories {
        for (enable, addr, data) in &memory.writes {
            all.extend([enable, addr, data].map(|value| (memory.name.clone(), None, value)));
        }
    }
    for instance in &inner.instances {
        for (port, value) in &instance.inputs {
            let declared = instance.crossings.iter().any(|(name, ..)| name == port);
            if let (false, Some(domain)) = (declared, instance.module.port_domains.sinks.get(port)) {
                let name = format!("{}.{port}", instance.name);
                all.push((name, instance.parent_domain(domain), value));
            }
        }
    }
    all
}

struct Search<'a> {
    inner: &'a Inner,
    known: Vec<Option<BTreeSet<Source>>>,
}

impl Search<'_> {
    fn of(&mut self, value: &Bits) -> BTreeSet<Source> {
        let mut found = BTreeSet::new();
        value.visit(&mut |bits| {
            if matches!(bits.node(), Node::MemoryRead { .. }) {
                found.insert(Source::Domain(None));
            }
        });
        for id in value.signals() {
            found.extend(self.visit(id));
        }
        found
    }

    fn visit(&mut self, id: usize) -> BTreeSet<Source> {
        if let Some(known) = &self.known[id] {
            return known.clone();
        }
        let inner = self.inner;
        let mut found = BTreeSet::new();
        match inner.declarations[id].kind {
            Kind::Input { .. } => {
                found.insert(Source::Input(id));
            }
            Kind::Free { .. } => {}
            Kind::Reg | Kind::Ghost => {
                found.insert(Source::Domain(None));
            }
            Kind::Wire | Kind::Output { .. } => {
                for (_, value) in inner.drives.iter().filter(|(target, _)| *target == id) {
                    found.extend(self.of(value));
                }
            }
            Kind::InstanceOutput => {
                let outputs = inner.instances.iter().flat_map(|i| i.outputs.iter().map(move |o| (i, o)));
                for (instance, (port, _)) in outputs.filter(|(_, (_, signal))| *signal == id) {
                    let domain = instance.module.port_domains.sources.get(port);
                    found.extend(domain.map(|name| Source::Domain(instance.parent_domain(name))));
                    for input in instance.module.comb_inputs_of(port) {
                        let values = instance.inputs.iter().filter(|(name, _)| name == input);
                        values.for_each(|(_, value)| found.extend(self.of(value)));
                    }
                }
            }
        }
        self.known[id] = Some(found.clone());
        found
    }
}
