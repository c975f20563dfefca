//! `config.json` of LLaMA and Mistral.

use serde::Deserialize;

use super::others::{self, Others};
use super::{Activation, Architecture, DecoderConfig, Rotary, activation, eps, unsupported};
use crate::ModelError;

/// The fields that matter; every default is Hugging Face's `LlamaConfig`'s.
#[derive(Debug, Deserialize)]
pub(super) struct Raw {
    vocab_size: usize,
    hidden_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    num_key_value_heads: Option<usize>,
    head_dim: Option<usize>,
    intermediate_size: usize,
    max_position_embeddings: usize,
    hidden_act: Option<String>,
    rms_norm_eps: Option<f64>,
    attention_bias: Option<bool>,
    mlp_bias: Option<bool>,
    sliding_window: Option<usize>,
    tie_word_embeddings: Option<bool>,
    relu_before_qkv: Option<bool>,
    #[serde(flatten)]
    rotary: Rotary,
    #[serde(flatten)]
    others: Others,
}

pub(super) fn read(raw: Raw) -> Result<DecoderConfig, ModelError> {
    // While a text is no longer than the window, each position sees all before it.
    let positions = (raw.max_position_embeddings, "max_position_embeddings");
    let (max_position_embeddings, position_limit) = match raw.sliding_window {
        Some(0) => return Err(unsupported("sliding_window", 0, "null, or at least 1")),
        Some(window) if window < positions.0 => (window, "sliding_window"),
        _ => positions,
    };
    let known = [("silu", Activation::Silu), ("relu", Activation::Relu)];
    let activation = activation("hidden_act", raw.hidden_act.as_deref().unwrap_or("silu"), &known)?;
    Ok(DecoderConfig {
        architecture: Architecture::Llama,
        vocab_size: raw.vocab_size,
        hidden_size: raw.hidden_size,
        num_hidden_layers: raw.num_hidden_layers,
        num_attention_heads: raw.num_attention_heads,
        num_key_value_heads: raw.num_key_value_heads.unwrap_or(raw.num_attention_heads),
        head_width: raw.head_dim.unwrap_or(0),
        ffn_dim: raw.intermediate_size,
        max_position_embeddings,
        position_limit,
        warnings: others::check(&raw.others)?,
        activation,
        rms_norm: true,
        norm_eps: eps("rms_norm_eps", raw.rms_norm_eps.unwrap_or(1e-6))?,
        rotary_base: Some(raw.rotary.base()?),
        attention_bias: raw.attention_bias.unwrap_or(false),
        ffn_bias: raw.mlp_bias.unwrap_or(false),
        norms_per_layer: 2,
        tied_head: raw.tie_word_embeddings.unwrap_or(false),
        relu_before_qkv: raw.relu_before_qkv.unwrap_or(false),
    })
}
