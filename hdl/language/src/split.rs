//! Keeps the lines of the emitted text short: parts of an expression that is too long for its line become wires of their own.
//!
//! What the expressions of a module have in common gets its wire first, so that it is computed and printed once. A line that is
//! short enough stays as it is.

use crate::bits::{Node, Owner, Signal, UnaryOp};
use crate::body::Inner;
use crate::lower::Printer;
use crate::{Bits, cat};
use std::collections::HashMap;

/// No line has as many characters.
pub(crate) const LINE: usize = 200;
/// What the expression may have of a line that is split; the rest is for the name that is driven.
const ROOM: usize = 120;
/// Shorter expressions are repeated rather than named.
const SHARED: usize = 40;

/// What is known of expressions, by the address of their node; the clones keep it where it is.
#[derive(Default)]
pub(crate) struct Split {
    /// How many expressions of the hardware hold it.
    uses: HashMap<*const Node, u32>,
    /// Expressions and what is printed in their place in a line that is split.
    reduced: HashMap<*const Node, (Bits, Bits)>,
    /// Characters of the expressions of the present line.
    lengths: HashMap<*const Node, (Bits, usize)>,
}

impl Split {
    /// Counts who uses what in a module.
    pub fn of(inner: &Inner) -> Self {
        let mut split = Self::default();
        let of_regs = inner.hardware_regs().flat_map(|reg| reg.next.iter().chain(&reg.enable));
        let of_memories = inner.memories.iter().flat_map(|memory| &memory.writes);
        let of_instances = inner.instances.iter().flat_map(|instance| &instance.inputs);
        inner.drives.iter().for_each(|(_, value)| split.count(value));
        of_regs.for_each(|value| split.count(value));
        of_memories.for_each(|(enable, addr, data)| {
            [enable, addr, data].into_iter().for_each(|value| split.count(value))
        });
        of_instances.for_each(|(_, value)| split.count(value));
        split
    }

    fn count(&mut self, expression: &Bits) {
        let uses = self.uses.entry(expression.address()).or_insert(0);
        *uses += 1;
        if *uses == 1 {
            expression.children().for_each(|child| self.count(child));
        }
    }

    /// Characters of an expression as it is printed. A slice of what has no name yet is taken to have a long one.
    fn length(&mut self, target: &str, expression: &Bits) -> usize {
        if let Some((_, length)) = self.lengths.get(&expression.address()) {
            return *length;
        }
        let mut of = |part: &Bits| self.length(target, part);
        let in_parentheses = |part: &Bits| usize::from(matches!(part.node(), Node::Binary(..))) * 2;
        let length = match expression.node() {
            Node::Signal(signal) => signal.name.len(),
            Node::Literal(value) => format!("{}'h{value:x}", expression.width()).len(),
            Node::Mutant(number) => format!("(mutant == {number})").len(),
            Node::Unary(op, a) => {
                let more =
                    usize::from(*op != UnaryOp::Not) + usize::from(matches!(a.node(), Node::Unary(..)));
                of(a).saturating_add(in_parentheses(a) + 1 + 2 * more)
            }
            Node::Binary(_, a, b) => {
                let operands = of(a).saturating_add(of(b));
                operands.saturating_add(in_parentheses(a) + in_parentheses(b) + " >> ".len())
            }
            Node::Mux(..) => {
                let parts = expression.children().fold(0, |sum: usize, part| sum.saturating_add(of(part)));
                parts.saturating_add("( ?  : )".len())
            }
            Node::Cat(parts) => {
                parts.iter().fold(0, |sum: usize, part| sum.saturating_add(of(part)).saturating_add(2))
            }
            Node::Repeat(count, part) => of(part).saturating_add(format!("{{{count}{{}}}}").len()),
            Node::Slice { base, low } => {
                let base = match base.node() {
                    Node::Signal(signal) => signal.name.len(),
                    _ => target.len() + "_part000".len(),
                };
                base + format!("[{}:{low}]", low + expression.width() - 1).len()
            }
            Node::MemoryRead { memory, addr, .. } => of(addr).saturating_add(memory.len() + 2),
            Node::Mismatch { .. } | Node::Invalid(_) | Node::Later(_) => 0,
        };
        self.lengths.insert(expression.address(), (*expression, length));
        length
    }
}

