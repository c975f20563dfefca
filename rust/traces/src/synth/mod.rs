//! Synthetic activation traces of any model, with the statistics that the papers report.
//!
//! Stands in for models too large to run. Neurons have frequencies from a power law, and inclinations around them in
//! each text. Each token renews their decisions with a fixed chance, often together with a neuron of the block before.
//! [`targets`] are published figures, [`fit`] finds parameters, this file generates; [`experts`] generates tokens of mixtures.
//! `docs/traces.md` has the mathematics. Nothing is fitted to predictors' results.

pub mod experts;
pub mod fit;
pub mod normal;
pub mod power_law;
pub mod targets;

use crate::format::TokenInfo;
use crate::{Activity, NeuronShape};
use fit::{Fit, Parameters, layer_laws};
use ndp_config::{BlockKind, LlmShape};
use ndp_files::Result;
use ndp_numerics::SplitMix64;
use normal::Normal;
use power_law::PowerLaw;
use targets::Targets;

/// Levels of the text's normal variable.
const TEXT_LEVELS: usize = 4096;
const FOLLOWS: u8 = 1;
const CHANGED: u8 = 2;

/// Options of a synthetic trace.
#[derive(Clone, Debug, PartialEq)]
pub struct SynthOptions {
    /// The same seed means the same model; with the same `first_sequence` traces are equal.
    pub seed: u64,
    /// Prompt tokens of each sequence.
    pub prompt_tokens: u64,
    /// Tokens of each sequence, prompt included; at least 1.
    pub sequence_tokens: u64,
    /// Number of the first sequence; others are other texts for the same model.
    pub first_sequence: u64,
    /// Targets of the fit; `None` for [`Targets::of_model`].
    pub targets: Option<Targets>,
    /// Neighbours in a block that a text favours together; 1 for none. Not in the papers.
    pub cluster: u32,
}

impl Default for SynthOptions {
    /// One endless text with a prompt of 128 tokens.
    fn default() -> Self {
        Self {
            seed: 1,
            prompt_tokens: 128,
            sequence_tokens: u64::MAX,
            first_sequence: 0,
            targets: None,
            cluster: 1,
        }
    }
}

/// Neurons of a block, by falling frequency.
#[derive(Clone, Debug)]
struct BlockState {
    /// Probit of the frequency.
    probit: Vec<f32>,
    /// Bit of the block.
    place: Vec<u32>,
    /// Neuron of the block before (by its order) whose decisions are taken over; empty in the first block.
    parent: Vec<u32>,
    /// Active while `draw < limit`; the limit is the inclination in 2^-16.
    draw: Vec<u16>,
    limit: Vec<u16>,
    flags: Vec<u8>,
    /// Level of the text's normal variable.
    level: Vec<u16>,
}

/// Generates tokens one by one.
///
/// ```
/// use ndp_traces::{Activity, NeuronShape, synth::{SynthOptions, Synthesizer}};
/// let model = ndp_config::LlmShape::opt_like("small", 4, 256, 4, 1024, 256).unwrap();
/// let mut synthesizer = Synthesizer::new(&model, SynthOptions::default()).unwrap();
/// let mut activity = Activity::new(synthesizer.shape());
/// let info = synthesizer.next(&mut activity);
/// assert!(info.first && activity.count() > 0);
/// ```
#[derive(Clone, Debug)]
pub struct Synthesizer {
    options: SynthOptions,
    shape: NeuronShape,
    targets: Targets,
    fit: Fit,
    normal: Normal,
    levels: Vec<f64>,
    blocks: Vec<BlockState>,
    current: Activity,
    sequence: u64,
    position: u64,
}

/// A separate generator per purpose, so that draws never shift each other.
fn stream(seed: u64, purpose: u64, a: u64, b: u64, c: u64) -> SplitMix64 {
    let mut state = seed;
    for word in [purpose, a, b, c] {
        state = SplitMix64::new(state ^ word.wrapping_mul(0xD6E8_FEB8_6659_FD93)).next_u64();
    }
    SplitMix64::new(state)
}

/// In 2^-16.
fn chance(probability: f64) -> u16 {
    (probability * 65536.0).round().clamp(0.0, 65535.0) as u16
}

ndp_config::getters!(Synthesizer {
    /// The blocks of every token.
    shape: &NeuronShape,
    /// Targets of the fit.
    targets: &Targets,
    /// Parameters and predictions.
    fit: &Fit,
});

