//! Bits that a description makes constant, which no test can change. Found within a module, from its concatenations and
//! logic only, not from inputs, instances or sums.

use crate::Bits;
use crate::bits::{BinaryOp, Node, UnaryOp};
use crate::body::Inner;
use std::collections::HashMap;

/// The known bits of a value, lowest first.
type Known = Vec<Option<bool>>;

/// Known bits of each declared signal, in the order of the declarations.
pub(crate) fn constants(inner: &Inner) -> Vec<Known> {
    let drives = inner.drives.iter().map(|(id, value)| (*id, value)).collect();
    let mut search = Search { inner, drives, known: HashMap::new(), values: HashMap::new() };
    (0..inner.declarations.len()).map(|id| search.signal(id)).collect()
}

struct Search<'a> {
    inner: &'a Inner,
    drives: HashMap<usize, &'a Bits>,
    known: HashMap<usize, Known>,
    /// Values by the address of their node: expressions share parts.
    values: HashMap<usize, Known>,
}

impl Search<'_> {
    fn signal(&mut self, id: usize) -> Known {
        if let Some(known) = self.known.get(&id) {
            return known.clone();
        }
        // A register that reads itself is not known to be constant.
        self.known.insert(id, vec![None; self.inner.declarations[id].width as usize]);
        let known = if let Some(value) = self.drives.get(&id).copied() {
            self.value(value)
        } else if let Some(reg) = self.inner.regs.iter().find(|reg| reg.id == id) {
            let first = reg.reset.unwrap_or(0);
            let next = reg.next.first().map(|next| self.value(next)).unwrap_or_default();
            let same = |(at, bit): (usize, Option<bool>)| bit.filter(|bit| bit_of(first, at) == *bit);
            next.into_iter().enumerate().map(same).collect()
        } else {
            return self.known[&id].clone();
        };
        self.known.insert(id, known.clone());
        known
    }

    fn value(&mut self, bits: &Bits) -> Known {
        let address = std::ptr::from_ref(bits.node()).addr();
        if let Some(known) = self.values.get(&address) {
            return known.clone();
        }
        let known = self.value_of_node(bits);
        self.values.insert(address, known.clone());
        known
    }

    fn value_of_node(&mut self, bits: &Bits) -> Known {
        let width = bits.width() as usize;
        match bits.node() {
            Node::Signal(signal) => self.signal(signal.id),
            Node::Literal(value) => (0..width).map(|at| Some(bit_of(*value, at))).collect(),
            Node::Unary(UnaryOp::Not, a) => {
                self.value(a).into_iter().map(|bit| bit.map(|bit| !bit)).collect()
            }
            Node::Binary(op @ (BinaryOp::And | BinaryOp::Or), a, b) => {
                let strong = *op == BinaryOp::Or;
                let of = |(a, b)| match (a, b) {
                    (Some(a), _) | (_, Some(a)) if a == strong => Some(strong),
                    (Some(_), Some(_)) => Some(!strong),
                    _ => None,
                };
                self.value(a).into_iter().zip(self.value(b)).map(of).collect()
            }
            Node::Mux(_, a, b) => {
                let of = |(a, b): (Option<bool>, _)| a.filter(|_| a == b);
                self.value(a).into_iter().zip(self.value(b)).map(of).collect()
            }
            Node::Cat(parts) => parts.iter().rev().flat_map(|part| self.value(part)).collect(),
            Node::Repeat(times, part) => {
                let part = self.value(part);
                (0..*times).flat_map(|_| part.iter().copied()).collect()
            }
            Node::Slice { base, low } => {
                self.value(base).into_iter().skip(*low as usize).take(width).collect()
            }
            _ => vec![None; width],
        }
    }
}

fn bit_of(value: u128, at: usize) -> bool {
    at < 128 && value >> at & 1 == 1
}
