//! Tests of the hardware description layer: its emitted text, the text's meaning, and its refusals.

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
