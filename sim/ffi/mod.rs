//! A safe interface to the models.
//!
//! A [`Model`] is opened from a block ([`Rtl`]) in one of its forms ([`Form`]), and built if it is not in the cache.
//! Only this module calls the C header `shim.h` and has `unsafe` code. Ports are looked up once ([`InputPort`],
//! [`OutputPort`]) and then read and written in place, without a call. [`OpenOptions`] has the waves ([`WaveOptions`]).
//!
//! ```no_run
//! use ndp_config::DesignConfig;
//! use ndp_sim::ffi::{Model, OpenOptions, rtl};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut model = Model::open(&rtl(&DesignConfig::preset("tiny")?, "host_port")?, &OpenOptions::default())?;
//! let (valid, ready) = (model.input("host_valid_i")?, model.output("host_ready_o")?);
//! model.reset(4);
//! model.set(valid, 1);
//! model.eval();
//! println!("{} takes it: {}", model.name(), model.get(ready) == 1);
//! # Ok(())
//! # }
//! ```

mod clocks;
mod coverage;
mod fst;
mod library;
mod model;
mod mutants;
mod ports;
mod storage;
mod waves;

use crate::error::unbuilt;
pub use clocks::{Clocks, Edge};
pub use coverage::COVERAGE;
pub use library::{TARGET, versions};
pub use model::{Form, Model, ModuleShare, OpenOptions};
pub use mutants::{MUTANT, MUTANTS};
pub use ndp_verilate::{Hardware, Rtl};
pub use ports::{InputPort, OutputPort, PortInfo};
pub use waves::WaveOptions;

use ndp_files::Result;
use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

/// The blocks elaborated last, with the text of their configuration: most programs open several cores of one.
static ELABORATED: Mutex<VecDeque<(String, Rtl)>> = Mutex::new(VecDeque::new());
/// Number of blocks that are kept; each takes some MB.
const KEPT: usize = 8;

/// # Errors
/// An unknown block; a design that the generator refuses.
pub fn rtl(hardware: &impl Hardware, block: &str) -> Result<Rtl> {
    elaborated(hardware, block, mutants::at_work()?)
}

fn elaborated(hardware: &impl Hardware, block: &str, mutants: Option<&mutants::AtWork>) -> Result<Rtl> {
    let list = || ELABORATED.lock().unwrap_or_else(PoisonError::into_inner);
    let key = format!("{block} of {hardware:?}{}", if mutants.is_some() { ", mutated" } else { "" });
    if let Some((_, rtl)) = list().iter().find(|(other, _)| *other == key) {
        return Ok(rtl.clone());
    }
    let rtl = match mutants {
        None => Rtl::of(hardware, block),
        Some(mutants) => Rtl::with_mutants(hardware, block, &mutants.all, mutants.number),
    };
    let rtl = rtl.map_err(|lines| unbuilt(&format!("{}/{block}", hardware.name()), lines))?;
    let mut list = list();
    list.truncate(KEPT - 1);
    list.push_front((key, rtl.clone()));
    Ok(rtl)
}

/// Leaves out the mutants of a campaign, for tests that change the design themselves.
pub fn unchanged(hardware: &impl Hardware, block: &str) -> Result<Rtl> {
    elaborated(hardware, block, None)
}

#[allow(
    unsafe_code,
    unsafe_op_in_unsafe_fn,
    missing_docs,
    missing_debug_implementations,
    dead_code,
    clippy::all,
    non_camel_case_types,
    non_snake_case
)]
mod raw {
    include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
}
