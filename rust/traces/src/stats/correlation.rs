//! Correlation of neurons with the block before, on a sample.
//!
//! The most correlated neuron is the one in the block before with the greatest phi coefficient (Pearson's for two bits)
//! over the trace. The figure is the probability that a neuron is active if its most correlated one is: the mean over
//! the sample, weighted by activations. Neurons that are never or always active are left out.

use crate::{Activity, NeuronShape, ones};
use ndp_numerics::SplitMix64;

/// Blocks in the sample, evenly spread.
pub const SAMPLED_BLOCKS: usize = 8;
/// For each block, drawn at random.
pub const SAMPLED_NEURONS: usize = 128;

#[derive(Clone, Debug)]
struct Pair {
    /// The block before has the number less one.
    block: usize,
    neurons: Vec<u32>,
    /// Activations of the sample, and of the block before.
    active: Vec<u32>,
    before: Vec<u32>,
    /// `[sampled x before]`: tokens with both active.
    both: Vec<u32>,
}

#[derive(Clone, Debug)]
pub struct Correlation {
    pairs: Vec<Pair>,
    tokens: u32,
}

impl Correlation {
    pub fn new(shape: &NeuronShape) -> Self {
        let last = shape.blocks().len().saturating_sub(1);
        let count = last.min(SAMPLED_BLOCKS);
        let mut rng = SplitMix64::new(1);
        let pair = |k: usize| {
            let block = 1 + k * last / count;
            let width = shape.blocks()[block].neurons;
            let mut neurons: Vec<u32> = if width as usize <= SAMPLED_NEURONS {
                (0..width).collect()
            } else {
                (0..SAMPLED_NEURONS).map(|_| (rng.next_u64() % u64::from(width)) as u32).collect()
            };
            neurons.sort_unstable();
            neurons.dedup();
            let before = shape.blocks()[block - 1].neurons as usize;
            Pair {
                block,
                active: vec![0; neurons.len()],
                before: vec![0; before],
                both: vec![0; before * neurons.len()],
                neurons,
            }
        };
        Self { pairs: (0..count).map(pair).collect(), tokens: 0 }
    }

    pub fn add(&mut self, shape: &NeuronShape, activity: &Activity) {
        self.tokens += 1;
        for pair in &mut self.pairs {
            let before: Vec<u32> = ones(activity.block(shape, pair.block - 1)).collect();
            before.iter().for_each(|&neuron| pair.before[neuron as usize] += 1);
            let bits = activity.block(shape, pair.block);
            let rows = pair.both.chunks_mut(pair.before.len());
            for ((&neuron, active), row) in pair.neurons.iter().zip(&mut pair.active).zip(rows) {
                if bits[neuron as usize / 64] >> (neuron % 64) & 1 != 0 {
                    *active += 1;
                    before.iter().for_each(|&neuron| row[neuron as usize] += 1);
                }
            }
        }
    }

    /// The figure, and its number of neurons.
    pub fn figure(&self) -> (Option<f64>, usize) {
        let (mut sum, mut weight, mut neurons) = (0.0, 0.0, 0);
        for pair in &self.pairs {
            for (&active, row) in pair.active.iter().zip(pair.both.chunks(pair.before.len())) {
                let candidates = row.iter().zip(&pair.before);
                let best = candidates
                    .filter_map(|(&both, &before)| {
                        Some((phi(both, active, before, self.tokens)?, both, before))
                    })
                    .fold(None, |best: Option<(f64, u32, u32)>, other| match best {
                        Some(best) if best.0 >= other.0 => Some(best),
                        _ => Some(other),
                    });
                if let Some((_, both, before)) = best {
                    sum += f64::from(active) * f64::from(both) / f64::from(before);
                    weight += f64::from(active);
                    neurons += 1;
                }
            }
        }
        ((weight > 0.0).then(|| sum / weight), neurons)
    }
}

/// Correlation of two bits from counts; `None` if one never changed.
fn phi(both: u32, a: u32, b: u32, tokens: u32) -> Option<f64> {
    let [both, a, b, n] = [both, a, b, tokens].map(f64::from);
    let variance = a * (n - a) * b * (n - b);
    (variance > 0.0).then(|| (n * both - a * b) / variance.sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_correlated_neuron_is_found() {
        assert_eq!(phi(2, 2, 2, 4), Some(1.0));
        assert_eq!(phi(0, 2, 2, 4), Some(-1.0));
        assert_eq!((phi(1, 2, 2, 4), phi(4, 4, 2, 4)), (Some(0.0), None));
        let shape = NeuronShape::new(1, 3, 1);
        let mut correlation = Correlation::new(&shape);
        let mut activity = Activity::new(&shape);
        // Neuron 1 of the first block is active with the MLP's, and once without.
        for (before, after) in [(0b011, 1), (0b110, 1), (0b011, 0), (0b001, 0), (0b100, 0), (0b010, 1)] {
            activity.block_mut(&shape, 0)[0] = before;
            activity.block_mut(&shape, 1)[0] = after;
            correlation.add(&shape, &activity);
        }
        assert_eq!(correlation.figure(), (Some(0.75), 1));
    }
}
