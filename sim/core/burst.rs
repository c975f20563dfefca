//! The unit in which DRAM is read and written: 64 bytes.

pub type Burst = [u64; 8];
