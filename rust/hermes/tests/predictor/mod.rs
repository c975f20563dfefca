//! Tests of the predictor.

mod low_rank;
mod reference;
mod table;
