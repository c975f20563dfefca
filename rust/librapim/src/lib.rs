//! Host and policies of an HBM channel whose banks compute (LibraPIM).
//!
//! [`host`] generates texts clock by clock, [`offloading`] decides what of a batch moves to the other device, and what a step takes.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod host;
pub mod offloading;
