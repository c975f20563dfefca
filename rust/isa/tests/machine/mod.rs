//! Tests of the functional model.

mod heads;
mod instructions;
mod merging;
mod quantised;
mod random_programs;
mod transfers;
