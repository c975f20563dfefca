//! `config.json` of Qwen 2 and 2.5, and of Qwen 3.

use super::{Activation, Architecture, DecoderConfig, Extras, QkNorm, Rotary, activation, eps, require};
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
    use_sliding_window: Option<bool>,
    /// Without effect unless `use_sliding_window`.
    #[serde(rename = "sliding_window")]
    _sliding_window: Option<usize>,
    #[serde(flatten)]
    rotary: Rotary,
}

/// Qwen 2 and 2.5: biases of Q, K and V.
pub(super) fn read2(raw: Raw) -> Result<DecoderConfig> {
    require("attention_bias", raw.attention_bias, true)?;
    let extras = Extras { only_qkv_bias: true, ..Extras::default() };
    let config = read(raw)?;
    Ok(DecoderConfig { attention_bias: true, extras, ..config })
}

/// Qwen 3: norms of the heads of Q and K.
pub(super) fn read3(raw: Raw) -> Result<DecoderConfig> {
    let extras = Extras { qk_norm: Some(QkNorm::Heads), ..Extras::default() };
    let attention_bias = raw.attention_bias.unwrap_or(false);
    let config = read(raw)?;
    Ok(DecoderConfig { attention_bias, extras, ..config })
}

fn read(raw: Raw) -> Result<DecoderConfig> {
    require("use_sliding_window", raw.use_sliding_window, false)?;
    require("mlp_bias", raw.mlp_bias, false)?;
    let activation = activation(
        "hidden_act",
        raw.hidden_act.as_deref().unwrap_or("silu"),
        &[("silu", Activation::Silu), ("relu", Activation::Relu)],
    )?;
    let positions = raw.max_position_embeddings;
    let decoder = raw.decoder(Architecture::Llama, [raw.intermediate_size, positions])?;
    let angles = raw.rotary.angles(positions)?;
    Ok(DecoderConfig {
        num_key_value_heads: raw.num_key_value_heads.unwrap_or(raw.num_attention_heads),
        head_width: raw.head_dim.unwrap_or(0),
        activation,
        rms_norm: true,
        norm_eps: eps("rms_norm_eps", raw.rms_norm_eps.unwrap_or(1e-6))?,
        rotary_base: Some(angles.base),
        rotary_scaling: angles.scaling,
        tied_head: raw.tie_word_embeddings.unwrap_or(false),
        ..decoder
    })
}
