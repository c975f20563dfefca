//! Timing rules as data, and the checker that applies any such table to the commands of a memory.
//!
//! Most rules of a DRAM have one form: a command must keep a distance from an earlier one that was near enough to it.
//! What does not fit (bank states, the four-activate window, refresh intervals, the data bus) is described by numbers
//! beside the table. Each memory with banks in bank groups has a [`RuleSet`] of its own. Reading order: this file, [`command_set`] (what
//! the checker knows of commands), [`checker`], `history`, [`violation`].

pub mod checker;
pub mod command_set;
mod history;
pub mod violation;

pub use checker::Checker;
pub use command_set::CommandSet;
pub use violation::Violation;

use serde::Serialize;

use crate::DramError;

/// A rule that a command can break.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[non_exhaustive]
pub enum Rule {
    /// tRC: ACT to ACT of the same bank.
    Rc,
    /// tRAS: ACT to PRE of the same bank.
    Ras,
    /// tRCD: ACT to RD or WR of the same bank.
    Rcd,
    /// tRP: PRE to ACT of the same bank, PRE of any bank to REF.
    Rp,
    /// tRRD_S: ACT to ACT in different bank groups.
    RrdS,
    /// tRRD_L: ACT to ACT in the same bank group.
    RrdL,
    /// tFAW: at most four ACTs in a window.
    Faw,
    /// tCCD_S: RD to RD and WR to WR in different bank groups.
    CcdS,
    /// tCCD_L: RD to RD and WR to WR in the same bank group.
    CcdL,
    /// tRTP: RD to PRE of the same bank.
    Rtp,
    /// tWR: end of a write's data to PRE of the same bank.
    Wr,
    /// tWTR_S: end of a write's data to RD in another bank group.
    WtrS,
    /// tWTR_L: end of a write's data to RD in the same bank group.
    WtrL,
    /// tRTW: RD to WR.
    Rtw,
    /// tRFC: REF to any command.
    Rfc,
    /// tREFI: too long without REF, or more REFs postponed than allowed.
    Refi,
    /// ACT of a bank that has an open row.
    ActivateOpenBank,
    /// RD or WR of a bank that has no open row.
    AccessClosedBank,
    /// REF while a bank has an open row.
    RefreshOpenBank,
    /// Two bursts on the data bus at the same time.
    BusCollision,
    /// The controller did not drive data in a clock in which a WR needs them.
    WriteDataMissing,
    /// The controller drove data in a clock in which no WR needs them.
    WriteDataUnexpected,
    /// The pins carry no command of this rank; it is taken as deselect.
    Undefined(DramError),
    /// An activation takes two clocks of the row command bus (HBM2).
    RowBus,
    /// SLICE to ACT or SLICE of the same bank, or to REF (HBM2).
    SliceRecovery,
    /// MAC to a reading of its result (HBM2).
    MacLatency,
    /// tRFCpb: REFB to ACT, SLICE or REFB of the same bank (HBM2).
    RfcBank,
    /// tRREFD: REFB to ACT or REFB of another bank (HBM2).
    RrefD,
    /// tCMD: from command to command where only one at a time can be given (HBM2).
    CommandBus,
    /// A column of the global buffer that is still on its way (HBM2).
    BufferNotReady,
    /// A column of the global buffer that was never written (HBM2).
    BufferEmpty,
    /// ACT of a partition that has an open row: two rows of one partition (HBM2).
    ActivateOpenPartition,
    /// A row on the other side of the boundary (HBM2).
    RowOutsidePartition,
    /// The second partition of a bank that is not sliced (HBM2).
    PartitionAbsent,
    /// RD or WR of a row that was opened to compute (HBM2).
    AccessDuringPim,
    /// MAC while a bank has no open row to compute with (HBM2).
    MacClosedRow,
    /// MAC while a bank's row was opened for the host (HBM2).
    MacHostRow,
    /// SLICE of a bank that has an open row (HBM2).
    SliceOpenBank,
    /// SLICE with more subarrays than the bank can give away (HBM2).
    Boundary,
    /// SLICE of a memory whose banks cannot be sliced (HBM2).
    SlicingAbsent,
    /// Activation of all banks in a memory that cannot do it (HBM2).
    AllBankActivateAbsent,
    /// REF in a memory that refreshes single banks, REFB in one that does not (HBM2).
    RefreshAbsent,
    /// REFB of a bank that is not the next one (HBM2).
    RefreshTurn,
    /// A command that the memory's command set leaves out (HBM2).
    CommandAbsent,
    /// A command while the other pseudo channel has the command bus (HBM2).
    BusTaken,
}

impl Rule {
    /// Whether it depends on the state of row buffers or on who has the bus, and not on a distance.
    pub(crate) fn is_of_state(self) -> bool {
        matches!(
            self,
            Self::ActivateOpenBank
                | Self::AccessClosedBank
                | Self::RefreshOpenBank
                | Self::Undefined(_)
                | Self::BufferEmpty
                | Self::ActivateOpenPartition
                | Self::RowOutsidePartition
                | Self::PartitionAbsent
                | Self::AccessDuringPim
                | Self::MacClosedRow
                | Self::MacHostRow
                | Self::SliceOpenBank
                | Self::Boundary
                | Self::SlicingAbsent
                | Self::AllBankActivateAbsent
                | Self::RefreshAbsent
                | Self::RefreshTurn
                | Self::CommandAbsent
                | Self::BusTaken
        )
    }
}

