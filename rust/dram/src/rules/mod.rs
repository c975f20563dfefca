//! Timing rules as data, and the checker that applies a table of them to the commands of a memory.
//!
//! Most rules of a DRAM have one form: a command must keep a distance from an earlier one in some scope. The others
//! (bank states, the four-activate window, refresh intervals, the data bus) are described by numbers beside the table.
//! Each memory with banks in bank groups has its own [`RuleSet`]. Reading order: this file, [`command_set`] (properties
//! of commands), [`checker`], `history`, [`violation`].

pub mod checker;
pub mod command_set;
mod history;
pub mod violation;

pub use checker::Checker;
pub(crate) use checker::checked;
pub use command_set::CommandSet;
pub use violation::Violation;

use serde::Serialize;

use crate::DramError;

/// The enumeration of rules: name in reports, whether it is one of `state` (of row buffers, or of who has the bus) or
/// of `time`, and the status with which HBM2 answers a command that breaks it (`docs/hbm-pim.md`).
macro_rules! rules {
    ($($(#[$doc:meta])* $rule:ident $(($payload:ty))? = $name:literal, $kind:ident $status:literal;)*) => {
        /// A rule that a command can break.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
        #[non_exhaustive]
        pub enum Rule {
            $($(#[$doc])* $rule $(($payload))?,)*
        }

        impl Rule {
            /// Whether it depends on the state of row buffers or on who has the bus, and not on a distance.
            pub(crate) fn is_of_state(self) -> bool {
                match self {
                    $(Self::$rule { .. } => rules!(@ $kind),)*
                }
            }

            /// The number of the answer to a command that breaks it; from 64 for rules that refuse no command.
            pub(crate) fn status(self) -> u8 {
                match self {
                    $(Self::$rule { .. } => $status,)*
                }
            }

            fn name(self) -> &'static str {
                match self {
                    $(Self::$rule { .. } => $name,)*
                }
            }
        }
    };
    (@ state) => {
        true
    };
    (@ time) => {
        false
    };
}

rules! {
    /// tRC: ACT to ACT of the same bank.
    Rc = "tRC", time 32;
    /// tRAS: ACT to PRE of the same bank.
    Ras = "tRAS", time 33;
    /// tRCD: ACT to RD or WR of the same bank.
    Rcd = "tRCD", time 34;
    /// tRP: PRE to ACT of the same bank, PRE of any bank to REF.
    Rp = "tRP", time 35;
    /// tRRD_S: ACT to ACT in different bank groups.
    RrdS = "tRRD_S", time 36;
    /// tRRD_L: ACT to ACT in the same bank group.
    RrdL = "tRRD_L", time 37;
    /// tFAW: at most four ACTs in a window.
    Faw = "tFAW", time 38;
    /// tCCD_S: RD to RD and WR to WR in different bank groups.
    CcdS = "tCCD_S", time 39;
    /// tCCD_L: RD to RD and WR to WR in the same bank group.
    CcdL = "tCCD_L", time 40;
    /// tRTP: RD to PRE of the same bank.
    Rtp = "tRTP", time 41;
    /// tWR: end of a write's data to PRE of the same bank.
    Wr = "tWR", time 42;
    /// tWTR_S: end of a write's data to RD in another bank group.
    WtrS = "tWTR_S", time 43;
    /// tWTR_L: end of a write's data to RD in the same bank group.
    WtrL = "tWTR_L", time 44;
    /// tRTW: RD to WR.
    Rtw = "tRTW", time 45;
    /// tRFC: REF to any command.
    Rfc = "tRFC", time 46;
    /// tREFI: too long without REF, or more REFs postponed than allowed.
    Refi = "tREFI", time 64;
    /// ACT of a bank that has an open row.
    ActivateOpenBank = "ACT of an open bank", state 2;
    /// RD or WR of a bank that has no open row.
    AccessClosedBank = "access to a closed bank", state 3;
    /// REF while a bank has an open row.
    RefreshOpenBank = "REF with an open bank", state 4;
    /// Two bursts on the data bus at the same time.
    BusCollision = "data bus collision", time 51;
    /// The controller did not drive data in a clock in which a WR needs them.
    WriteDataMissing = "write data missing", time 65;
    /// The controller drove data in a clock in which no WR needs them.
    WriteDataUnexpected = "write data without WR", time 66;
    /// The pins carry no command of this rank; it is taken as deselect.
    Undefined(DramError) = "undefined command", state 1;
    /// An activation takes two clocks of the row command bus (HBM2).
    RowBus = "row command bus", time 47;
    /// SLICE to ACT or SLICE of the same bank, or to REF (HBM2).
    SliceRecovery = "tSLICE", time 48;
    /// MAC to a reading of its result (HBM2).
    MacLatency = "tMAC", time 49;
    /// tRFCpb: REFB to ACT, SLICE or REFB of the same bank (HBM2).
    RfcBank = "tRFCpb", time 52;
    /// tRREFD: REFB to ACT or REFB of another bank (HBM2).
    RrefD = "tRREFD", time 53;
    /// tCMD: from command to command where only one at a time can be given (HBM2).
    CommandBus = "tCMD", time 54;
    /// A column of the global buffer that is still on its way (HBM2).
    BufferNotReady = "buffer not ready", time 50;
    /// A column of the global buffer that was never written (HBM2).
    BufferEmpty = "buffer never written", state 10;
    /// ACT of a partition that has an open row: two rows of one partition (HBM2).
    ActivateOpenPartition = "two rows of one partition", state 2;
    /// A row on the other side of the boundary (HBM2).
    RowOutsidePartition = "row outside of the partition", state 6;
    /// The second partition of a bank that is not sliced (HBM2).
    PartitionAbsent = "second partition of a joined bank", state 5;
    /// RD or WR of a row that was opened to compute (HBM2).
    AccessDuringPim = "access to a row that computes", state 7;
    /// MAC while a bank has no open row to compute with (HBM2).
    MacClosedRow = "MAC on a closed row", state 8;
    /// MAC while a bank's row was opened for the host (HBM2).
    MacHostRow = "MAC on the host's row", state 9;
    /// SLICE of a bank that has an open row (HBM2).
    SliceOpenBank = "SLICE of an open bank", state 11;
    /// SLICE with more subarrays than the bank can give away (HBM2).
    Boundary = "boundary outside of the bank", state 12;
    /// SLICE of a memory whose banks cannot be sliced (HBM2).
    SlicingAbsent = "no slicing", state 13;
    /// Activation of all banks in a memory that cannot do it (HBM2).
    AllBankActivateAbsent = "no activation of all banks", state 14;
    /// REF in a memory that refreshes single banks, REFB in one that does not (HBM2).
    RefreshAbsent = "no such refresh", state 15;
    /// REFB of a bank that is not the next one (HBM2).
    RefreshTurn = "refresh out of turn", state 16;
    /// A command that the memory's command set leaves out (HBM2).
    CommandAbsent = "not in the command set", state 17;
    /// A command while the other pseudo channel has the command bus (HBM2).
    BusTaken = "command bus of the other pseudo channel", state 55;
}

impl std::fmt::Display for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())?;
        match self {
            Self::Undefined(error) => write!(f, " ({error})"),
            _ => Ok(()),
        }
    }
}

