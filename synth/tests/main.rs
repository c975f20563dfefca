//! Tests of the synthesis flow.

#![allow(clippy::unwrap_used)]

mod common;
mod flow;
mod formal;
mod fpga;
mod power;
mod sdc;
mod test_enable;
