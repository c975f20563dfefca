//! DIMM-links, and cores that move data over them.

pub mod dimm_link;
pub mod link_formats;
pub mod link_rates;
pub mod link_switch;
pub mod linked_model;
pub mod migration;
