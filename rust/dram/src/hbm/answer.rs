//! Error statuses: what the device answers to each command, one number per rule.
//!
//! `docs/hbm-pim.md` lists them. A command that breaks several rules is answered with the first of: state, distance,
//! window, data bus.

use serde::Serialize;

use crate::rules::Rule;

/// The answer to a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Answer(u8);

impl Answer {
    /// The command was carried out, or there was none.
    pub const OK: Self = Self(0);

    /// The status of a rule that was broken.
    pub fn of(rule: Rule) -> Self {
        Self(rule.status())
    }

    /// The number: 0 if all is well, below 32 for states, from 32 for times, from 64 for what no command is refused for.
    pub fn code(self) -> u8 {
        self.0
    }

    /// Whether the command was carried out, or there was none.
    pub fn is_ok(self) -> bool {
        self == Self::OK
    }
}
