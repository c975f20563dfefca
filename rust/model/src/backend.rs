//! Operations of near-data hardware, behind a trait: a matrix times a batch of vectors, and operations built on it.
//!
//! The decoder passes linear layers and attention to a [`GemvBackend`]: [`SoftwareBackend`], or a co-simulation of the
//! RTL. A dot product is an exact sum rounded once, so all agree to the last bit.

use crate::matrix::same_length;
use ndp_files::{Result, bail, map_on_threads};
use std::ops::Range;
use std::thread::available_parallelism;

use ndp_config::WeightFormat;
use ndp_numerics::{Decoded, SerialSteps, dot_decoded, f16};

use crate::Matrix;
use crate::operations::{AttentionOp, LinearOp, RotaryOp, attend_by_heads};
use crate::quantised::{QuantisedMatrix, RowOf};

ndp_config::named! {
    /// Matrix of the decoder by which an operation multiplies.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum GemvClass {
        /// Query, key or value projection, `[q x d]` or `[k x d]`.
        Qkv = "qkv",
        /// Attention scores of one head: key cache `[positions x head_width]` times a query.
        Scores = "scores",
        /// Attention context of one head: transposed value cache `[head_width x positions]` times the probabilities.
        Context = "context",
        /// Output projection of the attention, `[d x q]`.
        Proj = "proj",
        /// First feed-forward layer, `[f x d]`; of a block with a gate it is the gate.
        Fc1 = "fc1",
        /// Factor of a gate, `[f x d]`: not needed where a ReLU has shut the gate.
        Up = "up",
        /// Second feed-forward layer, `[d x f]`; its activations are sparse after a ReLU.
        Fc2 = "fc2",
        /// Output head, `[V x d]`.
        Head = "head",
    }
}

/// `y[b, r] = dot(weights[r, :], activations[b, :])` for every row `r` and vector `b` of the batch; no bias. The
/// constructor checks lengths, so a backend may rely on them.
#[derive(Debug, Clone, Copy)]
pub struct GemvOp<'a> {
    label: &'a str,
    class: GemvClass,
    rows: usize,
    cols: usize,
    batch: usize,
    weights: &'a [f16],
    stored: Option<(RowOf, &'a QuantisedMatrix)>,
    activations: &'a [f16],
}

ndp_config::getters!(<'a> GemvOp<'a> {
    /// Place in the model, for messages and traces: `layers.2.fc1`, `layers.2.experts.5.fc1`, `layers.2.head.0.scores`, `lm_head`.
    label: &'a str,
    /// Underlying INT8 or INT4 weights, and the meaning of their rows in DRAM; `None` for FP16 weights.
    stored: Option<(RowOf, &'a QuantisedMatrix)>,
    /// Kind of matrix.
    class: GemvClass,
    /// Number of outputs per vector.
    rows: usize,
    /// Number of inputs per vector.
    cols: usize,
    /// Number of vectors.
    batch: usize,
    /// `[rows x cols]`, row-major; empty in a timing-only product.
    weights: &'a [f16],
    /// `[batch x cols]`, row-major.
    activations: &'a [f16],
});

impl<'a> GemvOp<'a> {
    /// `weights` is `[rows x cols]`, `activations` `[batch x cols]`, row-major. Fails unless all three are at least 1.
    pub fn new(
        label: &'a str,
        class: GemvClass,
        (rows, cols): (usize, usize),
        weights: &'a [f16],
        activations: &'a [f16],
    ) -> Result<Self> {
        let check = |part: &str, found, expected| same_length(|| format!("{label}: {part}"), found, expected);
        let expected = rows.saturating_mul(cols);
        check("weights", weights.len(), expected)?;
        check("weights", expected.min(1), 1)?;
        let batch = activations.len() / cols;
        check("activations", activations.len(), batch.max(1) * cols)?;
        Ok(Self { label, class, rows, cols, batch, weights, stored: None, activations })
    }

    /// Product of a matrix, with its quantised weights.
    pub fn of_matrix(
        label: &'a str,
        class: GemvClass,
        matrix: &'a Matrix,
        activations: &'a [f16],
    ) -> Result<Self> {
        let op = Self::new(label, class, (matrix.rows(), matrix.cols()), matrix.data(), activations)?;
        Ok(Self { stored: matrix.stored(), ..op })
    }

    /// A product without weights, for backends that only need sizes and zero inputs.
    pub fn timing_only(
        label: &'a str,
        class: GemvClass,
        (rows, cols): (usize, usize),
        activations: &'a [f16],
    ) -> Result<Self> {
        if rows * cols == 0 || activations.is_empty() || !activations.len().is_multiple_of(cols) {
            let expected = (activations.len() / cols.max(1)).max(1) * cols.max(1);
            let what = format!("{label}: activations");
            bail!("{what} has {} elements, expected {expected}", activations.len());
        }
        Ok(Self::unchecked(label, class, (rows, cols), &[], activations))
    }

    /// This product with other vectors.
    pub fn with_activations<'b>(&self, activations: &'b [f16]) -> Result<GemvOp<'b>>
    where
        'a: 'b,
    {
        let Self { label, class, rows, cols, weights, stored, .. } = *self;
        if weights.is_empty() {
            return GemvOp::timing_only(label, class, (rows, cols), activations);
        }
        Ok(GemvOp { stored, ..GemvOp::new(label, class, (rows, cols), weights, activations)? })
    }

    pub(crate) fn unchecked(
        label: &'a str,
        class: GemvClass,
        (rows, cols): (usize, usize),
        weights: &'a [f16],
        activations: &'a [f16],
    ) -> Self {
        Self { label, class, rows, cols, batch: activations.len() / cols, weights, stored: None, activations }
    }

    /// Format of the matrix in DRAM.
    pub fn format(&self) -> WeightFormat {
        self.stored.map_or(WeightFormat::Fp16, |(_, matrix)| matrix.format)
    }

    /// One row of the weights, `[cols]`. Panics if `row >= rows`, and in a timing-only product.
    pub fn weight_row(&self, row: usize) -> &'a [f16] {
        &self.weights[row * self.cols..(row + 1) * self.cols]
    }

    /// One vector of the batch, `[cols]`. Panics if `index >= batch`.
    pub fn activation(&self, index: usize) -> &'a [f16] {
        &self.activations[index * self.cols..(index + 1) * self.cols]
    }
}

