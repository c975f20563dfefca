//! The subcommands of `ndp` that simulate no RTL, as a user meets them: output, files, and wrong calls; and
//! the cache of models (`cache`).
#![allow(clippy::unwrap_used)]

#[cfg(feature = "rtl")]
mod cache;
#[cfg(feature = "rtl")]
mod cases;
#[path = "../../synth/tests/common/mod.rs"]
mod common;
mod compare;
#[cfg(feature = "rtl")]
mod evaluate;
#[cfg(feature = "rtl")]
mod evaluate_edges;
mod figures;
mod fpga;
mod names;
mod offload;
mod offload_edges;
mod pim_times_edges;
mod place;
mod place_edges;
#[cfg(feature = "rtl")]
mod placement_files;
mod power;
mod serve;
mod summary;
mod sweep;
mod synth;
mod synth_edges;
mod trace;
mod trace_edges;
