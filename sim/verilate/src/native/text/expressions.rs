//! The C++ of nodes.

use super::Text;
use ndp_hdl_language::{Binary, Id, Op, Port};
use std::collections::BTreeSet;
use std::fmt::Write;

/// An operation on scalars or vectors. Comparisons call functions that accept both.
fn binary(op: Binary, a: &str, b: &str) -> String {
    let symbol = match op {
        Binary::MulHigh => return format!("mul_high({a}, {b})"),
        Binary::Eq => return format!("equal({a}, {b})"),
        Binary::Lt => return format!("less({a}, {b})"),
        Binary::And => "&",
        Binary::Or => "|",
        Binary::Xor => "^",
        Binary::Add => "+",
        Binary::Sub => "-",
        Binary::Mul => "*",
        Binary::Shl => "<<",
        Binary::Shr => ">>",
    };
    format!("{a} {symbol} {b}")
}

impl Text<'_> {
    pub(super) fn operand(&self, id: Id) -> String {
        match self.node(id).op {
            Op::Word(value) => format!("{value:#x}u"),
            Op::Bit(value) => value.to_string(),
            _ => format!("n{id}"),
        }
    }

    fn element(&self, vector: Id, lane: u32) -> String {
        let node = self.node(vector);
        match (&node.op, node.group) {
            (Op::State { register, limb }, Some(group)) => {
                format!("s.r{register}[{}]", limb * self.stride(group) + lane)
            }
            _ => format!("s.g{}_{vector}[{lane}]", self.event),
        }
    }

    /// The line that computes a node without lanes, or loads one of another task.
    pub(super) fn scalar(&self, id: Id) -> String {
        let node = self.node(id);
        let of = |id: &Id| self.operand(*id);
        let value = match &node.op {
            Op::Word(_) | Op::Bit(_) | Op::Table(_) => return String::new(),
            Op::Gather(_) => return String::new(),
            _ if self.outside(id) => format!("s.t{}_{id}", self.event),
            Op::Mutant(number) => format!("s.mutant == {number}"),
            Op::Input { port, limb } => {
                let Port { name, width, .. } = &self.netlist.ports[*port as usize];
                match width {
                    1..=32 => format!("s.p_{name}"),
                    33..=64 => format!("static_cast<Word>(s.p_{name} >> {})", 32 * limb),
                    _ => format!("s.p_{name}[{limb}]"),
                }
            }
            Op::State { register, limb } => format!("s.r{register}[{limb}]"),
            Op::Read { memory, limb, addr } => {
                let depth = self.netlist.memories[*memory as usize].depth;
                let addr = of(addr);
                format!("{addr} < {depth} ? s.m{memory}[{addr}][{limb}] : 0")
            }
            Op::Lane(vector, lane) => self.element(*vector, *lane),
            Op::Not(a) => format!("!{}", of(a)),
            Op::Flag(a) => of(a),
            Op::Mask(a) => format!("0u - {}", of(a)),
            Op::Test(a, bit) => format!("{} >> {bit} & 1", of(a)),
            Op::Parity(a) => format!("__builtin_parity({})", of(a)),
            Op::Binary(op, a, b) => {
                let (a, b) = (of(a), of(b));
                match op {
                    Binary::Eq => format!("{a} == {b}"),
                    Binary::Lt => format!("{a} < {b}"),
                    op => binary(*op, &a, &b),
                }
            }
            Op::Select(c, a, b) => format!("{} ? {} : {}", of(c), of(a), of(b)),
        };
        let kind = if node.bit { "bool" } else { "Word" };
        format!("    const {kind} n{id} = {value};\n")
    }

    /// Whether a gathered vector is the same in all loads.
    fn periodic(&self, id: Id) -> bool {
        let node = self.node(id);
        let (Op::Gather(parts), Some(group)) = (&node.op, node.group) else { return false };
        let lanes = self.vector_lanes(group) as usize;
        parts.len().is_multiple_of(lanes) && parts[lanes..].iter().eq(&parts[..parts.len() - lanes])
    }

    pub(super) fn words(&self, id: Id) -> u32 {
        let group = self.node(id).group.unwrap_or_default();
        if self.periodic(id) { self.vector_lanes(group) } else { self.stride(group) }
    }

    /// Gathers a vector; `moved` names the word that takes its differences.
    pub(super) fn gather(&self, id: Id, moved: &str) -> String {
        let Op::Gather(parts) = &self.node(id).op else { return String::new() };
        let parts = &parts[..parts.len().min(self.words(id) as usize)];
        let bit = self.node(id).bit;
        let mut text = String::new();
        let source = |part: Id| match self.node(part).op {
            Op::Lane(vector, lane) => Some((vector, lane)),
            _ => None,
        };
        let event = self.event;
        let mut at = 0;
        while at < parts.len() {
            if let Some((vector, first)) = source(parts[at])
                && let Some((_, second)) = parts.get(at + 1).and_then(|part| source(*part))
                && second > first
            {
                let step = second - first;
                let follows =
                    |(index, part): &(u32, &Id)| source(**part) == Some((vector, first + step * index));
                let count = (0..).zip(&parts[at..]).take_while(follows).count();
                if count > 2 {
                    let base = self.element(vector, first);
                    let _ = writeln!(
                        text,
                        "    {moved} |= spread<{count}, {step}>(s.g{event}_{id} + {at}, &{base});"
                    );
                    at += count;
                    continue;
                }
            }
            let value = match source(parts[at]) {
                Some((vector, lane)) => self.element(vector, lane),
                None if bit => format!("0u - {}", self.operand(parts[at])),
                None => self.operand(parts[at]),
            };
            let _ = writeln!(text, "    {moved} |= put(s.g{event}_{id}[{at}], {value});");
            at += 1;
        }
        text
    }

    /// An operand in a loop over lanes, and the line that makes it a vector unless `known` has it.
    pub(super) fn lane_operand(&self, id: Id, known: &mut BTreeSet<Id>) -> (String, String) {
        let node = self.node(id);
        let kept = match (&node.op, node.group) {
            (Op::Word(_) | Op::Bit(_), _) | (_, None) => return (String::new(), self.operand(id)),
            (Op::Table(values), Some(group)) => {
                let stride = self.stride(group) as usize;
                let values: Vec<String> = values
                    .iter()
                    .chain(std::iter::repeat(&0))
                    .take(stride)
                    .map(|value| format!("{value:#x}u"))
                    .collect();
                let values = values.join(", ");
                format!(
                    "    alignas(64) static const Word c{id}[] = {{{values}}};\n    const V n{id} = load<V>(c{id} + l);\n"
                )
            }
            (Op::State { register, limb }, Some(group)) if !known.contains(&id) => {
                let offset = limb * self.stride(group);
                format!("    const V n{id} = load<V>(s.r{register} + {offset} + l);\n")
            }
            _ if self.outside(id) && !known.contains(&id) => {
                let at = if self.periodic(id) { "" } else { " + l" };
                format!("    const V n{id} = load<V>(s.g{}_{id}{at});\n", self.event)
            }
            _ => String::new(),
        };
        let load = if known.insert(id) { kept } else { String::new() };
        (load, format!("n{id}"))
    }

    /// Like [`Self::lane_operand`], always a vector.
    pub(super) fn spread(&self, id: Id, known: &mut BTreeSet<Id>) -> (String, String) {
        let node = self.node(id);
        let (load, operand) = self.lane_operand(id, known);
        let operand = match (node.group, node.bit) {
            (Some(_), _) => operand,
            (None, true) => format!("all<V>(0u - {operand})"),
            (None, false) => format!("all<V>({operand})"),
        };
        (load, operand)
    }

    pub(super) fn vector(&self, id: Id, known: &mut BTreeSet<Id>) -> String {
        let node = self.node(id);
        let Some(group) = node.group.filter(|_| !self.outside(id)) else { return String::new() };
        let stride = self.stride(group);
        let mut text = String::new();
        let mut of = |id: &Id, text: &mut String| {
            let (load, operand) = self.spread(*id, known);
            *text += &load;
            operand
        };
        let value = match &node.op {
            Op::Word(_)
            | Op::Bit(_)
            | Op::Mutant(_)
            | Op::Table(_)
            | Op::Gather(_)
            | Op::Input { .. }
            | Op::Lane(..) => {
                return String::new();
            }
            Op::State { register, limb } => format!("load<V>(s.r{register} + {} + l)", limb * stride),
            Op::Read { memory, limb, addr } => {
                let depth = self.netlist.memories[*memory as usize].depth;
                if self.node(*addr).group.is_none() {
                    let addr = self.operand(*addr);
                    format!(
                        "{addr} < {depth} ? load<V>(s.m{memory}[{addr}] + {} + l) : all<V>(0)",
                        limb * stride
                    )
                } else {
                    let addr = of(addr, &mut text);
                    let _ = writeln!(
                        text,
                        "    V x{id} = all<V>(0);\n    for (unsigned k = 0; k != {}; ++k)\n        if ({addr}[k] < {depth}) x{id}[k] = s.m{memory}[{addr}[k]][{} + l + k];",
                        self.vector_lanes(group),
                        limb * stride
                    );
                    format!("x{id}")
                }
            }
            Op::Not(a) => format!("~{}", of(a, &mut text)),
            Op::Flag(a) => format!("{} & all<V>(1)", of(a, &mut text)),
            Op::Mask(a) => of(a, &mut text),
            Op::Test(a, bit) => format!("test({}, {:#x}u)", of(a, &mut text), 1_u32 << bit),
            Op::Parity(a) => format!("parity({})", of(a, &mut text)),
            Op::Binary(op, a, b) => {
                let (a, b) = (of(a, &mut text), of(b, &mut text));
                binary(*op, &a, &b)
            }
            Op::Select(c, a, b) => {
                let (then, other) = (of(a, &mut text), of(b, &mut text));
                if self.node(*c).group.is_none() {
                    format!("{} ? {then} : {other}", self.operand(*c))
                } else {
                    format!("select({}, {then}, {other})", of(c, &mut text))
                }
            }
        };
        known.insert(id);
        let _ = writeln!(text, "    const V n{id} = {value};");
        text
    }
}
