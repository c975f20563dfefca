//! Width-checked expressions.
//!
//! A mismatch becomes a poisoned expression that [`crate::ModuleBuilder::finish`] reports with module, signal and both
//! widths, as operators that return a `Result` would not read like hardware. All values are unsigned bit vectors; sign
//! handling is written out.

use crate::{InstanceBuilder, Output, Reg, Wire};
use std::cell::RefCell;
use std::ops::{Add, BitAnd, BitOr, BitXor, Mul, Not, Range, Sub};
use std::panic::Location;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Signal {
    pub name: String,
    pub owner: Owner,
    pub id: usize,
}

/// The builder that a signal or memory belongs to. The serial number distinguishes builders of the same name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Owner {
    pub module: String,
    pub serial: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum BinaryOp {
    And,
    Or,
    Xor,
    Add,
    Sub,
    Mul,
    Eq,
    Ne,
    Lt,
    Ge,
    Shl,
    Shr,
}

impl BinaryOp {
    pub const TEXTS: [(Self, &str); 12] = [
        (Self::And, "&"),
        (Self::Or, "|"),
        (Self::Xor, "^"),
        (Self::Add, "+"),
        (Self::Sub, "-"),
        (Self::Mul, "*"),
        (Self::Eq, "=="),
        (Self::Ne, "!="),
        (Self::Lt, "<"),
        (Self::Ge, ">="),
        (Self::Shl, "<<"),
        (Self::Shr, ">>"),
    ];

    pub fn text(self) -> &'static str {
        Self::TEXTS.iter().find(|(known, _)| *known == self).map_or("", |(_, text)| text)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UnaryOp {
    Not,
    All,
    Any,
}

#[derive(Debug)]
pub(crate) enum Node {
    Signal(Signal),
    Literal(u128),
    /// Whether this mutant is active.
    Mutant(u32),
    Unary(UnaryOp, Bits),
    Binary(BinaryOp, Bits, Bits),
    Mux(Bits, Bits, Bits),
    /// Most significant part first, as in Verilog.
    Cat(Vec<Bits>),
    Repeat(u32, Bits),
    Slice {
        base: Bits,
        low: u32,
    },
    MemoryRead {
        memory: String,
        owner: Owner,
        addr: Bits,
    },
    Mismatch {
        what: &'static str,
        left: u32,
        right: u32,
    },
    Invalid(String),
    /// Placeholder for a value that is known later: the inputs that it drives.
    Later(RefCell<Vec<(InstanceBuilder, String)>>),
}

/// An expression of a known width. Copies are the same expression; each expression stays in memory until the program
/// ends.
#[derive(Clone, Copy, Debug)]
pub struct Bits {
    width: u32,
    node: &'static (Node, &'static Location<'static>),
}

impl Bits {
    #[track_caller]
    pub(crate) fn new(width: u32, node: Node) -> Self {
        Self::placed(width, node, Location::caller())
    }

    /// An expression from another place of the description.
    pub(crate) fn placed(width: u32, node: Node, place: &'static Location<'static>) -> Self {
        Self { width, node: Box::leak(Box::new((node, place))) }
    }

    pub(crate) fn node(&self) -> &'static Node {
        &self.node.0
    }

    /// Place in the description.
    pub(crate) fn place(&self) -> &'static Location<'static> {
        self.node.1
    }

    /// Address in memory, the same for all copies.
    pub(crate) fn address(&self) -> *const Node {
        &raw const self.node.0
    }

    /// Width in bits.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Bits `low + width - 1` down to `low`.
    #[track_caller]
    pub fn slice(&self, low: u32, width: u32) -> Self {
        if width == 0 || low.checked_add(width).is_none_or(|end| end > self.width) {
            let what = format!("slice [{low} +: {width}] of {} bits", self.width);
            return Self::new(width.max(1), Node::Invalid(what));
        }
        if low == 0 && width == self.width {
            return *self;
        }
        match self.node() {
            // A slice of a slice is a slice of its base; a slice inside one part of a concatenation is a slice of that
            // part. Both keep the Verilog free of helper wires.
            Node::Slice { base, low: offset } => base.slice(offset + low, width),
            // Bits of a literal above the 128th are zero.
            Node::Literal(value) => lit(value.checked_shr(low).unwrap_or(0) & mask(width), width),
            Node::Cat(parts) => {
                let mut offset = 0;
                for part in parts.iter().rev() {
                    if low >= offset && low + width <= offset + part.width {
                        return part.slice(low - offset, width);
                    }
                    offset += part.width;
                }
                Self::new(width, Node::Slice { base: *self, low })
            }
            _ => Self::new(width, Node::Slice { base: *self, low }),
        }
    }

