//! Tests of dynamic batch offloading.

mod closed_form;
mod energy;
mod exact;
mod timelines;
