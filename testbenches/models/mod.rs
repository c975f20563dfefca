//! The simulation models themselves, and the checks that find errors in them.

pub mod clocks;
pub mod coverage;
pub mod mutants;
pub mod native;
pub mod power;
pub mod properties;
pub mod replication;
pub mod waves;
