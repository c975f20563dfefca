//! Hand-written changes of a description for tests and proofs: a place in the tree, and its new contents.

use crate::bits::{Node, UnaryOp};
use crate::body::{Declaration, Inner};
use crate::lower::{chains, is_infix, reduction};
use crate::mutate::{Changes, Edit, roots};
use crate::{Bits, Module, lit};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// A hand-written change, in each module that has the place.
#[derive(Clone, Copy, Debug)]
pub struct Mutation {
    /// Name of the mutant.
    pub name: &'static str,
    /// What changes: an expression as in the Verilog, or a root: `drive WIRE`, `next REGISTER`, `enable REGISTER`,
    /// `reset REGISTER`, `input INSTANCE PORT`. Two dots stand for any text.
    pub at: &'static str,
    /// The new expression.
    pub to: fn(&Scope<'_>) -> Bits,
}

/// Expressions from which a [`Mutation`] can build the new one.
#[derive(Debug)]
pub struct Scope<'a> {
    inner: &'a Inner,
    old: Bits,
    unknown: RefCell<Vec<String>>,
}

impl Scope<'_> {
    /// The expression that is replaced.
    pub fn old(&self) -> Bits {
        self.old
    }

    /// A literal of the same width.
    pub fn lit(&self, value: u128) -> Bits {
        lit(value, self.old.width())
    }

    /// Part `number` of the expression, in the order of printing.
    pub fn part(&self, number: usize) -> Bits {
        self.old.children().nth(number).copied().unwrap_or_else(|| {
            self.unknown.borrow_mut().push(format!("part {number}"));
            self.old
        })
    }

    /// The expression with another part in place of part `number`.
    pub fn with(&self, number: usize, part: impl Into<Bits>) -> Bits {
        let mut parts: Vec<Bits> = self.old.children().copied().collect();
        let (known, part) = (self.part(number), part.into());
        if known.width() != part.width() {
            self.unknown.borrow_mut().push(format!("part {number} of {} bits", part.width()));
        }
        parts.iter_mut().skip(number).take(1).for_each(|place| *place = part);
        self.old.with_children(parts)
    }

    /// A signal of the module.
    pub fn signal(&self, name: &str) -> Bits {
        let id = self.inner.declarations.iter().position(|declaration| declaration.name == name);
        id.map(|id| self.inner.signal(id)).unwrap_or_else(|| {
            self.unknown.borrow_mut().push(format!("signal {name}"));
            self.old
        })
    }
}

impl Mutation {
    /// See the fields.
    pub const fn new(name: &'static str, at: &'static str, to: fn(&Scope<'_>) -> Bits) -> Self {
        Self { name, at, to }
    }

    fn is_at(&self, text: &str) -> bool {
        let mut parts = self.at.split("..");
        let Some(mut rest) = parts.next().and_then(|start| text.strip_prefix(start)) else { return false };
        let parts: Vec<&str> = parts.collect();
        let Some((end, middle)) = parts.split_last() else { return rest.is_empty() };
        for part in middle {
            let Some(at) = rest.find(part) else { return false };
            rest = &rest[at + part.len()..];
        }
        rest.ends_with(end)
    }

    fn becomes(&self, inner: &Inner, old: Bits) -> Result<Bits, String> {
        let scope = Scope { inner, old, unknown: RefCell::default() };
        let new = (self.to)(&scope);
        match scope.unknown.into_inner().first() {
            Some(unknown) => Err(format!("{}: {} has no {unknown}", self.name, inner.name())),
            None if new.width() != old.width() => Err(format!(
                "{}: `{}` in {} has {} bits, not {}",
                self.name,
                self.at,
                inner.name(),
                old.width(),
                new.width()
            )),
            None => Ok(new),
        }
    }
}

impl Changes for Mutation {
    fn edits(&self, module: &Module) -> Result<Vec<Edit>, String> {
        let inner = module.body();
        let (mut edits, mut texts) = (Vec::new(), Texts::default());
        let mut seen = HashSet::new();
        for reg in inner.hardware_regs() {
            let Declaration { name, width, .. } = &inner.declarations[reg.id];
            let Some(value) = reg.reset.filter(|_| self.is_at(&format!("reset {name}"))) else { continue };
            match self.becomes(inner, lit(value, *width))?.node() {
                Node::Literal(value) => edits.push(Edit::Reset(reg.id, *value)),
                _ => return Err(format!("{}: a reset value is a literal", self.name)),
            }
        }
        for root in roots(inner) {
            if self.is_at(&root.name) {
                edits.push(Edit::Root(root.name, self.becomes(inner, *root.value)?));
                continue;
            }
            let mut todo = vec![root.value];
            while let Some(bits) = todo.pop() {
                if !seen.insert(bits.address()) {
                    continue;
                }
                if texts.of(bits).as_ref().is_some_and(|text| self.is_at(text)) {
                    edits.push(Edit::Expression(*bits, self.becomes(inner, *bits)?));
                }
                todo.extend(bits.children());
            }
        }
        Ok(edits)
    }

