//! Statistics of traces, collected token by token.
//!
//! [`Statistics`] takes tokens from a file or generator and makes a [`Report`]. Figures are defined where they are
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

/// Share of the activations whose smallest set of neurons is reported.
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
    /// Smallest share of a block's neurons with 80 % of its activations: mean over active blocks.
    pub block_share: Option<f64>,
    /// The same for the block whose density is nearest to the mean.
    pub typical_share: Option<f64>,
}

/// All figures; `None` where the trace is too short.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Tokens.
    pub tokens: u32,
    /// If there are attention blocks.
    pub attention: Option<KindReport>,
    /// If there are MLP blocks.
    pub mlp: Option<KindReport>,
    /// Smallest share of all neurons with 80 % of all activations.
    pub model_share: Option<f64>,
    /// Mean similarity of tokens of the same sequence at distances 1, 2, ...
    pub similarity: Vec<Option<f64>>,
    /// Share of the neurons hot after the prefill that do not stay so.
    pub hot_change: Option<f64>,
    /// Share of the neurons that are hot after the prefill.
    pub hot_share: Option<f64>,
    /// Mean number of generated tokens for `hot_change`.
    pub hot_tokens: Option<f64>,
    /// Probability that a neuron is active if its most correlated one in the block before is.
    pub layer: Option<f64>,
    /// Sample of `layer`.
    pub layer_neurons: usize,
    /// Most loaded of eight DIMMs over the mean, with cold neurons at random: mean over MLP blocks and tokens.
    pub dimm_imbalance: Option<f64>,
    /// Maximum of the same.
    pub dimm_imbalance_max: Option<f64>,
}

/// Collects figures token by token.
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

    /// Statistics of a whole trace; calls `each` after every token. Fails as the reader.
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

    /// Activations of each neuron.
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
