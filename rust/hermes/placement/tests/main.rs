//! Tests of the placement of neurons.

#![allow(clippy::unwrap_used)]

mod common;
mod optimum;
mod rules;
mod tiers;
