//! Energy: what was counted times what it costs.
//!
//! The models and the devices behind RTL count commands, times and bits ([`RankActivity`]); the books of a system know bytes and busy
//! times. Constants are in TOML, each with its source and, where sources differ or a value is a guess, a range
//! ([`DramConstants`], [`SystemConstants`]). [`DramCosts`] and [`SystemCosts`] turn one into the other. Amounts are integers in fJ
//! ([`Energy`]), so sums by command, bank, operation or device are equal to the total. Page: docs/energy.md.

#![deny(missing_docs)]

mod constant;
mod core;
mod counts;
mod dimm;
mod dram;
mod energy;
mod system;

pub use constant::Constant;
pub use core::{CoreConstants, CoreCosts, CorePart, CoreUse};
pub use counts::{BankCounts, BusBits, BusCounts, DramUse, RankActivity, RankCounts};
pub use dimm::{DimmEnergy, RankEnergy};
pub use dram::{Currents, DramConstants, DramCosts, DramEnergy, DramPart, Interface, Ranges, VppCurrents};
pub use energy::Energy;
pub use system::{EnergyConstants, Power, SystemConstants, SystemCosts, Wires};
