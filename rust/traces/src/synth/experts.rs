//! Synthetic traces of mixtures of experts: a router that draws each token's experts, layer by layer.
//!
//! Each expert has a popularity in each layer, which a text changes by factors of its own. A token keeps each expert of the token
//! before with a fixed chance and draws the others, without the same one twice. All neurons of a drawn expert are active, and so
//! are all inputs of attention.

use crate::format::TokenInfo;
use crate::synth::{SynthOptions, stream};
use crate::{Activity, NeuronShape};
use ndp_config::{BlockKind, LlmShape};
use ndp_files::{Result, ensure};
use ndp_numerics::SplitMix64;

/// Chance of an expert to stay for the next token; our choice. With two of eight equally popular experts, 62 % of the tokens
/// then share one with the token before, and 46 % without it. Mixtral's paper (arXiv 2401.04088) reports repetitions of experts in
/// table 5, which this value has not been checked against.
const STAYS: f64 = 0.16;

/// Popularity of a layer's most popular expert over its least popular one, and the largest factor of a text. Our choice: training
/// balances experts over many texts, so both are small.
const SPREAD: f64 = 2.0;

/// Generates tokens one by one.
#[derive(Clone, Debug)]
pub struct ExpertSynthesizer {
    options: SynthOptions,
    shape: NeuronShape,
    /// Neurons of an expert.
    width: u32,
    /// Experts of a token.
    used: usize,
    /// By layer and expert.
    popularity: Vec<Vec<f64>>,
    /// Popularity in the current text.
    of_text: Vec<Vec<f64>>,
    /// Experts of the last token, by layer.
    chosen: Vec<Vec<usize>>,
    sequence: u64,
    position: u64,
}

/// In 0..1.
fn uniform(rng: &mut SplitMix64) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

impl ExpertSynthesizer {
    /// Draws the popularity of the experts. Fails for targets of neurons, which experts do not have, and for a ReLU.
    pub fn new(model: &LlmShape, options: SynthOptions) -> Result<Self> {
        ensure!(
            model.activation() != ndp_config::Activation::Relu,
            "activation = relu: a trace of experts has all neurons of an expert; expected silu or gelu"
        );
        ensure!(
            options.targets.is_none() && options.cluster <= 1,
            "a density or a cluster of neurons is given, but {} has experts, whose neurons are active together: give neither",
            model.name()
        );
        let of_layer = |layer: u32| {
            let mut rng = stream(options.seed, 4, layer.into(), 0, 0);
            (0..model.experts()).map(|_| SPREAD.powf(uniform(&mut rng))).collect::<Vec<_>>()
        };
        let popularity: Vec<Vec<f64>> = (0..model.layers()).map(of_layer).collect();
        Ok(Self {
            shape: NeuronShape::of(model),
            width: model.ffn(),
            used: model.experts_per_token() as usize,
            of_text: popularity.clone(),
            chosen: vec![Vec::new(); popularity.len()],
            popularity,
            sequence: options.first_sequence,
            position: 0,
            options,
        })
    }

    /// The blocks of every token.
    pub fn shape(&self) -> &NeuronShape {
        &self.shape
    }

    /// Overwrites `activity` with the next token's.
    pub fn next(&mut self, activity: &mut Activity) -> TokenInfo {
        let SynthOptions { seed, prompt_tokens, sequence_tokens, .. } = self.options;
        *activity = Activity::new(&self.shape);
        for layer in 0..self.chosen.len() {
            if self.position == 0 {
                let mut rng = stream(seed, 5, self.sequence, layer as u64, 0);
                let changed = |popularity: &f64| popularity * SPREAD.powf(uniform(&mut rng));
                self.of_text[layer] = self.popularity[layer].iter().map(changed).collect();
                self.chosen[layer].clear();
            }
            let mut rng = stream(seed, 6, self.sequence, layer as u64, self.position);
            let chosen = &mut self.chosen[layer];
            chosen.retain(|_| uniform(&mut rng) < STAYS);
            while chosen.len() < self.used {
                let expert = draw(&self.of_text[layer], chosen, uniform(&mut rng));
                chosen.push(expert);
            }
            activity.fill(&self.shape, BlockKind::Attention.block(layer as u32));
            let bits = activity.block_mut(&self.shape, BlockKind::Mlp.block(layer as u32));
            for expert in chosen {
                let first = *expert * self.width as usize;
                (first..first + self.width as usize).for_each(|n| bits[n / 64] |= 1 << (n % 64));
            }
        }
        let info = TokenInfo::at(self.position, prompt_tokens);
        self.position += 1;
        if self.position >= sequence_tokens {
            (self.position, self.sequence) = (0, self.sequence.wrapping_add(1));
        }
        info
    }
}

