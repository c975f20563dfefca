//! Several cores on links: each core with its DRAM and its host, and the links between them.
//!
//! [`cores`] steps whole cores on one cable or around a bridge in lockstep; [`lockstep`] does so with several threads; [`prediction`] is
//! the cycle model of all of them.

pub mod cores;
pub mod lockstep;
pub mod prediction;
