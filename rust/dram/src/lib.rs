//! Memory models for lockstep simulation with the RTL of a controller: a DDR4 rank ([`ddr4`]) and a channel of HBM2
//! with computing banks ([`hbm`]). One checker serves both ([`rules`]), with a table of rules for each.
//!
//! They share nothing with the controllers, so a wrong timing in one cannot hide in the other. Times are clocks of the
//! memory.
//!
//! Not modelled: initialisation, mode registers, ZQ calibration, self refresh and power-down (their commands are
//! violations), signal timing below a clock, and loss of data without refresh: a late refresh is reported, the data
//! stay intact.

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod counts;
pub mod ddr4;
mod error;
pub mod hbm;
mod open_time;
pub mod rules;

pub use counts::Counts;
pub use ddr4::{
    Activity, BankCounts, BusBits, BusCycles, Command, CommandCounts, CommandKind, CommandPins, Location,
    Rank, Statistics, storage,
};
pub use error::DramError;
pub use rules::{Checker, CommandSet, Rule, RuleSet, Scope, TimingRule, Violation, WindowRule};
