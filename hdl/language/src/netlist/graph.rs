//! Nodes of a netlist: operations on words of at most 32 bits and on single bits, each distinct one once.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Number of a node; its operands have lower numbers.
pub type Id = u32;

/// Operations on two words, or on two bits where they make sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Binary {
    /// AND.
    And,
    /// OR.
    Or,
    /// Exclusive OR.
    Xor,
    /// Sum modulo 2^32.
    Add,
    /// Difference modulo 2^32.
    Sub,
    /// Lower half of the product.
    Mul,
    /// Upper half of the product.
    MulHigh,
    /// Shifted left by less than 32.
    Shl,
    /// Shifted right by less than 32, zeros shifted in.
    Shr,
    /// Equal; a bit.
    Eq,
    /// Less, unsigned; a bit.
    Lt,
}

/// Operation of a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// A word.
    Word(u32),
    /// A bit.
    Bit(bool),
    /// Whether this mutant is active; a bit.
    Mutant(u32),
    /// A word for each lane.
    Table(Arc<[u32]>),
    /// Word `limb` of an input port.
    Input {
        /// Number of the port.
        port: u32,
        /// Number of the word.
        limb: u32,
    },
    /// Word `limb` of a register.
    State {
        /// Number of the register.
        register: u32,
        /// Number of the word.
        limb: u32,
    },
    /// Word `limb` of a memory's word; 0 beyond the end.
    Read {
        /// Number of the memory.
        memory: u32,
        /// Number of the word.
        limb: u32,
        /// The address.
        addr: Id,
    },
    /// A lane of a vector.
    Lane(Id, u32),
    /// A vector of scalars and lanes of other vectors.
    Gather(Arc<[Id]>),
    /// The other bit.
    Not(Id),
    /// A bit as a word, 0 or 1.
    Flag(Id),
    /// A bit as a word, all bits alike.
    Mask(Id),
    /// Bit of a word.
    Test(Id, u32),
    /// Whether the number of bits that are set in a word is odd.
    Parity(Id),
    /// An operation on two.
    Binary(Binary, Id, Id),
    /// The second if the first, a bit, is set, else the third.
    Select(Id, Id, Id),
}

impl Op {
    /// The nodes that it uses.
    pub fn operands(&self) -> Vec<Id> {
        match self {
            Self::Word(_)
            | Self::Bit(_)
            | Self::Mutant(_)
            | Self::Table(_)
            | Self::Input { .. }
            | Self::State { .. } => Vec::new(),
            Self::Read { addr: a, .. }
            | Self::Lane(a, _)
            | Self::Not(a)
            | Self::Flag(a)
            | Self::Mask(a)
            | Self::Parity(a)
            | Self::Test(a, _) => vec![*a],
            Self::Binary(_, a, b) => vec![*a, *b],
            Self::Select(a, b, c) => vec![*a, *b, *c],
            Self::Gather(parts) => parts.to_vec(),
        }
    }
}

/// A node.
#[derive(Clone, Debug)]
pub struct Node {
    /// Operation.
    pub op: Op,
    /// A bit, not a word.
    pub bit: bool,
    /// The array of instances that each have a value of it; `None` for a single value.
    pub group: Option<u32>,
    /// Group number shared by the selects that choose the words of one value.
    pub choice: u32,
    /// Bits that can be set.
    pub possible: u32,
    /// Number in [`crate::Netlist::scopes`] of the instance during whose elaboration the node was made.
    pub scope: u32,
}

/// The nodes.
#[derive(Debug, Default)]
pub struct Graph {
    /// Operands precede their users.
    pub nodes: Vec<Node>,
    known: HashMap<(Op, Option<u32>), Id>,
    gathered: HashMap<(u32, Vec<Id>), Id>,
    /// Bits that are sums modulo 2 of bits of words: the words, and which of their bits.
    sums: HashMap<Id, BTreeMap<Id, u32>>,
    /// Number of instances of each array.
    pub lanes: Vec<u32>,
    choices: u32,
    pub(super) scope: u32,
}

/// All bits up to the highest one of `value`.
fn filled(value: u64) -> u32 {
    let bits = 64 - value.leading_zeros();
    low_mask(bits.min(32))
}

pub(crate) fn low_mask(bits: u32) -> u32 {
    1_u32.checked_shl(bits).map_or(u32::MAX, |end| end - 1)
}

