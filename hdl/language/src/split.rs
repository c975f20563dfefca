//! Lays out expressions in lines of readable width.
//!
//! A line that is too long is broken at its operators. Parts become wires where several expressions share them, where
//! Verilog requires a name, and where an expression would fill a page.

use crate::bits::{Node, Owner, Signal, UnaryOp};
use crate::body::Inner;
use crate::lower::{Printer, chains, is_infix, reduction};
use crate::{Bits, cat};
use std::collections::HashMap;

/// Characters of a line.
const LINE: usize = 116;
/// Characters of an expression; a longer one is split.
const ROOM: usize = 2400;
/// Shorter expressions are repeated rather than named.
const SHARED: usize = 60;
/// Least number of values in a table of constants.
const TABLE: usize = 4;

type Table = Option<(Bits, Vec<u128>)>;

/// Facts about expressions, by the address of their node; the stored copies keep the address valid.
#[derive(Default)]
pub(crate) struct Split {
    /// Number of expressions of the hardware that contain it.
    uses: HashMap<*const Node, u32>,
    /// Expressions, and their replacements in a line that is split.
    reduced: HashMap<*const Node, (Bits, Bits)>,
    lengths: HashMap<*const Node, (Bits, usize)>,
    /// Multiplexers that are tables.
    tables: HashMap<*const Node, (Bits, Table)>,
}

impl Split {
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

    /// The table that a tree of multiplexers represents, if it has all values of its index.
    pub fn rom(&mut self, expression: &Bits) -> Table {
        self.table(expression).filter(|(_, values)| values.len() >= TABLE)
    }

    fn table(&mut self, expression: &Bits) -> Table {
        let Node::Mux(select, one, zero) = expression.node() else { return None };
        if let Some((_, known)) = self.tables.get(&expression.address()) {
            return known.clone();
        }
        let table = (|| {
            let Node::Slice { base, low } = select.node() else { return None };
            let literal = |bits: &Bits| match bits.node() {
                Node::Literal(value) => Some(vec![*value]),
                _ => None,
            };
            if let (Some(one), Some(zero)) = (literal(one), literal(zero)) {
                return Some((*select, [zero, one].concat()));
            }
            let ((index, ones), (other, zeros)) = (self.table(one)?, self.table(zero)?);
            let of_base = |index: &Bits| match index.node() {
                Node::Slice { base: own, low: first } => {
                    own.address() == base.address() && first + index.width() == *low
                }
                _ => false,
            };
            let fits = of_base(&index) && of_base(&other) && index.width() == other.width();
            fits.then(|| (base.slice(low - index.width(), index.width() + 1), [zeros, ones].concat()))
        })();
        self.tables.insert(expression.address(), (*expression, table.clone()));
        table
    }

    /// Characters of an expression as printed. A slice of an unnamed expression counts with a long name.
    fn length(&mut self, target: &str, expression: &Bits) -> usize {
        if let Some((_, length)) = self.lengths.get(&expression.address()) {
            return *length;
        }
        if let Some((index, _)) = self.rom(expression) {
            return self.length(target, &index) + target.len() + "_rom()".len();
        }
        let mut of = |part: &Bits| self.length(target, part);
        if let Some((_, leaves)) = reduction(expression) {
            return leaves
                .iter()
                .fold("(|{})".len(), |sum, leaf| sum.saturating_add(of(leaf)).saturating_add(2));
        }
        let in_parentheses = |part: &Bits| usize::from(is_infix(part)) * 2;
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
                let high = match expression.width() {
                    1 => String::new(),
                    more => format!("{}:", low + more - 1),
                };
                base + format!("[{high}{low}]").len()
            }
            Node::MemoryRead { memory, addr, .. } => of(addr).saturating_add(memory.len() + 2),
            Node::Mismatch { .. } | Node::Invalid(_) | Node::Later(_) => 0,
        };
        self.lengths.insert(expression.address(), (*expression, length));
        length
    }
}

/// Operands of an operator, with the operands of those that are printed without parentheses.
fn operands(expression: &Bits) -> Vec<Bits> {
    let parts = expression.children().zip(chains(expression));
    parts.flat_map(|(part, chains)| if chains { operands(part) } else { vec![*part] }).collect()
}

