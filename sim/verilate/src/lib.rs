//! From a block of the generator to a compiled Verilated model.
//!
//! Two callers: build.rs links the models of its catalogue into the harness, and the harness asks for one of any other design
//! while it runs ([`demand`]). Reading order: [`entry`] (a design, elaborated), [`tools`] (Verilator and the compiler), [`unit`] (a
//! run of Verilator), [`compile`] (its C++), with [`shims`] (the C++ that differs between designs), [`pool`] (workers) and
//! [`cache`] (hashes and files). Which designs the catalogue has is left to build.rs, and how a library is loaded to `sim/ffi`.

#![deny(missing_docs)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod cache;
pub mod compile;
pub mod demand;
pub mod entry;
pub mod pool;
pub mod shims;
pub mod tools;
pub mod unit;

pub use demand::{Built, Demand};
pub use entry::{Entry, Port};
pub use tools::Tools;
pub use unit::Unit;

/// A message for the user, one line each.
pub type Failure = Vec<String>;