/// Multiplies matrices by vectors as exact sums rounded once.
pub trait GemvBackend {
    /// Result `[batch x rows]`: element `b * rows + r` is `dot(weights[r, :], activations[b, :])`, for all FP16 values.
    fn gemv(&mut self, op: &GemvOp<'_>) -> Result<Vec<f16>>;

    /// A linear layer, `[batch x rows]`; by default [`Self::gemv`], and the rest in software.
    fn linear(&mut self, op: &LinearOp<'_>) -> Result<Vec<f16>> {
        let mut y = self.gemv(op.product())?;
        op.complete(&mut y);
        Ok(y)
    }

    /// The router has chosen these experts for each token of the batch. The layer then computes them in the order of their
    /// numbers.
    fn route(&mut self, chosen: &[Vec<usize>]) -> Result<()> {
        let _ = chosen;
        Ok(())
    }

    /// Rotary embedding of queries or keys, `[tokens x width]`; by default in software.
    fn rotate(&mut self, op: &RotaryOp<'_>) -> Result<Vec<f16>> {
        Ok(op.rotated())
    }

    /// Attention, `[tokens x width]`; by default products head by head, and softmax in software. A backend with its own
    /// caches adds the batch's keys and values to them; the operation's caches have them already.
    fn attend(&mut self, op: &AttentionOp<'_>) -> Result<Vec<f16>> {
        attend_by_heads(self, op)
    }

    /// Whether [`Self::attend`] computes scores with ALiBi. Otherwise the decoder refuses models that have it.
    fn has_alibi(&self) -> bool {
        false
    }
}

/// [`ndp_numerics`]'s dot product. Rows of a large product are computed on all processors; they do not depend on one another.
#[derive(Debug, Clone)]
pub struct SoftwareBackend {
    steps: SerialSteps,
    products: u64,
}

impl Default for SoftwareBackend {
    fn default() -> Self {
        Self::with_serial_steps(SerialSteps::FULL)
    }
}

impl SoftwareBackend {
    /// A backend with full significands.
    pub fn new() -> Self {
        Self::default()
    }

    /// Truncates weights (and keys and values) to `steps` significand bits, as [`ndp_numerics::dot_truncated`].
    pub fn with_serial_steps(steps: SerialSteps) -> Self {
        Self { steps, products: 0 }
    }