    fn absent(&self) -> Option<String> {
        Some(format!("no `{}`, which {} replaces", self.at, self.name))
    }
}

/// Expressions in one line of Verilog; a slice can be of any expression.
#[derive(Default)]
struct Texts(HashMap<*const Node, Option<Rc<str>>>);

impl Texts {
    /// Longer ones have no text.
    const LONGEST: usize = 300;

    fn of(&mut self, bits: &Bits) -> Option<Rc<str>> {
        if let Some(known) = self.0.get(&bits.address()) {
            return known.clone();
        }
        let parts: Option<Vec<Rc<str>>> = bits.children().map(|child| self.of(child)).collect();
        let text = parts.map(|parts| self.text(bits, &parts)).filter(|text| text.len() <= Self::LONGEST);
        self.0.entry(bits.address()).or_insert(text.map(Rc::from)).clone()
    }

    fn text(&mut self, bits: &Bits, parts: &[Rc<str>]) -> String {
        if let Some((sign, leaves)) = reduction(bits) {
            let leaves: Vec<Rc<str>> = leaves.iter().filter_map(|leaf| self.of(leaf)).collect();
            return format!("({sign}{{{}}})", leaves.join(", "));
        }
        let operand = |number: usize| {
            if bits.children().nth(number).is_some_and(is_infix) {
                format!("({})", parts[number])
            } else {
                parts[number].to_string()
            }
        };
        let chained = |number: usize| {
            if chains(bits)[number] { parts[number].to_string() } else { operand(number) }
        };
        match bits.node() {
            Node::Signal(signal) => signal.name.clone(),
            Node::Literal(value) => format!("{}'h{value:x}", bits.width()),
            Node::Mutant(number) => format!("(mutant == {number})"),
            Node::Unary(UnaryOp::Not, _) => format!("~{}", operand(0)),
            Node::Unary(UnaryOp::All, _) => format!("(&{})", operand(0)),
            Node::Unary(UnaryOp::Any, _) => format!("(|{})", operand(0)),
            Node::Binary(op, ..) => format!("{} {} {}", chained(0), op.text(), chained(1)),
            Node::Mux(..) => format!("({} ? {} : {})", parts[0], parts[1], parts[2]),
            Node::Cat(_) => format!("{{{}}}", parts.join(", ")),
            Node::Repeat(count, _) => format!("{{{count}{{{}}}}}", parts[0]),
            Node::Slice { low, .. } if bits.width() == 1 => format!("{}[{low}]", operand(0)),
            Node::Slice { low, .. } => format!("{}[{}:{low}]", operand(0), low + bits.width() - 1),
            Node::MemoryRead { memory, .. } => format!("{memory}[{}]", parts[0]),
            Node::Mismatch { .. } | Node::Invalid(_) | Node::Later(_) => String::new(),
        }
    }
}
