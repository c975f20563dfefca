//! Tests of the predictor.

#![allow(clippy::unwrap_used)]

mod low_rank;
mod reference;
mod table;
