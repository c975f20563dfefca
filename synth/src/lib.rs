//! Area, delay and power of the generated hardware.
//!
//! Downstream of `ndp-hdl`: takes a design, hands every distinct module once to Yosys (its children as black
//! boxes), multiplies what comes back by the instance counts and writes a report. With a Liberty file the
//! figures are um2 and ps, without one generic gates and a transistor estimate. OpenSTA times the mapped
//! netlists on request.
//!
//! Reading order: [`source`] (what is synthesised) -> [`script`] (what Yosys is told) -> [`flow`] (who runs when) ->
//! [`parse`] (what is read back) -> [`hierarchy`] (sums) -> [`report`] (words). [`liberty`] knows the cell library,
//! [`sta`] the timing run, [`process`] child processes and [`tools`] which programs there are. [`power`] replays the
//! mapped netlists with the waves of a run. [`formal`] proves the properties of blocks. [`fpga`] places blocks on FPGAs.
//!
//! Left to others: the hardware itself (`ndp-hdl`), its parameters (`ndp-config`), placement, wires, clock tree
//! and the insides of memory macros (nobody here; the report says so).

#![cfg_attr(test, allow(clippy::unwrap_used))]

mod files;
pub mod flow;
pub mod formal;
pub mod fpga;
pub mod hierarchy;
pub mod liberty;
pub mod parse;
pub mod power;
pub mod process;
pub mod report;
pub mod script;
pub mod source;
pub mod sta;
pub mod tools;
