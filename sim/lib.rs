//! Harness around the generated hardware: the Verilated models of its blocks, callable from Rust.
//!
//! Downstream of `ndp_hdl`, whose Verilog build.rs turns into models, and beside the software model. Reading order:
//! [`ffi`] (a model and its ports), [`core`] (the NDP core with its DRAM and host), [`gemv`] (products and attention on it),
//! [`backend`] (the decoder's layers on that), [`layer`] (one of them in one step), [`phases`] (where their cycles go), [`system`]
//! (several cores and a GPU), [`link`] (DIMM-links and the lanes between them), [`hbm`] (a channel of memory that computes),
//! [`stimulus`] (operands), [`trace`] (recordings
//! as files). What is compared with what is left to the testbenches and binaries.

#![deny(missing_docs)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod backend;
pub mod core;
pub mod error;
pub mod ffi;
pub mod gemv;
pub mod hbm;
pub mod layer;
pub mod link;
pub mod phases;
pub mod progress;
pub mod stimulus;
pub mod system;
pub mod trace;
