//! From a block of the generator to a compiled model, native or Verilated.
//!
//! build.rs requests the models of the main job, the harness any other while it runs. Reading order: [`rtl`] (a design,
//! elaborated), [`tools`] (Verilator and the compiler), [`unit`] (a run of Verilator, or the source of a native model),
//! `native` (that source), `compile` (its C++) with `shims` (the C++ that differs between models), `contents` (initial
//! values of registers), `pool` (workers), [`cache`] (kept libraries), `folder` (location and trust), `files` (hashes).

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod cache;
mod compile;
mod contents;
mod files;
mod folder;
mod native;
mod pool;
pub mod rtl;
mod shims;
pub mod tools;
pub mod unit;

pub use cache::{Cache, Kept};
pub use files::write_if_changed;
pub use folder::NAME;
pub use ndp_hdl_language::mutate;
pub use rtl::{Hardware, Rtl};
pub use shims::COVERAGE;
pub use tools::Tools;
pub use unit::{Unit, Variant};

/// A message for the user, one line each.
pub type Failure = Vec<String>;
