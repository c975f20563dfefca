//! Products on the NDP core, from DRAM to DRAM: a matrix times a batch of vectors.
//!
//! [`ndp_isa::planner`] cuts them into instructions. Reading order: [`Product`] (request), [`GemvUnit`] (places
//! operands, runs, collects), `attention` (with caches in DRAM), `partial` (products on several cores), `transfer`
//! (ranges between them), `check` (comparison with a reference), `estimates` (programs that need not run), [`BitFlip`]
//! (deliberate errors).

mod attention;
mod bit_flip;
mod check;
mod estimates;
#[cfg(test)]
mod gated_tests;
mod partial;
mod predicted;
mod product;
mod rotary;
mod state;
mod transfer;
mod unit;

pub use attention::AttentionRun;
pub(crate) use attention::{Rows, columns_of, heads_at};
pub use bit_flip::BitFlip;
pub use check::compare;
pub use estimates::Estimated;
pub use ndp_isa::planner::{Epilogue, HeadCut, Mode};
pub(crate) use partial::{Cut, Selected};
pub use partial::{Handed, MergeFormat, Part, PartialSums};
pub use product::{Product, Weights};
pub(crate) use transfer::Outcome;
pub use unit::{Backdoor, GemvOptions, GemvRun, GemvUnit, LoggedProgram, ProgramFigures};
