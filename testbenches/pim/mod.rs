//! HBM-PIM: channel, controller and host.

pub mod pim_channel;
pub mod pim_cli;
pub mod pim_controller;
pub mod pim_host;
pub mod pim_pair;
