//! Error statuses: the device's answer to each command, one number per rule (`docs/hbm-pim.md`). A command that breaks
//! several rules is answered with the first of: state, distance, window, data bus.

use serde::Serialize;

use crate::rules::Rule;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct Answer(u8);

impl Answer {
    /// The command was carried out, or there was none.
    pub const OK: Self = Self(0);

    pub fn of(rule: Rule) -> Self {
        Self(rule.status())
    }

    /// 0 if all is well, below 32 for states, from 32 for times, from 64 for rules that refuse no command.
    pub fn code(self) -> u8 {
        self.0
    }

    pub fn is_ok(self) -> bool {
        self == Self::OK
    }
}
