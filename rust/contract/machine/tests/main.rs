//! Tests of the functional model.

#![allow(clippy::unwrap_used)]

mod heads;
mod machine;
mod merging;
mod quantised;
mod random_programs;
mod transfers;
