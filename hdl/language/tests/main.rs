//! Tests of the hardware description layer: what it emits, what that means, what it refuses.

#![allow(clippy::unwrap_used)]

mod blocks;
mod clock_domains;
mod common;
mod emission;
mod mutants;
mod netlist;
mod properties;
mod refusals;
mod semantics;
