//! The contents of a module during collection: declarations, drivers, registers, memories, instances.

use crate::Bits;
use crate::bits::{Node, Owner, Signal};
use crate::domain::{Crossing, Domain, implicit_names};
use crate::module::{MemoryInfo, Module};
use crate::proof::Prepared;
use std::panic::Location;
use std::rc::Rc;

#[derive(Clone, Debug)]
pub(crate) enum Kind {
    Input {
        doc: String,
    },
    Output {
        doc: String,
    },
    Wire,
    Reg,
    /// A register that only properties read.
    Ghost,
    /// A value that only properties read, chosen by a solver: one for the whole run or one in each cycle.
    Free {
        constant: bool,
    },
    InstanceOutput,
}

#[derive(Clone, Debug)]
pub(crate) struct Declaration {
    pub name: String,
    pub width: u32,
    pub kind: Kind,
    /// A comment for the Verilog, or empty. Ports have their meaning instead.
    pub about: String,
    pub place: &'static Location<'static>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PropertyKind {
    /// The module keeps it.
    Assert,
    /// The environment, which drives the inputs, keeps it.
    Assume,
    /// It holds in some cycle.
    Cover,
}

/// A statement on the values before each rising edge of `clk_i` with `rst_ni` = 1.
#[derive(Clone, Debug)]
pub(crate) struct PropertyBody {
    pub name: String,
    pub kind: PropertyKind,
    pub holds: Bits,
    pub why: String,
}

#[derive(Clone, Debug)]
pub(crate) struct RegBody {
    pub id: usize,
    pub next: Vec<Bits>,
    /// Enables; `check` refuses more than one.
    pub enable: Vec<Bits>,
    pub reset: Option<u128>,
    /// Reset values by the number of the active mutant.
    pub other_resets: Vec<(u32, u128)>,
}

#[derive(Clone, Debug)]
pub(crate) struct MemoryBody {
    pub name: String,
    pub about: String,
    pub width: u32,
    pub depth: u32,
    /// Enable, address, data.
    pub writes: Vec<(Bits, Bits, Bits)>,
    pub read_addrs: Vec<Bits>,
}

#[derive(Clone, Debug)]
pub(crate) struct InstanceBody {
    pub name: String,
    pub about: String,
    pub module: Rc<Module>,
    pub inputs: Vec<(String, Bits)>,
    pub outputs: Vec<(String, usize)>,
    /// Domain of the child's `clk_i`, unless it is the parent's own; at most one, `domains` refuses more.
    pub own_domain: Vec<Domain>,
    /// Further domains of the child, each with the parent's domain for it.
    pub passed: Vec<(String, Domain)>,
    /// Inputs that come from another domain, with the reason why that is safe.
    pub crossings: Vec<(String, Crossing, String)>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Inner {
    pub owner: Owner,
    pub source: String,
    pub doc: String,
    pub declarations: Vec<Declaration>,
    /// Signal id and driving expression, of wires and outputs.
    pub drives: Vec<(usize, Bits)>,
    pub regs: Vec<RegBody>,
    pub memories: Vec<MemoryBody>,
    pub instances: Vec<InstanceBody>,
    pub about: String,
    /// Deliberately unread signals, with the reason.
    pub unused: Vec<(Bits, String)>,
    pub properties: Vec<PropertyBody>,
    /// All instances run the same code in simulation.
    pub shares_code: bool,
    /// The registers catch signals of other clocks.
    pub synchroniser: bool,
    /// Instances in one parent can be simulated as an array.
    pub replicated: bool,
    pub memory_macro: Option<MemoryInfo>,
    /// Expressions depend on the number of the active mutant.
    pub has_mutants: bool,
    /// Form printed for a prover.
    pub prover: Option<Prepared>,
    /// Names of the further clock domains.
    pub domains: Vec<String>,
}

impl Inner {
    #[track_caller]
    pub fn signal(&self, id: usize) -> Bits {
        let Declaration { name, width, .. } = &self.declarations[id];
        Bits::new(*width, Node::Signal(Signal { name: name.clone(), owner: self.owner.clone(), id }))
    }

    pub fn is_ghost(&self, id: usize) -> bool {
        matches!(self.declarations[id].kind, Kind::Ghost | Kind::Free { .. })
    }

    pub fn ghosts_in(&self, expression: &Bits) -> impl Iterator<Item = usize> {
        expression.signals().into_iter().filter(|id| self.is_ghost(*id))
    }

    pub fn reads_ghost(&self, expression: &Bits) -> bool {
        self.ghosts_in(expression).next().is_some()
    }

    pub fn hardware_regs(&self) -> impl Iterator<Item = &RegBody> {
        self.regs.iter().filter(|reg| !self.is_ghost(reg.id))
    }

    pub fn name(&self) -> &str {
        &self.owner.module
    }
}

/// Name of the clock or reset port of a domain of the module.
pub(crate) fn port_of(inner: &Inner, domain: Option<usize>, port: &str) -> String {
    domain.map_or_else(|| port.to_owned(), |index| format!("{}_{port}", inner.domains[index]))
}

impl InstanceBody {
    /// The parent's domain for a domain of the child; the empty name is the child's own clock.
    pub(crate) fn parent_domain(&self, name: &str) -> Option<usize> {
        if name.is_empty() {
            return self.own_domain.first().and_then(|domain| domain.index);
        }
        self.passed.iter().find(|(child, _)| child == name).and_then(|(_, domain)| domain.index)
    }

    /// The parent's port that drives `port` of the child if it is a clock or reset.
    pub(crate) fn clock_or_reset(&self, inner: &Inner, port: &str) -> Option<String> {
        if matches!(port, "clk_i" | "rst_ni") {
            return Some(port_of(inner, self.parent_domain(""), port));
        }
        let domain =
            self.module.domains.iter().find(|d| implicit_names(d).iter().any(|name| name == port))?;
        Some(port_of(inner, self.parent_domain(domain), &port[domain.len() + 1..]))
    }
}
