//! Errors in a module's description, for tests and proofs to find.
//!
//! A [`Mutant`] is one change of one expression, register or connection, named by the line of the description. It
//! stores the place in the tree, and so is found in any module of the same generator, even of another configuration. A
//! [`Mutation`] is written by hand: it names an expression by its text. [`with_choices`] puts many of either into a
//! design, each selected by its number, so that one simulation model serves for all. [`replaced`] has one in place of
//! the original, for provers.

use crate::bits::{BinaryOp, Node, Signal, UnaryOp};
use crate::body::Inner;
use crate::builder::assembled;
use crate::{Bits, Design, Module, check};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::fmt::{self, Display};
use std::panic::Location;
use std::rc::Rc;
use std::str::FromStr;

pub use crate::mutation::{Mutation, Scope};

/// Change of an expression or of the target that it drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Change {
    Operator(BinaryOp),
    /// `<=` in place of `<`, `>` in place of `>=`.
    Swapped(BinaryOp),
    /// All in place of any, or the reverse.
    Reduction,
    /// Only this part.
    Part(usize),
    /// These parts change places.
    Exchanged(usize, usize),
    /// The other bit.
    Negated,
    Constant(u128),
    /// The slice one bit higher.
    Higher,
    /// The slice one bit lower.
    Lower,
    /// A register holds its value for ever.
    Held,
    Reset(u128),
}

/// One change of one expression, register or connection.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Mutant {
    /// File and line of the module's description.
    module: String,
    /// Target that the expression drives.
    root: String,
    /// Numbers of the children down to the change.
    path: Vec<usize>,
    /// File, line and column of the change.
    place: String,
    change: Change,
}

fn operator(text: &str) -> Option<BinaryOp> {
    BinaryOp::TEXTS.iter().find(|(_, known)| *known == text).map(|(op, _)| *op)
}

impl Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Operator(op) => write!(f, "operator {}", op.text()),
            Self::Swapped(op) => write!(f, "swapped {}", op.text()),
            Self::Reduction => write!(f, "reduction"),
            Self::Part(part) => write!(f, "part {part}"),
            Self::Exchanged(a, b) => write!(f, "exchanged {a} {b}"),
            Self::Negated => write!(f, "negated"),
            Self::Constant(value) => write!(f, "constant {value}"),
            Self::Higher => write!(f, "higher"),
            Self::Lower => write!(f, "lower"),
            Self::Held => write!(f, "held"),
            Self::Reset(value) => write!(f, "reset {value}"),
        }
    }
}

impl FromStr for Change {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let words: Vec<&str> = text.split(' ').collect();
        let change = match words[..] {
            ["operator", op] => operator(op).map(Self::Operator),
            ["swapped", op] => operator(op).map(Self::Swapped),
            ["reduction"] => Some(Self::Reduction),
            ["part", part] => part.parse().ok().map(Self::Part),
            ["exchanged", a, b] => a.parse().ok().and_then(|a| Some(Self::Exchanged(a, b.parse().ok()?))),
            ["negated"] => Some(Self::Negated),
            ["constant", value] => value.parse().ok().map(Self::Constant),
            ["higher"] => Some(Self::Higher),
            ["lower"] => Some(Self::Lower),
            ["held"] => Some(Self::Held),
            ["reset", value] => value.parse().ok().map(Self::Reset),
            _ => None,
        };
        change.ok_or_else(|| format!("found `{text}`, expected a change of a mutant"))
    }
}

/// One line: the fields with tabs between them.
impl Display for Mutant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path: Vec<String> = self.path.iter().map(ToString::to_string).collect();
        let Self { module, root, place, change, .. } = self;
        write!(f, "{module}\t{root}\t{}\t{place}\t{change}", path.join("."))
    }
}

impl FromStr for Mutant {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let fields: Vec<&str> = line.split('\t').collect();
        let [module, root, path, place, change] = fields[..] else {
            return Err(format!("found {} fields, expected the 5 of a mutant: {line}", fields.len()));
        };
        let steps = path.split('.').filter(|step| !step.is_empty()).map(str::parse);
        Ok(Self {
            module: module.to_owned(),
            root: root.to_owned(),
            path: steps.collect::<Result<_, _>>().map_err(|_| format!("`{path}` is no path: {line}"))?,
            place: place.to_owned(),
            change: change.parse()?,
        })
    }
}

