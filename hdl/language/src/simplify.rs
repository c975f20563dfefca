//! Removes the constants that a configuration leaves in expressions, for readers of the text. Every signal keeps its
//! readers, so none becomes unread.

use crate::bits::{BinaryOp, Node, UnaryOp};
use crate::body::Inner;
use crate::{Bits, cat, lit};
use std::collections::HashMap;

/// A register that is always enabled has no enable.
pub(crate) fn simplified(inner: &Inner) -> Inner {
    let mut inner = inner.clone();
    let mut known = HashMap::new();
    let mut simplify = |bits: &mut Bits| *bits = simple(bits, &mut known);
    inner.drives.iter_mut().for_each(|(_, value)| simplify(value));
    for reg in &mut inner.regs {
        reg.next.iter_mut().chain(&mut reg.enable).for_each(&mut simplify);
        reg.enable.retain(|enable| value(enable) != Some(1));
    }
    for memory in &mut inner.memories {
        for (enable, addr, data) in &mut memory.writes {
            [enable, addr, data].into_iter().for_each(&mut simplify);
        }
    }
    inner.instances.iter_mut().flat_map(|instance| &mut instance.inputs).for_each(|(_, bits)| simplify(bits));
    inner.unused.iter_mut().for_each(|(bits, _)| simplify(bits));
    inner.properties.iter_mut().for_each(|property| simplify(&mut property.holds));
    inner
}

fn value(bits: &Bits) -> Option<u128> {
    match bits.node() {
        Node::Literal(value) => Some(*value),
        _ => None,
    }
}

/// All bits set; `None` for more bits than a literal can have.
fn ones(width: u32) -> Option<u128> {
    (width <= 128).then(|| u128::MAX >> (128 - width))
}

fn simple(bits: &Bits, known: &mut HashMap<*const Node, (Bits, Bits)>) -> Bits {
    if let Some((_, simple)) = known.get(&bits.address()) {
        return *simple;
    }
    let old: Vec<Bits> = bits.children().copied().collect();
    let new: Vec<Bits> = old.iter().map(|child| simple(child, known)).collect();
    let changed = old.iter().zip(&new).any(|(old, new)| old.address() != new.address());
    let whole = if changed { bits.with_children(new) } else { *bits };
    let result = shorter(&whole).unwrap_or(whole);
    known.insert(bits.address(), (*bits, result));
    result
}

fn shorter(bits: &Bits) -> Option<Bits> {
    let width = bits.width();
    let all = ones(width);
    let is = |part: &Bits, wanted: Option<u128>| value(part).is_some() && value(part) == wanted;
    match bits.node() {
        Node::Unary(UnaryOp::Not, a) => match (a.node(), value(a)) {
            (Node::Unary(UnaryOp::Not, inner), _) => Some(*inner),
            (_, Some(value)) => Some(lit(all? & !value, width)),
            _ => None,
        },
        Node::Unary(UnaryOp::All, a) => Some(lit(u128::from(value(a)? == ones(a.width())?), 1)),
        Node::Unary(UnaryOp::Any, a) => Some(lit(u128::from(value(a)? != 0), 1)),
        Node::Binary(op, a, b) => match op {
            BinaryOp::And if is(a, all) => Some(*b),
            BinaryOp::And if is(b, all) => Some(*a),
            BinaryOp::Or | BinaryOp::Xor | BinaryOp::Add if is(a, Some(0)) => Some(*b),
            BinaryOp::Or | BinaryOp::Xor | BinaryOp::Add | BinaryOp::Sub | BinaryOp::Shl | BinaryOp::Shr
                if is(b, Some(0)) =>
            {
                Some(*a)
            }
            BinaryOp::And => Some(lit(value(a)? & value(b)?, width)),
            BinaryOp::Or => Some(lit(value(a)? | value(b)?, width)),
            BinaryOp::Eq => Some(lit((value(a)? == value(b)?).into(), 1)),
            BinaryOp::Ne => Some(lit((value(a)? != value(b)?).into(), 1)),
            BinaryOp::Lt => Some(lit((value(a)? < value(b)?).into(), 1)),
            BinaryOp::Ge => Some(lit((value(a)? >= value(b)?).into(), 1)),
            _ => None,
        },
        Node::Mux(select, a, b) => match (value(select), value(a), value(b)) {
            (Some(select), ..) => {
                let (taken, other) = if select == 1 { (a, b) } else { (b, a) };
                other.signals().is_empty().then_some(*taken)
            }
            (_, Some(1), Some(0)) if width == 1 => Some(*select),
            (_, Some(0), Some(1)) if width == 1 => Some(!*select),
            _ => None,
        },
        Node::Repeat(count, part) => {
            let (value, one) = (value(part)?, part.width());
            all?;
            Some(lit((0..*count).fold(0, |sum, at| sum | (value << (at * one))), width))
        }
        Node::Cat(parts) => {
            let mut joined: Vec<Bits> = Vec::new();
            for part in parts {
                let both = joined.last().and_then(|last| Some((value(last)?, value(part)?, last.width())));
                match both {
                    Some((high, low, bits)) if bits + part.width() <= 128 => {
                        joined.pop();
                        joined.push(lit((high << part.width()) | low, bits + part.width()));
                    }
                    _ => joined.push(*part),
                }
            }
            (joined.len() < parts.len()).then(|| cat(joined))
        }
        _ => None,
    }
}
