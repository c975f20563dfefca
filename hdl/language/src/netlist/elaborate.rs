//! Elaborates modules to a graph: hierarchy, clocks, arrays of instances.

use super::graph::{Graph, Id};
use super::value::Value;
use super::{Check, MemoryArray, Netlist, Register, Scope, limb_bits, limbs};
use crate::bits::{BinaryOp, Node, UnaryOp};
use crate::body::{Declaration, Inner, Kind, PropertyKind};
use crate::{Bits, Direction, HdlError, Module};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::rc::Rc;

/// Least number of instances of a replicated module in one parent that form an array.
const FEWEST: usize = 4;

struct Parent {
    scope: usize,
    /// The instances of an array in the order of its lanes, or one.
    instances: Vec<usize>,
}

/// Contents of a module's body by a signal's number.
enum Source {
    Input,
    /// A solver would choose it; here it is 0.
    Free,
    Expression(Bits),
    Register(u32),
    Child(usize, String),
}

struct Open {
    module: Rc<Module>,
    parent: Option<Parent>,
    group: Option<u32>,
    sources: Vec<Source>,
    values: Vec<Option<Value>>,
    open: BTreeSet<usize>,
    /// Scope of each instance, and the lane if it is an array that begins there.
    children: Vec<(usize, Option<u32>)>,
    memories: HashMap<String, u32>,
    /// Number of its first property.
    checks: usize,
    expressions: HashMap<*const Node, Value>,
}

impl Open {
    fn scope(&self) -> Scope {
        let parent = self.parent.as_ref().map(|parent| parent.scope as u32);
        Scope { module: self.module.name().to_owned(), parent }
    }
}

struct Elaboration {
    graph: Graph,
    scopes: Vec<Open>,
    registers: Vec<Register>,
    memories: Vec<MemoryArray>,
    checks: Vec<Check>,
    instances: Vec<Vec<String>>,
    ports: HashMap<String, u32>,
    /// Titles of modules that cannot form an array.
    single: BTreeSet<String>,
    /// Title that this elaboration adds to `single`.
    circle: Option<String>,
}

pub(super) fn elaborate(top: &Rc<Module>) -> Result<Netlist, HdlError> {
    let mut single = BTreeSet::new();
    loop {
        let mut elaboration = Elaboration {
            graph: Graph::default(),
            scopes: Vec::new(),
            registers: Vec::new(),
            memories: Vec::new(),
            checks: Vec::new(),
            instances: Vec::new(),
            ports: top.ports().iter().zip(0..).map(|(port, index)| (port.name.clone(), index)).collect(),
            single: single.clone(),
            circle: None,
        };
        let clocks = top.ports().iter().map(|port| (port.name.clone(), port.name.clone())).collect();
        elaboration.open(top, None, None, "", &clocks);
        let outputs = elaboration.finish();
        match elaboration.circle {
            // Without the array there is no loop: `check` has excluded those.
            Some(title) if single.insert(title.clone()) => {}
            Some(title) => return Err(HdlError::CombinationalLoop { module: title, path: Vec::new() }),
            None => {
                return Ok(Netlist {
                    graph: elaboration.graph,
                    ports: top.ports().to_vec(),
                    outputs,
                    registers: elaboration.registers,
                    memories: elaboration.memories,
                    checks: elaboration.checks,
                    instances: elaboration.instances,
                    scopes: elaboration.scopes.iter().map(Open::scope).collect(),
                });
            }
        }
    }
}