    /// The bit `index`.
    #[track_caller]
    pub fn bit(&self, index: u32) -> Self {
        self.slice(index, 1)
    }

    /// The `count` least significant bits.
    #[track_caller]
    pub fn low(&self, count: u32) -> Self {
        self.slice(0, count)
    }

    /// The `count` most significant bits.
    #[track_caller]
    pub fn high(&self, count: u32) -> Self {
        self.slice(self.width.saturating_sub(count), count)
    }

    /// The most significant bit.
    #[track_caller]
    pub fn msb(&self) -> Self {
        self.bit(self.width.saturating_sub(1))
    }

    /// Zero-extended to `width` bits.
    #[track_caller]
    pub fn zext(&self, width: u32) -> Self {
        if width == self.width {
            return *self;
        }
        if width < self.width {
            return Self::new(width, Node::Mismatch { what: "zext", left: width, right: self.width });
        }
        cat([zeros(width - self.width), *self])
    }

    /// Resized to `width` bits: zero-extended, or cut to the low bits.
    #[track_caller]
    pub fn fit(&self, width: u32) -> Self {
        if width < self.width { self.low(width) } else { self.zext(width) }
    }

    /// Sign-extended to `width` bits.
    #[track_caller]
    pub fn sext(&self, width: u32) -> Self {
        if width == self.width {
            return *self;
        }
        if width < self.width {
            return Self::new(width, Node::Mismatch { what: "sext", left: width, right: self.width });
        }
        cat([repeat(width - self.width, self.msb()), *self])
    }

    /// Whether all bits are set.
    #[track_caller]
    pub fn all(&self) -> Self {
        self.unary(UnaryOp::All, 1)
    }

    /// Whether any bit is set.
    #[track_caller]
    pub fn any(&self) -> Self {
        self.unary(UnaryOp::Any, 1)
    }

    /// No bit set.
    #[track_caller]
    pub fn is_zero(&self) -> Self {
        !self.any()
    }

    #[track_caller]
    fn unary(&self, op: UnaryOp, width: u32) -> Self {
        if self.width == 1 && op != UnaryOp::Not {
            return *self;
        }
        Self::new(width, Node::Unary(op, *self))
    }

    #[track_caller]
    fn binary(&self, op: BinaryOp, what: &'static str, other: impl Into<Self>, width: u32) -> Self {
        let other = other.into();
        if self.width != other.width {
            return Self::new(width, Node::Mismatch { what, left: self.width, right: other.width });
        }
        Self::new(width, Node::Binary(op, *self, other))
    }

    /// `self == other`.
    #[track_caller]
    pub fn eq(&self, other: impl Into<Self>) -> Self {
        self.binary(BinaryOp::Eq, "==", other, 1)
    }

    /// `self != other`.
    #[track_caller]
    pub fn ne(&self, other: impl Into<Self>) -> Self {
        self.binary(BinaryOp::Ne, "!=", other, 1)
    }

    /// `self < other`, unsigned.
    #[track_caller]
    pub fn lt(&self, other: impl Into<Self>) -> Self {
        self.binary(BinaryOp::Lt, "<", other, 1)
    }

    /// `self >= other`, unsigned.
    #[track_caller]
    pub fn ge(&self, other: impl Into<Self>) -> Self {
        self.binary(BinaryOp::Ge, ">=", other, 1)
    }

    /// `self == value`.
    #[track_caller]
    pub fn eq_lit(&self, value: u128) -> Self {
        self.eq(lit(value, self.width))
    }

    /// `self + 1`, wrapping.
    #[track_caller]
    pub fn plus_one(&self) -> Self {
        self + lit(1, self.width)
    }

    /// `self - 1`, wrapping.
    #[track_caller]
    pub fn minus_one(&self) -> Self {
        self - lit(1, self.width)
    }

    /// Shifted left by a variable amount; bits shifted out are lost.
    #[track_caller]
    pub fn shl(&self, amount: impl Into<Self>) -> Self {
        Self::new(self.width, Node::Binary(BinaryOp::Shl, *self, amount.into()))
    }

    /// Shifted right by a variable amount, zeros shifted in.
    #[track_caller]
    pub fn shr(&self, amount: impl Into<Self>) -> Self {
        Self::new(self.width, Node::Binary(BinaryOp::Shr, *self, amount.into()))
    }

    /// `self` where the one-bit `enable` is set, otherwise zero.
    #[track_caller]
    pub fn gated(&self, enable: impl Into<Self>) -> Self {
        self & repeat(self.width, enable)
    }
}

fn mask(width: u32) -> u128 {
    if width >= 128 { u128::MAX } else { (1 << width) - 1 }
}