pub(crate) struct Root<'a> {
    pub name: String,
    pub value: &'a Bits,
    /// The register, for its next value and its enable.
    register: Option<usize>,
    place: &'static Location<'static>,
}

/// All hardware of a module that is driven by an expression.
pub(crate) fn roots(inner: &Inner) -> Vec<Root<'_>> {
    let mut roots = Vec::new();
    let place = |id: usize| inner.declarations[id].place;
    let name = |id: usize| &inner.declarations[id].name;
    for (id, value) in &inner.drives {
        roots.push(Root { name: format!("drive {}", name(*id)), value, register: None, place: place(*id) });
    }
    for reg in inner.hardware_regs() {
        let register = Some(reg.id);
        for (what, value) in
            reg.next.iter().map(|v| ("next", v)).chain(reg.enable.iter().map(|v| ("enable", v)))
        {
            roots.push(Root {
                name: format!("{what} {}", name(reg.id)),
                value,
                register,
                place: place(reg.id),
            });
        }
    }
    for memory in &inner.memories {
        for (enable, addr, data) in &memory.writes {
            for (what, value) in [("write", enable), ("address", addr), ("data", data)] {
                let name = format!("{what} {}", memory.name);
                roots.push(Root { name, value, register: None, place: value.place() });
            }
        }
    }
    for instance in &inner.instances {
        for (port, value) in &instance.inputs {
            let name = format!("input {} {port}", instance.name);
            roots.push(Root { name, value, register: None, place: value.place() });
        }
    }
    roots
}

fn text_of_place(place: &Location<'_>) -> String {
    format!("{}:{}:{}", place.file(), place.line(), place.column())
}

fn changes(bits: &Bits) -> Vec<Change> {
    use BinaryOp::{Add, And, Eq, Ge, Lt, Mul, Ne, Or, Shl, Shr, Sub, Xor};
    let limit = |value: u128| if bits.width() >= 128 { value } else { value & ((1 << bits.width()) - 1) };
    match bits.node() {
        Node::Binary(op, ..) => match op {
            And => vec![Change::Operator(Or), Change::Part(0), Change::Part(1)],
            Or => vec![Change::Operator(And), Change::Part(0), Change::Part(1)],
            Xor => vec![Change::Operator(Or), Change::Negated],
            Add => vec![Change::Operator(Sub), Change::Part(0)],
            Sub => vec![Change::Operator(Add), Change::Exchanged(0, 1), Change::Part(0)],
            Mul => vec![Change::Operator(Add)],
            Eq => vec![Change::Operator(Ne)],
            Ne => vec![Change::Operator(Eq)],
            Lt => vec![Change::Operator(Ge), Change::Swapped(Ge)],
            Ge => vec![Change::Operator(Lt), Change::Swapped(Lt)],
            Shl => vec![Change::Operator(Shr), Change::Part(0)],
            Shr => vec![Change::Operator(Shl), Change::Part(0)],
        },
        Node::Unary(UnaryOp::Not, _) => vec![Change::Part(0)],
        Node::Unary(..) => vec![Change::Reduction],
        Node::Mux(..) => vec![Change::Exchanged(1, 2), Change::Part(1), Change::Part(2)],
        Node::Cat(parts) if parts.len() > 1 && parts[0].width() == parts[1].width() => {
            vec![Change::Exchanged(0, 1)]
        }
        Node::Literal(value) if bits.width() == 1 => vec![Change::Constant(1 - value)],
        Node::Literal(value) => {
            let mut values = vec![
                limit(value.wrapping_add(1)),
                limit(value.wrapping_sub(1)),
                value ^ 1 << (bits.width() / 2),
            ];
            values.dedup();
            values.into_iter().map(Change::Constant).collect()
        }
        Node::Slice { base, low } => {
            let higher = (low + bits.width() < base.width()).then_some(Change::Higher);
            higher.into_iter().chain((*low > 0).then_some(Change::Lower)).collect()
        }
        _ => Vec::new(),
    }
}

