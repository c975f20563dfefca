//! Products on the NDP core, from DRAM to DRAM: what a host has to do for a matrix times a batch of vectors.
//!
//! Reading order: `plan` (how a product is cut into instructions), [`GemvUnit`] (places operands, runs, collects), `check`
//! (comparison with the numerics contract), [`Plant`] (deliberate errors).

mod check;
mod plan;
mod plant;
mod unit;

pub use check::{Checker, Mismatch};
pub use plan::Mode;
pub use plant::Plant;
pub use unit::{GemvOptions, GemvRun, GemvUnit, Product};
