//! Values of weights of 8 and 4 bits, and the nearest ones to FP16 numbers.

use half::f16;

use crate::elementwise::mul;
use crate::fp16;
use crate::rounding::rne_ratio;

/// Weights that share a scale.
pub const SCALED: usize = 32;

/// `RNE16(q * s)`: the FP16 weight that a multiplier sees. Special scales are as in [`mul`].
pub fn dequantise(q: i8, s: f16) -> f16 {
    // 8 bits are exact in FP16.
    mul(round_integer(q), s)
}

fn round_integer(q: i8) -> f16 {
    rne_ratio(i128::from(q), 1)
}

/// Numbers `-limit..=limit` and a scale for up to [`SCALED`] weights; `limit` is 7 (INT4) or 127 (INT8). The scale is
/// `RNE16(largest magnitude / limit)`, a number the nearest to `weight / scale`, ties to even. `None` for infinities
/// and NaN.
pub fn quantise(weights: &[f16], limit: i8) -> Option<(Vec<i8>, f16)> {
    let fixed: Vec<i64> = weights.iter().map(|weight| fp16::to_fixed(*weight)).collect::<Option<_>>()?;
    let largest = fixed.iter().map(|value| value.unsigned_abs()).max().unwrap_or(0);
    // `I(a) = a * 2^24`.
    let scale = rne_ratio(i128::from(largest), i128::from(limit) << fp16::FIXED_LSB);
    let unit = fp16::to_fixed(scale)?;
    let number = |value: &i64| {
        if unit == 0 {
            return 0;
        }
        let (quotient, rest) = (value.unsigned_abs() / unit as u64, value.unsigned_abs() % unit as u64);
        let up = 2 * rest > unit as u64 || 2 * rest == unit as u64 && quotient % 2 == 1;
        let magnitude = (quotient + u64::from(up)).min(limit as u64) as i8;
        if *value < 0 { -magnitude } else { magnitude }
    };
    Some((fixed.iter().map(number).collect(), scale))
}

/// A row of weights of 8 or 4 bits, as in DRAM.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct QuantisedRow {
    /// Unscaled weights.
    pub numbers: Vec<i8>,
    /// Factor of each [`SCALED`] of them.
    pub scales: Vec<f16>,
}

impl QuantisedRow {
    /// [`quantise`] of each [`SCALED`] weights; `None` for infinities and NaN.
    pub fn nearest(weights: &[f16], limit: i8) -> Option<Self> {
        let mut row = Self::default();
        for group in weights.chunks(SCALED) {
            let (numbers, scale) = quantise(group, limit)?;
            row.numbers.extend(numbers);
            row.scales.push(scale);
        }
        Some(row)
    }

    /// FP16 weights that the multipliers see.
    pub fn dequantised(&self) -> impl Iterator<Item = f16> {
        let scaled = self.numbers.chunks(SCALED).zip(&self.scales);
        scaled.flat_map(|(numbers, scale)| numbers.iter().map(|q| dequantise(*q, *scale)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_weight_is_the_product_rounded_once() {
        // 19 bits are exact in f32, and `half` rounds from there once.
        for bits in 0..=u16::MAX {
            let scale = f16::from_bits(bits);
            for q in i8::MIN..=i8::MAX {
                let (weight, product) = (dequantise(q, scale), f32::from(q) * scale.to_f32());
                if product.is_nan() {
                    assert_eq!(weight.to_bits(), fp16::CANONICAL_NAN.to_bits(), "{q} * {bits:#06x}");
                } else {
                    assert_eq!(weight.to_bits(), f16::from_f32(product).to_bits(), "{q} * {bits:#06x}");
                }
            }
        }
    }

    #[test]
    fn quantised_weights_are_the_nearest_ones() {
        let weights: Vec<f16> = [0.5, -0.25, 1.75, -1.75, 0.1, 0.0, -0.125].map(f16::from_f32).to_vec();
        let (numbers, scale) = quantise(&weights, 7).unwrap();
        assert_eq!((numbers, scale), (vec![2, -1, 7, -7, 0, 0, 0], f16::from_f32(0.25)));
        for limit in [7i8, 127] {
            let (numbers, scale) = quantise(&weights, limit).unwrap();
            for (weight, q) in weights.iter().zip(&numbers) {
                let error = |q: i8| (weight.to_f64() - f64::from(q) * scale.to_f64()).abs();
                assert!((-limit..=limit).contains(q));
                assert!((-limit..=limit).all(|other| error(*q) <= error(other)), "{weight}");
            }
        }
        assert_eq!(quantise(&[f16::from_bits(0); 3], 7), Some((vec![0; 3], f16::from_bits(0))));
        // The smallest number's seventh rounds to 0.
        assert_eq!(quantise(&[f16::from_bits(1)], 7), Some((vec![0], f16::from_bits(0))));
        assert_eq!(quantise(&[f16::INFINITY], 7), None);
    }
}
