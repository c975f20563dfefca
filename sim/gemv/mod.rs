//! Products on the NDP core, from DRAM to DRAM: what a host has to do for a matrix times a batch of vectors.
//!
//! How products and attention are cut into instructions is in [`ndp_planner`]. Reading order: [`GemvUnit`] (places operands, runs, collects), `attention` (caches
//! in DRAM, and attention over them), `partial` (products on several cores), `transfer` (parcels between them), `check` (comparison with the numerics contract), [`Plant`] (deliberate errors).

mod attention;
mod check;
mod partial;
mod plant;
mod transfer;
mod unit;

pub use attention::AttentionRun;
pub use check::{Checker, Mismatch, compare};
pub use ndp_planner::{Epilogue, HeadCut, Mode};
pub use partial::{MergeFormat, Part, PartialSums};
pub use plant::Plant;
pub(crate) use transfer::{Outcome, bursts_of, values_of};
pub use unit::{GemvOptions, GemvRun, GemvUnit, Product, ProgramFigures};
