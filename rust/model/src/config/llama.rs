//! `config.json` of LLaMA and Mistral.

use super::{Activation, Architecture, DecoderConfig, Extras, Rotary, activation, eps, shorter};
use ndp_files::Result;

fields! {
    num_key_value_heads: Option<usize>,
    head_dim: Option<usize>,
    intermediate_size: usize,
    max_position_embeddings: usize,
    hidden_act: Option<String>,
    rms_norm_eps: Option<f64>,
    attention_bias: Option<bool>,
    mlp_bias: Option<bool>,
    sliding_window: Option<usize>,
    #[serde(flatten)]
    rotary: Rotary,
}

/// Mistral: a window in all layers.
pub(super) fn mistral(mut raw: Raw) -> Result<DecoderConfig> {
    let window = shorter(raw.sliding_window.take(), raw.max_position_embeddings)?;
    let extras = Extras { window, ..Extras::default() };
    Ok(DecoderConfig { extras, ..read(raw)? })
}

pub(super) fn read(raw: Raw) -> Result<DecoderConfig> {
    // LLaMA has no windows; with the key, texts end within it.
    let positions = raw.max_position_embeddings;
    let window = shorter(raw.sliding_window, positions)?;
    let (max_position_embeddings, position_limit) = match window {
        Some(window) => (window, "sliding_window"),
        None => (positions, "max_position_embeddings"),
    };
    let known = [("silu", Activation::Silu), ("relu", Activation::Relu)];
    let activation = activation("hidden_act", raw.hidden_act.as_deref().unwrap_or("silu"), &known)?;
    let decoder = raw.decoder(Architecture::Llama, [raw.intermediate_size, max_position_embeddings])?;
    let angles = raw.rotary.angles(positions)?;
    Ok(DecoderConfig {
        num_key_value_heads: raw.num_key_value_heads.unwrap_or(raw.num_attention_heads),
        head_width: raw.head_dim.unwrap_or(0),
        position_limit,
        activation,
        rms_norm: true,
        norm_eps: eps("rms_norm_eps", raw.rms_norm_eps.unwrap_or(1e-6))?,
        rotary_base: Some(angles.base),
        rotary_scaling: angles.scaling,
        attention_bias: raw.attention_bias.unwrap_or(false),
        ffn_bias: raw.mlp_bias.unwrap_or(false),
        tied_head: raw.tie_word_embeddings.unwrap_or(false),
        ..decoder
    })
}
