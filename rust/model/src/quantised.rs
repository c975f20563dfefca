//! Matrices of INT8 and INT4 weights, made from FP16 weights, and their errors (docs/numerics.md).

use ndp_config::WeightFormat;
use ndp_files::{Result, bail, refusal};
use ndp_numerics::{QuantisedRow, SCALED, f16, fp16};
use serde::Serialize;

use crate::weights::{Layer, Model};
use crate::{GemvClass, Matrix};

/// A matrix of INT8 or INT4 weights.
#[derive(Debug, Clone, PartialEq)]
pub struct QuantisedMatrix {
    /// Format of all weights.
    pub format: WeightFormat,
    /// Rows in DRAM.
    pub rows: Vec<QuantisedRow>,
}

/// Meaning of a DRAM row of a matrix `[out x in]`; weights that share a scale are in one row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowOf {
    /// Weights of one output, for a product row by row (`dot`).
    Output,
    /// Weights of one input, for a product column by column (`axpy`).
    Input,
}

impl RowOf {
    /// Storage of a class of matrices on a machine with active neurons.
    pub fn of(class: GemvClass) -> Self {
        match class {
            GemvClass::Qkv | GemvClass::Fc2 => Self::Input,
            _ => Self::Output,
        }
    }
}

impl QuantisedMatrix {
    /// The matrix nearest to FP16 weights, `[rows x cols]`, scaled by the largest magnitude of each 32 weights of a
    /// row. Fails for infinities and NaN, and for FP16 as the format.
    pub fn nearest(what: &str, format: WeightFormat, values: &[f16], cols: usize) -> Result<Self> {
        let limit = match format {
            WeightFormat::Int4 => 7,
            WeightFormat::Int8 => 127,
            WeightFormat::Fp16 => {
                let (found, expected) = (format.name().to_owned(), "int8 or int4".to_owned());
                bail!("config: format of quantised weights = {found}, expected {expected}");
            }
        };
        let row = |row: &[f16]| {
            QuantisedRow::nearest(row, limit).ok_or_else(|| {
                refusal!(
                    "{what} has the weight {}, only finite weights can be quantised",
                    row.iter().find(|value| !value.is_finite()).copied().unwrap_or_default()
                )
            })
        };
        Ok(Self { format, rows: values.chunks(cols.max(1)).map(row).collect::<Result<_, _>>()? })
    }

    /// The numbers of weights `RNE16(q * s)`, with a scale for each 32 of a row.
    fn of_blocks(format: WeightFormat, values: &[f16], cols: usize, scales: &[f16]) -> Self {
        let number = |weight: f16, scale: f16| {
            if fp16::is_zero(scale) {
                // A zero with the other sign.
                return if weight.is_sign_negative() == scale.is_sign_negative() { 0 } else { -1 };
            }
            // Rounding moves a quotient of up to 128 by 2^-4 at most.
            (weight.to_f64_const() / scale.to_f64_const()).round() as i8
        };
        let rows = values.chunks(cols.max(1)).zip(scales.chunks(cols.div_ceil(SCALED).max(1)));
        let row = |(weights, scales): (&[f16], &[f16])| QuantisedRow {
            numbers: weights
                .chunks(SCALED)
                .zip(scales)
                .flat_map(|(group, scale)| group.iter().map(|weight| number(*weight, *scale)))
                .collect(),
            scales: scales.to_vec(),
        };
        Self { format, rows: rows.map(row).collect() }
    }

    /// The FP16 weights that the core multiplies, `[rows x cols]`.
    pub fn dequantised(&self) -> Vec<f16> {
        self.rows.iter().flat_map(QuantisedRow::dequantised).collect()
    }
}

/// Distances of quantised weights from the originals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct QuantisationError {
    /// Largest distance.
    pub largest: f64,
    /// Mean distance.
    pub mean: f64,
    /// `largest` over the largest weight.
    pub largest_share: f64,
    /// `mean` over the mean magnitude.
    pub mean_share: f64,
}