/// Changes of a whole driver: it is left out, or stuck.
fn changes_of_root(inner: &Inner, root: &Root<'_>) -> Vec<Change> {
    match root.name.split(' ').next() {
        Some("next") => {
            let reg = inner.regs.iter().find(|reg| Some(reg.id) == root.register);
            let reset = reg.and_then(|reg| reg.reset).map(|value| Change::Reset(value ^ 1));
            [Change::Held].into_iter().chain(reset).collect()
        }
        Some("enable") => vec![Change::Constant(1), Change::Negated],
        Some("write") if root.value.width() == 1 => vec![Change::Constant(1), Change::Constant(0)],
        Some("address" | "data") => Vec::new(),
        // A constant already has its own changes.
        _ if matches!(root.value.node(), Node::Literal(_)) => Vec::new(),
        _ => vec![Change::Constant(0)],
    }
}

/// The expression after a change; `None` if the change does not fit.
fn changed(inner: &Inner, bits: &Bits, change: Change, register: Option<usize>) -> Option<Bits> {
    let mut children: Vec<Bits> = bits.children().copied().collect();
    let new = |node: Node| Bits::placed(bits.width(), node, bits.place());
    let new = match (change, bits.node()) {
        (Change::Operator(op), Node::Binary(_, a, b)) => new(Node::Binary(op, *a, *b)),
        (Change::Swapped(op), Node::Binary(_, a, b)) => new(Node::Binary(op, *b, *a)),
        (Change::Reduction, Node::Unary(op, a)) => {
            let op = if *op == UnaryOp::All { UnaryOp::Any } else { UnaryOp::All };
            new(Node::Unary(op, *a))
        }
        (Change::Part(part), _) => *children.get(part)?,
        (Change::Exchanged(a, b), _) => {
            if a.max(b) >= children.len() || children[a].width() != children[b].width() {
                return None;
            }
            children.swap(a, b);
            bits.with_children(children)
        }
        (Change::Negated, _) => new(Node::Unary(UnaryOp::Not, *bits)),
        (Change::Constant(value), _) => {
            let fits = bits.width() >= 128 || value >> bits.width() == 0;
            fits.then(|| new(Node::Literal(value)))?
        }
        (Change::Higher, Node::Slice { base, low }) if low + bits.width() < base.width() => {
            new(Node::Slice { base: *base, low: low + 1 })
        }
        (Change::Lower, Node::Slice { base, low }) if *low > 0 => {
            new(Node::Slice { base: *base, low: low - 1 })
        }
        (Change::Held, _) => {
            let id = register?;
            let name = inner.declarations[id].name.clone();
            new(Node::Signal(Signal { name, owner: inner.owner.clone(), id }))
        }
        _ => return None,
    };
    (new.width() == bits.width()).then_some(new)
}

/// An expression in a few words.
fn short(bits: &Bits, depth: u32) -> String {
    let part = |bits: &Bits| if depth == 0 { "..".to_owned() } else { short(bits, depth - 1) };
    match bits.node() {
        Node::Signal(signal) => signal.name.clone(),
        Node::Literal(value) => value.to_string(),
        Node::Mutant(number) => format!("mutant {number}"),
        Node::Unary(UnaryOp::Not, a) => format!("!{}", part(a)),
        Node::Unary(UnaryOp::All, a) => format!("all({})", part(a)),
        Node::Unary(UnaryOp::Any, a) => format!("any({})", part(a)),
        Node::Binary(op, a, b) => format!("({} {} {})", part(a), op.text(), part(b)),
        Node::Mux(c, a, b) => format!("({} ? {} : {})", part(c), part(a), part(b)),
        Node::Cat(parts) => format!("{{{} parts}}", parts.len()),
        Node::Repeat(count, a) => format!("{count} times {}", part(a)),
        Node::Slice { base, low } => format!("{}[{}:{low}]", part(base), low + bits.width() - 1),
        Node::MemoryRead { memory, addr, .. } => format!("{memory}[{}]", part(addr)),
        Node::Mismatch { .. } | Node::Invalid(_) | Node::Later(_) => "..".to_owned(),
    }
}

struct Found<'a> {
    root: Root<'a>,
    bits: &'a Bits,
}

impl Mutant {
    /// File of the changed description, from the root of the workspace.
    pub fn file(&self) -> &str {
        self.place.split(':').next().unwrap_or_default()
    }

    /// File and line of the change.
    pub fn line(&self) -> &str {
        self.place.rsplit_once(':').map_or(&self.place, |(line, _)| line)
    }

