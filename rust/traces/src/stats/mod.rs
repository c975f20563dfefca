//! Statistics of traces, collected token by token.
//!
//! [`Statistics`] takes tokens, from a file or a generator, and makes a [`Report`]. Each figure is defined where it is
//! collected, and in `docs/traces.md`.

mod correlation;
mod hot_change;
mod imbalance;
mod similarity;

use crate::profile::Profile;
use crate::{Activity, NeuronShape, TokenInfo, TraceReader};
use correlation::Correlation;
use hot_change::HotChange;
use imbalance::Imbalance;
use ndp_config::BlockKind;
use ndp_files::Result;
use serde::Serialize;
use std::io::Read;

pub use correlation::{SAMPLED_BLOCKS, SAMPLED_NEURONS};
pub use imbalance::DIMMS;
pub use similarity::{MAX_DISTANCE, Similarity};

/// The part of the activations whose smallest set of neurons is reported.
const PART: f64 = 0.8;

/// Figures of one kind of blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct KindReport {
    /// Active neurons per token and neuron.
    pub density: f64,
    /// Lowest density of a block.
    pub sparsest: f64,
    /// Highest density of a block.
    pub densest: f64,
    /// Smallest share of a block's neurons that has 80 % of its activations: mean over the blocks that have any.
    pub block_share: Option<f64>,
    /// The same of one block: that whose density is nearest to the mean.
    pub typical_share: Option<f64>,
}

/// All figures. What the trace is too short for is missing.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Tokens.
    pub tokens: u32,
    /// Attention blocks, if there are.
    pub attention: Option<KindReport>,
    /// MLP blocks, if there are.
    pub mlp: Option<KindReport>,
    /// Smallest share of all neurons that has 80 % of all activations.
    pub model_share: Option<f64>,
    /// Mean similarity of tokens of the same sequence at distances 1, 2, ...
    pub similarity: Vec<Option<f64>>,
    /// Share of the neurons that are hot after the prefill and do not stay so.
    pub hot_change: Option<f64>,
    /// Share of the neurons that are hot after the prefill.
    pub hot_share: Option<f64>,
    /// Mean number of generated tokens over which the change of hot neurons was observed.
    pub hot_tokens: Option<f64>,
    /// Probability of a neuron being active if its most correlated one in the block before is.
    pub layer: Option<f64>,
    /// Neurons in the sample for `layer`.
    pub layer_neurons: usize,
    /// Load of the most loaded of eight DIMMs relative to the mean, for cold neurons placed at random: mean over MLP blocks and tokens.
    pub dimm_imbalance: Option<f64>,
    /// Greatest such load.
    pub dimm_imbalance_max: Option<f64>,
}

/// Collects.
#[derive(Clone, Debug)]
pub struct Statistics {
    profile: Profile,
    similarity: Similarity,
    hot: HotChange,
    correlation: Correlation,
    imbalance: Imbalance,
}

impl Statistics {
    /// Nothing collected yet.
    pub fn new(shape: &NeuronShape) -> Self {
        Self {
            profile: Profile::new(shape),
            similarity: Similarity::default(),
            hot: HotChange::new(shape),
            correlation: Correlation::new(shape),
            imbalance: Imbalance::default(),
        }
    }

    /// Those of a whole trace; `each` is called after every token.
    ///
    /// # Errors
    /// The reader's.
    pub fn from_reader<R: Read>(reader: &mut TraceReader<R>, mut each: impl FnMut()) -> Result<Self> {
        let mut statistics = Self::new(reader.shape());
        while let Some((info, activity)) = reader.read()? {
            statistics.add(info, activity);
            each();
        }
        Ok(statistics)
    }

    /// Adds a token.
    pub fn add(&mut self, info: TokenInfo, activity: &Activity) {
        self.profile.add(activity);
        self.similarity.add(info, activity);
        self.hot.add(info, activity);
        self.correlation.add(self.profile.shape(), activity);
        self.imbalance.add(self.profile.shape(), self.hot.hot(), activity);
    }

    /// How often each neuron was active.
    pub fn profile(&self) -> &Profile {
        &self.profile
    }

    /// The figures so far.
    pub fn report(&self) -> Report {
        let hot = self.hot.figures();
        let (layer, layer_neurons) = self.correlation.figure();
        let imbalance = self.imbalance.figures();
        Report {
            tokens: self.profile.tokens(),
            attention: self.kind(BlockKind::Attention),
            mlp: self.kind(BlockKind::Mlp),
            model_share: self.profile.model_share(PART),
            similarity: self.similarity.means(),
            hot_change: hot.map(|hot| hot.changed),
            hot_share: hot.map(|hot| hot.share),
            hot_tokens: hot.map(|hot| hot.tokens),
            layer,
            layer_neurons,
            dimm_imbalance: imbalance.map(|(mean, _)| mean),
            dimm_imbalance_max: imbalance.map(|(_, most)| most),
        }
    }

    fn kind(&self, kind: BlockKind) -> Option<KindReport> {
        let blocks = self.profile.shape().blocks().iter().enumerate().filter(|(_, block)| block.kind == kind);
        let blocks: Vec<usize> = blocks.map(|(index, _)| index).collect();
        let tokens = f64::from(self.profile.tokens().max(1));
        let densities: Vec<f64> = blocks
            .iter()
            .map(|&block| {
                let counts = self.profile.counts(block);
                counts.iter().map(|&count| f64::from(count)).sum::<f64>() / counts.len() as f64 / tokens
            })
            .collect();
        let shares: Vec<f64> =
            blocks.iter().filter_map(|&block| self.profile.block_share(block, PART)).collect();
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let density = mean(&densities);
        let distance = |&a: &usize| (densities[a] - density).abs();
        let typical = (0..blocks.len()).min_by(|a, b| distance(a).total_cmp(&distance(b)))?;
        Some(KindReport {
            density,
            sparsest: densities.iter().copied().reduce(f64::min)?,
            densest: densities.iter().copied().reduce(f64::max)?,
            block_share: (!shares.is_empty()).then(|| mean(&shares)),
            typical_share: self.profile.block_share(blocks[typical], PART),
        })
    }
}