/// An expert that is not `taken`, by its weight; `random` in 0..1 decides.
fn draw(weights: &[f64], taken: &[usize], random: f64) -> usize {
    let free = || (0..weights.len()).filter(move |expert| !taken.contains(expert));
    let mut left = random * free().map(|expert| weights[expert]).sum::<f64>();
    let passed = |expert: &usize| {
        left -= weights[*expert];
        left < 0.0
    };
    // Rounding may leave a rest after the last one.
    free().find(passed).or(free().last()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ones;

    fn mixtral() -> LlmShape {
        let shape = LlmShape::opt_like("mixture", 3, 64, 4, 70, 256).unwrap();
        let family = ndp_config::LlmFamily {
            kv_heads: 2,
            head_width: None,
            gated: true,
            activation: ndp_config::Activation::Silu,
            biased: false,
            tied_embeddings: false,
            rotary: true,
        };
        shape.of_family(family).unwrap().of_experts([8, 2]).unwrap()
    }

    fn experts(token: &Activity, shape: &NeuronShape, layer: u32) -> Vec<u32> {
        let active: Vec<u32> = ones(token.block(shape, BlockKind::Mlp.block(layer))).collect();
        let mut numbers: Vec<u32> = active.iter().map(|n| n / 70).collect();
        numbers.dedup();
        assert_eq!(active.len(), 70 * numbers.len(), "experts are whole");
        numbers
    }

    #[test]
    fn tokens_have_whole_experts_and_share_them_as_published() {
        let mut synthesizer = ExpertSynthesizer::new(&mixtral(), SynthOptions::default()).unwrap();
        let shape = synthesizer.shape().clone();
        let mut activity = Activity::default();
        let mut last: Vec<Vec<u32>> = Vec::new();
        let (mut shared, mut counts, tokens) = (0, [0; 8], 3000);
        for token in 0..tokens {
            let info = synthesizer.next(&mut activity);
            assert_eq!(info, TokenInfo::at(token, 128));
            let now: Vec<_> = (0..3).map(|layer| experts(&activity, &shape, layer)).collect();
            assert!(now.iter().all(|own| own.len() == 2));
            assert_eq!(activity.block(&shape, 0), [u64::MAX]);
            let both = now.iter().zip(&last).filter(|(now, last)| now.iter().any(|e| last.contains(e)));
            shared += both.count();
            now[0].iter().for_each(|expert| counts[*expert as usize] += 1);
            last = now;
        }
        let share = shared as f64 / (3 * tokens) as f64;
        assert!((0.60..0.68).contains(&share), "{share}");
        let (most, least) = (counts.iter().max().unwrap(), counts.iter().min().unwrap());
        assert!(*least > 0 && *most < 5 * *least, "{counts:?}");
    }

    #[test]
    fn texts_of_a_seed_are_the_same_and_others_differ() {
        let tokens = |seed, first_sequence| {
            let options =
                SynthOptions { seed, first_sequence, sequence_tokens: 5, ..SynthOptions::default() };
            let mut synthesizer = ExpertSynthesizer::new(&mixtral(), options).unwrap();
            let mut next = || {
                let mut activity = Activity::default();
                synthesizer.next(&mut activity);
                activity
            };
            (0..10).map(|_| next()).collect::<Vec<_>>()
        };
        let two = tokens(1, 0);
        assert_eq!(two, tokens(1, 0));
        assert_eq!(two[5..], tokens(1, 1)[..5], "each text by itself");
        assert_ne!(two, tokens(2, 0));
    }

    #[test]
    fn targets_of_neurons_and_a_relu_are_refused() {
        let said =
            |model: &LlmShape, options| ExpertSynthesizer::new(model, options).unwrap_err().to_string();
        let clusters = SynthOptions { cluster: 2, ..SynthOptions::default() };
        assert!(said(&mixtral(), clusters).contains("give neither"));
        let relu = LlmShape::opt_like("relu", 1, 64, 4, 70, 256).unwrap().of_experts([4, 2]).unwrap();
        assert!(said(&relu, SynthOptions::default()).contains("activation = relu"));
    }
}
