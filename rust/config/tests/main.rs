//! Tests of configurations: presets, limits, derived values, refusals.

#![allow(clippy::unwrap_used)]

mod hbm;
mod layout;
mod presets;
mod refusals;
mod speed;
