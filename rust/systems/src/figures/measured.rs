//! Synthetic traces' values of numbers that papers measure on models. Small traces suffice: statistics are shares
//! (`ndp_traces::synth::targets`). Each is generated once.

use ndp_config::{BlockKind, LlmShape};
use ndp_traces::synth::{SynthOptions, Synthesizer, targets::Targets};
use ndp_traces::{Activity, Profile};
use std::sync::OnceLock;

const LAYERS: u32 = 24;
const NEURONS: u32 = 256;
/// Texts of one token each.
const TEXTS: u32 = 1500;
const TOKENS: usize = 300;
const WINDOW: usize = 8;
/// Share of the activations whose smallest set of neurons counts.
const PART: f64 = 0.8;

fn generator(targets: Targets, sequence_tokens: u64) -> Option<Synthesizer> {
    let shape = LlmShape::opt_like("trace", LAYERS, 64, 8, NEURONS, 256).ok()?;
    let options = SynthOptions { targets: Some(targets), sequence_tokens, ..SynthOptions::default() };
    Synthesizer::new(&shape, options).ok()
}

fn blocks() -> impl Iterator<Item = usize> {
    (0..LAYERS).map(|layer| BlockKind::Mlp.block(layer))
}

/// Activity of MLPs over many texts.
#[derive(Clone, Copy, Debug)]
pub struct Skew {
    /// Smallest share of a block's neurons with 80 % of its activations, at mean density.
    pub block: f64,
    /// Smallest share of the neurons of all blocks with 80 % of their activations.
    pub model: f64,
    /// Active share in the first half of the layers.
    pub first_half: f64,
}

/// Models of PowerInfer's Fig. 4.
#[derive(Clone, Copy, Debug)]
pub enum Skewed {
    Opt,
    /// LLaMA2(ReGLU)-70B.
    ReGlu,
    /// LLaMA2(SwiGLU)-70B.
    SwiGlu,
}

impl Skewed {
    /// Targets of the family, with density from PowerInfer's Tables 1 and 3. For SwiGLU no paper reports the other
    /// figures: ReGLU's are used.
    fn targets(self) -> Targets {
        match self {
            Self::Opt => Targets { density: 0.03, ..Targets::of("opt") },
            Self::ReGlu => Targets { density: 0.18, ..Targets::of("llama") },
            Self::SwiGlu => {
                Targets { density: 0.5, block_share: 0.69, model_share: 0.75, ..Targets::of("llama") }
            }
        }
    }

    /// NaN without activations.
    pub fn skew(self) -> Skew {
        static ALL: [OnceLock<Skew>; 3] = [const { OnceLock::new() }; 3];
        *ALL[self as usize].get_or_init(|| self.measure())
    }

    fn measure(self) -> Skew {
        let nothing = Skew { block: f64::NAN, model: f64::NAN, first_half: f64::NAN };
        let Some(mut synthesizer) = generator(self.targets(), 1) else { return nothing };
        let mut activity = Activity::new(synthesizer.shape());
        let mut profile = Profile::new(synthesizer.shape());
        for _ in 0..TEXTS {
            synthesizer.next(&mut activity);
            profile.add(&activity);
        }
        let tokens = f64::from(profile.tokens());
        let density = |block: usize| {
            profile.counts(block).iter().map(|&count| f64::from(count)).sum::<f64>()
                / (f64::from(NEURONS) * tokens)
        };
        let mean = blocks().map(density).sum::<f64>() / f64::from(LAYERS);
        let distance = |block: usize| (density(block) - mean).abs();
        let typical = blocks().min_by(|&a, &b| distance(a).total_cmp(&distance(b)));
        let half = LAYERS / 2;
        Skew {
            block: typical.and_then(|block| profile.block_share(block, PART)).unwrap_or(f64::NAN),
            model: profile.model_share(PART).unwrap_or(f64::NAN),
            first_half: blocks().take(half as usize).map(density).sum::<f64>() / f64::from(half),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub enum Text {
    /// Statistics of OPT in Hermes and PowerInfer.
    Hermes,
    /// LLM in a flash: 10 % of the neurons for a token, 24 % for five, 2.4 % more for the sixth (section 3.1, Fig. 4).
    Flash,
}

impl Text {
    /// The second set's similarities and skew are searched to give the paper's windows; both have a density of 10 %.
    fn targets(self) -> Targets {
        let opt = Targets::of("opt");
        match self {
            Self::Hermes => opt,
            Self::Flash => {
                Targets { adjacent: 0.5, distant: 0.3, block_share: 0.4, model_share: 0.26, ..opt }
            }
        }
    }

    /// Mean share of MLP neurons that `tokens` consecutive tokens need.
    pub fn aggregated(self, tokens: usize) -> f64 {
        static ALL: [OnceLock<[f64; WINDOW]>; 2] = [const { OnceLock::new() }; 2];
        let all = ALL[self as usize].get_or_init(|| windows(self.targets()));
        all[tokens.clamp(1, WINDOW) - 1]
    }
}

/// For 1 to [`WINDOW`] tokens.
fn windows(targets: Targets) -> [f64; WINDOW] {
    let Some(mut synthesizer) = generator(targets, u64::MAX) else {
        return [f64::NAN; WINDOW];
    };
    let mut activity = Activity::new(synthesizer.shape());
    let mut last: Vec<Vec<u64>> = Vec::new();
    let mut sums = [0.0; WINDOW];
    for _ in 0..TOKENS {
        synthesizer.next(&mut activity);
        let shape = synthesizer.shape();
        last.insert(0, blocks().flat_map(|block| activity.block(shape, block).to_vec()).collect());
        last.truncate(WINDOW);
        let mut union = vec![0; last[0].len()];
        for (sum, token) in sums.iter_mut().zip(&last).take(last.len()) {
            for (all, one) in union.iter_mut().zip(token) {
                *all |= one;
            }
            *sum += union.iter().map(|word| f64::from(word.count_ones())).sum::<f64>();
        }
    }
    let counted = |window: usize| (TOKENS - window) as f64 * f64::from(LAYERS * NEURONS);
    std::array::from_fn(|window| sums[window] / counted(window))
}