impl Printer {
    /// The text of an expression for a line that has `rest` characters beside it.
    pub fn line(&mut self, target: &str, rest: usize, expression: &Bits) -> String {
        self.target = target.to_owned();
        self.split.lengths.clear();
        self.fitting(rest, expression)
    }

    /// The texts of several for one line.
    pub fn line_of<const COUNT: usize>(
        &mut self,
        target: &str,
        rest: usize,
        all: [&Bits; COUNT],
    ) -> [String; COUNT] {
        self.target = target.to_owned();
        self.split.lengths.clear();
        let length = all.iter().fold(rest, |sum, one| sum.saturating_add(self.length(one)));
        all.map(|one| {
            let long = length >= LINE && self.length(one) > SHARED;
            let one = if long { self.named(one) } else { *one };
            self.text(&one)
        })
    }

    /// The same within a line.
    fn fitting(&mut self, rest: usize, expression: &Bits) -> String {
        if self.length(expression).saturating_add(rest) < LINE {
            return self.text(expression);
        }
        let reduced = self.reduced(expression);
        self.text(&reduced)
    }

    /// Gives an expression a wire of its own, and returns its name.
    pub fn hoist(&mut self, expression: &Bits) -> String {
        let rest = "    assign _part000 = ;".len() + self.target.len();
        let text = self.fitting(rest, expression);
        self.wire(expression.width(), text)
    }

    fn length(&mut self, expression: &Bits) -> usize {
        self.split.length(&self.target, expression)
    }

    /// An expression of at most [`ROOM`] characters that has wires in place of parts.
    fn reduced(&mut self, expression: &Bits) -> Bits {
        if self.length(expression) <= SHARED {
            return *expression;
        }
        if let Some((_, known)) = self.split.reduced.get(&expression.address()) {
            return *known;
        }
        let children: Vec<Bits> = expression.children().map(|child| self.named_if_shared(child)).collect();
        let mut reduced = expression.with_children(children);
        while self.length(&reduced) > ROOM {
            let shorter = match reduced.node() {
                Node::Cat(parts) => Some(self.in_groups(parts)),
                _ => self.without_longest(&reduced),
            };
            let Some(shorter) = shorter else { break };
            reduced = shorter;
        }
        self.split.reduced.insert(expression.address(), (*expression, reduced));
        reduced
    }

    fn named_if_shared(&mut self, expression: &Bits) -> Bits {
        let reduced = self.reduced(expression);
        let shared = self.split.uses.get(&expression.address()).is_some_and(|uses| *uses > 1);
        if shared && self.length(&reduced) > SHARED { self.named(&reduced) } else { reduced }
    }

    /// The longest of its parts becomes a wire; nothing if that is a name already.
    fn without_longest(&mut self, expression: &Bits) -> Option<Bits> {
        let lengths = expression.children().enumerate().map(|(at, child)| (self.length(child), at));
        let (_, longest) = lengths.max()?;
        let mut children: Vec<Bits> = expression.children().cloned().collect();
        if matches!(children[longest].node(), Node::Signal(_)) {
            return None;
        }
        children[longest] = self.named(&children[longest]);
        Some(expression.with_children(children))
    }

    /// Neighbours become a wire together, as many as there is room for, and at least two.
    fn in_groups(&mut self, parts: &[Bits]) -> Bits {
        let (mut groups, mut group, mut length) = (Vec::new(), Vec::new(), 0);
        for part in parts {
            let part = if self.length(part) > ROOM / 2 { self.named(part) } else { *part };
            let more = self.length(&part) + 2;
            if length + more > ROOM && group.len() > 1 {
                groups.push(self.named(&cat(std::mem::take(&mut group))));
                length = 0;
            }
            length += more;
            group.push(part);
        }
        groups.push(self.named(&cat(group)));
        cat(groups)
    }

    /// A wire with the value of an expression.
    fn named(&mut self, expression: &Bits) -> Bits {
        if matches!(expression.node(), Node::Signal(_)) {
            return *expression;
        }
        let name = self.hoist(expression);
        Bits::new(expression.width(), Node::Signal(Signal { name, owner: Owner::default(), id: usize::MAX }))
    }
}
