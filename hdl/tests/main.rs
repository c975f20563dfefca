//! Tests of the generator: accepted options, elaboration, and written files.

#![allow(clippy::unwrap_used)]

mod benches;
#[path = "../language/tests/common/mod.rs"]
mod common;
mod designs;
mod documents;
mod edges;
mod emitted;
mod folders;
mod gen_rtl;
mod icarus;
mod integration_page;
mod link_crc;
mod module_names;
mod multiplier_unit;
mod packages;
mod product_aligner;
