//! Tests of the placement of neurons.

mod common;
mod optimum;
mod rules;
mod tiers;
