//! Host and policies of an HBM channel whose banks compute (LibraPIM).
//!
//! [`host`] generates texts clock by clock; [`offloading`] decides what moves to the other device, and times a step.

#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod host;
pub mod offloading;
