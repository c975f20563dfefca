//! Energy: counts times costs.
//!
//! Models and the devices behind RTL count commands, times and bits ([`RankActivity`]); a system's event log has bytes
//! and busy times. Constants are in TOML with sources and, where these differ or a value is a guess, a range
//! ([`DramConstants`], [`SystemConstants`], [`HbmConstants`], [`NpuConstants`]). [`DramCosts`], [`SystemCosts`] and
//! [`HbmCosts`] combine them. Amounts are integers in fJ ([`Energy`]), so sums by command, bank, operation or device
//! equal the total. See docs/energy.md, docs/energy-hbm.md.

mod constant;
mod core;
mod counts;
mod dimm;
mod dram;
mod energy;
mod hbm;
mod npu;
mod system;
mod table;

pub use constant::Constant;
pub use core::{ByCorePart, CoreConstants, CoreCosts, CorePart, CoreUse};
pub use counts::{BusCounts, DramUse, RankActivity, RankCounts};
pub use dimm::{DimmEnergy, RankEnergy};
pub use dram::{
    ByDramPart, Currents, DramConstants, DramCosts, DramEnergy, DramPart, Interface, Ranges, VppCurrents,
};
pub use energy::{Energy, ratio_range};
pub use hbm::{
    ByHbmEvent, ByHbmPart, HbmArithmetic, HbmBank, HbmChannelEnergy, HbmConstants, HbmCosts, HbmCounts,
    HbmEnergy, HbmEvent, HbmPart, HbmSizes, HbmWay,
};
pub use ndp_config::sums;
pub use ndp_dram::{BankCounts, BusBits};
pub use npu::NpuConstants;
pub use system::{EnergyConstants, Power, SystemConstants, SystemCosts, Wires};
