//! Tests of where data lie in DRAM.

mod dimm;
mod exported;
mod hbm;
mod ordering;
mod placement;
mod tiling;
mod weights;