/// Earlier commands that a rule considers, seen from the later one. A command to all banks (PREA, REF) is near every
/// bank.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scope {
    /// In the same bank; where banks are sliced, in the same partition.
    SameBank,
    /// In the same bank group, including the same bank.
    SameGroup,
    OtherGroup,
    Rank,
}

/// `later` must come at least `cycles` clocks after the last `earlier` in `scope`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimingRule<K> {
    pub rule: Rule,
    pub earlier: K,
    pub later: K,
    pub scope: Scope,
    pub cycles: u64,
}

impl<K> From<(Rule, K, K, Scope, u32)> for TimingRule<K> {
    fn from((rule, earlier, later, scope, cycles): (Rule, K, K, Scope, u32)) -> Self {
        Self { rule, earlier, later, scope, cycles: cycles.into() }
    }
}

/// At most `commands` commands of some kinds in any window of `cycles` clocks, over the whole rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WindowRule<K> {
    pub rule: Rule,
    /// Kinds of the commands, and how often each counts: an activation of four banks counts four times.
    pub kinds: Vec<(K, usize)>,
    /// At least the largest count of a command.
    pub commands: usize,
    pub cycles: u64,
}

impl<K: PartialEq> WindowRule<K> {
    /// Count of a command of `kind`; 0 if it does not count.
    pub(crate) fn weight(&self, kind: K) -> usize {
        self.kinds.iter().find(|(counted, _)| *counted == kind).map_or(0, |&(_, weight)| weight)
    }
}

/// A memory's geometry and rules: all that the checker uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleSet<C: CommandSet> {
    pub bank_groups: usize,
    pub banks_per_group: usize,
    /// Row buffers of a bank: 2 if it can be sliced.
    pub partitions: usize,
    pub timing: Vec<TimingRule<C::Kind>>,
    pub windows: Vec<WindowRule<C::Kind>>,
    /// RD to its first data.
    pub read_latency: u64,
    /// WR to its first data.
    pub write_latency: u64,
    /// Clocks that the data of a burst take.
    pub burst_cycles: u64,
    pub refresh_interval: u64,
    /// REFs that may be outstanding, and that may be ahead of time.
    pub refresh_postponed: u64,
    pub features: C::Features,
}

impl<C: CommandSet> RuleSet<C> {
    pub(crate) fn units(&self) -> usize {
        self.bank_groups * self.banks_per_group * self.partitions
    }
}
