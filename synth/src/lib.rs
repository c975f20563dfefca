//! Area, delay and power of the generated hardware.
//!
//! Downstream of `ndp-hdl`: gives every distinct module once to Yosys (its children as black boxes), multiplies the
//! results by the instance counts and writes a report. With a Liberty file the figures are um2 and ps, else generic
//! gates and estimated transistors. OpenSTA times the mapped netlists on request.
//!
//! Reading order: [`source`] (the design), [`script`] (Yosys' commands), [`flow`] (the runs), [`parse`] (the tools'
//! output), [`hierarchy`] (sums), [`report`] (words). [`liberty`] reads the cell library, [`sta`] is the timing run,
//! [`process`] runs children, [`tools`] finds programs. [`power`] replays netlists with waves. [`formal`] proves
//! properties. [`fpga`] places blocks on FPGAs.
//!
//! Left out: placement, wires, clock tree and the insides of memory macros; the report says so.

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
