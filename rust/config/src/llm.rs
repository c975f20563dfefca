//! Sizes of language models, and bytes of their neurons.
//!
//! A neuron is a row or column of a weight matrix that need not be read while its activation is zero (Hermes, section
//! II-B). Before attention: column `i` of Q, K and V. In the MLP: row `i` of the up (and gate) projection with column
//! `i` of the down projection. Weights are FP16 unless the shape says otherwise; embeddings and head always are.

use crate::keys::checked;
use crate::presets::unknown_name;
use crate::{NameRule, WeightFormat, from_file, getters, in_range, name_is, parse, require};
use Activation::{Gelu, Relu, Silu};
use ndp_files::Result;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

const FP16_BYTES: u64 = 2;

fn one() -> u32 {
    1
}

fn is_one(number: &u32) -> bool {
    *number == 1
}

/// Kinds of layers with neurons, in the order within a decoder layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum BlockKind {
    /// Inputs of the Q, K and V projections, after the ReLU of models with sparse attention.
    Attention,
    /// Hidden activations of the MLP.
    Mlp,
}

impl BlockKind {
    /// Number of a layer's block: attention before MLP, layer by layer.
    pub fn block(self, layer: u32) -> usize {
        2 * layer as usize + self as usize
    }

    /// The kind of a block.
    pub fn of_block(block: usize) -> Self {
        if block.is_multiple_of(2) { Self::Attention } else { Self::Mlp }
    }
}

crate::named! {
    /// Function of the hidden layer of an MLP.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
    #[serde(rename_all = "lowercase")]
    pub enum Activation {
        /// `relu(x)`, which makes neurons inactive.
        Relu = "relu",
        /// `gelu(x)`.
        Gelu = "gelu",
        /// `silu(x)`.
        #[default]
        Silu = "silu",
    }
}

impl Activation {
    /// Name in texts.
    pub fn title(self) -> &'static str {
        match self {
            Self::Relu => "ReLU",
            Self::Gelu => "GELU",
            Self::Silu => "SiLU",
        }
    }
}

checked! {
    "", shape:
    /// The dimensions of a decoder-only language model.
    ///
    /// ```
    /// use ndp_config::{BlockKind, LlmShape};
    /// let model = LlmShape::preset("llama2-70b").unwrap();
    /// assert_eq!(model.neurons(), 80 * (8192 + 28672));
    /// assert_eq!(model.neuron_bytes(BlockKind::Mlp), 3 * 8192 * 2);
    /// ```
    #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    pub struct LlmShape {
        name: Cow<'static, str>;
        layers: u32, in_range(1, 1 << 20);
        hidden: u32, in_range(1, 1 << 20);
        heads: u32, in_range(1, 1 << 20);
        kv_heads: u32, in_range(1, 1 << 20);
        #[serde(default, skip_serializing_if = "Option::is_none")]
        head_width: Option<u32>;
        ffn: u32, in_range(1, 1 << 20);
        #[serde(default = "one", skip_serializing_if = "is_one")]
        experts: u32, in_range(1, (1 << 20) / shape.ffn);
        #[serde(default = "one", skip_serializing_if = "is_one")]
        experts_per_token: u32, in_range(1, shape.experts);
        mlp_matrices: u32, in_range(2, 3);
        // Files from before this key count as dense: nobody gets sparsity without asking for it.
        #[serde(default)]
        activation: Activation;
        vocabulary: u32, in_range(1, 1 << 20);
        tied_embeddings: bool;
        biased: bool;
        #[serde(default)]
        rotary: bool;
        #[serde(default)]
        weights: WeightFormat;
        #[serde(default, skip_serializing_if = "Option::is_none")]
        window: Option<u32>;
        #[serde(default, skip_serializing_if = "Option::is_none")]
        full_every: Option<u32>;
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        capped_scores: bool;
    }
}