impl Synthesizer {
    /// Fits the parameters and lays out the model. Fails for a dense model without targets.
    pub fn new(model: &LlmShape, options: SynthOptions) -> Result<Self> {
        let normal = Normal::new();
        let targets = options.targets.map_or_else(|| Targets::of_model(model, None), Ok)?;
        let fit = Fit::new(&targets, &normal);
        let shape = NeuronShape::of(model);
        let Parameters { ceiling, exponent, growth, .. } = fit.parameters;
        let laws = layer_laws(model.layers(), targets.density, ceiling, exponent, growth);
        let mut blocks = Vec::new();
        let mut before: Option<(PowerLaw, u32)> = None;
        for (index, block) in shape.blocks().iter().enumerate() {
            let law = laws[block.layer as usize];
            let mut rng = stream(options.seed, 1, index as u64, 0, 0);
            blocks.push(BlockState::new(law, block.neurons, before, &normal, &mut rng));
            before = Some((law, block.neurons));
        }
        Ok(Self {
            levels: normal.quantiles(TEXT_LEVELS),
            current: Activity::new(&shape),
            sequence: options.first_sequence,
            position: 0,
            options,
            shape,
            targets,
            fit,
            normal,
            blocks,
        })
    }

    /// Overwrites `activity` with the next token's.
    pub fn next(&mut self, activity: &mut Activity) -> TokenInfo {
        if self.position == 0 {
            self.begin();
        } else {
            self.step();
        }
        activity.clone_from(&self.current);
        if self.targets.dense_attention {
            for (index, block) in self.shape.blocks().iter().enumerate() {
                if block.kind == BlockKind::Attention {
                    activity.fill(&self.shape, index);
                }
            }
        }
        let info = TokenInfo::at(self.position, self.options.prompt_tokens);
        self.position += 1;
        if self.position >= self.options.sequence_tokens {
            self.position = 0;
            self.sequence = self.sequence.wrapping_add(1);
        }
        info
    }

    /// First token of a text: inclinations, and a decision for every neuron.
    fn begin(&mut self) {
        let Parameters { text, handed, .. } = self.fit.parameters;
        let handed = chance(handed);
        let cluster = self.options.cluster.max(1) as usize;
        let (root, scale) = (text.sqrt(), 1.0 / (1.0 - text).sqrt());
        for index in 0..self.blocks.len() {
            let mut rng = stream(self.options.seed, 2, self.sequence, index as u64, 0);
            let (before, rest) = self.blocks.split_at_mut(index);
            let (before, block) = (before.last(), &mut rest[0]);
            let bits = self.current.block_mut(&self.shape, index);
            bits.fill(0);
            let mut favoured = vec![None; block.place.len().div_ceil(cluster)];
            for i in 0..block.place.len() {
                let random = rng.next_u64();
                let [level, take_level, draw, take_draw] =
                    [0, 16, 32, 48].map(|shift| (random >> shift) as u16);
                let parent = before.map(|before| (before, block.parent[i] as usize));
                block.level[i] = match parent {
                    Some((before, parent)) if take_level < handed => before.level[parent],
                    _ => level % TEXT_LEVELS as u16,
                };
                if cluster > 1 {
                    let shared = &mut favoured[block.place[i] as usize / cluster];
                    block.level[i] = *shared.get_or_insert(block.level[i]);
                }
                block.flags[i] = CHANGED;
                block.draw[i] = match parent {
                    Some((before, parent)) if take_draw < handed => {
                        block.flags[i] |= FOLLOWS;
                        before.draw[parent]
                    }
                    _ => draw,
                };
                let n = self.levels[usize::from(block.level[i])];
                let probit = f64::from(block.probit[i]);
                block.limit[i] = chance(self.normal.phi((probit + root * n) * scale));
                let active = block.draw[i] < block.limit[i];
                bits[block.place[i] as usize / 64] |= u64::from(active) << (block.place[i] % 64);
            }
        }
    }

    /// Next token of the text.
    fn step(&mut self) {
        let (renewal, handed) = (chance(self.fit.parameters.renewal), chance(self.fit.parameters.handed));
        for index in 0..self.blocks.len() {
            let mut rng = stream(self.options.seed, 3, self.sequence, index as u64, self.position);
            let (before, rest) = self.blocks.split_at_mut(index);
            let bits = self.current.block_mut(&self.shape, index);
            rest[0].step(before.last(), renewal, handed, &mut rng, bits);
        }
    }
}

