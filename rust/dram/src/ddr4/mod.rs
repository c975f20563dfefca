//! A DDR4 rank in software.
//!
//! [`Rank`] takes the pins of the command bus and the data bus once per DRAM clock. It stores data, drives read data,
//! and checks every command against the timing rules of [`ndp_config::DramConfig`].
//!
//! Reading order: [`pins`] (encoding of commands), [`storage`] and [`address`] (the contents), `rules` and `open_banks`
//! (which commands are legal), [`statistics`] (use of every clock of the data bus), [`activity`] (input of the energy),
//! [`rank`].

pub mod activity;
pub mod address;
mod open_banks;
pub mod pins;
pub mod rank;
mod rules;
pub mod statistics;
pub mod storage;

pub use activity::{Activity, BankCounts, BusBits};
pub use address::Location;
pub use pins::{Command, CommandKind, CommandPins};
pub use rank::Rank;
pub use statistics::{BusCycles, CommandCounts, Statistics};
