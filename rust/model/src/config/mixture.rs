//! `config.json` of mixtures of experts: Mixtral and Qwen 3.

use super::{
    Activation, Architecture, DecoderConfig, Extras, Mixture, QkNorm, Rotary, activation, eps, require,
    shorter, unsupported,
};
use ndp_files::Result;

fields! {
    num_key_value_heads: Option<usize>,
    head_dim: Option<usize>,
    intermediate_size: Option<usize>,
    moe_intermediate_size: Option<usize>,
    max_position_embeddings: usize,
    hidden_act: Option<String>,
    rms_norm_eps: Option<f64>,
    attention_bias: Option<bool>,
    mlp_bias: Option<bool>,
    sliding_window: Option<usize>,
    use_sliding_window: Option<bool>,
    num_local_experts: Option<usize>,
    num_experts: Option<usize>,
    num_experts_per_tok: usize,
    norm_topk_prob: Option<bool>,
    decoder_sparse_step: Option<usize>,
    mlp_only_layers: Option<Vec<usize>>,
    shared_expert_intermediate_size: Option<usize>,
    #[serde(flatten)]
    rotary: Rotary,
}

/// Mixtral.
pub(super) fn mixtral(mut raw: Raw) -> Result<DecoderConfig> {
    raw.rotary.set_default_base(1e6);
    require("attention_bias", raw.attention_bias, false)?;
    require("num_experts", raw.num_experts, 0)?;
    require("norm_topk_prob", raw.norm_topk_prob, true)?;
    let window = shorter(raw.sliding_window.take(), raw.max_position_embeddings)?;
    let experts = raw.num_local_experts.unwrap_or(8);
    let ffn_dim = raw.intermediate_size.unwrap_or(14_336);
    let mixture = Mixture { experts, used: raw.num_experts_per_tok, normalised: true, mixtral: true };
    let extras = Extras { window, mixture: Some(mixture), ..Extras::default() };
    read(raw, ("num_local_experts", mixture), (ffn_dim, 1e-5), extras)
}

/// Qwen 3, in which every layer has experts.
pub(super) fn qwen3(raw: Raw) -> Result<DecoderConfig> {
    require("use_sliding_window", raw.use_sliding_window, false)?;
    // Newer files have the second spelling.
    let experts = raw.num_experts.or(raw.num_local_experts).unwrap_or(128);
    require("num_local_experts", raw.num_local_experts, experts)?;
    let normalised = raw.norm_topk_prob.unwrap_or(false);
    let mixture = Mixture { experts, used: raw.num_experts_per_tok, normalised, mixtral: false };
    let extras = Extras { qk_norm: Some(QkNorm::Heads), mixture: Some(mixture), ..Extras::default() };
    let ffn_dim = raw.moe_intermediate_size.unwrap_or(768);
    read(raw, ("num_experts", mixture), (ffn_dim, 1e-6), extras)
}

fn read(
    raw: Raw,
    (field, Mixture { experts, used, .. }): (&'static str, Mixture),
    (ffn_dim, default_eps): (usize, f64),
    extras: Extras,
) -> Result<DecoderConfig> {
    require("mlp_bias", raw.mlp_bias, false)?;
    require("decoder_sparse_step", raw.decoder_sparse_step, 1)?;
    require("shared_expert_intermediate_size", raw.shared_expert_intermediate_size, 0)?;
    if let Some(layer) = raw.mlp_only_layers.iter().flatten().next() {
        return Err(unsupported("mlp_only_layers", layer, "no layers"));
    }
    // Softmax bounds the experts, as it bounds the positions.
    if !(1..=super::MAX_POSITIONS).contains(&experts) {
        return Err(unsupported(field, experts, format!("1..={}", super::MAX_POSITIONS)));
    }
    if !(1..=experts).contains(&used) {
        return Err(unsupported("num_experts_per_tok", used, format!("1..={field} = {experts}")));
    }
    let known = [("silu", Activation::Silu), ("relu", Activation::Relu)];
    let activation = activation("hidden_act", raw.hidden_act.as_deref().unwrap_or("silu"), &known)?;
    let positions = raw.max_position_embeddings;
    let decoder = raw.decoder(Architecture::Llama, [ffn_dim, positions])?;
    let angles = raw.rotary.angles(positions)?;
    Ok(DecoderConfig {
        num_key_value_heads: raw.num_key_value_heads.unwrap_or(raw.num_attention_heads),
        head_width: raw.head_dim.unwrap_or(0),
        activation,
        rms_norm: true,
        norm_eps: eps("rms_norm_eps", raw.rms_norm_eps.unwrap_or(default_eps))?,
        rotary_base: Some(angles.base),
        rotary_scaling: angles.scaling,
        attention_bias: raw.attention_bias.unwrap_or(false),
        tied_head: raw.tie_word_embeddings.unwrap_or(false),
        extras,
        ..decoder
    })
}
