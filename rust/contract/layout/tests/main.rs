//! Tests of where data lie in DRAM.

#![allow(clippy::unwrap_used)]

mod dimm;
mod exported;
mod hbm;
mod ordering;
mod placement;
mod tiling;
mod weights;
