//! `config.json` of LLaMA and Mistral.

use serde::Deserialize;

use super::{
    Activation, Architecture, DecoderConfig, RotaryParameters, activation, eps, require, unsupported,
};
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
    rope_theta: Option<f64>,
    rope_scaling: Option<RotaryParameters>,
    rope_parameters: Option<RotaryParameters>,
    partial_rotary_factor: Option<f64>,
    attention_bias: Option<bool>,
    mlp_bias: Option<bool>,
    sliding_window: Option<usize>,
    tie_word_embeddings: Option<bool>,
    relu_before_qkv: Option<bool>,
}

pub(super) fn read(raw: Raw) -> Result<DecoderConfig, ModelError> {
    require("partial_rotary_factor", raw.partial_rotary_factor, 1.0)?;
    let positions = raw.max_position_embeddings;
    if let Some(window) = raw.sliding_window.filter(|window| *window < positions) {
        let expected = format!("null, or at least max_position_embeddings = {positions}");
        return Err(unsupported("sliding_window", window, expected));
    }
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
        max_position_embeddings: positions,
        activation,
        rms_norm: true,
        norm_eps: eps("rms_norm_eps", raw.rms_norm_eps.unwrap_or(1e-6))?,
        rotary_base: Some(RotaryParameters::base(raw.rope_parameters, raw.rope_scaling, raw.rope_theta)?),
        attention_bias: raw.attention_bias.unwrap_or(false),
        ffn_bias: raw.mlp_bias.unwrap_or(false),
        norms_per_layer: 2,
        tied_head: raw.tie_word_embeddings.unwrap_or(false),
        relu_before_qkv: raw.relu_before_qkv.unwrap_or(false),
    })
}
