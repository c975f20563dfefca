//! Harness around the generated hardware: the Verilated models of its blocks, callable from Rust.
//!
//! Downstream of `ndp_hdl`, whose Verilog build.rs turns into models, and beside the software model; what is
//! compared with what is left to the testbenches and binaries.

#![deny(missing_docs)]

pub mod ffi;
