//! Hugging Face's `config.json` of one of the [families](FAMILIES), checked against what this decoder implements.
//!
//! Fields for training, tokenising and generating are ignored, those that change the arithmetic are implemented or
//! refused by name, unknown ones are a warning. Each family has a file; fields that none implements are in `others`.

mod extras;
mod falcon;
mod fields;
mod gemma;
mod llama;
mod opt;
mod others;
mod rotary;

use ndp_files::{Error, Result, ensure};
use std::fmt::Display;
use std::path::Path;

use ndp_config::Activation;
use ndp_numerics::layer_norm::MAX_LEN;
use ndp_numerics::{Epsilon, RotaryScaling};
use serde::Serialize;
use serde_json::{Map, Value};

pub use extras::{Extras, Factor, Mixture, NormPlaces, QkNorm};
pub(crate) use fields::plain;
use fields::{Fields, unsupported};
pub use rotary::Angles;
use rotary::Rotary;

/// OPT's checkpoints store `max_position_embeddings + 2` position rows: position `p` is row `p + 2`.
pub const POSITION_OFFSET: usize = 2;

/// Softmax is defined for rows of up to this number of scores.
pub const MAX_POSITIONS: usize = 16384;

/// Family of a model: names of its tensors, and structure of its layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Architecture {
    /// `OPTForCausalLM`.
    Opt,
    /// `LlamaForCausalLM`, `MistralForCausalLM`, and models with [`Extras`] whose tensors have their names.
    Llama,
    /// `FalconForCausalLM`.
    Falcon,
}

/// Validated dimensions and functions of a decoder, from [`DecoderConfig::load`] or [`DecoderConfig::from_json`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DecoderConfig {
    architecture: Architecture,
    vocab_size: usize,
    hidden_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    num_key_value_heads: usize,
    head_width: usize,
    ffn_dim: usize,
    max_position_embeddings: usize,
    #[serde(skip)]
    position_limit: &'static str,
    #[serde(skip)]
    warnings: Vec<String>,
    activation: Activation,
    /// RMSNorm in place of LayerNorm.
    rms_norm: bool,
    /// In units of 10^-12.
    norm_eps: u64,
    rotary_base: Option<u64>,
    #[serde(skip)]
    rotary_scaling: RotaryScaling,
    #[serde(skip)]
    extras: Extras,
    attention_bias: bool,
    ffn_bias: bool,
    norms_per_layer: usize,
    #[serde(skip)]
    parallel: bool,
    tied_head: bool,
    relu_before_qkv: bool,
}

/// Requires one value; `None` means it.
fn require<T: PartialEq + Display>(field: &'static str, found: Option<T>, expected: T) -> Result<()> {
    match found {
        Some(value) if value != expected => Err(unsupported(field, value, expected)),
        _ => Ok(()),
    }
}

/// Takes the name of an activation, one of the `known`.
fn activation(
    fields: &mut Fields<'_>,
    field: &'static str,
    default: &str,
    known: &[(&str, Activation)],
) -> Result<Activation> {
    let name: Option<String> = fields.take(field)?;
    let name = name.as_deref().unwrap_or(default);
    known.iter().find(|(known, _)| *known == name).map(|(_, activation)| *activation).ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        unsupported(field, name, names.join(" or "))
    })
}

fn eps(field: &'static str, value: f64) -> Result<u64> {
    let eps = Epsilon::from_f64(value).map(Epsilon::units);
    eps.ok_or_else(|| unsupported(field, value, "a multiple of 1e-12 from 1e-6 to 1e-2"))
}

/// Families whose activations may overflow.
const UNCHECKED: [&str; 4] = ["opt", "llama", "mistral", "falcon"];

/// A window that is shorter than the model's positions; a text within it is not affected.
fn shorter(window: Option<usize>, positions: usize) -> Result<Option<usize>> {
    match window {
        Some(0) => Err(unsupported("sliding_window", 0, "null, or at least 1")),
        window => Ok(window.filter(|window| *window < positions)),
    }
}

/// Layers without a window, from `layer_types`, or as `is_full` says by number.
fn full_layers(
    types: Option<&[String]>,
    layers: usize,
    is_full: impl Fn(usize) -> bool,
) -> Result<Vec<bool>> {
    let Some(types) = types else {
        return Ok((0..layers.min(MAX_POSITIONS)).map(is_full).collect());
    };
    let expected = format!("full_attention or sliding_attention for each of {layers} layers");
    let is_known = |kind: &String| matches!(kind.as_str(), "full_attention" | "sliding_attention");
    if types.len() != layers || !types.iter().all(is_known) {
        return Err(unsupported("layer_types", types.join(", "), expected));
    }
    Ok(types.iter().map(|kind| kind == "full_attention").collect())
}

const MAX_CONFIG_BYTES: u64 = 1 << 20;

