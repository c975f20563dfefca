//! A channel of HBM-PIM in simulation: the Verilated channel in lockstep with the device model.
//!
//! [`channel`] is the channel at its pins; [`lockstep`] compares it with the device model in every clock;
//! [`controller`] is the Verilated controller before such a channel; [`host`] makes both a channel of
//! `ndp_librapim::host`; [`diagram`] draws commands; [`activity`] counts for energy. Contract: `docs/hbm-pim.md`.

pub mod activity;
pub mod channel;
pub mod controller;
pub mod diagram;
pub mod host;
pub mod lockstep;

pub use channel::{ChannelOutputs, PimChannel, RESET_CLOCKS};
pub use controller::{Access, Controlled, ControlledWaves, Operation, Request};
pub use host::Hosted;
pub use lockstep::Lockstep;
