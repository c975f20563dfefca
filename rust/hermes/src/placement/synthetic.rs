//! Seeded frequencies like a model's, to measure placement without a trace.
//!
//! Within a block frequency is a power of rank. The exponent follows from the share of neurons with 80 % of the
//! activity: 26 % in OPT-30B and 43 % in LLaMA2-70B with ReGLU (PowerInfer, section 3.1); Falcon counts as OPT. The cap
//! at 0.99 lowers this to about 65 %. Assumed, as neither paper says: 13 % of the neurons active on average, variation
//! between blocks, and noise on each neuron. `ndp_traces` fits the papers better, and takes longer.
//!
//! A model without ReLU has no inactive neurons: all its frequencies are 1.

use ndp_config::LlmShape;
use ndp_numerics::SplitMix64;
use ndp_traces::NeuronShape;

const MEAN: f64 = 0.13;

const MOST: f64 = 0.99;

/// By block.
pub fn synthetic_frequencies(model: &LlmShape, seed: u64) -> Vec<Vec<f32>> {
    let hot_share: f64 = if model.mlp_matrices() == 3 { 0.43 } else { 0.26 };
    let mut rng = SplitMix64::new(seed);
    let shape = NeuronShape::of(model);
    let blocks = shape.blocks().iter().map(|block| block.neurons as usize);
    if model.is_dense() {
        return blocks.map(|neurons| vec![1.0; neurons]).collect();
    }
    blocks.map(|neurons| block_frequencies(neurons, hot_share, &mut rng)).collect()
}

/// In 0..1.
fn uniform(rng: &mut SplitMix64) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

fn block_frequencies(neurons: usize, hot_share: f64, rng: &mut SplitMix64) -> Vec<f32> {
    let share = hot_share * (0.8 + 0.4 * uniform(rng));
    let mean = MEAN * (0.6 + 0.8 * uniform(rng));
    // The hottest `share` of ranks have share^(1 - exponent) of the sum.
    let exponent = 1.0 - 0.8f64.ln() / share.ln();
    let mut powers: Vec<f64> = (0..neurons).map(|rank| (rank as f64 + 1.0).powf(-exponent)).collect();
    for power in &mut powers {
        *power *= 0.8 + 0.4 * uniform(rng);
    }
    for i in (1..neurons).rev() {
        powers.swap(i, (rng.next_u64() % (i as u64 + 1)) as usize);
    }
    // Bisects the factor that gives the mean despite the cap.
    let sum = |factor: f64| powers.iter().map(|power| (factor * power).min(MOST)).sum::<f64>();
    let (mut low, mut high) = (0.0, neurons as f64);
    for _ in 0..30 {
        let middle = 0.5 * (low + high);
        if sum(middle) < mean * neurons as f64 { low = middle } else { high = middle }
    }
    powers.iter().map(|power| (low * power).min(MOST) as f32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hot_share_has_most_of_the_activity() {
        let model = LlmShape::opt_like("opt-like", 16, 2048, 16, 8192, 1000).unwrap();
        let (mut hot, mut all, mut neurons) = (0.0, 0.0, 0.0);
        for mut block in synthetic_frequencies(&model, 7) {
            block.sort_by(|a, b| b.total_cmp(a));
            let sum = |part: &[f32]| part.iter().map(|&f| f64::from(f)).sum::<f64>();
            hot += sum(&block[..block.len() * 26 / 100]);
            all += sum(&block);
            neurons += block.len() as f64;
            assert!(block.iter().all(|f| (0.0..=1.0).contains(f)));
        }
        assert!((0.60..0.70).contains(&(hot / all)), "{}", hot / all);
        assert!((0.10..0.16).contains(&(all / neurons)), "{}", all / neurons);
    }

    #[test]
    fn a_model_without_relu_has_no_inactive_neurons() {
        let frequencies = synthetic_frequencies(&LlmShape::preset("qwen1.5-4b").unwrap(), 7);
        assert!(frequencies.len() == 80 && frequencies.iter().flatten().all(|&f| f == 1.0));
    }

    #[test]
    fn a_seed_gives_the_same_frequencies_again() {
        let model = LlmShape::opt_like("opt-like", 2, 64, 4, 256, 100).unwrap();
        assert_eq!(synthetic_frequencies(&model, 7), synthetic_frequencies(&model, 7));
        assert_ne!(synthetic_frequencies(&model, 7), synthetic_frequencies(&model, 8));
    }
}