/// A `model_type`: names in `architectures`, its reader, and defaults of absent fields.
type Family = (
    &'static str,
    [&'static str; 2],
    fn(&mut Fields<'_>) -> Result<DecoderConfig>,
    &'static [(&'static str, u32)],
);

const FAMILIES: [Family; 14] = [
    ("opt", ["OPTForCausalLM", "OPTModel"], opt::read, &[]),
    ("llama", ["LlamaForCausalLM", "LlamaModel"], llama::llama, &[]),
    (
        "mistral",
        ["MistralForCausalLM", "MistralModel"],
        llama::mistral,
        &[("sliding_window", 4096), ("num_key_value_heads", 8)],
    ),
    ("falcon", ["FalconForCausalLM", "FalconModel"], falcon::read, &[]),
    (
        "gemma",
        ["GemmaForCausalLM", "GemmaModel"],
        gemma::gemma,
        &[("head_dim", 256), ("num_key_value_heads", 16), ("max_position_embeddings", 8192)],
    ),
    (
        "gemma2",
        ["Gemma2ForCausalLM", "Gemma2Model"],
        gemma::gemma2,
        &[
            ("head_dim", 256),
            ("num_key_value_heads", 4),
            ("max_position_embeddings", 8192),
            ("sliding_window", 4096),
            ("attn_logit_softcapping", 50),
            ("final_logit_softcapping", 30),
        ],
    ),
    (
        "gemma3_text",
        ["Gemma3ForCausalLM", "Gemma3TextModel"],
        gemma::gemma3,
        &[
            ("head_dim", 256),
            ("num_key_value_heads", 4),
            ("max_position_embeddings", 131_072),
            ("sliding_window", 4096),
        ],
    ),
    ("granite", ["GraniteForCausalLM", "GraniteModel"], llama::granite, &[("max_position_embeddings", 2048)]),
    (
        "mixtral",
        ["MixtralForCausalLM", "MixtralModel"],
        llama::mixtral,
        &[
            ("num_key_value_heads", 8),
            ("max_position_embeddings", 131_072),
            ("intermediate_size", 14_336),
            ("num_local_experts", 8),
            ("num_experts_per_tok", 2),
        ],
    ),
    ("olmo2", ["Olmo2ForCausalLM", "Olmo2Model"], llama::olmo2, &[("max_position_embeddings", 2048)]),
    ("phi3", ["Phi3ForCausalLM", "Phi3Model"], llama::phi3, &[("max_position_embeddings", 4096)]),
    (
        "qwen2",
        ["Qwen2ForCausalLM", "Qwen2Model"],
        llama::qwen2,
        &[("num_key_value_heads", 32), ("max_position_embeddings", 32_768)],
    ),
    (
        "qwen3",
        ["Qwen3ForCausalLM", "Qwen3Model"],
        llama::qwen3,
        &[("num_key_value_heads", 32), ("max_position_embeddings", 32_768), ("head_dim", 128)],
    ),
    (
        "qwen3_moe",
        ["Qwen3MoeForCausalLM", "Qwen3MoeModel"],
        llama::qwen3_moe,
        &[
            ("num_key_value_heads", 4),
            ("max_position_embeddings", 32_768),
            ("num_experts_per_tok", 8),
            ("moe_intermediate_size", 768),
        ],
    ),
];

ndp_config::getters!(DecoderConfig {
    /// Ignored unknown fields, one line each.
    warnings: &[String],
    /// Family of the model.
    architecture: Architecture,
    /// Number of tokens, `V`.
    vocab_size: usize,
    /// Width of the hidden state, `d`.
    hidden_size: usize,
    /// Number of decoder layers.
    num_hidden_layers: usize,
    /// Number of heads of queries, `H`.
    num_attention_heads: usize,
    /// Number of heads of keys and values, `G`; it divides `H`.
    num_key_value_heads: usize,
    /// Width of one head, `h`: `d / H` unless the model says otherwise.
    head_width: usize,
    /// Width of the feed-forward hidden layer, `f`.
    ffn_dim: usize,
    /// Longest sequence, generated tokens included: the model's, at most [`MAX_POSITIONS`].
    max_position_embeddings: usize,
    /// Function between the feed-forward layers.
    activation: Activation,
    /// Normalisations of a layer: two, or one shared by attention and feed-forward block.
    norms_per_layer: usize,
    /// Whether attention and feed-forward block share their input, the state before the layer.
    is_parallel = parallel: bool,
    /// Base of the rotary embedding; `None` for embedded positions and ALiBi.
    rotary_base: Option<u64>,
    /// Whether a ReLU precedes the Q, K and V projections (Hermes, section II).
    relu_before_qkv: bool,
    /// Whether RMSNorm, which has no bias, replaces LayerNorm.
    has_rms_norm = rms_norm: bool,
    /// Parts that most models of OPT, LLaMA, Mistral and Falcon lack.
    extras: &Extras,
    /// Whether the linear layers of the attention have biases; perhaps not the last ([`Extras::only_qkv_bias`]).
    has_attention_bias = attention_bias: bool,
    /// Whether the linear layers of the feed-forward block have biases.
    has_ffn_bias = ffn_bias: bool,
    /// Whether the embedding is also the output head.
    has_tied_head = tied_head: bool,
});

