//! Tests of dynamic batch offloading.

#![allow(clippy::unwrap_used)]

mod exact;
mod timelines;
