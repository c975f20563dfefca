//! Tests of the cycle model alone; the testbenches compare it with RTL.

#![allow(clippy::unwrap_used)]

mod programs;
mod skipping;