/// Differences of a family from OPT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LlmFamily {
    /// Fewer than heads of Q where several share one.
    pub kv_heads: u32,
    /// Width of a head; `None` for the hidden width divided by the number of heads.
    pub head_width: Option<u32>,
    /// Whether the MLP has a gate, a third matrix.
    pub gated: bool,
    /// Function of the MLP.
    pub activation: Activation,
    /// Whether the linear layers add biases.
    pub biased: bool,
    /// Whether the embeddings are also the output head.
    pub tied_embeddings: bool,
    /// Whether Q and K are rotated by their position.
    pub rotary: bool,
}

/// Sizes from published configurations: OPT, arXiv 2205.01068, table 1; LLaMA2, 2307.09288; Falcon, 2311.16867; GPT3,
/// 2005.14165, table 2.1; Llama3, 2407.21783, table 3; Bamboo (as Mistral), 2310.06825, table 1; Yi, 2403.04652, table
/// 1; Mixtral, 2401.04088, table 1; Qwen1.5 and the last ten but Mixtral, their configuration files (Mistral version 0.3). Widths of the first seven are also in Hermes, section V-A3, layers and heads of
/// the next two in LibraPIM, table 2.
///
/// The same sources have the functions of the MLPs; Bamboo is in PowerInfer, section 8.1. The papers evaluate
/// LLaMA2 and Falcon trained further with ReLU (Hermes, section V-A3; PowerInfer, section 8.1; LLM in a flash, section
/// 4): their names begin with `relu-`.
static PRESETS: [LlmShape; 32] = [
    LlmShape::of(Cow::Borrowed("opt-13b"), Relu, [40, 5120, 40, 40, 20480, 2, 50272], [true, true, false]),
    LlmShape::of(Cow::Borrowed("opt-30b"), Relu, [48, 7168, 56, 56, 28672, 2, 50272], [true, true, false]),
    LlmShape::of(Cow::Borrowed("opt-66b"), Relu, [64, 9216, 72, 72, 36864, 2, 50272], [true, true, false]),
    LlmShape::of(Cow::Borrowed("llama2-7b"), Silu, LLAMA2_7B, [false, false, true]),
    LlmShape::of(Cow::Borrowed("llama2-13b"), Silu, LLAMA2_13B, [false, false, true]),
    LlmShape::of(Cow::Borrowed("llama2-70b"), Silu, LLAMA2_70B, [false, false, true]),
    LlmShape::of(Cow::Borrowed("falcon-40b"), Gelu, FALCON_40B, [true, false, true]),
    LlmShape::of(Cow::Borrowed("gpt3-175b"), Gelu, [96, 12288, 96, 96, 49152, 2, 50257], [true, true, false]),
    LlmShape::of(
        Cow::Borrowed("llama3-70b"),
        Silu,
        [80, 8192, 64, 8, 28672, 3, 128256],
        [false, false, true],
    ),
    LlmShape::of(Cow::Borrowed("opt-6.7b"), Relu, [32, 4096, 32, 32, 16384, 2, 50272], [true, true, false]),
    LlmShape::of(Cow::Borrowed("opt-175b"), Relu, [96, 12288, 96, 96, 49152, 2, 50272], [true, true, false]),
    LlmShape::of(Cow::Borrowed("falcon-7b"), Gelu, FALCON_7B, [true, false, true]),
    LlmShape::of(Cow::Borrowed("bamboo-7b"), Relu, [32, 4096, 32, 8, 14336, 3, 32000], [false, false, true]),
    LlmShape::of(
        Cow::Borrowed("qwen1.5-4b"),
        Silu,
        [40, 2560, 20, 20, 6912, 3, 151936],
        [false, false, true],
    ),
    LlmShape::of(Cow::Borrowed("yi-34b"), Silu, [60, 7168, 56, 8, 20480, 3, 64000], [false, false, true]),
    LlmShape::of(Cow::Borrowed("relu-llama2-7b"), Relu, LLAMA2_7B, [false, false, true]),
    LlmShape::of(Cow::Borrowed("relu-llama2-13b"), Relu, LLAMA2_13B, [false, false, true]),
    LlmShape::of(Cow::Borrowed("relu-llama2-70b"), Relu, LLAMA2_70B, [false, false, true]),
    LlmShape::of(Cow::Borrowed("relu-falcon-7b"), Relu, FALCON_7B, [true, false, true]),
    LlmShape::of(Cow::Borrowed("relu-falcon-40b"), Relu, FALCON_40B, [true, false, true]),
    LlmShape::of(Cow::Borrowed("smollm2-135m"), Silu, [30, 576, 9, 3, 1536, 3, 49152], [true, false, true]),
    LlmShape::of(Cow::Borrowed("llama3.2-1b"), Silu, [16, 2048, 32, 8, 8192, 3, 128256], [true, false, true]),
    LlmShape::of(Cow::Borrowed("llama3.2-3b"), Silu, [28, 3072, 24, 8, 8192, 3, 128256], [true, false, true]),
    LlmShape::of(
        Cow::Borrowed("llama3.1-8b"),
        Silu,
        [32, 4096, 32, 8, 14336, 3, 128256],
        [false, false, true],
    ),
    LlmShape::of(
        Cow::Borrowed("qwen2.5-7b"),
        Silu,
        [28, 3584, 28, 4, 18944, 3, 152064],
        [false, false, true],
    ),
    LlmShape::of(Cow::Borrowed("qwen3-8b"), Silu, [36, 4096, 32, 8, 12288, 3, 151936], [false, false, true]),
    LlmShape::of(Cow::Borrowed("mistral-7b"), Silu, [32, 4096, 32, 8, 14336, 3, 32768], [false, false, true]),
    LlmShape::of(Cow::Borrowed("phi3-mini"), Silu, [32, 3072, 32, 32, 8192, 3, 32064], [false, false, true]),
    LlmShape::of(
        Cow::Borrowed("llama3.1-70b"),
        Silu,
        [80, 8192, 64, 8, 28672, 3, 128256],
        [false, false, true],
    ),
    LlmShape::of(Cow::Borrowed("gemma-2-9b"), Gelu, [42, 3584, 16, 8, 14336, 3, 256000], [true, false, true])
        .with_heads_of(256)
        .with_windows(Some(4096), Some(2))
        .with_capped_scores(true),
    LlmShape::of(
        Cow::Borrowed("mixtral-8x7b"),
        Silu,
        [32, 4096, 32, 8, 14336, 3, 32000],
        [false, false, true],
    )
    .with_experts([8, 2]),
    LlmShape::of(
        Cow::Borrowed("qwen3-30b-a3b"),
        Silu,
        [48, 2048, 32, 4, 768, 3, 151936],
        [false, false, true],
    )
    .with_heads_of(128)
    .with_experts([128, 8]),
];

