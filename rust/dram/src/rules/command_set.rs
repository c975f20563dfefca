//! Properties of a memory's commands that the checker needs besides numbers: one implementation per memory.
//!
//! [`crate::Command`] is the set of DDR4, [`crate::hbm::HbmCommand`] the set of HBM2 with computing banks. Distances,
//! windows, buses and refresh are the same for both. The traits here cover the differences: kinds of commands, the
//! banks that a command concerns, and the commands that a row buffer can take.

use std::fmt::{Debug, Display};

use super::{Rule, RuleSet};

/// Direction of a command's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    Read,
    Write,
}

/// Banks that a command concerns. A unit has one row buffer: a bank of DDR4, a partition of HBM2.
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
    All,
}

/// A rule broken by the state of row buffers, with the earlier command to blame, if any.
#[derive(Clone, Copy, Debug)]
pub struct Breach<C: CommandSet> {
    pub rule: Rule,
    /// Kind of the earlier command; the last one of it in the units concerned is reported.
    pub earlier: Option<C::Kind>,
    /// Clock and text of an earlier command that is known exactly, with the distance required from it.
    pub since: Option<(u64, C, u64)>,
}

impl<C: CommandSet> Breach<C> {
    pub fn after(rule: Rule, earlier: C::Kind) -> Self {
        Self { rule, earlier: Some(earlier), since: None }
    }

    pub fn alone(rule: Rule) -> Self {
        Self { rule, earlier: None, since: None }
    }
}

pub trait CommandSet: Copy + Debug + Display + PartialEq + 'static {
    /// Kinds that timing rules distinguish.
    type Kind: Copy + Debug + Eq + 'static;
    /// State of the row buffers, and whatever else decides whether a command is legal.
    type State: RowState<Self>;
    /// Properties besides the geometry that the state depends on.
    type Features: Clone + Debug + Eq;

    const KINDS: usize;
    /// No command.
    const DESELECT: Self;
    /// Kind of a precharge, which also ends accesses with auto precharge.
    const PRECHARGE: Self::Kind;
    /// Kinds whose data the controller drives.
    const WRITES: &'static [Self::Kind];

    /// `None` for no command.
    fn kind(&self) -> Option<Self::Kind>;
    /// Number of a kind, below [`CommandSet::KINDS`].
    fn index(kind: Self::Kind) -> usize;
    /// Direction of the kind's data on the bus, if it has any.
    fn transfer(kind: Self::Kind) -> Option<Direction>;
    /// Whether the unit precharges itself afterwards.
    fn precharges_itself(&self) -> bool;
    fn refreshes(&self) -> bool;
}

/// Row buffers of a memory, as far as they decide whether a command is legal.
pub trait RowState<C: CommandSet>: Clone + Debug {
    /// All row buffers closed.
    fn new(rules: &RuleSet<C>) -> Self;
    /// Units that `command` concerns in this state.
    fn target(&self, command: &C) -> Target;
    /// The rule that `command` breaks in clock `cycle`, if any.
    fn breach(&self, cycle: u64, command: &C) -> Option<Breach<C>>;
    fn apply(&mut self, cycle: u64, command: &C);
}
