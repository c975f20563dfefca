//! Placement of matrices and vectors over ranks, bank groups and rows of the DRAM.
//!
//! Where an element lies decides what the hardware reads together, so there is one function for it, with its inverse,
//! and everybody who places or looks for data takes it from here: hosts that fill the DIMM, the functional model, and
//! the reports of a co-simulation.
//!
//! Reading order: [`address`] (a burst's bank and row), [`matrix`] and [`vector`] (an element's burst, a vector's
//! words in the buffer), [`weights`] (weights of 8 and 4 bits with
//! their scales), [`exported`] (the buffer's sums in DRAM), [`pack`] (elements to bursts), [`order`] (in which
//! order to ask for rows), [`tiles`] (how to cut an `axpy` that does not fit), [`dimm_map`] (what lies
//! where). For HBM2 whose banks compute: [`hbm`].
//!
//! How a row is cut into stripes is `ndp_config::RowLayout`'s; what is computed, and when, is left to others.

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
pub use weights::WeightPlace;