const LLAMA2_7B: [u32; 7] = [32, 4096, 32, 32, 11008, 3, 32000];
const LLAMA2_13B: [u32; 7] = [40, 5120, 40, 40, 13824, 3, 32000];
const LLAMA2_70B: [u32; 7] = [80, 8192, 64, 8, 28672, 3, 32000];
const FALCON_7B: [u32; 7] = [32, 4544, 71, 1, 18176, 2, 65024];
const FALCON_40B: [u32; 7] = [60, 8192, 128, 8, 32768, 2, 65024];

getters!(LlmShape {
    /// In lower case.
    name: &str,
    /// Decoder layers.
    layers: u32,
    /// Width of the hidden state.
    hidden: u32,
    /// Heads of Q.
    heads: u32,
    /// Fewer than heads of Q in grouped-query attention.
    kv_heads: u32,
    /// Width of the hidden layer of the MLP, or of each expert.
    ffn: u32,
    /// Experts of a layer, each an MLP; 1 for a single MLP.
    experts: u32,
    /// Experts that a token uses.
    experts_per_token: u32,
    /// 3 with a gate, 2 without.
    mlp_matrices: u32,
    /// Tokens of the vocabulary.
    vocabulary: u32,
    /// Function of the MLP.
    activation: Activation,
    /// Format of the layers' matrices.
    weights: WeightFormat,
    /// Whether the linear layers add biases.
    is_biased = biased: bool,
    /// Whether Q and K are rotated by their position (rotary embedding).
    is_rotary = rotary: bool,
    /// Whether a function caps scores before softmax; the host of a core computes it.
    has_capped_scores = capped_scores: bool,
});