impl Graph {
    fn op(&self, id: Id) -> &Op {
        &self.nodes[id as usize].op
    }

    pub(crate) fn possible(&self, id: Id) -> u32 {
        self.nodes[id as usize].possible
    }

    fn is_bit(&self, id: Id) -> bool {
        self.nodes[id as usize].bit
    }

    /// The array that a node belongs to.
    pub(crate) fn group(&self, id: Id) -> Option<u32> {
        self.nodes[id as usize].group
    }

    fn make(&mut self, op: Op, bit: bool, group: Option<u32>, possible: u32) -> Id {
        let key = (op, group);
        if let Some(id) = self.known.get(&key) {
            return *id;
        }
        let id = self.nodes.len() as Id;
        let choice = self.choices;
        let scope = self.scope;
        self.nodes.push(Node { op: key.0.clone(), bit, group, choice, possible, scope });
        self.known.insert(key, id);
        id
    }

    fn common(&self, operands: &[Id]) -> Option<u32> {
        operands.iter().find_map(|id| self.group(*id))
    }

    pub(crate) fn word(&mut self, value: u32) -> Id {
        self.make(Op::Word(value), false, None, value)
    }

    pub(crate) fn truth(&mut self, value: bool) -> Id {
        self.make(Op::Bit(value), true, None, value.into())
    }

    pub(crate) fn mutant(&mut self, number: u32) -> Id {
        self.make(Op::Mutant(number), true, None, 1)
    }

    pub(crate) fn input(&mut self, port: u32, limb: u32, bits: u32) -> Id {
        if bits == 1 {
            return self.make(Op::Input { port, limb }, true, None, 1);
        }
        self.make(Op::Input { port, limb }, false, None, low_mask(bits))
    }

    pub(crate) fn state(&mut self, register: u32, limb: u32, bits: u32, one: bool, group: Option<u32>) -> Id {
        self.make(Op::State { register, limb }, one, group, low_mask(bits))
    }

    pub(crate) fn read(&mut self, memory: u32, limb: u32, bits: u32, addr: Id, group: Option<u32>) -> Id {
        self.make(Op::Read { memory, limb, addr }, false, group, low_mask(bits))
    }

    fn constant(&self, id: Id) -> Option<u32> {
        match self.op(id) {
            Op::Word(value) => Some(*value),
            Op::Bit(value) => Some((*value).into()),
            _ => None,
        }
    }

    pub(crate) fn not(&mut self, a: Id) -> Id {
        match *self.op(a) {
            Op::Bit(value) => self.truth(!value),
            Op::Not(inner) => inner,
            _ => {
                let group = self.group(a);
                self.make(Op::Not(a), true, group, 1)
            }
        }
    }

    /// 0 or 1.
    pub(crate) fn flag(&mut self, bit: Id) -> Id {
        if let Some(value) = self.constant(bit) {
            return self.word(value);
        }
        if let Op::Test(word, 0) = *self.op(bit)
            && self.possible(word) == 1
        {
            return word;
        }
        let group = self.group(bit);
        self.make(Op::Flag(bit), false, group, 1)
    }

    /// 0 or all ones.
    pub(crate) fn mask(&mut self, bit: Id) -> Id {
        if let Some(value) = self.constant(bit) {
            return self.word(0_u32.wrapping_sub(value));
        }
        let group = self.group(bit);
        self.make(Op::Mask(bit), false, group, u32::MAX)
    }

    pub(crate) fn test(&mut self, word: Id, index: u32) -> Id {
        if self.possible(word) >> index & 1 == 0 {
            return self.truth(false);
        }
        match *self.op(word) {
            Op::Word(value) => return self.truth(value >> index & 1 == 1),
            Op::Flag(bit) | Op::Mask(bit) => return bit,
            Op::Binary(Binary::Shl, x, by) => {
                if let Some(by) = self.constant(by) {
                    return self.test(x, index - by);
                }
            }
            Op::Binary(Binary::Shr, x, by) => {
                if let Some(by) = self.constant(by) {
                    return self.test(x, index + by);
                }
            }
            Op::Binary(Binary::Or, a, b) => {
                if self.possible(a) >> index & 1 == 0 {
                    return self.test(b, index);
                }
                if self.possible(b) >> index & 1 == 0 {
                    return self.test(a, index);
                }
            }
            Op::Binary(Binary::And, a, b) => {
                if self.constant(b).is_some() {
                    return self.test(a, index);
                }
                if let Op::Mask(bit) = *self.op(b) {
                    let a = self.test(a, index);
                    return self.and(a, bit);
                }
                if let Op::Mask(bit) = *self.op(a) {
                    let b = self.test(b, index);
                    return self.and(b, bit);
                }
            }
            _ => {}
        }
        let group = self.group(word);
        self.make(Op::Test(word, index), true, group, 1)
    }

