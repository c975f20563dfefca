//! Matrices of quantised weights: what becomes of FP16 weights, and how far off that is.

use crate::error::SimError;
use ndp_config::WeightFormat;
use ndp_layout::QuantisedRow;
use ndp_numerics::{SCALED, dequantise, f16, quantise};
use serde::Serialize;

/// A matrix of INT8 or INT4 weights.
#[derive(Clone, Debug)]
pub struct QuantisedMatrix {
    /// Its format.
    pub weights: WeightFormat,
    /// Its rows.
    pub rows: Vec<QuantisedRow>,
}

/// How far quantised weights are from those that they stand for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct QuantisationError {
    /// The largest distance.
    pub largest: f64,
    /// The mean of all distances.
    pub mean: f64,
    /// The same as shares of the largest weight and of the mean magnitude of all.
    pub largest_share: f64,
    /// See there.
    pub mean_share: f64,
}

impl QuantisedMatrix {
    /// The matrix nearest to FP16 weights, `[rows x cols]`: by the largest magnitude of each 32 weights of a row.
    ///
    /// # Errors
    /// [`SimError::Range`] for FP16 as the format, or weights that are not finite.
    pub fn nearest(weights: WeightFormat, values: &[f16], cols: usize) -> Result<Self, SimError> {
        let limit = match weights {
            WeightFormat::Int4 => 7,
            WeightFormat::Int8 => 127,
            WeightFormat::Fp16 => {
                return Err(SimError::Range { key: "bits of quantised weights", value: 16, min: 4, max: 8 });
            }
        };
        let infinite = |at: usize| {
            let value =
                values[at..].iter().find(|value| !value.is_finite()).map_or(0, |value| value.to_bits());
            let key = "bits of a weight to quantise, as FP16";
            SimError::Range { key, value: value.into(), min: 0, max: 0x7BFF }
        };
        let mut rows = Vec::new();
        for (k, row) in values.chunks(cols.max(1)).enumerate() {
            let mut quantised = QuantisedRow::default();
            for place in row.chunks(SCALED) {
                let (numbers, scale) = quantise(place, limit).ok_or_else(|| infinite(k * cols))?;
                quantised.numbers.extend(numbers);
                quantised.scales.push(scale);
            }
            rows.push(quantised);
        }
        Ok(Self { weights, rows })
    }

    /// The FP16 weights that the core multiplies with, `[rows x cols]`.
    pub fn dequantised(&self) -> Vec<f16> {
        let row = |row: &QuantisedRow| -> Vec<f16> {
            let scaled = row.numbers.chunks(SCALED).zip(&row.scales);
            scaled.flat_map(|(numbers, scale)| numbers.iter().map(|q| dequantise(*q, *scale))).collect()
        };
        self.rows.iter().flat_map(row).collect()
    }

    /// How far they are from the weights that they stand for.
    pub fn error(&self, values: &[f16]) -> QuantisationError {
        let (mut error, mut most, mut sum) = (QuantisationError::default(), 0.0f64, 0.0);
        for (value, weight) in values.iter().zip(self.dequantised()) {
            let distance = (value.to_f64() - weight.to_f64()).abs();
            error.largest = error.largest.max(distance);
            error.mean += distance;
            most = most.max(value.to_f64().abs());
            sum += value.to_f64().abs();
        }
        let share = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
        error.largest_share = share(error.largest, most);
        error.mean_share = share(error.mean, sum);
        error.mean /= values.len().max(1) as f64;
        error
    }
}