impl Elaboration {
    /// Makes the scope of an instance or array and all below it. `clocks` has the top's port for each of its clocks and
    /// resets.
    fn open(
        &mut self,
        module: &Rc<Module>,
        parent: Option<Parent>,
        group: Option<u32>,
        path: &str,
        clocks: &BTreeMap<String, String>,
    ) -> usize {
        let body = module.body();
        let index = self.scopes.len();
        let free = |kind: &Kind| matches!(kind, Kind::Free { .. });
        let source = |d: &Declaration| if free(&d.kind) { Source::Free } else { Source::Input };
        let mut sources: Vec<Source> = body.declarations.iter().map(source).collect();
        for (id, value) in &body.drives {
            sources[*id] = Source::Expression(*value);
        }
        let clock = || clocks.get("clk_i").cloned().unwrap_or_default();
        for reg in &body.regs {
            let declaration = &body.declarations[reg.id];
            let words = |value: u128| {
                let limbs = 0..limbs(declaration.width);
                limbs.map(|limb| value.checked_shr(32 * limb).unwrap_or(0) as u32).collect()
            };
            sources[reg.id] = Source::Register(self.registers.len() as u32);
            self.registers.push(Register {
                name: format!("{path}{}", declaration.name),
                width: declaration.width,
                scope: index as u32,
                group,
                clock: clock(),
                next: Vec::new(),
                enable: None,
                reset: reg
                    .reset
                    .map(|value| (clocks.get("rst_ni").cloned().unwrap_or_default(), words(value))),
                other_resets: reg
                    .other_resets
                    .iter()
                    .map(|(number, value)| (*number, words(*value)))
                    .collect(),
            });
        }
        let checks = self.checks.len();
        for property in body.properties.iter().filter(|property| property.kind != PropertyKind::Cover) {
            self.checks.push(Check {
                name: format!("{path}{}", property.name),
                why: property.why.clone(),
                scope: index as u32,
                group,
                clock: clock(),
                reset: clocks.get("rst_ni").cloned().unwrap_or_default(),
                holds: 0,
            });
        }
        let mut memories = HashMap::new();
        for memory in &body.memories {
            memories.insert(memory.name.clone(), self.memories.len() as u32);
            self.memories.push(MemoryArray {
                name: format!("{path}{}", memory.name),
                width: memory.width,
                depth: memory.depth,
                scope: index as u32,
                group,
                clock: clock(),
                enable: 0,
                whole: true,
                written: Vec::new(),
                addr: 0,
                data: Vec::new(),
            });
        }
        for (number, instance) in body.instances.iter().enumerate() {
            for (port, id) in &instance.outputs {
                sources[*id] = Source::Child(number, port.clone());
            }
        }
        let values = vec![None; sources.len()];
        self.scopes.push(Open {
            module: module.clone(),
            parent,
            group,
            sources,
            values,
            open: BTreeSet::new(),
            children: Vec::new(),
            memories,
            checks,
            expressions: HashMap::new(),
        });
        let mut children = vec![None; body.instances.len()];
        for number in 0..body.instances.len() {
            if children[number].is_some() {
                continue;
            }
            let instance = &body.instances[number];
            let below: BTreeMap<String, String> = instance
                .module
                .ports()
                .iter()
                .filter_map(|port| {
                    let own = instance.clock_or_reset(body, &port.name)?;
                    Some((port.name.clone(), clocks.get(&own)?.clone()))
                })
                .collect();
            let alike: Vec<usize> = (number..body.instances.len())
                .filter(|other| {
                    let other = &body.instances[*other];
                    Rc::ptr_eq(&other.module, &instance.module)
                        && instance.module.ports().iter().all(|port| {
                            other.clock_or_reset(body, &port.name)
                                == instance.clock_or_reset(body, &port.name)
                        })
                })
                .collect();
            let array = group.is_none()
                && instance.module.body().replicated
                && alike.len() >= FEWEST
                && !self.single.contains(instance.module.name());
            let path_of = |number: usize| format!("{path}{}.", body.instances[number].name);
            let path = path_of(number);
            if array {
                let own = self.graph.lanes.len() as u32;
                self.graph.lanes.push(alike.len() as u32);
                self.instances.push(alike.iter().map(|number| path_of(*number)).collect());
                let parent = Parent { scope: index, instances: alike.clone() };
                let scope = self.open(&instance.module, Some(parent), Some(own), &path, &below);
                for (lane, number) in (0..).zip(alike) {
                    children[number] = Some((scope, Some(lane)));
                }
            } else {
                let parent = Parent { scope: index, instances: vec![number] };
                let scope = self.open(&instance.module, Some(parent), group, &path, &below);
                children[number] = Some((scope, None));
            }
        }
        self.scopes[index].children = children.into_iter().flatten().collect();
        index
    }