    pub(crate) fn field(&mut self, word: Id, low: u32, width: u32) -> Id {
        let wanted = low_mask(width) << low;
        if self.possible(word) & wanted == 0 {
            return self.word(0);
        }
        match *self.op(word) {
            Op::Binary(Binary::Or, a, b) => {
                let [in_a, in_b] = [a, b].map(|part| self.possible(part) & wanted != 0);
                if !in_a {
                    return self.field(b, low, width);
                }
                if !in_b {
                    return self.field(a, low, width);
                }
            }
            Op::Binary(Binary::Shl, x, by) => {
                if let Some(by) = self.constant(by)
                    && low >= by
                {
                    return self.field(x, low - by, width);
                }
            }
            Op::Binary(Binary::Shr, x, by) => {
                if let Some(by) = self.constant(by)
                    && low + width + by <= 32
                {
                    return self.field(x, low + by, width);
                }
            }
            Op::Binary(Binary::And, a, b) if self.constant(b).is_some_and(|kept| kept & wanted == wanted) => {
                return self.field(a, low, width);
            }
            _ => {}
        }
        let by = self.word(low);
        let shifted = self.shr(word, by);
        let kept = self.word(low_mask(width));
        self.and(shifted, kept)
    }

    pub(crate) fn and(&mut self, a: Id, b: Id) -> Id {
        if a == b {
            return a;
        }
        // Constants come second.
        let (a, b) = self.ordered(a, b);
        let bit = self.is_bit(a);
        if let Some(value) = self.constant(b) {
            if let (Some(other), false) = (self.constant(a), bit) {
                return self.word(value & other);
            }
            if value & self.possible(a) == 0 {
                return if bit { self.truth(false) } else { self.word(0) };
            }
            if value & self.possible(a) == self.possible(a) {
                return a;
            }
            if let Op::Binary(Binary::And, inner, kept) = *self.op(a)
                && let Some(kept) = self.constant(kept)
            {
                let both = self.word(kept & value);
                return self.and(inner, both);
            }
        }
        let possible = self.possible(a) & self.possible(b);
        if possible == 0 {
            return if bit { self.truth(false) } else { self.word(0) };
        }
        if bit && (*self.op(a) == Op::Not(b) || *self.op(b) == Op::Not(a)) {
            return self.truth(false);
        }
        let group = self.common(&[a, b]);
        self.make(Op::Binary(Binary::And, a, b), bit, group, possible)
    }

    pub(crate) fn or(&mut self, a: Id, b: Id) -> Id {
        if a == b {
            return a;
        }
        let (a, b) = self.ordered(a, b);
        let bit = self.is_bit(a);
        match (self.constant(a), self.constant(b)) {
            (_, Some(0)) => return a,
            (_, Some(1)) if bit => return b,
            (_, Some(u32::MAX)) | (Some(0), _) => return b,
            (Some(a), Some(b)) => return self.word(a | b),
            _ => {}
        }
        if bit && (*self.op(a) == Op::Not(b) || *self.op(b) == Op::Not(a)) {
            return self.truth(true);
        }
        let (possible, group) = (self.possible(a) | self.possible(b), self.common(&[a, b]));
        self.make(Op::Binary(Binary::Or, a, b), bit, group, possible)
    }

    pub(crate) fn xor(&mut self, a: Id, b: Id) -> Id {
        let (a, b) = self.ordered(a, b);
        let bit = self.is_bit(a);
        match self.constant(b) {
            Some(0) => return a,
            Some(1) if bit => return self.not(a),
            Some(value) => {
                if let Some(other) = self.constant(a) {
                    return self.word(value ^ other);
                }
            }
            None => {}
        }
        if a == b {
            return if bit { self.truth(false) } else { self.word(0) };
        }
        if bit && let Some(parity) = self.parity(a, b) {
            return parity;
        }
        let (possible, group) = (self.possible(a) | self.possible(b), self.common(&[a, b]));
        self.make(Op::Binary(Binary::Xor, a, b), bit, group, possible)
    }

