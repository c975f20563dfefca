//! Harness around the generated hardware: the Verilated models of its blocks, callable from Rust.
//!
//! Downstream of `ndp_hdl`, whose Verilog build.rs turns into models, and beside the software model; what is
//! compared with what is left to the testbenches and binaries.

#![deny(missing_docs)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod error;
pub mod ffi;
pub mod gemv;
