//! The program `ndp` where it simulates RTL.

pub mod cli;
pub mod compile;
pub mod run;