    /// All mutants of a design's modules, each once.
    pub fn all(design: &Design) -> Vec<Self> {
        let mut known = HashSet::new();
        let of_modules = design.modules().iter().flat_map(|module| Self::of(module));
        of_modules.filter(|mutant| known.insert(mutant.clone())).collect()
    }

    fn of(module: &Module) -> Vec<Self> {
        let inner = module.body();
        let (mut mutants, mut seen) = (Vec::new(), HashSet::new());
        for root in roots(inner) {
            let mutant = |path: &[usize], place: &Location<'_>, change| Self {
                module: module.source().to_owned(),
                root: root.name.clone(),
                path: path.to_vec(),
                place: text_of_place(place),
                change,
            };
            let whole = changes_of_root(inner, &root).into_iter();
            mutants.extend(whole.map(|change| mutant(&[], root.place, change)));
            let mut todo = vec![(root.value, Vec::new())];
            while let Some((bits, path)) = todo.pop() {
                // An expression that is used in several places is one.
                if !seen.insert(bits.address()) {
                    continue;
                }
                mutants.extend(changes(bits).into_iter().map(|change| mutant(&path, bits.place(), change)));
                let padding =
                    |child: &Bits| matches!((bits.node(), child.node()), (Node::Cat(_), Node::Literal(0)));
                let children: Vec<(usize, &Bits)> = bits.children().enumerate().collect();
                for (number, child) in children.into_iter().rev().filter(|(_, child)| !padding(child)) {
                    todo.push((child, [&path[..], &[number]].concat()));
                }
            }
        }
        mutants.retain(|mutant| mutant.reset_of(inner).is_some() || mutant.mutated(inner).is_some());
        mutants
    }

    /// Finds its place in a module of the same generator.
    fn find<'a>(&self, inner: &'a Inner) -> Option<Found<'a>> {
        if inner.source != self.module {
            return None;
        }
        let root = roots(inner).into_iter().find(|root| root.name == self.root)?;
        let bits = self.path.iter().try_fold(root.value, |bits, step| bits.children().nth(*step))?;
        let whole = self.path.is_empty() && text_of_place(root.place) == self.place;
        (whole || text_of_place(bits.place()) == self.place).then_some(Found { root, bits })
    }

    fn reset_of(&self, inner: &Inner) -> Option<(usize, u128)> {
        let Change::Reset(value) = self.change else { return None };
        let Found { root, .. } = self.find(inner)?;
        let reg = inner.regs.iter().find(|reg| Some(reg.id) == root.register && reg.reset.is_some())?;
        Some((reg.id, value))
    }

    fn mutated(&self, inner: &Inner) -> Option<(Bits, Bits)> {
        let Found { root, bits } = self.find(inner)?;
        Some((*bits, changed(inner, bits, self.change, root.register)?))
    }

    /// Whether it changes something in a module.
    pub fn is_in(&self, module: &Module) -> bool {
        let inner = module.body();
        self.reset_of(inner).is_some() || self.mutated(inner).is_some()
    }

    /// The change in words, as it is in a module.
    pub fn words(&self, module: &Module) -> String {
        let inner = module.body();
        let Some(Found { root, bits }) = self.find(inner) else { return String::new() };
        let (was, becomes) =
            (short(bits, 2), self.mutated(inner).map(|(_, new)| short(&new, 2)).unwrap_or_default());
        let driven = root.name.as_str();
        match self.change {
            Change::Held => format!("register {} never changes", driven.trim_start_matches("next ")),
            Change::Reset(value) => {
                format!("register {} is reset to {value}", driven.trim_start_matches("next "))
            }
            _ => format!("{driven}: {was} becomes {becomes}"),
        }
    }
}

/// A change of an expression or register.
#[derive(Debug)]
pub enum Edit {
    /// Replaces the expression wherever it is used.
    Expression(Bits, Bits),
    /// Replaces it only where it drives the root of that name.
    Root(String, Bits),
    /// Resets the register of that number to another value.
    Reset(usize, u128),
}

/// Changes of modules: a [`Mutant`] or a [`Mutation`].
pub trait Changes {
    /// The change's edits of a module.
    ///
    /// # Errors
    /// A change that does not fit, in words.
    fn edits(&self, module: &Module) -> Result<Vec<Edit>, String>;