impl LlmShape {
    /// Names of the presets.
    pub fn preset_names() -> impl Iterator<Item = &'static str> {
        PRESETS.iter().map(|shape| &*shape.name)
    }

    /// The model of that name, in any case; the error lists the names.
    pub fn preset(name: &str) -> Result<Self> {
        Self::find(name, false)
    }

    /// `file`: whether the error also offers a path.
    fn find(name: &str, file: bool) -> Result<Self> {
        let shape = PRESETS.iter().find(|shape| shape.name.eq_ignore_ascii_case(name));
        let others = if file { " or a path ending in .toml or config.json" } else { "" };
        let known: Vec<_> = Self::preset_names().collect();
        shape.cloned().ok_or_else(|| unknown_name("model", name, &known, others))
    }

    /// FP16 weights. Sizes are in the order of the keys; then: tied embeddings, biases in linear layers, rotated Q and
    /// K.
    const fn of(
        name: Cow<'static, str>,
        activation: Activation,
        [layers, hidden, heads, kv_heads, ffn, mlp_matrices, vocabulary]: [u32; 7],
        [tied_embeddings, biased, rotary]: [bool; 3],
    ) -> Self {
        Self {
            name,
            layers,
            hidden,
            heads,
            kv_heads,
            head_width: None,
            ffn,
            experts: 1,
            experts_per_token: 1,
            mlp_matrices,
            activation,
            vocabulary,
            tied_embeddings,
            biased,
            rotary,
            weights: WeightFormat::Fp16,
            window: None,
            full_every: None,
            capped_scores: false,
        }
    }

    /// Limits attention to a number of last positions, except in every `full_every`-th layer.
    #[must_use]
    pub(crate) const fn with_windows(mut self, window: Option<u32>, full_every: Option<u32>) -> Self {
        (self.window, self.full_every) = (window, full_every);
        self
    }

    #[must_use]
    pub(crate) const fn with_capped_scores(mut self, capped_scores: bool) -> Self {
        self.capped_scores = capped_scores;
        self
    }

    const fn with_heads_of(mut self, width: u32) -> Self {
        self.head_width = Some(width);
        self
    }

    const fn with_experts(mut self, [experts, per_token]: [u32; 2]) -> Self {
        (self.experts, self.experts_per_token) = (experts, per_token);
        self
    }

    /// This shape with experts: their number, and those that a token uses. Fails for more of them than experts, and for more than
    /// 2^20 neurons of a layer.
    pub fn of_experts(self, experts: [u32; 2]) -> Result<Self> {
        self.with_experts(experts).checked()
    }

    /// OPT family: two matrices in the MLP with a ReLU between them, biases, tied embeddings, as many heads of K and V as of Q. Fails for sizes
    /// of 0 or above 2^20, and if the heads do not divide the width.
    pub fn opt_like(
        name: &str,
        layers: u32,
        hidden: u32,
        heads: u32,
        ffn: u32,
        vocabulary: u32,
    ) -> Result<Self> {
        let sizes = [layers, hidden, heads, heads, ffn, 2, vocabulary];
        Self::of(name.to_owned().into(), Relu, sizes, [true, true, false]).checked()
    }

    /// This shape in another family; an error unless the heads of K and V divide the heads of Q.
    pub fn of_family(self, family: LlmFamily) -> Result<Self> {
        let LlmFamily { kv_heads, head_width, gated, activation, biased, tied_embeddings, rotary } = family;
        let mlp_matrices = if gated { 3 } else { 2 };
        Self { kv_heads, head_width, mlp_matrices, activation, biased, tied_embeddings, rotary, ..self }
            .checked()
    }

    /// Changes the format of the layers' weights.
    #[must_use]
    pub fn with_weights(self, weights: WeightFormat) -> Self {
        Self { weights, ..self }
    }

    /// Reads sizes from TOML; keys are named as the methods. Fails as [`LlmShape::opt_like`].
    pub fn from_toml(text: &str) -> Result<Self> {
        let shape: Self = parse(text)?;
        // Folders of tables have this name.
        name_is(NameRule::Word, "name", &shape.name)?;
        shape.checked()
    }

    /// A preset by name, a TOML file whose path ends in `.toml`, or a checkpoint's `config.json`. Fails as
    /// [`LlmShape::preset`] and [`LlmShape::from_toml`], and for a model that is more than these sizes.
    pub fn load(preset_or_path: &str) -> Result<Self> {
        if preset_or_path.ends_with(".toml") {
            return from_file(preset_or_path, Self::from_toml);
        }
        if preset_or_path.ends_with(".json") {
            return from_file(preset_or_path, |text| crate::hugging_face::shape(preset_or_path, text));
        }
        Self::find(preset_or_path, true)
    }

    fn checked(self) -> Result<Self> {
        self.check_keys()?;
        let apart = |width: &u32| width.checked_mul(self.heads) != Some(self.hidden);
        let head_width = self.head_width.filter(apart);
        let own = Self { head_width, ..self };
        own.check_heads()?;
        Ok(own)
    }

    fn check_heads(&self) -> Result<()> {
        let Self { hidden, heads, kv_heads, .. } = *self;
        match self.head_width {
            Some(width) => in_range("head_width", width, 1, (1 << 20) / heads)?,
            None => {
                require(hidden.is_multiple_of(heads), "heads", heads, format!("divide hidden = {hidden}"))?
            }
        }
        require(heads.is_multiple_of(kv_heads), "kv_heads", kv_heads, format!("divide heads = {heads}"))?;
        if let Some(window) = self.window {
            in_range("window", window, 1, 1 << 20)?;
        }
        if let Some(every) = self.full_every {
            in_range("full_every", every, 2, 1 << 20)?;
            require(self.window.is_some(), "full_every", every, "be left out without window".to_owned())?;
        }
        Ok(())
    }

    /// Number of last positions that a position of a layer sees; `None` for all.
    pub fn window(&self, layer: u32) -> Option<u32> {
        let is_full = self.full_every.is_some_and(|every| (layer + 1).is_multiple_of(every));
        self.window.filter(|_| !is_full)
    }

    /// Positions that the last one of `positions` sees, as the mean of all layers.
    pub fn mean_context(&self, positions: f64) -> f64 {
        let Some(window) = self.window else { return positions };
        let full = self.full_every.map_or(0, |every| self.layers / every);
        let seen =
            f64::from(full) * positions + f64::from(self.layers - full) * positions.min(f64::from(window));
        seen / f64::from(self.layers)
    }

    /// Whether all neurons are active for every token, because the function of the MLP is not ReLU and there is one MLP.
    pub fn is_dense(&self) -> bool {
        self.activation != Relu && !self.is_mixture()
    }

    /// Whether a router chooses among experts.
    pub fn is_mixture(&self) -> bool {
        self.experts > 1
    }

    /// Fails for a mixture of experts, which `device` cannot compute.
    pub fn check_experts(&self, device: &str) -> Result<()> {
        let experts = self.experts;
        require(
            !self.is_mixture(),
            "experts",
            experts,
            format!("be 1: {device} compute models without a router"),
        )
    }

    /// Name of the preset for the ReLU variant of a dense model.
    pub fn relu_variant(&self) -> Option<&'static str> {
        let known = |name: &&str| name.strip_prefix("relu-").is_some_and(|of| of == self.name);
        Self::preset_names().find(known)
    }

    /// Text that says that a model is dense and names its ReLU variant; `None` for a ReLU model.
    pub fn dense_note(&self) -> Option<String> {
        let Self { name, activation, .. } = self;
        let dense = format!("{name} is {}: all its neurons are active", activation.title());
        self.is_dense().then(|| match self.relu_variant() {
            Some(variant) => format!("{dense}; {variant} is the ReLU variant"),
            None if Self::preset(name).is_ok() => dense,
            None => format!("{dense}; a file with activation = \"relu\" describes a ReLU model"),
        })
    }

    /// Text about the effect of a window in contexts of `positions`; `None` without an effect.
    pub fn window_note(&self, positions: u32) -> Option<String> {
        let (name, window) = (&self.name, self.window.filter(|window| *window < positions)?);
        let full = self.full_every.map_or(0, |every| self.layers / every);
        let (limited, layers) = (self.layers - full, self.layers);
        Some(format!(
            "{limited} of {layers} layers of {name} read the keys and values of the last {window} positions; memory holds those of all positions"
        ))
    }

    /// Whether only name and activation differ.
    pub fn has_sizes_of(&self, other: &Self) -> bool {
        let Self { name, activation, .. } = self.clone();
        Self { name, activation, ..other.clone() } == *self
    }

    /// Width of a head: the hidden width divided by the number of heads unless the model says otherwise.
    pub fn head_width(&self) -> u32 {
        self.head_width.unwrap_or(self.hidden / self.heads)
    }

    /// Width of a token's queries in one layer.
    pub fn query_width(&self) -> u32 {
        self.heads * self.head_width()
    }

    /// Width of a token's keys, or values, in one layer.
    pub fn kv_width(&self) -> u32 {
        self.kv_heads * self.head_width()
    }

    /// Scales included.
    pub fn weight_bytes(&self, weights: u64) -> u64 {
        self.weights.bytes(weights)
    }

    /// Neurons of one block.
    pub fn block_neurons(&self, kind: BlockKind) -> u32 {
        match kind {
            BlockKind::Attention => self.hidden,
            BlockKind::Mlp => self.experts * self.ffn,
        }
    }

    /// Neurons of all layers.
    pub fn neurons(&self) -> u64 {
        u64::from(self.layers) * u64::from(self.hidden + self.block_neurons(BlockKind::Mlp))
    }

    /// Bytes of the weights of one neuron.
    pub fn neuron_bytes(&self, kind: BlockKind) -> u64 {
        let weights = match kind {
            BlockKind::Attention => self.query_width() + 2 * self.kv_width(),
            BlockKind::Mlp => self.mlp_matrices * self.hidden,
        };
        self.weight_bytes(u64::from(weights))
    }

    /// Bytes of all neurons of all layers.
    pub fn neurons_bytes(&self) -> u64 {
        let block = |kind| u64::from(self.block_neurons(kind)) * self.neuron_bytes(kind);
        u64::from(self.layers) * (block(BlockKind::Attention) + block(BlockKind::Mlp))
    }

    /// Bytes of the neurons that a token uses if the function of the MLP makes none inactive: of its experts, in all layers.
    pub fn used_neurons_bytes(&self) -> u64 {
        self.clone().with_experts([self.experts_per_token; 2]).neurons_bytes()
    }

    /// A layer's dense projection after attention: `hidden x query width`.
    pub fn projection_bytes(&self) -> u64 {
        self.weight_bytes(u64::from(self.hidden) * u64::from(self.query_width()))
    }

    /// Embeddings, and the head if it is separate.
    pub fn embedding_bytes(&self) -> u64 {
        let matrices = if self.tied_embeddings { 1 } else { 2 };
        matrices * u64::from(self.vocabulary) * u64::from(self.hidden) * FP16_BYTES
    }

    /// A layer's router, `experts x hidden`, always FP16; 0 without experts.
    pub fn router_bytes(&self) -> u64 {
        let experts = if self.is_mixture() { self.experts } else { 0 };
        u64::from(experts) * u64::from(self.hidden) * FP16_BYTES
    }

    /// Bytes that a GPU holds besides neurons: projections and routers of all layers, and embeddings.
    pub fn resident_bytes(&self) -> u64 {
        u64::from(self.layers) * (self.projection_bytes() + self.router_bytes()) + self.embedding_bytes()
    }

    /// Keys and values of one token in all layers.
    pub fn kv_bytes_per_token(&self) -> u64 {
        u64::from(self.layers) * 2 * u64::from(self.kv_width()) * FP16_BYTES
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn every_preset_has_its_published_size() {
        // In billions, without biases and norms.
        let billions = [
            12.9, 29.9, 65.7, 6.7, 13.0, 69.0, 41.3, 174.6, 70.6, 6.6, 174.6, 6.9, 7.2, 3.9, 34.4, 6.7, 13.0,
            69.0, 6.9, 41.3, 0.1, 1.2, 3.2, 8.0, 7.6, 8.2, 7.2, 3.8, 70.6, 9.2, 46.7, 30.5,
        ];
        for (name, expected) in LlmShape::preset_names().zip(billions) {
            let model = LlmShape::preset(name).unwrap();
            let found = (model.neurons_bytes() + model.resident_bytes()) as f64 / 2e9;
            assert!((found - expected).abs() < 0.06, "{name}: {found}");
        }
    }

    #[test]
    fn every_preset_has_an_activation_and_relu_variants_differ_only_in_it() {
        for name in LlmShape::preset_names() {
            let model = LlmShape::preset(name).unwrap();
            let expected = match name.split_once('-').unwrap().0 {
                "opt" | "relu" | "bamboo" => Relu,
                "falcon" | "gpt3" | "gemma" => Gelu,
                _ => Silu,
            };
            assert_eq!(model.activation(), expected, "{name}");
            assert_eq!(model.is_dense(), model.dense_note().is_some(), "{name}");
            if let Some(of) = name.strip_prefix("relu-") {
                let of = LlmShape::preset(of).unwrap();
                assert!(of.has_sizes_of(&model) && of.relu_variant() == Some(name), "{name}");
            }
        }
        let [own, other] = ["llama2-7b", "llama2-13b"].map(|name| LlmShape::preset(name).unwrap());
        assert!(!own.has_sizes_of(&other));
        assert_eq!(
            own.dense_note().unwrap(),
            "llama2-7b is SiLU: all its neurons are active; relu-llama2-7b is the ReLU variant"
        );
        assert_eq!(
            LlmShape::preset("gpt3-175b").unwrap().dense_note().unwrap(),
            "gpt3-175b is GELU: all its neurons are active"
        );
    }

    #[test]
    fn an_unknown_model_is_refused_with_the_names_that_exist() {
        let error = LlmShape::preset("opt-14b").unwrap_err().to_string();
        assert!(error.contains("'opt-14b'") && error.contains("llama2-70b"), "{error}");
    }

    #[test]
    fn a_file_has_the_sizes_of_a_model() {
        let text = |kv_heads: u32| {
            format!(
                "name = 'own'\nlayers = 2\nhidden = 512\nheads = 16\nkv_heads = {kv_heads}\nffn = 1792\nmlp_matrices = 3\n\
                 vocabulary = 256\ntied_embeddings = false\nbiased = false"
            )
        };
        let model = LlmShape::from_toml(&text(4)).unwrap();
        assert_eq!((model.kv_width(), model.neuron_bytes(BlockKind::Mlp)), (128, 3 * 512 * 2));
        // A file without the key is of a dense model.
        assert!(model.dense_note().unwrap().contains("a file with activation = \"relu\""));
        let relu = text(4) + "\nactivation = 'relu'";
        assert!(!LlmShape::from_toml(&relu).unwrap().is_dense());
        let refused = |text: &str| LlmShape::from_toml(text).unwrap_err().to_string();
        assert!(refused(&text(5)).contains("kv_heads = 5 must divide heads = 16"), "{}", refused(&text(5)));
        assert!(
            refused(&text(4).replace("mlp_matrices = 3", "mlp_matrices = 4")).contains("mlp_matrices = 4")
        );
        assert!(refused(&text(4).replace("ffn", "fnn")).contains("fnn"));
        let error = refused(&relu.replace("'relu'", "'swish'"));
        assert!(error.contains("swish") && error.contains("`relu`, `gelu`, `silu`"), "{error}");
    }

    #[test]
    fn a_window_limits_all_layers_except_the_full_ones() {
        let model = LlmShape::preset("gemma-2-9b").unwrap();
        assert_eq!([0, 1, 40, 41].map(|layer| model.window(layer)), [Some(4096), None, Some(4096), None]);
        assert_eq!([1000.0, 8192.0].map(|positions| model.mean_context(positions)), [1000.0, 6144.0]);
        let note = "21 of 42 layers of gemma-2-9b read the keys and values of the last 4096 positions;";
        assert!(model.window_note(4097).unwrap().starts_with(note) && model.window_note(4096).is_none());
        let text = |more: &str| {
            format!(
                "name = 'own'\nlayers = 12\nhidden = 64\nheads = 4\nkv_heads = 4\nffn = 64\nmlp_matrices = 3\nvocabulary = 8\n\
                 tied_embeddings = false\nbiased = false\n{more}"
            )
        };
        let own = LlmShape::from_toml(&text("window = 10\nfull_every = 6")).unwrap();
        assert_eq!([4, 5, 11].map(|layer| own.window(layer)), [Some(10), None, None]);
        assert_eq!(own.mean_context(16.0), 11.0);
        for (more, message) in [
            ("full_every = 2", "full_every = 2 must be left out without window"),
            ("window = 0", "window = 0 must be in 1..=1048576"),
            ("window = 4\nfull_every = 1", "full_every = 1 must be in 2..=1048576"),
        ] {
            let error = LlmShape::from_toml(&text(more)).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
    }

    #[test]
    fn every_expert_counts_for_capacity_and_those_of_a_token_for_its_time() {
        let mixtral = LlmShape::preset("mixtral-8x7b").unwrap();
        let one = mixtral.clone().of_experts([1, 1]).unwrap();
        assert_eq!(mixtral.block_neurons(BlockKind::Mlp), 8 * one.block_neurons(BlockKind::Mlp));
        assert_eq!(mixtral.neuron_bytes(BlockKind::Mlp), one.neuron_bytes(BlockKind::Mlp));
        assert_eq!((mixtral.experts_per_token(), mixtral.is_dense(), one.is_dense()), (2, false, true));
        assert_eq!((mixtral.router_bytes(), one.router_bytes()), (8 * 4096 * 2, 0));
        // Published: 3.3 billion parameters of a token, embeddings included.
        let qwen = LlmShape::preset("qwen3-30b-a3b").unwrap();
        let active = (qwen.used_neurons_bytes() + qwen.resident_bytes()) as f64 / 2e9;
        assert!((3.3..3.4).contains(&active), "{active}");
        for ([experts, used], message) in [
            ([4, 5], "experts_per_token = 5 must be in 1..=4"),
            ([4, 0], "experts_per_token = 0 must be in 1..=4"),
            ([0, 1], "experts = 0 must be in 1..=73"),
            ([74, 1], "experts = 74 must be in 1..=73"),
        ] {
            let error = mixtral.clone().of_experts([experts, used]).unwrap_err().to_string();
            assert!(error.contains(message), "{error}");
        }
        let text = toml::to_string(&mixtral).unwrap();
        assert_eq!(LlmShape::from_toml(&text).unwrap(), mixtral);
        assert!(!toml::to_string(&one).unwrap().contains("experts"));
        let error = mixtral.check_experts("cores").unwrap_err().to_string();
        assert_eq!(error, "experts = 8 must be 1: cores compute models without a router");
    }

    #[test]
    fn sizes_of_zero_and_odd_heads_are_refused() {
        assert!(LlmShape::opt_like("x", 0, 64, 4, 128, 256).is_err());
        assert!(LlmShape::opt_like("x", 2, 64, 5, 128, 256).unwrap_err().to_string().contains("heads = 5"));
    }
}
