//! Memories in software, for lockstep simulation with the RTL of a controller: a DDR4 rank, and in [`hbm`] a channel of
//! HBM2 whose banks compute. One [`Checker`] serves both, with a [`RuleSet`] for each.
//!
//! [`Rank`] takes the pins of the command bus and the data bus once per DRAM clock. It stores data, drives what is
//! read, and checks every command against the timing rules of [`ndp_config::DramConfig`] on its own: nothing here is
//! shared with the controller, so a wrong timing in the one cannot hide in the other. The parameters are DRAM clocks
//! throughout.
//!
//! Reading order: [`pins`] (what a command is), [`rules`] (the rules as a table, with the DDR4 set), [`checker`]
//! (which applies any such table, to the commands of any memory: [`command_set`]), [`storage`] and [`address`] (the contents), [`statistics`] (what every clock of
//! the data bus was used for), [`rank`] (all of it together) and [`stream`] (the bandwidth that a read stream can
//! reach, by formula).
//!
//! Left to others: initialisation, mode registers, ZQ calibration, self refresh and power-down (a command for one of
//! them is a violation), signal timing below a clock, and what a row loses when it is not refreshed: a refresh that
//! is late is reported, the data stay intact.

#![deny(missing_docs)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod address;
pub mod checker;
pub mod command_set;
mod error;
pub mod hbm;
mod history;
mod open_banks;
pub mod pins;
pub mod rank;
pub mod rules;
pub mod statistics;
pub mod storage;
pub mod stream;
pub mod violation;

pub use address::Location;
pub use checker::Checker;
pub use command_set::CommandSet;
pub use error::DramError;
pub use pins::{Command, CommandKind, CommandPins};
pub use rank::Rank;
pub use rules::{Rule, RuleSet, Scope, TimingRule, WindowRule};
pub use statistics::{BusCycles, CommandCounts, Statistics};
pub use violation::Violation;
