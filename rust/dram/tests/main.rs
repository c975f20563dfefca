//! Tests of the DRAM devices.

#![allow(clippy::unwrap_used)]

mod bank_and_bus;
mod brute_force;
mod hbm_activity;
mod hbm_buses;
mod hbm_random;
mod hbm_states;
mod hbm_timing;
mod hbm_use;
mod random_traffic;
mod stream_bandwidth;
mod support;
mod timing_rules;