impl BlockState {
    fn new(
        law: PowerLaw,
        neurons: u32,
        before: Option<(PowerLaw, u32)>,
        normal: &Normal,
        rng: &mut SplitMix64,
    ) -> Self {
        let count = neurons as usize;
        let mut place: Vec<u32> = (0..neurons).collect();
        for i in (1..count).rev() {
            place.swap(i, ((u128::from(rng.next_u64()) * (i as u128 + 1)) >> 64) as usize);
        }
        let ranks = (0..neurons).map(|i| (f64::from(i) + 0.5) / f64::from(neurons));
        let frequencies: Vec<f64> = ranks.map(|rank| law.frequency(rank)).collect();
        let parent = match before {
            None => Vec::new(),
            Some((before, width)) => frequencies
                .iter()
                .map(|&frequency| parent_rank(&before, frequency, rng.next_u64() as f64 / 2f64.powi(64)))
                .map(|rank| ((rank * f64::from(width)) as u32).min(width - 1))
                .collect(),
        };
        Self {
            probit: frequencies.iter().map(|&frequency| normal.inverse(frequency) as f32).collect(),
            place,
            parent,
            draw: vec![0; count],
            limit: vec![0; count],
            flags: vec![0; count],
            level: vec![0; count],
        }
    }

    fn step(
        &mut self,
        before: Option<&Self>,
        renewal: u16,
        handed: u16,
        rng: &mut SplitMix64,
        bits: &mut [u64],
    ) {
        for i in 0..self.place.len() {
            let follows = self.flags[i] & FOLLOWS != 0;
            let parent = before.map(|before| (before, self.parent[i] as usize));
            let mut random = 0;
            let changes = match parent {
                Some((before, parent)) if follows => before.flags[parent] & CHANGED != 0,
                _ => {
                    random = rng.next_u64();
                    ((random >> 32) as u16) < renewal
                }
            };
            if !changes {
                self.flags[i] &= !CHANGED;
                continue;
            }
            if follows {
                random = rng.next_u64();
            }
            let was = self.draw[i] < self.limit[i];
            (self.draw[i], self.flags[i]) = match parent {
                Some((before, parent)) if ((random >> 16) as u16) < handed => {
                    (before.draw[parent], CHANGED | FOLLOWS)
                }
                _ => (random as u16, CHANGED),
            };
            let flips = was != (self.draw[i] < self.limit[i]);
            bits[self.place[i] as usize / 64] ^= u64::from(flips) << (self.place[i] % 64);
        }
    }
}

/// Relative rank of a neuron about as frequent in the block before; `random` in 0..1 chooses.
fn parent_rank(before: &PowerLaw, frequency: f64, random: f64) -> f64 {
    /// Width of the choice, relative to the rank.
    const SPREAD: f64 = 0.1;
    let plateau = before.rank(before.ceiling);
    if frequency >= before.ceiling {
        return plateau * random;
    }
    let rank = before.rank(frequency);
    if rank >= 1.0 {
        // Rarer than all: one of the rarest.
        return 1.0 - SPREAD * random;
    }
    rank * (1.0 + SPREAD * (random - 0.5))
}

#[cfg(test)]
mod tests {
    use super::*;
    use fit::inclination;

    #[test]
    fn inclinations_have_the_frequency_as_their_mean() {
        let normal = Normal::new();
        for frequency in [0.02, 0.3, 0.9] {
            let probit = normal.inverse(frequency);
            let all = normal.quantiles(TEXT_LEVELS);
            let mean =
                all.iter().map(|&n| inclination(&normal, 0.7, probit, n)).sum::<f64>() / all.len() as f64;
            assert!((mean - frequency).abs() < 1e-4, "{frequency}: {mean}");
        }
    }

    #[test]
    fn parents_are_about_as_frequent() {
        let before = PowerLaw::with_density(0.1, 0.9, 1.2);
        for random in [0.0, 0.5, 0.99] {
            for frequency in [0.03, 0.1, 0.5, 0.9] {
                let found = before.frequency(parent_rank(&before, frequency, random));
                assert!((found / frequency - 1.0).abs() < 0.07, "{frequency}: {found}");
            }
            assert!((0.9..=1.0).contains(&parent_rank(&before, 1e-4, random)));
        }
    }
}