/// A literal; a value that needs more than `width` bits is reported by `finish`.
#[track_caller]
pub fn lit(value: u128, width: u32) -> Bits {
    if value > mask(width) || width == 0 {
        return Bits::new(width.max(1), Node::Invalid(format!("literal {value} in {width} bits")));
    }
    Bits::new(width, Node::Literal(value))
}

/// A literal with all bits 0.
#[track_caller]
pub fn zeros(width: u32) -> Bits {
    lit(0, width)
}

/// Concatenation, most significant part first.
#[track_caller]
pub fn cat(parts: impl IntoIterator<Item: Into<Bits>>) -> Bits {
    let parts: Vec<Bits> = parts.into_iter().map(Into::into).collect();
    match parts.len() {
        0 => Bits::new(1, Node::Invalid("empty concatenation".into())),
        1 => parts[0],
        _ => {
            let width = parts.iter().fold(0, |sum: u32, part| sum.saturating_add(part.width));
            Bits::new(width, Node::Cat(parts))
        }
    }
}

/// `part` repeated `count` times.
#[track_caller]
pub fn repeat(count: u32, part: impl Into<Bits>) -> Bits {
    let part = part.into();
    match count {
        0 => Bits::new(1, Node::Invalid("repetition of count 0".into())),
        1 => part,
        _ => Bits::new(part.width.saturating_mul(count), Node::Repeat(count, part)),
    }
}

/// `select ? then : otherwise`; `select` is one bit wide.
#[track_caller]
pub fn mux(select: impl Into<Bits>, then: impl Into<Bits>, otherwise: impl Into<Bits>) -> Bits {
    let (select, then, otherwise) = (select.into(), then.into(), otherwise.into());
    if select.width != 1 {
        return Bits::new(then.width, Node::Mismatch { what: "mux select", left: 1, right: select.width });
    }
    if then.width != otherwise.width {
        return Bits::new(
            then.width,
            Node::Mismatch { what: "mux", left: then.width, right: otherwise.width },
        );
    }
    Bits::new(then.width, Node::Mux(select, then, otherwise))
}

/// One value for each number below `count`.
pub fn each<N: Default, T>(count: N, of: impl FnMut(N) -> T) -> Vec<T>
where
    Range<N>: Iterator<Item = N>,
{
    (N::default()..count).map(of).collect()
}

/// OR of all parts (of equal width).
#[track_caller]
pub fn any_of(parts: impl IntoIterator<Item: Into<Bits>>) -> Bits {
    balanced_or(&parts.into_iter().map(Into::into).collect::<Vec<_>>())
}

/// AND-OR multiplexer: the OR of all `values` whose bit of `select` is set (bit `i` belongs to `values[i]`).
#[track_caller]
pub fn one_hot_mux(select: impl Into<Bits>, values: impl IntoIterator<Item: Into<Bits>>) -> Bits {
    let (select, values) = (select.into(), values.into_iter().map(Into::into).collect::<Vec<Bits>>());
    if select.width as usize != values.len() {
        let right = values.len() as u32;
        return Bits::new(
            values.first().map_or(1, Bits::width),
            Node::Mismatch { what: "one-hot select", left: select.width, right },
        );
    }
    let gated: Vec<Bits> = values.iter().zip(0..).map(|(value, i)| value.gated(select.bit(i))).collect();
    balanced_or(&gated)
}

/// The value at `index` of a table of constants, `width` bits each; the table has a value for every index.
#[track_caller]
pub fn rom(index: impl Into<Bits>, values: &[u128], width: u32) -> Bits {
    let index = index.into();
    if values.len() != 1_usize.checked_shl(index.width).unwrap_or(0) {
        return Bits::new(
            width,
            Node::Invalid(format!("{} values for an index of {} bits", values.len(), index.width)),
        );
    }
    let mut level: Vec<Bits> = values.iter().map(|value| lit(*value, width)).collect();
    for bit in 0..index.width {
        let select = index.bit(bit);
        level = level.chunks(2).map(|pair| mux(select, pair[1], pair[0])).collect();
    }
    level.swap_remove(0)
}

/// The signal of that name in a list. Without one, [`crate::ModuleBuilder::finish`] reports the names that exist.
#[track_caller]
pub fn named(signals: &[(&str, Bits)], name: &str) -> Bits {
    let found = signals.iter().find(|(known, _)| *known == name).map(|(_, bits)| *bits);
    found.unwrap_or_else(|| {
        let known: Vec<&str> = signals.iter().map(|(known, _)| *known).collect();
        let what = format!("no signal is named `{name}`, expected one of {}", known.join(", "));
        Bits::new(1, Node::Invalid(what))
    })
}