impl QuantisationError {
    /// From pairs of original and quantised weight.
    pub fn between(pairs: impl Iterator<Item = (f16, f16)>) -> Self {
        let (mut largest, mut sum, mut most, mut magnitudes, mut count) = (0.0f64, 0.0, 0.0f64, 0.0, 0u64);
        for (value, weight) in pairs {
            // `to_f64` asks for the processor's features at each call.
            let (value, weight) = (value.to_f64_const(), weight.to_f64_const());
            let (distance, magnitude) = ((value - weight).abs(), value.abs());
            (largest, most) = (largest.max(distance), most.max(magnitude));
            (sum, magnitudes, count) = (sum + distance, magnitudes + magnitude, count + 1);
        }
        let share = |part: f64, whole: f64| if whole > 0.0 { part / whole } else { 0.0 };
        Self {
            largest,
            mean: sum / count.max(1) as f64,
            largest_share: share(largest, most),
            mean_share: share(sum, magnitudes),
        }
    }
}

impl Layer {
    /// Format of its matrices.
    pub fn weights(&self) -> WeightFormat {
        self.q_proj.weight.stored().map_or(WeightFormat::Fp16, |(_, stored)| stored.format)
    }

    /// Quantises the matrices; FP16 changes nothing.
    pub fn quantised(&self, format: WeightFormat) -> Result<Self> {
        let mut layer = self.clone();
        for (class, linear) in layer.linears_mut() {
            linear.weight = linear.weight.quantised(format, RowOf::of(class))?;
        }
        Ok(layer)
    }
}

impl Model {
    /// Format of its layers' matrices.
    pub fn weights(&self) -> WeightFormat {
        self.layers.first().map_or(WeightFormat::Fp16, Layer::weights)
    }

    /// Quantises the layers' matrices, and returns the errors; `None` for FP16, which changes nothing.
    pub fn quantised(mut self, format: WeightFormat) -> Result<(Self, Option<QuantisationError>)> {
        if format == WeightFormat::Fp16 {
            return Ok((self, None));
        }
        let layers: Vec<Layer> =
            self.layers.iter().map(|layer| layer.quantised(format)).collect::<Result<_, _>>()?;
        let pairs = self.layers.iter().zip(&layers).flat_map(|(before, after)| {
            let matrices = before.linears().zip(after.linears());
            matrices.flat_map(|(a, b)| a.weight.data().iter().copied().zip(b.weight.data().iter().copied()))
        });
        let error = QuantisationError::between(pairs);
        self.layers = layers;
        Ok((self, Some(error)))
    }
}

impl Matrix {
    /// Quantises the matrix, with scales shared along rows in DRAM; FP16 changes nothing.
    pub fn quantised(&self, format: WeightFormat, row_of: RowOf) -> Result<Self> {
        if format == WeightFormat::Fp16 {
            return Ok(self.clone());
        }
        let (rows, cols) = (self.rows(), self.cols());
        let (stored, dequantised);
        match row_of {
            RowOf::Output => {
                stored = match self.blocks() {
                    Some((own, scales)) if own == format => {
                        QuantisedMatrix::of_blocks(format, self.data(), cols, scales)
                    }
                    _ => QuantisedMatrix::nearest("a matrix", format, self.data(), cols)?,
                };
                dequantised = stored.dequantised();
            }
            RowOf::Input => {
                let by_input = transposed(self.data(), cols);
                stored = QuantisedMatrix::nearest("a matrix", format, &by_input, rows)?;
                dequantised = transposed(&stored.dequantised(), rows);
            }
        }
        Ok(Self::of_quantised((rows, cols), dequantised, (row_of, stored)))
    }
}

/// Transposes a matrix with rows of `width`.
fn transposed(values: &[f16], width: usize) -> Vec<f16> {
    (0..width).flat_map(|column| values.iter().skip(column).step_by(width)).copied().collect()
}
