//! Multipliers, the combiner, rounders and functions at their ports.

pub mod combiner;
pub mod fp16_rounder;
pub mod function_unit;
pub mod multiplier_unit;
pub mod place_scaler;