/// OR of the signals of these names, in the order of the list; reported as by [`named`] if one is missing.
#[track_caller]
pub fn any_named(signals: &[(&str, Bits)], names: &[&str]) -> Bits {
    let is_known = |name: &str| signals.iter().any(|(known, _)| *known == name);
    let chosen = signals.iter().filter(|(known, _)| names.contains(known)).map(|(_, bits)| *bits);
    let missing = names.iter().filter(|name| !is_known(name)).map(|name| named(signals, name));
    any_of(chosen.chain(missing))
}

#[track_caller]
fn balanced_or(parts: &[Bits]) -> Bits {
    match parts {
        [] => Bits::new(1, Node::Invalid("OR of nothing".into())),
        [one] => *one,
        _ => {
            let (left, right) = parts.split_at(parts.len() / 2);
            balanced_or(left) | balanced_or(right)
        }
    }
}

/// Operators between values of one kind, by value or by reference, and with anything that reads as [`Bits`].
macro_rules! operators {
    ($($left:ty),+) => {
        $(operators! { @ $left:
            BitAnd bitand And "&", BitOr bitor Or "|", BitXor bitxor Xor "^", Add add Add "+", Sub sub Sub "-", Mul mul Mul "*"
        })+
    };
    (@ $left:ty: $($trait:ident $method:ident $op:ident $what:literal),+) => {
        $(impl<T: Into<Bits>> $trait<T> for $left {
            type Output = Bits;
            #[track_caller]
            fn $method(self, other: T) -> Bits {
                let own = Bits::from(self);
                own.binary(BinaryOp::$op, $what, other, own.width)
            }
        })+
        impl Not for $left {
            type Output = Bits;
            #[track_caller]
            fn not(self) -> Bits {
                let own = Bits::from(self);
                own.unary(UnaryOp::Not, own.width)
            }
        }
    };
}
operators!(Bits, &Bits, Reg, &Reg, Wire, &Wire, Output, &Output);

impl From<&Self> for Bits {
    fn from(bits: &Self) -> Self {
        *bits
    }
}

impl From<&&Self> for Bits {
    fn from(bits: &&Self) -> Self {
        **bits
    }
}

impl Bits {
    /// The operands of this expression, in the order in which they are printed.
    pub(crate) fn children(&self) -> impl Iterator<Item = &Self> {
        let (few, many): ([Option<&Self>; 3], &[Self]) = match self.node() {
            Node::Unary(_, a) | Node::Repeat(_, a) => ([Some(a), None, None], &[]),
            Node::Slice { base, .. } => ([Some(base), None, None], &[]),
            Node::MemoryRead { addr, .. } => ([Some(addr), None, None], &[]),
            Node::Binary(_, a, b) => ([Some(a), Some(b), None], &[]),
            Node::Mux(select, a, b) => ([Some(select), Some(a), Some(b)], &[]),
            Node::Cat(parts) => ([None; 3], parts),
            Node::Signal(_)
            | Node::Literal(_)
            | Node::Mutant(_)
            | Node::Mismatch { .. }
            | Node::Invalid(_)
            | Node::Later(_) => ([None; 3], &[]),
        };
        few.into_iter().flatten().chain(many)
    }

    /// The same expression of other operands of the same widths.
    pub(crate) fn with_children(&self, children: impl IntoIterator<Item = Self>) -> Self {
        let mut children = children.into_iter();
        let mut next = |own: &Self| children.next().unwrap_or(*own);
        let node = match self.node() {
            Node::Unary(op, a) => Node::Unary(*op, next(a)),
            Node::Repeat(count, part) => Node::Repeat(*count, next(part)),
            Node::Slice { base, low } => Node::Slice { base: next(base), low: *low },
            Node::MemoryRead { memory, owner, addr } => {
                Node::MemoryRead { memory: memory.clone(), owner: owner.clone(), addr: next(addr) }
            }
            Node::Binary(op, a, b) => Node::Binary(*op, next(a), next(b)),
            Node::Mux(select, a, b) => Node::Mux(next(select), next(a), next(b)),
            Node::Cat(parts) => Node::Cat(parts.iter().map(next).collect()),
            Node::Signal(_)
            | Node::Literal(_)
            | Node::Mutant(_)
            | Node::Mismatch { .. }
            | Node::Invalid(_)
            | Node::Later(_) => return *self,
        };
        Self::placed(self.width, node, self.place())
    }

    pub(crate) fn visit(&self, action: &mut impl FnMut(&Self)) {
        action(self);
        self.children().for_each(|child| child.visit(action));
    }

    /// Numbers of the signals in it, repeated as often as they occur.
    pub(crate) fn signals(&self) -> Vec<usize> {
        let mut ids = Vec::new();
        self.visit(&mut |bits| {
            if let Node::Signal(signal) = bits.node() {
                ids.push(signal.id);
            }
        });
        ids
    }
}
