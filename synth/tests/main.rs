//! Tests of the synthesis flow.

#![allow(clippy::unwrap_used)]

mod common;
mod flow;
mod power;
mod test_enable;
