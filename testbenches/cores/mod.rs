//! The NDP core as a whole.

pub mod attention;
pub mod backends;
pub mod cycle_model;
pub mod full_width;
pub mod layer;
pub mod ndp_core;
pub mod random_configs;
