//! A design as a graph of operations on words, without modules: the operations that a simulator has to compute.
//!
//! Values are split into words of 32 bits, lowest first; single bits are nodes of their own kind. Instances of a module
//! that is marked with [`crate::ModuleBuilder::replicated`] form an array if they are in one parent: each node of the
//! array has a value for each instance, unless it depends only on values common to all. The operations have the meaning
//! of the Verilog of [`crate::Module::verilog`]; an evaluator of the graph shares nothing with a simulator of that
//! text.

mod elaborate;
mod graph;
mod value;

pub use graph::{Binary, Graph, Id, Node, Op};

use crate::{HdlError, Module, Port};
use std::rc::Rc;

/// A register.
#[derive(Clone, Debug)]
pub struct Register {
    /// Instances from the top down and the register's name, separated by dots.
    pub name: String,
    /// Bits.
    pub width: u32,
    /// Number of its instance.
    pub scope: u32,
    /// The array whose instances have one each.
    pub group: Option<u32>,
    /// Name of the clock: an input of the top.
    pub clock: String,
    /// Words of its next value.
    pub next: Vec<Id>,
    /// Without it the register holds its value.
    pub enable: Option<Id>,
    /// Name of the reset, an input of the top that is active low, and the words that it sets.
    pub reset: Option<(String, Vec<u32>)>,
    /// Reset words by the number of the active mutant.
    pub other_resets: Vec<(u32, Vec<u32>)>,
}

/// A memory; reads are nodes.
#[derive(Clone, Debug)]
pub struct MemoryArray {
    /// Instances from the top down and the memory's name, separated by dots.
    pub name: String,
    /// Bits of a word.
    pub width: u32,
    /// Words.
    pub depth: u32,
    /// Number of its instance.
    pub scope: u32,
    /// The array whose instances have one each.
    pub group: Option<u32>,
    /// Name of the clock.
    pub clock: String,
    /// Something is written.
    pub enable: Id,
    /// Words are written as a whole.
    pub whole: bool,
    /// The bits of a word that are written.
    pub written: Vec<Id>,
    /// The address that is written.
    pub addr: Id,
    /// Written words.
    pub data: Vec<Id>,
}

/// A property that simulation checks: assertions and assumptions.
#[derive(Clone, Debug)]
pub struct Check {
    /// Instances from the top down and the property's name, separated by dots; for an array the instances lead to its
    /// first one.
    pub name: String,
    /// The property in words.
    pub why: String,
    /// Number of its instance.
    pub scope: u32,
    /// The array whose instances have one each.
    pub group: Option<u32>,
    /// Name of the clock.
    pub clock: String,
    /// Name of the reset, active low, under which nothing is checked.
    pub reset: String,
    /// A bit that is set before each edge.
    pub holds: Id,
}

/// An instance of a module, or an array of them.
#[derive(Clone, Debug)]
pub struct Scope {
    /// Title of the module.
    pub module: String,
    /// Number of the instance that contains it.
    pub parent: Option<u32>,
}

/// A design without modules.
#[derive(Debug)]
pub struct Netlist {
    /// Operations of the design.
    pub graph: Graph,
    /// Ports of the top.
    pub ports: Vec<Port>,
    /// Words of each output, by the number of its port.
    pub outputs: Vec<(u32, Vec<Id>)>,
    /// Registers. One of an array has its name in the first instance.
    pub registers: Vec<Register>,
    /// Memories. One of an array has its name in the first instance.
    pub memories: Vec<MemoryArray>,
    /// Properties.
    pub checks: Vec<Check>,
    /// Instances of each array: their names from the top down, each followed by a dot.
    pub instances: Vec<Vec<String>>,
    /// Instances, parents first; an array is one.
    pub scopes: Vec<Scope>,
}

/// Words of a value.
pub fn limbs(width: u32) -> u32 {
    width.div_ceil(32)
}

/// Bits of a word of a value.
pub fn limb_bits(width: u32, limb: u32) -> u32 {
    (width - 32 * limb).min(32)
}

impl Netlist {
    /// The netlist of a design.
    ///
    /// # Errors
    /// [`HdlError::CombinationalLoop`] if there is a loop, which [`crate::ModuleBuilder::finish`] has already refused.
    pub fn of(top: &Rc<Module>) -> Result<Self, HdlError> {
        elaborate::elaborate(top)
    }

    /// Whether anything depends on the number of the active mutant.
    pub fn has_mutants(&self) -> bool {
        self.graph.nodes.iter().any(|node| matches!(node.op, Op::Mutant(_)))
            || self.registers.iter().any(|register| !register.other_resets.is_empty())
    }
}