    /// The error if a design has no module with it; `None` if that is allowed.
    fn absent(&self) -> Option<String> {
        None
    }
}

impl Changes for Mutant {
    fn edits(&self, module: &Module) -> Result<Vec<Edit>, String> {
        let inner = module.body();
        if let Some((id, value)) = self.reset_of(inner) {
            return Ok(vec![Edit::Reset(id, value)]);
        }
        let Some((old, new)) = self.mutated(inner) else { return Ok(Vec::new()) };
        // Roots that change as a whole are expressions of their own, different from those that they share.
        let of_root = self.find(inner).is_some_and(|found| {
            self.path.is_empty()
                && changes_of_root(inner, &found.root).contains(&self.change)
                && text_of_place(found.root.place) == self.place
        });
        Ok(vec![if of_root { Edit::Root(self.root.clone(), new) } else { Edit::Expression(old, new) }])
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Choice,
    Replacement,
}

/// Expressions by the address of their nodes, with their mutants: number and new expression.
type Mutated = HashMap<*const Node, (Bits, Vec<(u32, Bits)>)>;

/// The body with numbered changes.
fn mutated_body(module: &Module, edits: Vec<(u32, Edit)>, mode: Mode) -> Option<Inner> {
    if edits.is_empty() {
        return None;
    }
    let mut inner = module.body().clone();
    let mut changes = Mutated::new();
    let mut whole: Vec<(String, u32, Bits)> = Vec::new();
    for (number, edit) in edits {
        match edit {
            Edit::Expression(old, new) => {
                changes.entry(old.address()).or_insert_with(|| (old, Vec::new())).1.push((number, new));
            }
            Edit::Root(name, new) => whole.push((name, number, new)),
            Edit::Reset(id, value) => {
                for reg in inner.regs.iter_mut().filter(|reg| reg.id == id) {
                    match mode {
                        Mode::Choice => reg.other_resets.push((number, value)),
                        Mode::Replacement => reg.reset = Some(value),
                    }
                }
            }
        }
    }
    let choose = |number: u32, new: Bits, old: Bits| match mode {
        Mode::Choice => {
            Bits::placed(old.width(), Node::Mux(Bits::new(1, Node::Mutant(number)), new, old), old.place())
        }
        Mode::Replacement => new,
    };
    let mut rewriter = Rewriter { changes, done: HashMap::new(), choose: &choose };
    let names: Vec<String> = roots(&inner).into_iter().map(|root| root.name).collect();
    let mut names = names.into_iter();
    let mut root = |bits: &mut Bits, rewriter: &mut Rewriter<'_>| {
        let name = names.next().unwrap_or_default();
        let mut new = rewriter.rewritten(bits);
        for (_, number, changed) in whole.iter().filter(|(other, ..)| *other == name) {
            let changed = rewriter.rewritten(changed);
            new = choose(*number, changed, new);
        }
        *bits = new;
    };
    let ghosts: HashSet<usize> =
        inner.regs.iter().map(|reg| reg.id).filter(|id| module.body().is_ghost(*id)).collect();
    inner.drives.iter_mut().for_each(|(_, value)| root(value, &mut rewriter));
    for reg in inner.regs.iter_mut().filter(|reg| !ghosts.contains(&reg.id)) {
        reg.next.iter_mut().chain(&mut reg.enable).for_each(|value| root(value, &mut rewriter));
    }
    for memory in &mut inner.memories {
        for (enable, addr, data) in &mut memory.writes {
            [enable, addr, data].into_iter().for_each(|value| root(value, &mut rewriter));
        }
    }
    for instance in &mut inner.instances {
        instance.inputs.iter_mut().for_each(|(_, value)| root(value, &mut rewriter));
    }
    // A property is about the same expression as the hardware.
    for reg in inner.regs.iter_mut().filter(|reg| ghosts.contains(&reg.id)) {
        reg.next.iter_mut().chain(&mut reg.enable).for_each(|value| *value = rewriter.rewritten(value));
    }
    inner.properties.iter_mut().for_each(|property| property.holds = rewriter.rewritten(&property.holds));
    inner.memories.iter_mut().for_each(|memory| {
        memory.read_addrs.iter_mut().for_each(|addr| *addr = rewriter.rewritten(addr));
    });
    inner.has_mutants = mode == Mode::Choice;
    Some(inner)
}