    /// The words and bits that a bit is the sum of.
    fn sum_of(&self, bit: Id) -> Option<BTreeMap<Id, u32>> {
        match *self.op(bit) {
            Op::Test(word, index) => Some(BTreeMap::from([(word, 1 << index)])),
            _ => self.sums.get(&bit).cloned(),
        }
    }

    /// A sum of many bits of few words: the parity of a word.
    fn parity(&mut self, a: Id, b: Id) -> Option<Id> {
        let (mut sum, other) = (self.sum_of(a)?, self.sum_of(b)?);
        for (word, mask) in other {
            *sum.entry(word).or_default() ^= mask;
        }
        sum.retain(|_, mask| *mask != 0);
        let bits: u32 = sum.values().map(|mask| mask.count_ones()).sum();
        let id = if bits < 8 || sum.len() as u32 > bits / 2 {
            let group = self.common(&[a, b]);
            self.make(Op::Binary(Binary::Xor, a, b), true, group, 1)
        } else {
            let mut all = self.word(0);
            for (word, mask) in &sum {
                let mask = self.word(*mask);
                let chosen = self.and(*word, mask);
                all = self.xor(all, chosen);
            }
            let group = self.group(all);
            self.make(Op::Parity(all), true, group, 1)
        };
        self.sums.insert(id, sum);
        Some(id)
    }

    /// The lower number first, a constant last.
    fn ordered(&self, a: Id, b: Id) -> (Id, Id) {
        match (self.constant(a).is_some(), self.constant(b).is_some()) {
            (true, false) => (b, a),
            (false, true) => (a, b),
            _ => (a.min(b), a.max(b)),
        }
    }

    pub(crate) fn add(&mut self, a: Id, b: Id) -> Id {
        let (a, b) = self.ordered(a, b);
        if let Some(value) = self.constant(b) {
            if value == 0 {
                return a;
            }
            if let Some(other) = self.constant(a) {
                return self.word(value.wrapping_add(other));
            }
        }
        let most = u64::from(self.possible(a)) + u64::from(self.possible(b));
        let group = self.common(&[a, b]);
        self.make(Op::Binary(Binary::Add, a, b), false, group, filled(most))
    }

    pub(crate) fn sub(&mut self, a: Id, b: Id) -> Id {
        match (self.constant(a), self.constant(b)) {
            (_, Some(0)) => return a,
            (Some(a), Some(b)) => return self.word(a.wrapping_sub(b)),
            _ => {}
        }
        let group = self.common(&[a, b]);
        self.make(Op::Binary(Binary::Sub, a, b), false, group, u32::MAX)
    }

    /// Lower and upper half of a product.
    pub(crate) fn mul(&mut self, a: Id, b: Id) -> (Id, Id) {
        let (a, b) = self.ordered(a, b);
        let most = u64::from(self.possible(a)) * u64::from(self.possible(b));
        if most == 0 {
            let zero = self.word(0);
            return (zero, zero);
        }
        if let (Some(a), Some(b)) = (self.constant(a), self.constant(b)) {
            let product = u64::from(a) * u64::from(b);
            return (self.word(product as u32), self.word((product >> 32) as u32));
        }
        let group = self.common(&[a, b]);
        let low = self.make(Op::Binary(Binary::Mul, a, b), false, group, filled(most));
        let high = match most >> 32 {
            0 => self.word(0),
            most => self.make(Op::Binary(Binary::MulHigh, a, b), false, group, filled(most)),
        };
        (low, high)
    }

    pub(crate) fn shl(&mut self, a: Id, by: Id) -> Id {
        let group = self.common(&[a, by]);
        let possible = match self.constant(by) {
            Some(0) => return a,
            Some(by) => {
                if let Some(value) = self.constant(a) {
                    return self.word(value << by);
                }
                if let Op::Flag(bit) = *self.op(a)
                    && group.is_some()
                {
                    let (mask, one) = (self.mask(bit), self.word(1 << by));
                    return self.and(mask, one);
                }
                if let Op::Binary(Binary::Shl, x, more) = *self.op(a)
                    && let Some(more) = self.constant(more)
                    && more + by < 32
                {
                    let both = self.word(more + by);
                    return self.shl(x, both);
                }
                self.possible(a) << by
            }
            None => u32::MAX,
        };
        if possible == 0 {
            return self.word(0);
        }
        self.make(Op::Binary(Binary::Shl, a, by), false, group, possible)
    }

