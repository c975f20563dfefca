//! One channel of HBM2 with computing banks that can be sliced, after LibraPIM.
//!
//! `docs/hbm-pim.md` is its contract: commands and their words, state, timing rules with sources, error statuses.
//! [`PseudoChannel`] takes the words of the two command buses and the data bus once per clock. It stores data, drives
//! read data, computes like the banks' multipliers, and refuses commands that break a rule, with a status for each
//! rule. A refused command changes nothing.
//!
//! Reading order: [`command`] (commands and words), [`rules`] (timing), [`partitions`] (row buffers, boundaries and
//! which commands they allow), [`storage`], [`pim`] (buffer and accumulators), [`statistics`] (where clocks go),
//! [`activity`] (where energy goes), [`answer`], `buses` (shared by two), [`pseudo_channel`].
//!
//! Not modelled: ECC, power-down and mode registers; signal timing below a clock, hence the 2 % that slicing adds to
//! tCCD. The checker is the same as for DDR4, with another table.

pub mod activity;
pub mod answer;
mod buses;
pub mod command;
pub mod partitions;
pub mod pim;
pub mod pseudo_channel;
pub mod rules;
pub mod statistics;
pub mod storage;

pub use activity::{HbmActivity, HbmBankCounts};
pub use answer::Answer;
pub use command::{HbmCommand, HbmKind, decode_column, decode_row};
pub use partitions::{Owner, Partitions};
pub use pim::PimUnits;
pub use pseudo_channel::{HbmOutputs, HbmPlace, PseudoChannel};
pub use statistics::{HbmBusCycles, HbmCommandCounts, HbmStatistics, PimCycles};
pub use storage::{Column, HbmStorage};
