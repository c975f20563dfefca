//! The Verilated models behind a safe interface.
//!
//! build.rs compiles one model per design of its catalogue and binds the C header `shim.h`; this module is the
//! only place that calls it, and the only one with `unsafe` code. A [`Model`] is opened by name, or as a design that is built
//! when it is asked for ([`Model::open_design`]); its ports are looked up once ([`InputPort`], [`OutputPort`]) and then read and written in place, without a call. Waves are
//! asked for when a model is opened ([`OpenOptions`], [`WaveOptions`]). What the ports mean, and what should
//! come out of them, is left to the callers.
//!
//! ```
//! use ndp_cosim::ffi::Model;
//! # fn main() -> Result<(), ndp_cosim::ffi::SimError> {
//! let mut adder = Model::open("selftest/adder")?;
//! let (a, b, y) = (adder.input("a8_i")?, adder.input("b8_i")?, adder.output("y8_o")?);
//! adder.set(a, 200);
//! adder.set(b, 100);
//! adder.eval();
//! assert_eq!(adder.get(y), 300 % 256);
//! # Ok(())
//! # }
//! ```

mod clocks;
mod demand;
mod designs;
mod fst;
mod interface;
mod model;
mod ports;
mod storage;
mod waves;

pub use crate::error::{Direction, SimError};
pub use clocks::{Clocks, Edge};
pub use designs::{DesignInfo, designs, verilator_version};
pub use model::{Model, OpenOptions};
pub use ports::{InputPort, OutputPort, PortInfo};
pub use waves::WaveOptions;

/// What bindgen made of `shim.h`.
#[allow(unsafe_code, missing_docs, dead_code, clippy::all, non_camel_case_types, non_snake_case)]
mod raw {
    include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
}
