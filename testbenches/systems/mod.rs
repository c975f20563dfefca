//! Whole systems: texts, energy, the Python reference.

pub mod energy;
pub mod flash;
pub mod generate;
pub mod golden_vectors;
pub mod linked_system;
pub mod low_rank;
pub mod system;
pub mod timing_only;
