//! Tests of dynamic batch offloading.

#![allow(clippy::unwrap_used)]

mod closed_form;
mod energy;
mod exact;
mod timelines;