    /// Multiplications done so far.
    pub fn products(&self) -> u64 {
        self.products
    }
}

/// Fewest multiplications of a product on several threads: some milliseconds of work for each.
const FOR_THREADS: usize = 1 << 21;

/// Results of some rows, row by row, `[rows x batch]`.
fn products_of(
    op: &GemvOp<'_>,
    rows: Range<usize>,
    activations: &[Decoded<'_>],
    steps: SerialSteps,
) -> Vec<f16> {
    let mut result = Vec::with_capacity(rows.len() * activations.len());
    let (mut buffer, mut truncated) = (Vec::new(), Vec::new());
    for r in rows {
        let mut row = op.weight_row(r);
        if steps != SerialSteps::FULL {
            truncated.clear();
            truncated.extend(row.iter().map(|&w| steps.truncate(w)));
            row = &truncated;
        }
        if let [x] = activations {
            result.push(x.dot(row)); // nothing to share the decoded row with
            continue;
        }
        let row = Decoded::reuse(row, buffer);
        result.extend(activations.iter().map(|x| dot_decoded(&row, x)));
        buffer = row.into_buffer();
    }
    result
}

impl GemvBackend for SoftwareBackend {
    fn gemv(&mut self, op: &GemvOp<'_>) -> Result<Vec<f16>> {
        let (rows, batch, steps) = (op.rows(), op.batch(), self.steps);
        let activations: Vec<Decoded<'_>> = (0..batch).map(|b| Decoded::new(op.activation(b))).collect();
        let products = batch * rows * op.cols();
        let threads = match products {
            0..FOR_THREADS => 1,
            _ => available_parallelism().map_or(1, usize::from),
        };
        // Several parts for each thread: processors may be busy with other work.
        let parts = if threads == 1 { 1 } else { rows.min(4 * threads) };
        let of_part = |part| {
            let own = rows * part / parts..rows * (part + 1) / parts;
            products_of(op, own, &activations, steps)
        };
        let by_row = map_on_threads(threads, parts, of_part).concat();
        self.products += products as u64;
        if batch == 1 {
            return Ok(by_row);
        }
        let of_vector = |b: usize| by_row.iter().skip(b).step_by(batch).copied();
        Ok((0..batch).flat_map(of_vector).collect())
    }

    fn has_alibi(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndp_numerics::{SplitMix64, dot, dot_truncated};

    fn random(seed: u64, len: usize) -> Vec<f16> {
        let mut rng = SplitMix64::new(seed);
        (0..len).map(|_| f16::from_bits(rng.next_u64() as u16 & 0xBFFF)).collect()
    }

    #[test]
    fn the_result_is_batch_major_and_equals_single_dots() {
        let (rows, cols) = (5, 7);
        let mut w = random(1, rows * cols);
        w[9] = f16::from_bits(0x7C00); // row 1 is special
        let x = random(2, 3 * cols);
        for steps in [SerialSteps::FULL, SerialSteps::new(4).unwrap()] {
            for batch in 1..=3 {
                let op = GemvOp::new("t", GemvClass::Fc1, (rows, cols), &w, &x[..batch * cols]).unwrap();
                let mut backend = SoftwareBackend::with_serial_steps(steps);
                let y = backend.gemv(&op).unwrap();
                assert_eq!(backend.products(), (batch * rows * cols) as u64);
                assert_eq!(y.len(), batch * rows);
                for b in 0..batch {
                    for r in 0..rows {
                        let expected = dot_truncated(steps, op.weight_row(r), op.activation(b));
                        assert_eq!(y[b * rows + r].to_bits(), expected.to_bits());
                    }
                }
            }
        }
        // On several threads.
        let (rows, cols) = (1021, 301);
        let (w, x) = (random(5, rows * cols), random(6, 8 * cols));
        assert!(8 * rows * cols > FOR_THREADS);
        let op = GemvOp::new("t", GemvClass::Fc1, (rows, cols), &w, &x).unwrap();
        let y = SoftwareBackend::new().gemv(&op).unwrap();
        for (b, r) in (0..8).flat_map(|b| (0..rows).map(move |r| (b, r))) {
            let expected = dot(op.weight_row(r), op.activation(b));
            assert_eq!(y[b * rows + r].to_bits(), expected.to_bits(), "{b} {r}");
        }
        let (rows, cols) = (5, 7);
        let (w, x) = (&w[..rows * cols], &x[..cols]);
        assert_eq!(dot(&w[..cols], x).to_bits(), {
            let op = GemvOp::new("t", GemvClass::Head, (rows, cols), w, x).unwrap();
            SoftwareBackend::new().gemv(&op).unwrap()[0].to_bits()
        });
    }

    #[test]
    fn shapes_that_do_not_fit_are_refused() {
        let v = random(3, 12);
        let op =
            |shape, w, x| GemvOp::new("layers.0.fc1", GemvClass::Fc1, (shape, 4), w, x).map(|op| op.batch());
        assert_eq!(op(3, &v, &v).unwrap(), 3);
        for bad in [op(2, &v, &v), op(3, &v, &v[..6]), op(3, &v, &[]), op(0, &[], &v)] {
            assert!(ndp_files::said(&bad).contains(" elements, expected "));
        }
        assert!(GemvOp::new("t", GemvClass::Fc1, (3, 0), &[], &v).is_err());
        assert!(GemvOp::new("t", GemvClass::Fc1, (1, 0), &v[..1], &v).is_err());
    }

    #[test]
    fn the_trait_is_object_safe() {
        let v = random(4, 4);
        let backend: &mut dyn GemvBackend = &mut SoftwareBackend::new();
        let op = GemvOp::new("t", GemvClass::Proj, (1, 4), &v, &v).unwrap();
        assert_eq!(backend.gemv(&op).unwrap().len(), 1);
    }
}