impl Printer {
    /// The text of an expression for a line with `rest` other characters.
    pub fn line(&mut self, target: &str, rest: usize, expression: &Bits) -> String {
        self.target = target.to_owned();
        self.split.lengths.clear();
        self.fitting(rest, expression)
    }

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
            let long = length > LINE && self.length(one) > SHARED;
            let one = if long { self.named(one) } else { *one };
            self.text(&one)
        })
    }

    /// Formats an expression that shares its line with other text.
    fn fitting(&mut self, rest: usize, expression: &Bits) -> String {
        if self.fits(rest, expression) {
            return self.text(expression);
        }
        let reduced = self.reduced(expression);
        self.laid_out(&reduced, rest, 4)
    }

    fn fits(&mut self, rest: usize, expression: &Bits) -> bool {
        self.length(expression).saturating_add(rest) <= LINE
    }

    /// The text after `rest` characters of its line, in further lines that are indented.
    fn laid_out(&mut self, expression: &Bits, rest: usize, indent: usize) -> String {
        if self.fits(rest, expression) {
            return self.text(expression);
        }
        if let Some((index, values)) = self.split.rom(expression) {
            let name = self.function(&index, &values, expression.width());
            return format!("{name}({})", self.laid_out(&index, rest + name.len() + 1, indent));
        }
        let (deeper, before) = (indent + 4, format!("\n{}", " ".repeat(indent)));
        if let Some((sign, leaves)) = reduction(expression) {
            return format!("({sign}{})", self.in_braces(&leaves, indent));
        }
        match expression.node() {
            Node::Binary(op, ..) => {
                let operands = operands(expression);
                let operand = |printer: &mut Self, part: &Bits, rest| match is_infix(part) {
                    true => format!("({})", printer.laid_out(part, rest + 2, deeper)),
                    false => printer.laid_out(part, rest, deeper),
                };
                let mut text = operand(self, &operands[0], rest);
                let sign = op.text();
                for part in &operands[1..] {
                    text += &format!("{before}{sign} {}", operand(self, part, indent + 1 + sign.len()));
                }
                text
            }
            Node::Mux(..) => {
                let (mut text, mut last, mut rest) = ("(".to_owned(), *expression, rest + 1);
                while let Node::Mux(select, then, otherwise) = last.node() {
                    if self.split.rom(&last).is_some() {
                        break;
                    }
                    text += &self.laid_out(select, rest, deeper);
                    text += &format!("{before}? {}{before}: ", self.laid_out(then, indent + 2, deeper));
                    (last, rest) = (*otherwise, indent + 2);
                }
                text + &self.laid_out(&last, indent + 2, deeper) + ")"
            }
            Node::Cat(parts) => self.in_braces(parts, indent),
            Node::Repeat(count, part) => {
                let start = format!("{{{count}{{");
                let part = self.laid_out(part, rest + start.len(), indent);
                format!("{start}{part}}}}}")
            }
            Node::Unary(op, part) => {
                let (sign, end) = match op {
                    UnaryOp::Not => ("~", ""),
                    UnaryOp::All => ("(&", ")"),
                    UnaryOp::Any => ("(|", ")"),
                };
                let text = self.laid_out(part, rest + 4, indent);
                if is_infix(part) || matches!(part.node(), Node::Unary(..)) {
                    format!("{sign}({text}){end}")
                } else {
                    format!("{sign}{text}{end}")
                }
            }
            _ => self.text(expression),
        }
    }

    fn in_braces(&mut self, parts: &[Bits], indent: usize) -> String {
        let (mut text, mut column) = ("{".to_owned(), LINE);
        for (number, part) in parts.iter().enumerate() {
            let comma = if number + 1 < parts.len() { ", " } else { "" };
            if !self.fits(column + 2, part) {
                text = format!("{}\n{}", text.trim_end(), " ".repeat(indent));
                column = indent;
            }
            let part = self.laid_out(part, column, indent + 4);
            column = if part.contains('\n') { LINE } else { column + part.len() + comma.len() };
            text += &(part + comma);
        }
        text + &format!("\n{}}}", " ".repeat(indent - 4))
    }

    pub fn hoist(&mut self, expression: &Bits) -> String {
        let rest = "    wire [000:0] _part000 = ;".len() + self.target.len();
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

    /// Makes the longest part a wire; `None` if that is a name already.
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

    /// Makes wires of groups of neighbours, each as large as fits, of at least two.
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

    fn named(&mut self, expression: &Bits) -> Bits {
        if matches!(expression.node(), Node::Signal(_)) {
            return *expression;
        }
        let name = self.hoist(expression);
        Bits::new(expression.width(), Node::Signal(Signal { name, owner: Owner::default(), id: usize::MAX }))
    }
}