impl std::fmt::Display for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Rc => "tRC",
            Self::Ras => "tRAS",
            Self::Rcd => "tRCD",
            Self::Rp => "tRP",
            Self::RrdS => "tRRD_S",
            Self::RrdL => "tRRD_L",
            Self::Faw => "tFAW",
            Self::CcdS => "tCCD_S",
            Self::CcdL => "tCCD_L",
            Self::Rtp => "tRTP",
            Self::Wr => "tWR",
            Self::WtrS => "tWTR_S",
            Self::WtrL => "tWTR_L",
            Self::Rtw => "tRTW",
            Self::Rfc => "tRFC",
            Self::Refi => "tREFI",
            Self::ActivateOpenBank => "ACT of an open bank",
            Self::AccessClosedBank => "access to a closed bank",
            Self::RefreshOpenBank => "REF with an open bank",
            Self::BusCollision => "data bus collision",
            Self::WriteDataMissing => "write data missing",
            Self::WriteDataUnexpected => "write data without WR",
            Self::Undefined(error) => return write!(f, "undefined command ({error})"),
            Self::RowBus => "row command bus",
            Self::SliceRecovery => "tSLICE",
            Self::MacLatency => "tMAC",
            Self::RfcBank => "tRFCpb",
            Self::RrefD => "tRREFD",
            Self::CommandBus => "tCMD",
            Self::BufferNotReady => "buffer not ready",
            Self::BufferEmpty => "buffer never written",
            Self::ActivateOpenPartition => "two rows of one partition",
            Self::RowOutsidePartition => "row outside of the partition",
            Self::PartitionAbsent => "second partition of a joined bank",
            Self::AccessDuringPim => "access to a row that computes",
            Self::MacClosedRow => "MAC on a closed row",
            Self::MacHostRow => "MAC on the host's row",
            Self::SliceOpenBank => "SLICE of an open bank",
            Self::Boundary => "boundary outside of the bank",
            Self::SlicingAbsent => "no slicing",
            Self::AllBankActivateAbsent => "no activation of all banks",
            Self::RefreshAbsent => "no such refresh",
            Self::RefreshTurn => "refresh out of turn",
            Self::CommandAbsent => "not in the command set",
            Self::BusTaken => "command bus of the other pseudo channel",
        })
    }
}

/// Which earlier commands a rule looks at, seen from the later one. A command to all banks (PREA, REF) is near to
/// every bank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// Those of the same bank; where banks are sliced, of the same partition.
    SameBank,
    /// Those of the same bank group, the same bank included.
    SameGroup,
    /// Those of the other bank groups.
    OtherGroup,
    /// All of the rank.
    Rank,
}

/// `later` must come at least `cycles` clocks after the last `earlier` in `scope`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimingRule<K> {
    /// Name under which a violation is reported.
    pub rule: Rule,
    /// Kind of the earlier command.
    pub earlier: K,
    /// Kind of the later command.
    pub later: K,
    /// Where the earlier command counts.
    pub scope: Scope,
    /// Minimum distance.
    pub cycles: u64,
}

/// At most `commands` commands of some kinds in any window of `cycles` clocks, over the whole rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowRule<K> {
    /// Name under which a violation is reported.
    pub rule: Rule,
    /// Kinds of the commands, with what each counts: an activation of four banks counts four.
    pub kinds: Vec<(K, usize)>,
    /// What is allowed; at least the largest count of a command.
    pub commands: usize,
    /// Length of the window.
    pub cycles: u64,
}

impl<K: PartialEq> WindowRule<K> {
    /// What a command of `kind` counts; 0 if it does not.
    pub(crate) fn weight(&self, kind: K) -> usize {
        self.kinds.iter().find(|(counted, _)| *counted == kind).map_or(0, |&(_, weight)| weight)
    }
}

/// A memory's geometry and rules, all that the checker knows about it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleSet<C: CommandSet> {
    /// Bank groups.
    pub bank_groups: usize,
    /// Banks of a bank group.
    pub banks_per_group: usize,
    /// Row buffers of a bank: 2 if it can be sliced.
    pub partitions: usize,
    /// Minimum distances.
    pub timing: Vec<TimingRule<C::Kind>>,
    /// Windows.
    pub windows: Vec<WindowRule<C::Kind>>,
    /// RD to its first data.
    pub read_latency: u64,
    /// WR to its first data.
    pub write_latency: u64,
    /// Clocks that the data of a burst take.
    pub burst_cycles: u64,
    /// Mean interval of REFs.
    pub refresh_interval: u64,
    /// REFs that may be outstanding, and that may be ahead of time.
    pub refresh_postponed: u64,
    /// What else the state of the row buffers depends on.
    pub features: C::Features,
}

impl<C: CommandSet> RuleSet<C> {
    /// Row buffers of the memory.
    pub(crate) fn units(&self) -> usize {
        self.bank_groups * self.banks_per_group * self.partitions
    }
}
