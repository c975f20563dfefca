//! Co-simulation tests, one module per block or system. One program, so that the models are linked once and the tests of all
//! of them share the cores of the machine; `cargo test --release --test testbenches rank_port::` runs those of one.

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