    /// Computes all next values, writes and outputs.
    fn finish(&mut self) -> Vec<(u32, Vec<Id>)> {
        for scope in 0..self.scopes.len() {
            let module = self.scopes[scope].module.clone();
            let body: &Inner = module.body();
            for reg in &body.regs {
                let Source::Register(register) = self.scopes[scope].sources[reg.id] else { continue };
                let enable = reg.enable.first().map(|enable| self.bits(scope, enable).limbs[0]);
                let next = self.bits(scope, &reg.next[0]).limbs.to_vec();
                let register = &mut self.registers[register as usize];
                (register.enable, register.next) = (enable, next);
            }
            let checked = body.properties.iter().filter(|property| property.kind != PropertyKind::Cover);
            for (number, property) in (self.scopes[scope].checks..).zip(checked) {
                self.checks[number].holds = self.bits(scope, &property.holds).limbs[0];
            }
            for memory in &body.memories {
                let number = self.scopes[scope].memories[&memory.name];
                let (enable, addr, data) = &memory.writes[0];
                let enable = self.bits(scope, enable);
                let (addr, data) = (self.bits(scope, addr), self.bits(scope, data));
                let (addr, data) = (self.graph.words(&addr)[0], self.graph.words(&data));
                let any = self.graph.any(&enable);
                // Each bit of the enable is for one part of the word.
                let parts: Vec<Value> = (0..enable.width)
                    .map(|bit| {
                        let bit = self.graph.slice(&enable, bit, 1);
                        self.graph.repeated(memory.width / enable.width, &bit)
                    })
                    .collect();
                let written = self.graph.concatenation(&parts);
                let written = self.graph.words(&written);
                let body = &mut self.memories[number as usize];
                (body.enable, body.written, body.addr, body.data) = (any, written, addr, data);
                body.whole = enable.width == 1;
            }
        }
        let module = self.scopes[0].module.clone();
        let outputs = module.ports().iter().zip(0..).filter(|(port, _)| port.direction == Direction::Output);
        outputs.map(|(port, number)| (number, self.port(0, &port.name).limbs.to_vec())).collect()
    }

    fn port(&mut self, scope: usize, port: &str) -> Value {
        let declarations = &self.scopes[scope].module.body().declarations;
        let id = declarations.iter().position(|declaration| declaration.name == port).unwrap_or_default();
        self.signal(scope, id)
    }

    fn signal(&mut self, scope: usize, id: usize) -> Value {
        if let Some(value) = &self.scopes[scope].values[id] {
            return value.clone();
        }
        let module = self.scopes[scope].module.clone();
        let declaration = &module.body().declarations[id];
        if !self.scopes[scope].open.insert(id) {
            // Only arrays can introduce loops.
            let array = self.array_of(scope);
            self.circle.get_or_insert(array);
            return self.graph.literal(0, declaration.width);
        }
        let value = match &self.scopes[scope].sources[id] {
            Source::Expression(expression) => {
                let expression = *expression;
                self.bits(scope, &expression)
            }
            Source::Register(register) => self.state(*register),
            Source::Child(number, port) => {
                let ((child, lane), port) = (self.scopes[scope].children[*number], port.clone());
                let value = self.port(child, &port);
                match lane {
                    Some(lane) => {
                        let words: Vec<Id> =
                            value.limbs.iter().map(|word| self.graph.lane(*word, lane)).collect();
                        Value::new(value.width, words)
                    }
                    None => value,
                }
            }
            Source::Free => self.graph.literal(0, declaration.width),
            Source::Input => self.outside(scope, &declaration.name, declaration.width),
        };
        self.scopes[scope].open.remove(&id);
        self.scopes[scope].values[id] = Some(value.clone());
        value
    }

    /// The innermost array that a scope lies in, or the first one of all.
    fn array_of(&self, mut scope: usize) -> String {
        loop {
            let here = &self.scopes[scope];
            match &here.parent {
                Some(parent) if parent.instances.len() > 1 => return here.module.name().to_owned(),
                Some(parent) => scope = parent.scope,
                None => break,
            }
        }
        let arrays = self
            .scopes
            .iter()
            .filter(|scope| scope.parent.as_ref().is_some_and(|parent| parent.instances.len() > 1));
        arrays
            .map(|scope| scope.module.name().to_owned())
            .find(|title| !self.single.contains(title))
            .unwrap_or_default()
    }

    fn state(&mut self, register: u32) -> Value {
        let Register { width, group, .. } = self.registers[register as usize];
        let words: Vec<Id> = (0..limbs(width))
            .map(|limb| self.graph.state(register, limb, limb_bits(width, limb), width == 1, group))
            .collect();
        Value::new(width, words)
    }

