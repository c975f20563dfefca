//! Tests of the predictor.

#![allow(clippy::unwrap_used)]

mod reference;
mod table;