    pub(crate) fn shr(&mut self, a: Id, by: Id) -> Id {
        let group = self.common(&[a, by]);
        let possible = match self.constant(by) {
            Some(0) => return a,
            Some(by) => {
                if let Some(value) = self.constant(a) {
                    return self.word(value >> by);
                }
                if let Op::Binary(Binary::Shr, x, more) = *self.op(a)
                    && let Some(more) = self.constant(more)
                    && more + by < 32
                {
                    let both = self.word(more + by);
                    return self.shr(x, both);
                }
                self.possible(a) >> by
            }
            None => filled(self.possible(a).into()),
        };
        if possible == 0 {
            return self.word(0);
        }
        self.make(Op::Binary(Binary::Shr, a, by), false, group, possible)
    }

    pub(crate) fn equal(&mut self, a: Id, b: Id) -> Id {
        if a == b {
            return self.truth(true);
        }
        if self.is_bit(a) {
            let differ = self.xor(a, b);
            return self.not(differ);
        }
        let (a, b) = self.ordered(a, b);
        if let Some(value) = self.constant(b) {
            if let Some(other) = self.constant(a) {
                return self.truth(value == other);
            }
            if value & !self.possible(a) != 0 {
                return self.truth(false);
            }
            if let Op::Flag(bit) | Op::Mask(bit) = *self.op(a)
                && value == 0
            {
                return self.not(bit);
            }
            if value == 0 && self.possible(a).count_ones() == 1 {
                let bit = self.test(a, self.possible(a).trailing_zeros());
                return self.not(bit);
            }
        }
        let group = self.common(&[a, b]);
        self.make(Op::Binary(Binary::Eq, a, b), true, group, 1)
    }

    pub(crate) fn less(&mut self, a: Id, b: Id) -> Id {
        if a == b {
            return self.truth(false);
        }
        if self.is_bit(a) {
            let not = self.not(a);
            return self.and(not, b);
        }
        match (self.constant(a), self.constant(b)) {
            (Some(a), Some(b)) => return self.truth(a < b),
            (_, Some(0)) => return self.truth(false),
            (Some(0), _) => {
                let zero = self.word(0);
                let none = self.equal(b, zero);
                return self.not(none);
            }
            (_, Some(b)) if self.possible(a) < b => return self.truth(true),
            _ => {}
        }
        let group = self.common(&[a, b]);
        self.make(Op::Binary(Binary::Lt, a, b), true, group, 1)
    }

    /// Begins the choice between two values, whose selects share a number.
    pub(crate) fn new_choice(&mut self) {
        self.choices += 1;
    }

    pub(crate) fn select(&mut self, c: Id, a: Id, b: Id) -> Id {
        if a == b {
            return a;
        }
        if let Op::Bit(value) = *self.op(c) {
            return if value { a } else { b };
        }
        if let Op::Not(other) = *self.op(c) {
            return self.select(other, b, a);
        }
        if self.is_bit(a) {
            match (self.constant(a), self.constant(b)) {
                (Some(1), _) => return self.or(c, b),
                (Some(0), _) => {
                    let not = self.not(c);
                    return self.and(not, b);
                }
                (_, Some(0)) => return self.and(c, a),
                (_, Some(1)) => {
                    let not = self.not(c);
                    return self.or(not, a);
                }
                _ => {}
            }
        }
        let (possible, group) = (self.possible(a) | self.possible(b), self.common(&[c, a, b]));
        let bit = self.is_bit(a);
        self.make(Op::Select(c, a, b), bit, group, possible)
    }

    /// One lane of a node; the node itself if it has no lanes.
    pub(crate) fn lane(&mut self, node: Id, lane: u32) -> Id {
        if self.group(node).is_none() {
            return node;
        }
        match self.op(node) {
            Op::Gather(parts) => return parts[lane as usize],
            Op::Table(values) => {
                let value = values[lane as usize];
                return self.word(value);
            }
            _ => {}
        }
        let (bit, possible) = (self.is_bit(node), self.possible(node));
        self.make(Op::Lane(node, lane), bit, None, possible)
    }

