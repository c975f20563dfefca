//! What the checker has to know of a memory's commands, apart from numbers: one implementation per memory.
//!
//! [`crate::Command`] is DDR4's, [`crate::hbm::HbmCommand`] that of HBM2 with computing banks. Distances, windows, buses
//! and refresh are the checker's and the same for both; here is what differs: kinds of commands, whom a command concerns,
//! and which commands a row buffer in some state can take.

use std::fmt::{Debug, Display};

use super::{Rule, RuleSet};

/// Which way the data of a command go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From the memory.
    Read,
    Write,
}

/// Whom a command concerns. A unit is what has a row buffer: a bank of DDR4, a partition of HBM2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    Bank {
        group: usize,
        index: usize,
    },
    /// Several units, as bit masks; at most 64.
    Set {
        groups: u64,
        units: u64,
    },
    /// All units.
    All,
}

/// A rule that the state of row buffers breaks, with the earlier command to blame if there is one.
#[derive(Clone, Copy, Debug)]
pub struct Breach<C: CommandSet> {
    pub rule: Rule,
    /// Kind of the earlier command; the last one of it in the units concerned is reported.
    pub earlier: Option<C::Kind>,
    /// Clock and text of an earlier command that is known exactly, with the distance required from it.
    pub since: Option<(u64, C, u64)>,
}

impl<C: CommandSet> Breach<C> {
    /// A breach that is due to the last command of kind `earlier`.
    pub fn after(rule: Rule, earlier: C::Kind) -> Self {
        Self { rule, earlier: Some(earlier), since: None }
    }

    /// A breach without an earlier command.
    pub fn alone(rule: Rule) -> Self {
        Self { rule, earlier: None, since: None }
    }
}

/// The commands of a memory.
pub trait CommandSet: Copy + Debug + Display + PartialEq + 'static {
    /// What timing rules tell apart.
    type Kind: Copy + Debug + Eq + 'static;
    /// State of the row buffers, and whatever else decides whether a command is legal.
    type State: RowState<Self>;
    /// What the state depends on beside the geometry.
    type Features: Clone + Debug + Eq;

    const KINDS: usize;
    /// No command.
    const DESELECT: Self;
    /// Kind of a precharge, which also ends accesses with auto precharge.
    const PRECHARGE: Self::Kind;
    /// Kinds whose data the controller drives.
    const WRITES: &'static [Self::Kind];

    /// Its kind; nothing for no command.
    fn kind(&self) -> Option<Self::Kind>;
    /// Number of a kind, below [`CommandSet::KINDS`].
    fn index(kind: Self::Kind) -> usize;
    /// Direction of its data on the bus, if there are any.
    fn transfer(kind: Self::Kind) -> Option<Direction>;
    /// Whether the unit precharges itself afterwards.
    fn precharges_itself(&self) -> bool;
    fn refreshes(&self) -> bool;
}

/// Row buffers of a memory, as far as they decide what is legal.
pub trait RowState<C: CommandSet>: Clone + Debug {
    /// All closed.
    fn new(rules: &RuleSet<C>) -> Self;
    /// Whom `command` concerns in this state.
    fn target(&self, command: &C) -> Target;
    /// The rule that `command` breaks in clock `cycle`, if any.
    fn breach(&self, cycle: u64, command: &C) -> Option<Breach<C>>;
    /// Takes `command` as done.
    fn apply(&mut self, cycle: u64, command: &C);
}