    fn outside(&mut self, scope: usize, port: &str, width: u32) -> Value {
        let Some(parent) = &self.scopes[scope].parent else {
            let number = self.ports[port];
            let words: Vec<Id> = (0..limbs(width))
                .map(|limb| {
                    self.graph.input(number, limb, if width == 1 { 1 } else { limb_bits(width, limb).max(2) })
                })
                .collect();
            return Value::new(width, words);
        };
        let (above, instances) = (parent.scope, parent.instances.clone());
        let module = self.scopes[above].module.clone();
        let mut drivers = Vec::new();
        for number in &instances {
            let inputs = &module.body().instances[*number].inputs;
            if let Some((_, expression)) = inputs.iter().find(|(name, _)| name == port) {
                drivers.push(self.bits(above, expression));
            }
        }
        if let [one] = &drivers[..] {
            return one.clone();
        }
        let group = self.scopes[scope].group.unwrap_or_default();
        let words: Vec<Id> = (0..drivers[0].limbs.len())
            .map(|limb| {
                let parts: Vec<Id> = drivers.iter().map(|driver| driver.limbs[limb]).collect();
                self.graph.gather(group, &parts)
            })
            .collect();
        Value::new(width, words)
    }

    fn bits(&mut self, scope: usize, expression: &Bits) -> Value {
        let key = expression.address();
        if let Some(value) = self.scopes[scope].expressions.get(&key) {
            return value.clone();
        }
        let width = expression.width();
        let outer = std::mem::replace(&mut self.graph.scope, scope as u32);
        let value = match expression.node() {
            Node::Signal(signal) => self.signal(scope, signal.id),
            Node::Literal(value) => self.graph.literal(*value, width),
            Node::Mutant(number) => Value::bit(self.graph.mutant(*number)),
            Node::Unary(op, a) => {
                let a = self.bits(scope, a);
                match op {
                    UnaryOp::Not => self.graph.inverted(&a),
                    UnaryOp::All => Value::bit(self.graph.all(&a)),
                    UnaryOp::Any => Value::bit(self.graph.any(&a)),
                }
            }
            Node::Binary(op, a, b) => {
                let (a, b) = (self.bits(scope, a), self.bits(scope, b));
                self.binary(*op, &a, &b)
            }
            Node::Mux(c, a, b) => {
                let [c, a, b] = [c, a, b].map(|part| self.bits(scope, part));
                self.graph.choose(c.limbs[0], &a, &b)
            }
            Node::Cat(parts) => {
                let parts: Vec<Value> = parts.iter().rev().map(|part| self.bits(scope, part)).collect();
                self.graph.concatenation(&parts)
            }
            Node::Repeat(count, part) => {
                let part = self.bits(scope, part);
                self.graph.repeated(*count, &part)
            }
            Node::Slice { base, low } => {
                let base = self.bits(scope, base);
                self.graph.slice(&base, *low, width)
            }
            Node::MemoryRead { memory, addr, .. } => {
                let number = self.scopes[scope].memories[memory];
                let group = self.scopes[scope].group;
                let addr = self.bits(scope, addr);
                let addr = self.graph.words(&addr)[0];
                let words: Vec<Id> = (0..limbs(width))
                    .map(|limb| self.graph.read(number, limb, limb_bits(width, limb), addr, group))
                    .collect();
                match width {
                    1 => Value::bit(self.graph.test(words[0], 0)),
                    _ => Value::new(width, words),
                }
            }
            // `check` has refused these.
            Node::Mismatch { .. } | Node::Invalid(_) | Node::Later(_) => self.graph.literal(0, width),
        };
        self.graph.scope = outer;
        self.scopes[scope].expressions.insert(key, value.clone());
        value
    }

    fn binary(&mut self, op: BinaryOp, a: &Value, b: &Value) -> Value {
        let graph = &mut self.graph;
        match op {
            BinaryOp::And => graph.bitwise(a, b, Graph::and),
            BinaryOp::Or => graph.bitwise(a, b, Graph::or),
            BinaryOp::Xor => graph.bitwise(a, b, Graph::xor),
            BinaryOp::Add => graph.sum(a, b),
            BinaryOp::Sub => graph.difference(a, b),
            BinaryOp::Mul => graph.product(a, b),
            BinaryOp::Eq => Value::bit(graph.same(a, b)),
            BinaryOp::Ne => {
                let same = graph.same(a, b);
                Value::bit(graph.not(same))
            }
            BinaryOp::Lt => Value::bit(graph.below(a, b)),
            BinaryOp::Ge => {
                let below = graph.below(a, b);
                Value::bit(graph.not(below))
            }
            BinaryOp::Shl => graph.shifted(a, true, b),
            BinaryOp::Shr => graph.shifted(a, false, b),
        }
    }
}
