//! Tests of the policies of the NDP-DIMM host.

#![allow(clippy::unwrap_used)]

mod flash;
mod placement;
mod predictor;
mod scheduler;