    /// The vector of an array with `parts` as its lanes. Operations that all lanes share become one operation on
    /// vectors; a value common to all stays a scalar.
    pub(crate) fn gather(&mut self, group: u32, parts: &[Id]) -> Id {
        if parts.iter().all(|part| part == &parts[0]) {
            return parts[0];
        }
        let key = (group, parts.to_vec());
        if let Some(id) = self.gathered.get(&key) {
            return *id;
        }
        let id = self.gather_new(group, parts);
        self.gathered.insert(key, id);
        id
    }

    fn gather_new(&mut self, group: u32, parts: &[Id]) -> Id {
        if let Op::Lane(vector, 0) = *self.op(parts[0])
            && self.group(vector) == Some(group)
            && (0..).zip(parts).all(|(lane, part)| *self.op(*part) == Op::Lane(vector, lane))
        {
            return vector;
        }
        if parts.iter().all(|part| self.constant(*part).is_some()) {
            let bit = self.is_bit(parts[0]);
            let values: Vec<u32> =
                parts.iter().map(|part| self.constant(*part).unwrap_or_default()).collect();
            let possible = values.iter().fold(0, |all, value| all | value);
            let table = self.make(Op::Table(values.into()), false, Some(group), possible);
            return if bit { self.test(table, 0) } else { table };
        }
        if let Some(id) = self.gather_operations(group, parts) {
            return id;
        }
        let bit = self.is_bit(parts[0]);
        let possible = parts.iter().fold(0, |all, part| all | self.possible(*part));
        self.make(Op::Gather(parts.into()), bit, Some(group), possible)
    }

    /// One operation for all lanes, if they are all alike.
    fn gather_operations(&mut self, group: u32, parts: &[Id]) -> Option<Id> {
        let ops: Vec<Op> = parts.iter().map(|part| self.op(*part).clone()).collect();
        let column = |index: usize| -> Vec<Id> { ops.iter().map(|op| op.operands()[index]).collect() };
        let all = |same: &dyn Fn(&Op) -> bool| ops.iter().all(same);
        match &ops[0] {
            Op::Not(_) if all(&|op| matches!(op, Op::Not(_))) => {
                let a = self.gather(group, &column(0));
                Some(self.not(a))
            }
            Op::Flag(_) if all(&|op| matches!(op, Op::Flag(_))) => {
                let a = self.gather(group, &column(0));
                Some(self.flag(a))
            }
            Op::Mask(_) if all(&|op| matches!(op, Op::Mask(_))) => {
                let a = self.gather(group, &column(0));
                Some(self.mask(a))
            }
            Op::Test(_, index) if all(&|op| matches!(op, Op::Test(_, other) if other == index)) => {
                let a = self.gather(group, &column(0));
                Some(self.test(a, *index))
            }
            Op::Test(..) if all(&|op| matches!(op, Op::Test(..))) => {
                let words = column(0);
                if words.iter().any(|word| word != &words[0]) {
                    return None;
                }
                let bits = ops.iter().map(|op| if let Op::Test(_, index) = op { 1 << index } else { 0 });
                let table = self.make(Op::Table(bits.collect()), false, Some(group), u32::MAX);
                let (chosen, zero) = (self.and(words[0], table), self.word(0));
                let none = self.equal(chosen, zero);
                Some(self.not(none))
            }
            Op::Binary(first, ..) if all(&|op| matches!(op, Op::Binary(other, ..) if other == first)) => {
                let (a, b) = (self.gather(group, &column(0)), self.gather(group, &column(1)));
                Some(match first {
                    Binary::And => self.and(a, b),
                    Binary::Or => self.or(a, b),
                    Binary::Xor => self.xor(a, b),
                    Binary::Add => self.add(a, b),
                    Binary::Sub => self.sub(a, b),
                    Binary::Mul => self.mul(a, b).0,
                    Binary::MulHigh => self.mul(a, b).1,
                    Binary::Shl => self.shl(a, b),
                    Binary::Shr => self.shr(a, b),
                    Binary::Eq => self.equal(a, b),
                    Binary::Lt => self.less(a, b),
                })
            }
            Op::Select(..) if all(&|op| matches!(op, Op::Select(..))) => {
                let [c, a, b] = [0, 1, 2].map(|index| self.gather(group, &column(index)));
                Some(self.select(c, a, b))
            }
            _ => None,
        }
    }
}
