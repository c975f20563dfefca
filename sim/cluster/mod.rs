//! Several cores on links: each core with its DRAM and its host, and the links between them.
//!
//! [`lockstep`] runs cores on one cable or around a bridge, on several threads; [`prediction`] is their cycle model.

pub mod lockstep;
pub mod prediction;
