//! The activation unit: its lanes, and its functions in a core.

pub mod activation_lane;
pub mod activation_sums;
pub mod functions;
pub mod rotary;
pub mod shared_exponential;
