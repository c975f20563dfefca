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
        Self(match rule {
            Rule::Undefined(_) => 1,
            Rule::ActivateOpenPartition | Rule::ActivateOpenBank => 2,
            Rule::AccessClosedBank => 3,
            Rule::RefreshOpenBank => 4,
            Rule::PartitionAbsent => 5,
            Rule::RowOutsidePartition => 6,
            Rule::AccessDuringPim => 7,
            Rule::MacClosedRow => 8,
            Rule::MacHostRow => 9,
            Rule::BufferEmpty => 10,
            Rule::SliceOpenBank => 11,
            Rule::Boundary => 12,
            Rule::SlicingAbsent => 13,
            Rule::AllBankActivateAbsent => 14,
            Rule::RefreshAbsent => 15,
            Rule::RefreshTurn => 16,
            Rule::CommandAbsent => 17,
            Rule::Rc => 32,
            Rule::Ras => 33,
            Rule::Rcd => 34,
            Rule::Rp => 35,
            Rule::RrdS => 36,
            Rule::RrdL => 37,
            Rule::Faw => 38,
            Rule::CcdS => 39,
            Rule::CcdL => 40,
            Rule::Rtp => 41,
            Rule::Wr => 42,
            Rule::WtrS => 43,
            Rule::WtrL => 44,
            Rule::Rtw => 45,
            Rule::Rfc => 46,
            Rule::RowBus => 47,
            Rule::SliceRecovery => 48,
            Rule::MacLatency => 49,
            Rule::BufferNotReady => 50,
            Rule::BusCollision => 51,
            Rule::RfcBank => 52,
            Rule::RrefD => 53,
            Rule::CommandBus => 54,
            Rule::BusTaken => 55,
            // Reported, but no answer to a command.
            Rule::Refi => 64,
            Rule::WriteDataMissing => 65,
            Rule::WriteDataUnexpected => 66,
        })
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
