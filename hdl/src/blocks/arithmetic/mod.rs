//! Units that compute: FP16 products, their exact sums, the rounding of sums, and FP16 arithmetic of the activation unit.
//!
//! Reading order: [`number_format`], [`operand_recoder`], [`weight_scaler`] and [`place_scaler`] (quantised weights),
//! [`serial_lane`] and [`digit_serial_lane`], [`product_aligner`], [`multiplier_unit`]; then a sum passes
//! [`reduction_tree`], [`row_accumulator`], [`combiner`] and [`fp16_rounder`]. Kept sums leave by [`sum_reader`] (for
//! rounding) or [`sum_resolver`] (for an export). With results in FP16: [`exponential`], [`fp16_adder`],
//! [`fp16_multiplier`] and, after all of them, [`fp16_packer`]; [`function_unit`] with its tables.

pub mod combiner;
pub mod digit_serial_lane;
pub mod exponential;
pub mod fp16_adder;
pub mod fp16_multiplier;
pub mod fp16_packer;
pub mod fp16_rounder;
mod function_tables;
pub mod function_unit;
pub mod multiplier_unit;
pub mod number_format;
pub mod operand_recoder;
pub mod place_scaler;
pub mod product_aligner;
pub mod reduction_tree;
pub mod row_accumulator;
pub mod serial_lane;
pub mod sum_reader;
pub mod sum_resolver;
pub mod weight_scaler;

/// Names of this folder and of `common` for blocks of later folders.
pub(crate) mod prelude {
    pub(crate) use super::combiner::{SumDigit, SumTake, combiner};
    pub(crate) use super::exponential::{ARGUMENT_BITS, Scaled, exponential};
    pub(crate) use super::fp16_adder::fp16_adder;
    pub(crate) use super::fp16_multiplier::{RECIPROCAL_BITS, fp16_multiplier};
    pub(crate) use super::fp16_packer::{MAGNITUDE_BITS, Way, fp16_packer};
    pub(crate) use super::fp16_rounder::{fp16_rounder, rounder};
    pub(crate) use super::function_unit::function_unit;
    pub(crate) use super::multiplier_unit::{
        Moves, decode, digit_phase, multiplier_name, multiplier_suffix, multiplier_unit, sum_bits,
    };
    pub(crate) use super::number_format::{
        ACC_LSB_EXPONENT, EXPONENT_SUM_BITS, FLAG_BITS, FP16_BITS, KeptDigit, SIGNIFICAND_BITS, Strobes,
    };
    pub(crate) use super::operand_recoder::{operand_recoder, recoded, restored};
    pub(crate) use super::place_scaler::place_scaler;
    pub(crate) use super::product_aligner::FINE_SHIFT_BITS;
    pub(crate) use super::reduction_tree::tapped_tree;
    pub(crate) use super::row_accumulator::row_accumulator;
    pub(crate) use super::sum_reader::sum_reader;
    pub(crate) use super::sum_resolver::sum_resolver;
    pub(crate) use crate::blocks::common::prelude::*;
}
