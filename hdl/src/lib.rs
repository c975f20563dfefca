//! Hardware of the NDP core, described in Rust and emitted as Verilog.
//!
//! [`ndp_hdl_language`] is the description language. [`blocks`] has one hardware block per file, [`designs`] finds them
//! by name, `package` makes files of them. This crate and the software model never import each other, so that one
//! cannot hide the other's mistake.

pub mod blocks;
pub mod designs;
#[cfg(feature = "cli")]
mod diagram;
#[cfg(feature = "cli")]
pub mod emit;
#[cfg(feature = "cli")]
pub mod ip;
#[cfg(feature = "cli")]
pub mod package;
#[cfg(feature = "cli")]
mod ram;
#[cfg(feature = "cli")]
mod sdc;
