//! Co-simulation tests, one module per block or system. One program, so that the models are linked once and all tests
//! share the cores of the machine; `cargo test --release --test testbenches rank_port::` runs the tests of one module.

#[path = "../synth/tests/common/mod.rs"]
mod cells;
mod program;

mod activation;
mod arithmetic;
mod cores;
mod front_end;
mod gemv;
mod link;
mod memory;
mod models;
mod pim;
mod systems;
mod tool;
