//! Hardware description language in Rust, on top of `rust-hdl-core`.
//!
//! A [`ModuleBuilder`] collects ports, wires, registers, memories and instances whose expressions ([`Bits`])
//! know their widths. [`ModuleBuilder::finish`] refuses whatever rust-hdl would pass on silently: width
//! mismatches, signals driven twice or never, unconnected ports, combinational loops, illegal or repeated names.
//! What passes is lowered to rust-hdl's AST and printed once per distinct module ([`Design`]), or elaborated to a graph of operations on
//! words for other simulators ([`Netlist`]).
//!
//! Conventions: one clock `clk_i`, one synchronous active-low reset `rst_ni`, both implicit; registers hold
//! their value unless enabled; every wire is a continuous assignment, so a latch cannot be written (a wire that
//! refers to itself is a loop and refused). An expression is printed wherever it is used: give one that is used
//! several times a name with [`ModuleBuilder::wire`]. Instances may run on further clocks: see [`Domain`].

#![deny(missing_docs)]

mod bits;
mod body;
mod builder;
mod check;
mod constants;
mod design;
mod domain;
mod domains;
mod error;
mod keywords;
mod lower;
mod module;
pub mod mutate;
mod netlist;
mod split;

pub use bits::{Bits, any_named, any_of, cat, lit, mux, named, one_hot_mux, repeat, rom, zeros};
pub use builder::{InstanceBuilder, Memory, ModuleBuilder, Reg, Wire};
pub use design::Design;
pub use domain::{ClockCrossing, Crossing, Domain};
pub use error::HdlError;
pub use module::{Direction, MemoryInfo, Module, Port, Pragmas, SignalInfo};
pub use netlist::{Binary, Check, Graph, Id, MemoryArray, Netlist, Node, Op, Register, limb_bits, limbs};
