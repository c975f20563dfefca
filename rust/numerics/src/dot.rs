//! The fast dot product: operands decoded to integers, products summed in an `i128`.
//!
//! A test shows the bits of [`crate::ExactSum`] over the same pairs. Operands that are decoded once ([`Decoded`]) make
//! checks of hundreds of millions of products affordable; no vector extension is assumed.

use half::f16;
use ndp_files::{Result, refusal};

use crate::fp16::{SIGNIFICAND_BITS, any_special, fixed_of_finite, is_finite};
use crate::rounding::round_fixed;
use crate::special_flags::SpecialFlags;

/// Leading significand bits of a weight in a bit-serial multiplication: 1..=11.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SerialSteps(u32);

impl SerialSteps {
    /// Nothing is truncated.
    pub const FULL: Self = Self(SIGNIFICAND_BITS);

    /// Fails unless `steps` is 1..=11.
    pub fn new(steps: u32) -> Result<Self> {
        if (1..=SIGNIFICAND_BITS).contains(&steps) {
            Ok(Self(steps))
        } else {
            Err(refusal!("serial_steps = {steps} must be 1..=11 (FP16's significand)"))
        }
    }

    /// The number of steps.
    pub fn get(self) -> u32 {
        self.0
    }

    /// The weight as the multiplier sees it: significand bits after the leading `steps` cleared.
    ///
    /// The significand is the hidden bit (0 for subnormals) and ten fraction bits, so a subnormal may become a zero of
    /// its sign. NaN and infinities stay.
    pub fn truncate(self, weight: f16) -> f16 {
        if is_finite(weight) {
            f16::from_bits(weight.to_bits() & (u16::MAX << (SIGNIFICAND_BITS - self.0)))
        } else {
            weight
        }
    }
}

/// A vector decoded for many dot products: each element's exact integer `a * 2^24`, 8 bytes per element beside the
/// borrowed FP16 values (for vectors with special values).
#[derive(Debug, Clone)]
pub struct Decoded<'a> {
    values: &'a [f16],
    fixed: Vec<i64>,
    special: bool,
}

impl<'a> Decoded<'a> {
    /// Decodes `values`.
    pub fn new(values: &'a [f16]) -> Self {
        Self::reuse(values, Vec::new())
    }

    /// [`Decoded::new`] in the memory of `buffer` (see [`Decoded::into_buffer`]).
    pub fn reuse(values: &'a [f16], mut buffer: Vec<i64>) -> Self {
        buffer.clear();
        buffer.extend(values.iter().map(|a| fixed_of_finite(a.to_bits())));
        Self { values, fixed: buffer, special: any_special(values) }
    }

    /// Memory for the next [`Decoded::reuse`].
    pub fn into_buffer(self) -> Vec<i64> {
        self.fixed
    }

    /// Number of elements.
    pub fn len(&self) -> usize {
        self.fixed.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.fixed.is_empty()
    }

    /// `dot(w, self)`, bit for bit [`dot`]. Panics if the lengths differ.
    pub fn dot(&self, w: &[f16]) -> f16 {
        assert_eq!(w.len(), self.len(), "operands of a dot product");
        if self.special || any_special(w) {
            return dot_with_specials(w, self.values);
        }
        let products = w.iter().zip(&self.fixed);
        let sum = products.fold(0i128, |sum, (w, &x)| sum + product(fixed_of_finite(w.to_bits()), x));
        round_fixed(sum, SpecialFlags::default())
    }
}

/// Exact product of two decoded numbers in units of 2^-48: 64 x 64 -> 128 bits, below 2^80 in magnitude.
///
/// A slice has fewer than 2^47 two-byte elements, so an `i128` holds every sum of products without checks.
#[inline]
fn product(w: i64, x: i64) -> i128 {
    i128::from(w) * i128::from(x)
}