impl DecoderConfig {
    /// Reads and checks `config.json` in `dir`.
    pub fn load(dir: &Path) -> Result<Self> {
        let path = dir.join("config.json");
        Self::from_json(&path, &crate::loader::read_json(&path, MAX_CONFIG_BYTES)?)
    }

    /// Checks the text of a `config.json`; `path` is for messages.
    pub fn from_json(path: &Path, json: &str) -> Result<Self> {
        let invalid = |source| Error::new(source).context(format!("{} is not valid", path.display()));
        let mut values: Map<String, Value> = match ndp_files::parse_json(json).map_err(invalid)? {
            Value::Object(values) => values,
            _ => return Err(invalid(serde::de::Error::custom("not an object in JSON"))),
        };
        let (model_type, _, read, defaults) = family(&values)?;
        for (field, default) in defaults {
            values.entry(*field).or_insert_with(|| (*default).into());
        }
        let mut fields = Fields::new(path, values);
        let mut config = read(&mut fields)?;
        config.warnings = others::check(fields.others())?;
        config.extras.reports_overflow = !UNCHECKED.contains(&model_type);
        config.checked()
    }

    /// Fields of all families, and defaults of most: as many heads of K and V as of Q, LayerNorm, no biases, a tied head.
    fn of(
        fields: &mut Fields<'_>,
        architecture: Architecture,
        [ffn_dim, max_position_embeddings]: [usize; 2],
    ) -> Result<Self> {
        let heads = fields.required("num_attention_heads")?;
        Ok(Self {
            architecture,
            vocab_size: fields.required("vocab_size")?,
            hidden_size: fields.required("hidden_size")?,
            num_hidden_layers: fields.required("num_hidden_layers")?,
            num_attention_heads: heads,
            num_key_value_heads: heads,
            head_width: 0,
            ffn_dim,
            max_position_embeddings,
            position_limit: "max_position_embeddings",
            warnings: Vec::new(),
            activation: Activation::Relu,
            rms_norm: false,
            norm_eps: Epsilon::OPT.units(),
            rotary_base: None,
            rotary_scaling: RotaryScaling::Default,
            extras: Extras::default(),
            attention_bias: false,
            ffn_bias: false,
            norms_per_layer: 2,
            parallel: false,
            tied_head: true,
            relu_before_qkv: fields.take("relu_before_qkv")?.unwrap_or(false),
        })
    }

    fn checked(mut self) -> Result<Self> {
        for (field, value) in [
            ("vocab_size", self.vocab_size),
            ("hidden_size", self.hidden_size),
            ("num_hidden_layers", self.num_hidden_layers),
            ("num_attention_heads", self.num_attention_heads),
            (self.kv_field(), self.num_key_value_heads),
            (self.ffn_field(), self.ffn_dim),
            ("max_position_embeddings", self.max_position_embeddings),
            ("word_embed_proj_dim", self.embedding_width()),
        ] {
            // Tensor sizes are products of two of these: 32 bits each fit 64.
            if value == 0 || u32::try_from(value).is_err() {
                return Err(unsupported(field, value, "1..=2^32-1"));
            }
        }
        if self.hidden_size > MAX_LEN {
            let expected = format!("at most {MAX_LEN} (normalisation)");
            return Err(unsupported("hidden_size", self.hidden_size, expected));
        }
        let mut width_field = "head_dim";
        if self.head_width == 0 {
            width_field = "hidden_size / num_attention_heads";
            if !self.hidden_size.is_multiple_of(self.num_attention_heads) {
                let expected = format!("a divisor of hidden_size = {}", self.hidden_size);
                return Err(unsupported("num_attention_heads", self.num_attention_heads, expected));
            }
            self.head_width = self.hidden_size / self.num_attention_heads;
        }
        if self.head_width > MAX_LEN || self.rotary_base.is_some() && !self.head_width.is_multiple_of(2) {
            let expected = format!("even, at most {MAX_LEN}");
            return Err(unsupported(width_field, self.head_width, expected));
        }
        if !self.num_attention_heads.is_multiple_of(self.num_key_value_heads) {
            let expected = format!("a divisor of num_attention_heads = {}", self.num_attention_heads);
            return Err(unsupported(self.kv_field(), self.num_key_value_heads, expected));
        }
        if self.max_position_embeddings > MAX_POSITIONS {
            (self.max_position_embeddings, self.position_limit) =
                (MAX_POSITIONS, "the longest row of softmax");
        }
        Ok(self)
    }

