//! The blocks between the host and the units.

pub mod axi;
pub mod host_port;
pub mod issue;
pub mod monitor;
