//! Tests of energies: formulae by hand, sums, what is refused.

#![allow(clippy::unwrap_used)]

mod dram;
mod hbm;
mod refusals;
mod system;
