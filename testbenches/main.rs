//! Co-simulation tests, one module per block or system. One program, so that the models are linked once and the tests of all
//! of them share the cores of the machine; `cargo test --release --test testbenches rank_port::` runs those of one.

#[path = "../synth/tests/common/mod.rs"]
mod cells;
mod common;

mod activation_lane;
mod activation_sums;
mod attention;
mod backends;
mod cli;
mod clocks;
mod compile;
mod cycle_model;
mod dimm_link;
mod energy;
mod flash;
mod fp16_rounder;
mod full_width;
mod function_unit;
mod functions;
mod gemv_unit;
mod generate;
mod golden_vectors;
mod heads;
mod host_port;
mod layer;
mod link_formats;
mod link_rates;
mod linked_model;
mod linked_system;
mod low_rank;
mod merge;
mod migration;
mod multiplier_unit;
mod native;
mod ndp_core;
mod outlines;
mod parameters;
mod pim_channel;
mod pim_cli;
mod pim_controller;
mod pim_host;
mod place_scaler;
mod power;
mod properties;
mod quantised;
mod random_configs;
mod rank_port;
mod ratios;
mod replication;
mod rotary;
mod run;
mod select;
mod series;
mod system;
mod waves;
