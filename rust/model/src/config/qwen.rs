//! `config.json` of Qwen 2 and 2.5, and of Qwen 3.

use super::{
    Activation, Architecture, DecoderConfig, Extras, QkNorm, Rotary, activation, eps, full_layers, require,
    shorter, unsupported,
};
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
    sliding_window: Option<usize>,
    max_window_layers: Option<usize>,
    layer_types: Option<Vec<String>>,
    #[serde(flatten)]
    rotary: Rotary,
}

/// Qwen 2 and 2.5: biases of Q, K and V.
pub(super) fn read2(raw: Raw) -> Result<DecoderConfig> {
    require("attention_bias", raw.attention_bias, true)?;
    let config = read(raw)?;
    let extras = Extras { only_qkv_bias: true, ..config.extras };
    Ok(DecoderConfig { attention_bias: true, extras, ..config })
}

/// Qwen 3: norms of the heads of Q and K.
pub(super) fn read3(raw: Raw) -> Result<DecoderConfig> {
    let attention_bias = raw.attention_bias.unwrap_or(false);
    let config = read(raw)?;
    let extras = Extras { qk_norm: Some(QkNorm::Heads), ..config.extras };
    Ok(DecoderConfig { attention_bias, extras, ..config })
}

fn read(raw: Raw) -> Result<DecoderConfig> {
    require("mlp_bias", raw.mlp_bias, false)?;
    // The first layers have no window. Without `use_sliding_window` no layer has one, whatever the other keys say.
    let own = raw.sliding_window.filter(|_| raw.use_sliding_window == Some(true));
    let window = shorter(own, raw.max_position_embeddings)?;
    let first = raw.max_window_layers.unwrap_or(28);
    let full_layers = full_layers(raw.layer_types.as_deref(), raw.num_hidden_layers, |layer| layer < first)?;
    if own.is_none() && full_layers.contains(&false) && raw.layer_types.is_some() {
        return Err(unsupported("layer_types", "sliding_attention", "full_attention without a window"));
    }
    // Equal layers are described alike.
    let (window, full_layers) = match window.filter(|_| full_layers.contains(&false)) {
        Some(window) => (Some(window), full_layers),
        None => (None, Vec::new()),
    };
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
        extras: Extras { window, full_layers, ..Extras::default() },
        ..decoder
    })
}
