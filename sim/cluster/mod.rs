//! Several cores on links: each core with its DRAM and its host, and the links between them.
//!
//! [`lockstep`] runs cores on one cable or around a bridge, on several threads; [`prediction`] is the cycle model of all of them.

pub mod lockstep;
pub mod prediction;
