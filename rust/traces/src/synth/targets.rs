//! Published figures for synthetic traces, by family of models, with sources. Choices of our own are marked.

use ndp_config::LlmShape;
use ndp_files::{Result, bail, ensure};
use serde::Serialize;

/// Target figures; shares are of 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Targets {
    /// Share of active neurons, in both kinds of blocks.
    pub density: f64,
    /// Smallest share of a block's neurons with 80 % of its activations.
    pub block_share: f64,
    /// Smallest share of the model's neurons with 80 % of its activations.
    pub model_share: f64,
    /// Similarity of adjacent tokens.
    pub adjacent: f64,
    /// Similarity of tokens at distance [`Targets::FAR`].
    pub distant: f64,
    /// Share of the neurons hot after the prefill that do not stay so for 128 generated tokens.
    pub hot_change: f64,
    /// Probability that a neuron is active if its most correlated one in the block before is.
    pub layer: f64,
    /// Whether all neurons of attention blocks are active, as without a ReLU before Q, K and V.
    pub dense_attention: bool,
}

/// Measured by `ndp trace stats` on SmolLM2-135M-Instruct with thresholds for 30 and 50 %: `density`, `block_share`,
/// `adjacent`, `distant`, `hot_change`, `layer` (docs/traces.md).
const THRESHOLDED: [[f64; 6]; 2] =
    [[0.317, 0.637, 0.490, 0.442, 0.140, 0.449], [0.514, 0.717, 0.611, 0.584, 0.212, 0.589]];

impl Targets {
    /// First distance above 10 tokens (Hermes, section III-B1).
    pub const FAR: i32 = 11;
    /// Prompt and generated tokens of `hot_change`; a choice.
    pub const HOT_TOKENS: (usize, usize) = (128, 128);

    /// Limits of a density that a user gives. A high density can exclude other targets.
    pub const DENSITIES: [f64; 2] = [0.01, 0.5];

    /// Targets of a model with thresholds that leave this share of its MLP neurons active, on a line through two
    /// measured shares. Fails outside [`Targets::DENSITIES`].
    pub fn thresholded(density: f64) -> Result<Self> {
        let [low, high] = Self::DENSITIES;
        ensure!((low..=high).contains(&density), "density = {density} must be in {low}..={high}");
        let [from, to] = THRESHOLDED;
        let part = (density - from[0]) / (to[0] - from[0]);
        let at = |index: usize| (from[index] + part * (to[index] - from[index])).clamp(0.01, 0.99);
        let [block_share, adjacent, distant, hot_change, layer] = [1, 2, 3, 4, 5].map(at);
        // All layers have about the same density.
        let model_share = block_share;
        Ok(Self {
            density,
            block_share,
            model_share,
            adjacent,
            distant,
            hot_change,
            layer,
            dense_attention: true,
        })
    }

    /// Targets of a model's family, with the density that the user gives. Fails for a dense model without a density, and
    /// for a density outside [`Targets::DENSITIES`].
    pub fn of_model(model: &LlmShape, density: Option<f64>) -> Result<Self> {
        let ([low, high], family) = (Self::DENSITIES, Self::of(model.name()));
        if let Some(density) = density {
            ensure!((low..=high).contains(&density), "density = {density} must be in {low}..={high}");
            return if model.is_dense() {
                Self::thresholded(density)
            } else {
                Ok(Self { density, ..family })
            };
        }
        if let Some(dense) = model.dense_note() {
            bail!("{dense}");
        }
        Ok(family)
    }

    /// Targets of the family that a name begins with, after `relu-`; else OPT's.
    ///
    /// - `density`: Hermes, section II-B: 70 to 90 % sparsity in attention and MLP. PowerInfer, section 3.2, note 3:
    ///   about 10 % active in an MLP block; table 3: 18 % for LLaMA2(ReGLU)-70B.
    /// - `block_share`, `model_share`: PowerInfer, section 3.1 and Fig. 4, for OPT-30B and LLaMA2(ReGLU)-70B. Falcon is
    ///   missing there: OPT's share of a block, and for the model the 20 % of Hermes, section III-A.
    /// - `adjacent`: Hermes, section III-B1, more than 90 %, 95 % for Falcon-40B; `distant`: 70 %.
    /// - `hot_change`: Hermes, section III-B, 52 %, for LLaMA2-70B. `layer`: section III-B2, more than 90 %.
    pub fn of(model: &str) -> Self {
        let opt = Self {
            density: 0.10,
            block_share: 0.26,
            model_share: 0.17,
            adjacent: 0.92,
            distant: 0.70,
            hot_change: 0.52,
            layer: 0.92,
            dense_attention: false,
        };
        let name = model.to_lowercase();
        match name.strip_prefix("relu-").unwrap_or(&name) {
            name if name.starts_with("llama") => {
                Self { density: 0.18, block_share: 0.43, model_share: 0.26, ..opt }
            }
            name if name.starts_with("falcon") => Self { adjacent: 0.95, model_share: 0.20, ..opt },
            _ => opt,
        }
    }
}
