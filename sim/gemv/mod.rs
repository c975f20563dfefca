//! Products on the NDP core, from DRAM to DRAM: what a host has to do for a matrix times a batch of vectors.
//!
//! Reading order: `plan` (how a product is cut into instructions), [`GemvUnit`] (places operands, runs, collects), `attention` (caches
//! in DRAM, and attention over them), `check` (comparison with the numerics contract), [`Plant`] (deliberate errors).

mod attention;
mod check;
mod plan;
mod plant;
mod unit;

pub use attention::{AttentionRun, HeadCut};
pub use check::{Checker, Mismatch, compare};
pub use plan::{Epilogue, Mode};
pub use plant::Plant;
pub use unit::{GemvOptions, GemvRun, GemvUnit, Product, ProgramFigures};
