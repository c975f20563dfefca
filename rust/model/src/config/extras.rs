//! Parts of a decoder that most models of OPT, LLaMA, Mistral and Falcon lack.

use ndp_files::{Result, ensure};
use ndp_numerics::{Decimal, SoftCap, f16, rne_rsqrt, rne_sqrt};

use super::{Angles, DecoderConfig};

/// RMSNorm of Q and K between projection and rotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum QkNorm {
    /// Each head by itself, with gains that all heads share.
    Heads,
    /// The heads of a token as one vector.
    Whole,
}

/// Places of the norms of attention and feed-forward block.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum NormPlaces {
    /// Before each block.
    #[default]
    Before,
    /// After each block, before its residual is added.
    After,
    /// Before and after each block.
    Both,
    /// After the residual of each block has been added.
    AfterResidual,
}

/// Sizes of a mixture of experts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mixture {
    /// Experts of a layer.
    pub experts: usize,
    /// Experts that a token uses.
    pub used: usize,
    /// Whether the weights of these are divided by their sum.
    pub normalised: bool,
    /// Names of Mixtral's tensors.
    pub mixtral: bool,
}

/// A constant of a model, rounded to FP16 once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Factor {
    /// This number.
    Number(Decimal),
    /// The square root of a whole number up to 2^30.
    Root(u32),
    /// The reciprocal of the square root.
    InverseRoot(u32),
}

impl Factor {
    /// The number in FP16.
    pub fn rounded(self) -> f16 {
        match self {
            Self::Number(number) => number.rounded(),
            Self::Root(number) => rne_sqrt(number),
            Self::InverseRoot(number) => rne_rsqrt(number),
        }
    }
}

/// Parts of a decoder; the default is LLaMA, or what the model's architecture has.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Extras {
    /// Places of the norms.
    pub norm_places: NormPlaces,
    /// Norms of Q and K.
    pub qk_norm: Option<QkNorm>,
    /// Biases of Q, K and V, but none after the attention.
    pub only_qkv_bias: bool,
    /// One tensor for Q, K and V, and one for gate and up.
    pub fused: bool,
    /// Rotated elements of a head, its first ones; `None` for all.
    pub rotated_width: Option<usize>,
    /// Number of last positions that a position sees; `None` for all.
    pub window: Option<usize>,
    /// Layers without the window; none if it is empty.
    pub full_layers: Vec<bool>,
    /// Angles of layers with a window; `None` for those of the other layers.
    pub window_angles: Option<Angles>,
    /// `gelu_tanh` in place of GELU.
    pub tanh_gelu: bool,
    /// Gains of norms that are 1 more than the stored ones.
    pub unit_gains: bool,
    /// Soft cap of scores.
    pub score_cap: Option<SoftCap>,
    /// Soft cap of logits.
    pub logit_cap: Option<SoftCap>,
    /// Experts in place of the feed-forward block.
    pub mixture: Option<Mixture>,
    /// Whether an activation that is not finite ends the text with an error.
    pub reports_overflow: bool,
    /// Factor of queries in place of `1 / sqrt(h)`.
    pub query_scale: Option<Factor>,
    /// Factor of embeddings.
    pub embedding_scale: Option<Factor>,
    /// Factor of the blocks' outputs before they are added.
    pub residual_scale: Option<Factor>,
    /// Divisor of logits.
    pub logit_divisor: Option<Factor>,
    /// Width of embeddings, if it differs from the hidden state's.
    pub embedding_width: Option<usize>,
    /// No norm before the head.
    pub no_final_norm: bool,
    /// Scores that fall with the distance of their positions, in place of a rotation.
    pub alibi: bool,
}

impl DecoderConfig {
    /// Fails for a model with ALiBi, whose scores hardware cannot compute.
    pub fn check_alibi(&self) -> Result<()> {
        ensure!(
            !self.extras.alibi,
            "the model has scores with ALiBi (alibi), which this device cannot compute; run it in software"
        );
        Ok(())
    }

    /// Experts of a layer; 1 for a model without.
    pub fn experts(&self) -> usize {
        self.extras.mixture.map_or(1, |mixture| mixture.experts)
    }

    /// Experts that a token uses.
    pub fn experts_per_token(&self) -> usize {
        self.extras.mixture.map_or(1, |mixture| mixture.used)
    }
}