    fn ffn_field(&self) -> &'static str {
        match self.architecture {
            Architecture::Opt => "ffn_dim",
            Architecture::Llama => "intermediate_size",
            Architecture::Falcon => "ffn_hidden_size",
        }
    }

    fn kv_field(&self) -> &'static str {
        if self.architecture == Architecture::Falcon { "num_kv_heads" } else { "num_key_value_heads" }
    }

    /// Fails for more positions than [`Self::max_position_embeddings`], with the field that limits them.
    pub fn check_positions(&self, requested: usize) -> Result<()> {
        let (max, limit) = (self.max_position_embeddings, self.position_limit);
        ensure!(
            requested <= max,
            "the text needs {requested} positions, but the model supports {max} ({limit}); use a shorter prompt or generate fewer tokens"
        );
        Ok(())
    }

    /// Fails for more positions than the model has, and for ALiBi unless `backend` computes it.
    pub fn check_text<B: crate::GemvBackend + ?Sized>(&self, backend: &B, requested: usize) -> Result<()> {
        self.check_positions(requested)?;
        if backend.has_alibi() { Ok(()) } else { self.check_alibi() }
    }

    /// Number of last positions that a position of a layer sees; `None` for all.
    pub fn window(&self, layer: usize) -> Option<usize> {
        let Extras { window, full_layers, .. } = &self.extras;
        window.filter(|_| !full_layers.get(layer).is_some_and(|full| *full))
    }

    /// Width of all heads of queries.
    pub fn query_width(&self) -> usize {
        self.num_attention_heads * self.head_width
    }

    /// Width of all heads of keys, or of values.
    pub fn key_width(&self) -> usize {
        self.num_key_value_heads * self.head_width
    }

    /// The same model with norms whose gains are stored whole.
    pub(crate) fn with_whole_gains(mut self) -> Self {
        self.extras.unit_gains = false;
        self
    }

    /// Width of the embedding and of the head's input.
    pub fn embedding_width(&self) -> usize {
        self.extras.embedding_width.unwrap_or(self.hidden_size)
    }

    /// Whether the feed-forward block has a gate: two matrices whose results are multiplied.
    pub fn is_gated(&self) -> bool {
        self.architecture == Architecture::Llama
    }

    /// Rotations of the heads of Q and K in a layer; `None` for embedded positions.
    pub fn rotary(&self, layer: usize) -> Result<Option<ndp_numerics::Rotary>> {
        let width = self.extras.rotated_width.unwrap_or(self.head_width);
        let own = self.rotary_base.map(|base| Angles { base, scaling: self.rotary_scaling });
        let angles = if self.has_window_angles(layer) { self.extras.window_angles } else { own };
        angles.map(|own| ndp_numerics::Rotary::scaled(own.base, width, own.scaling)).transpose()
    }

    /// Whether a layer rotates by [`Extras::window_angles`].
    pub fn has_window_angles(&self, layer: usize) -> bool {
        self.extras.window_angles.is_some() && self.window(layer).is_some()
    }

    /// Addend of a normalisation's variance.
    pub fn norm_eps(&self) -> Epsilon {
        // The field came from an [`Epsilon`].
        Epsilon::new(self.norm_eps).unwrap_or(Epsilon::OPT)
    }
}

fn family(value: &Map<String, Value>) -> Result<Family> {
    let expected = || FAMILIES.map(|(name, ..)| name).join(", ");
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let architectures = value.get("architectures").filter(|value| !value.is_null());
    if let Some(other) = architectures.filter(|value| !value.is_array()) {
        return Err(unsupported("architectures", other, "a list of names"));
    }
    let named = architectures.and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let by_type = match value.get("model_type") {
        None => None,
        Some(found) => {
            let known = FAMILIES.iter().find(|(name, ..)| Some(*name) == found.as_str());
            Some(known.ok_or_else(|| unsupported("model_type", text(found), expected()))?)
        }
    };
    let mut families = by_type.map_or(&FAMILIES[..], std::slice::from_ref).iter();
    if named.is_empty() {
        return by_type.copied().ok_or_else(|| unsupported("model_type", "(absent)", expected()));
    }
    let has = |names: &[&str; 2], name: &Value| names.iter().any(|known| Some(*known) == name.as_str());
    let found = families.find(|(_, names, ..)| named.iter().all(|name| has(names, name)));
    found.copied().ok_or_else(|| {
        let known = by_type.map_or_else(
            || FAMILIES.map(|(_, names, ..)| names[0]).join(", "),
            |(_, names, ..)| names.join(" or "),
        );
        unsupported("architectures", named.iter().map(text).collect::<Vec<_>>().join(", "), known)
    })
}

#[cfg(test)]
mod tests;
