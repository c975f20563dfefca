//! The numerics contract in software (`docs/numerics.md`): every operation of the decoder on FP16 (IEEE 754 binary16)
//! numbers, defined over integers, so that a result is a bit pattern and never "close". `ndp-model` calls it, and
//! checks of the RTL compare bits with it.
//!
//! Reading order: [`fp16`] (values), [`rounding`] (the one rounding), [`exact_sum`] and [`dot()`] (the exact
//! accumulator and its fast path), [`sum_format`] (its bits), [`quantised`] (weights of 8 and 4 bits); operations of
//! the activation unit: [`elementwise`], [`mod@exp`], [`softmax()`]; of the host: [`layer_norm()`], [`rms_norm()`],
//! [`rotary`], [`Alibi`], [`activations`], [`exp_q30()`], [`sampling`].
//!
//! It has no structure of the hardware (lanes, trees, latencies), and shares no code or table with the RTL generator: a
//! shared table would hide the errors that a comparison should find.
//!
//! `half::f16` only carries 16 bits; its arithmetic is not used.
#![deny(missing_docs)]
#![cfg_attr(test, allow(clippy::unwrap_used))]

pub mod activations;
mod alibi;
mod decimal;
pub mod dot;
pub mod elementwise;
pub mod exact_sum;
pub mod exp;
pub mod exp_q30;
pub mod fp16;
pub mod layer_norm;
pub mod quantised;
pub mod rms_norm;
pub mod rotary;
mod rotary_scaling;
pub mod rounding;
pub mod sampling;
mod soft_cap;
pub mod softmax;
mod special_flags;
pub mod sum_format;

pub use half::f16;

pub use activations::{gelu, gelu_tanh, silu};
pub use alibi::Alibi;
pub use decimal::Decimal;
pub use dot::{Decoded, SerialSteps, dot, dot_decoded, dot_truncated};
pub use elementwise::*;
pub use exact_sum::ExactSum;
pub use exp::exp;
pub use exp_q30::exp_q30;
pub use fp16::CANONICAL_NAN;
pub use layer_norm::{Epsilon, layer_norm};
pub use quantised::{QuantisedRow, SCALED, dequantise, quantise};
pub use rms_norm::rms_norm;
pub use rotary::{Rotary, Rotation};
pub use rotary_scaling::{RotaryScaling, YarnAttention};
pub use rounding::{rne_ratio, rne_rsqrt, rne_sqrt, round_f64, round_fixed, round_scaled};
pub use sampling::{Sampling, SplitMix64, sample};
pub use soft_cap::SoftCap;
pub use softmax::softmax;
pub use special_flags::SpecialFlags;
pub use sum_format::SumFormat;
