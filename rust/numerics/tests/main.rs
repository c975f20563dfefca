//! Tests of the arithmetic against oracles that share no code with it.

#![allow(clippy::unwrap_used)]

mod activation_oracle;
mod exact_oracle;
mod ieee_oracle;
