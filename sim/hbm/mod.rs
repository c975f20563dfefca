//! A channel of HBM-PIM in simulation: the Verilated channel in lockstep with the device model.
//!
//! [`channel`] is the channel at its pins; [`lockstep`] gives every clock to both and compares all that either says. What
//! commands there are is left to the callers. [`controller`] is the Verilated controller before such a channel; [`host`] makes both of them a channel of `ndp_librapim::host`; [`diagram`]
//! draws what it did; [`activity`] says what its energy depends on. `docs/hbm-pim.md` is the contract of both sides.

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
