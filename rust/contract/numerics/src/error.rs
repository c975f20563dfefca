//! The one error type of the crate: each variant carries the offending value and the limit it broke.

/// What an operation of the contract refuses.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NumericsError {
    /// The accumulator cannot hold even one product, or is wider than the model's integers.
    #[error("acc_bits = {acc_bits} must be {min}..={max}")]
    AccBits {
        /// The width asked for.
        acc_bits: u32,
        /// Smallest width that holds one product.
        min: u32,
        /// Largest width the software model carries.
        max: u32,
    },
    /// A sum whose form does not fit 128 bits.
    #[error("acc_bits = {acc_bits} in {segments} segments and the flags must be 1..={max} bits")]
    SumBits {
        /// Width of the value.
        acc_bits: u32,
        /// Segments of the accumulator.
        segments: u32,
        /// Most bits of the form.
        max: u32,
    },
    /// An exact sum left the range of its accumulator.
    #[error(
        "sum {sum} (units of 2^-48) does not fit an accumulator of {acc_bits} bits (wide_overflow = {wide_overflow})"
    )]
    AccumulatorOverflow {
        /// Width of the accumulator.
        acc_bits: u32,
        /// The sum in units of 2^-48; modulo 2^128 if `wide_overflow`.
        sum: i128,
        /// Whether the 128-bit integer of the model itself wrapped on the way.
        wide_overflow: bool,
    },
    /// Number of significand bits outside FP16's significand.
    #[error("serial_steps = {steps} must be 1..=11 (FP16's significand)")]
    SerialSteps {
        /// The number of steps asked for.
        steps: u32,
    },
    /// Operands that must have the same length have not.
    #[error("{operand} has {found} elements, expected {expected}")]
    LengthMismatch {
        /// Which operand.
        operand: &'static str,
        /// Its length.
        found: usize,
        /// The length of the first operand.
        expected: usize,
    },
    /// A vector of a length that the bounds of the contract do not cover.
    #[error("{operation} over {found} elements: must be {min}..={max}")]
    VectorLength {
        /// Which operation.
        operation: &'static str,
        /// The length found.
        found: usize,
        /// Shortest allowed.
        min: usize,
        /// Longest allowed.
        max: usize,
    },
    /// A rotary embedding that is not defined.
    #[error("rotary embedding of base {base} and width {width}: must be 2..=2^32 and even, 2..=4096")]
    Rotary {
        /// The base.
        base: u64,
        /// Elements of a head.
        width: usize,
    },
    /// A temperature outside the contract.
    #[error("temperature = {percent} percent must be 0 (greedy) or 1..=1000")]
    Temperature {
        /// The temperature in hundredths.
        percent: u32,
    },
    /// A logit that is NaN or infinite.
    #[error("logit {position} is not finite: {bits:#06x}; weights or activations of the model overflow FP16")]
    NonFiniteLogit {
        /// The first such position.
        position: usize,
        /// Its bit pattern.
        bits: u16,
    },
}
