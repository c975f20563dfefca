//! Tests of dynamic batch offloading.

#![allow(clippy::unwrap_used)]

mod energy;
mod exact;
mod timelines;
