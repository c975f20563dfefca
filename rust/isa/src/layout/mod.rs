//! Placement of matrices and vectors over ranks, bank groups and rows of the DRAM.
//!
//! The only function from an element to its place, and its inverse, for hosts, the functional model and reports.
//!
//! Reading order: [`address`] (a burst's bank and row), [`matrix`] and [`vector`] (an element's burst, a vector's words
//! in the buffer), [`weights`] (weights of 8 and 4 bits), [`exported`] (the buffer's sums in DRAM), [`pack`] (elements
//! to bursts), [`order`] (order of rows), [`tiles`] (cutting an `axpy`), [`dimm_map`] (map of a DIMM), [`hbm`] (HBM2
//! whose banks compute).
//!
//! `ndp_config::RowLayout` cuts a row into stripes.

pub mod address;
pub mod dimm_map;
pub mod exported;
pub mod hbm;
pub mod matrix;
pub mod order;
pub mod pack;
pub mod tiles;
pub mod vector;
pub mod weights;

pub use address::{Burst, DimmAddress, DramPlace, elements_of, pack_elements, pack_words, words_of};
pub use dimm_map::{DimmMap, Region};
pub use exported::{ExportedSums, SumBurst};
pub use matrix::{MatrixLayout, MatrixPlace, RowRange};
pub use order::{OrderQuality, measure_order, order_rows, row_order};
pub use pack::{PackedBurst, pack_matrix};
pub use tiles::{AxpyTiling, ColumnTile, column_passes, column_tiles};
pub use vector::{BufferLayout, BufferPlace, VectorBlock};
pub use weights::{Packer, WeightPlace};
