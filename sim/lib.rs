//! Harness around the generated hardware: the Verilated models of its blocks, callable from Rust.
//!
//! Downstream of `ndp_hdl`, whose Verilog build.rs turns into models, and beside the software model. Reading order:
//! [`ffi`] (a model and its ports), [`core`] (the NDP core with its DRAM and host), [`gemv`] (products and attention on
//! it), [`system`] (the decoder on one core, or on several cores and a GPU), [`layer`] (one layer in one step),
//! [`link`] (DIMM-links), [`hbm`] (a channel of HBM-PIM), [`stimulus`] (operands), [`recordings`] (text and timelines).

#![cfg_attr(test, allow(clippy::unwrap_used))]

/// Output of `rustc -V` of this build.
pub const RUSTC_VERSION: &str = env!("NDP_RUSTC_VERSION");

#[cfg(feature = "rtl")]
pub mod cluster;
#[cfg(feature = "rtl")]
pub mod core;
#[cfg(feature = "rtl")]
pub mod error;
#[cfg(feature = "rtl")]
pub mod expected;
#[cfg(feature = "rtl")]
pub mod ffi;
#[cfg(feature = "rtl")]
pub mod gemv;
#[cfg(feature = "rtl")]
pub mod hbm;
#[cfg(feature = "rtl")]
pub mod layer;
#[cfg(feature = "rtl")]
pub mod link;
#[cfg(feature = "rtl")]
pub mod progress;
#[cfg(feature = "rtl")]
pub mod recordings;
#[cfg(feature = "rtl")]
pub mod stimulus;
#[cfg(feature = "rtl")]
pub mod system;