/// `RNE16(sum_k w[k] * x[k])` with an exact sum; both `[n]`, an empty sum is +0. NaN if an operand is NaN, an infinity
/// meets a zero, or products of both infinities occur; else the infinity that occurs.
///
/// # Panics
/// If the lengths differ.
pub fn dot(w: &[f16], x: &[f16]) -> f16 {
    assert_eq!(w.len(), x.len(), "operands of a dot product");
    if any_special(w) || any_special(x) {
        return dot_with_specials(w, x);
    }
    let sum = w
        .iter()
        .zip(x)
        .fold(0i128, |sum, (w, x)| sum + product(fixed_of_finite(w.to_bits()), fixed_of_finite(x.to_bits())));
    round_fixed(sum, SpecialFlags::default())
}

/// [`dot`] of two decoded operands: the fastest form. Panics if the lengths differ.
pub fn dot_decoded(w: &Decoded<'_>, x: &Decoded<'_>) -> f16 {
    assert_eq!(w.len(), x.len(), "operands of a dot product");
    if w.special || x.special {
        return dot_with_specials(w.values, x.values);
    }
    let products = w.fixed.iter().zip(&x.fixed);
    let sum = products.fold(0i128, |sum, (&w, &x)| sum + product(w, x));
    round_fixed(sum, SpecialFlags::default())
}

/// [`dot`] of weights truncated to `steps` leading significand bits. Truncation replaces the weight in every respect:
/// if it becomes zero, times an infinity is NaN. Panics if the lengths differ.
pub fn dot_truncated(steps: SerialSteps, w: &[f16], x: &[f16]) -> f16 {
    if steps == SerialSteps::FULL {
        return dot(w, x);
    }
    let truncated: Vec<f16> = w.iter().map(|&w| steps.truncate(w)).collect();
    dot(&truncated, x)
}

/// With a NaN or infinite operand, whose product sets a flag, the sum cannot matter.
fn dot_with_specials(w: &[f16], x: &[f16]) -> f16 {
    let flags = w
        .iter()
        .zip(x)
        .fold(SpecialFlags::default(), |flags, (&w, &x)| flags.merge(SpecialFlags::of_product(w, x)));
    round_fixed(0, flags)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn serial_steps_outside_the_significand_are_refused() {
        for steps in [0, 12] {
            let text = format!("serial_steps = {steps} must be 1..=11 (FP16's significand)");
            assert_eq!(ndp_files::said(&SerialSteps::new(steps)), text);
        }
        assert_eq!(SerialSteps::new(11).unwrap(), SerialSteps::FULL);
        assert_eq!(SerialSteps::new(4).unwrap().get(), 4);
    }

    #[test]
    fn truncation_keeps_the_leading_bits_of_the_significand() {
        let cut = |steps, bits| {
            let steps = SerialSteps::new(steps).unwrap();
            steps.truncate(f16::from_bits(bits)).to_bits()
        };
        assert_eq!(cut(11, 0x3FFF), 0x3FFF);
        assert_eq!(cut(10, 0x3FFF), 0x3FFE);
        assert_eq!(cut(4, 0xBFFF), 0xBF80); // 1.111 is left
        assert_eq!(cut(1, 0x3FFF), 0x3C00); // the hidden bit is left
        assert_eq!(cut(1, 0x83FF), 0x8000); // a subnormal has no hidden bit
        assert_eq!(cut(2, 0x03FF), 0x0200);
        assert_eq!(cut(1, 0x7C01), 0x7C01); // a NaN stays a NaN
        assert_eq!(cut(1, 0xFC00), 0xFC00);
    }

    #[test]
    fn truncated_dot_truncates_weights_only() {
        let (w, x) = ([f16::from_bits(0x3FFF)], [f16::from_bits(0x3FFF)]);
        let steps = SerialSteps::new(1).unwrap();
        assert_eq!(dot_truncated(steps, &w, &x).to_bits(), 0x3FFF);
        assert_eq!(dot_truncated(SerialSteps::FULL, &w, &x), dot(&w, &x));
        let (tiny, inf) = ([f16::from_bits(0x0001)], [f16::from_bits(0x7C00)]);
        assert_eq!(dot(&tiny, &inf).to_bits(), 0x7C00);
        assert_eq!(dot_truncated(steps, &tiny, &inf).to_bits(), 0x7E00);
    }

    #[test]
    #[should_panic(expected = "operands of a dot product")]
    fn lengths_must_agree() {
        dot(&[f16::from_bits(0)], &[]);
    }
}
