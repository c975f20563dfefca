//! A rank of DRAM: its controller, its DFI port, its clock.

pub mod dfi;
pub mod rank_port;
pub mod ratios;