struct Rewriter<'a> {
    changes: Mutated,
    done: HashMap<*const Node, (Bits, Bits)>,
    choose: &'a dyn Fn(u32, Bits, Bits) -> Bits,
}

impl Rewriter<'_> {
    fn rewritten(&mut self, bits: &Bits) -> Bits {
        if let Some((_, new)) = self.done.get(&bits.address()) {
            return *new;
        }
        let mut new = self.below(bits);
        if let Some((_, changes)) = self.changes.get(&bits.address()).cloned() {
            // A change may contain the original, which stays unchanged there.
            self.done.insert(bits.address(), (*bits, new));
            for (number, changed) in changes {
                let changed = self.below(&changed);
                new = (self.choose)(number, changed, new);
            }
        }
        self.done.insert(bits.address(), (*bits, new));
        new
    }

    /// The expression with rewritten parts.
    fn below(&mut self, bits: &Bits) -> Bits {
        let old: Vec<&Bits> = bits.children().collect();
        let new: Vec<Bits> = old.iter().map(|child| self.rewritten(child)).collect();
        let same = old.iter().zip(&new).all(|(old, new)| old.address() == new.address());
        if same { *bits } else { bits.with_children(new) }
    }
}

/// The hierarchy below `top` with other modules; modules that share a definition still do.
pub(crate) fn rebuilt(
    module: &Rc<Module>,
    done: &mut HashMap<*const Module, Rc<Module>>,
    body_of: &impl Fn(&Module) -> Option<Inner>,
) -> Rc<Module> {
    if let Some(known) = done.get(&Rc::as_ptr(module)) {
        return known.clone();
    }
    let own = body_of(module);
    let children: Vec<Rc<Module>> =
        module.body().instances.iter().map(|instance| rebuilt(&instance.module, done, body_of)).collect();
    let others =
        module.body().instances.iter().zip(&children).any(|(old, new)| !Rc::ptr_eq(&old.module, new));
    let new = if own.is_some() || others {
        let mut inner = own.unwrap_or_else(|| module.body().clone());
        for (instance, child) in inner.instances.iter_mut().zip(children) {
            instance.module = child;
        }
        // The original keeps the rules; signals that a mutant leaves unread do not matter.
        match check::check(module.body()) {
            Ok(report) => assembled(inner, report),
            Err(_) => module.clone(),
        }
    } else {
        module.clone()
    };
    done.insert(Rc::as_ptr(module), new.clone());
    new
}

/// A design with all applicable `changes`, each selected by its index, from 1. `None` if none applies.
///
/// # Errors
/// A change that does not fit, in words.
pub fn with_choices<C: Changes>(top: &Rc<Module>, changes: &[C]) -> Result<Option<Rc<Module>>, String> {
    let numbered: Vec<(u32, &C)> = (1..).zip(changes).collect();
    changed_design(top, &numbered, Mode::Choice)
}

/// The design with a change in place of the original; `None` if it does not apply.
///
/// # Errors
/// A change that does not fit, in words.
pub fn replaced(top: &Rc<Module>, change: &impl Changes) -> Result<Option<Rc<Module>>, String> {
    changed_design(top, &[(1, change)], Mode::Replacement)
}

fn changed_design<C: Changes>(
    top: &Rc<Module>,
    changes: &[(u32, &C)],
    mode: Mode,
) -> Result<Option<Rc<Module>>, String> {
    let (failed, found) = (RefCell::new(None), RefCell::new(HashSet::new()));
    let body_of = |module: &Module| {
        let mut edits = Vec::new();
        for (number, change) in changes {
            match change.edits(module) {
                Ok(own) => edits.extend(own.into_iter().map(|edit| (*number, edit))),
                Err(reason) => _ = failed.borrow_mut().get_or_insert(reason),
            }
        }
        found.borrow_mut().extend(edits.iter().map(|(number, _)| *number));
        mutated_body(module, edits, mode)
    };
    let new = rebuilt(top, &mut HashMap::new(), &body_of);
    let found = found.into_inner();
    let absent = changes.iter().filter(|(number, _)| !found.contains(number)).find_map(|(_, c)| c.absent());
    match failed.into_inner().or(absent) {
        Some(reason) => Err(reason),
        None => Ok((!Rc::ptr_eq(&new, top)).then_some(new)),
    }
}
