//! `config.json` of Falcon.

use super::{Activation, Architecture, DecoderConfig, Rotary, activation, eps, require, unsupported};
use ndp_files::Result;

fields! {
    num_kv_heads: Option<usize>,
    ffn_hidden_size: Option<usize>,
    max_position_embeddings: Option<usize>,
    activation: Option<String>,
    layer_norm_epsilon: Option<f64>,
    alibi: Option<bool>,
    parallel_attn: Option<bool>,
    multi_query: Option<bool>,
    new_decoder_architecture: Option<bool>,
    num_ln_in_parallel_attn: Option<usize>,
    bias: Option<bool>,
    #[serde(flatten)]
    rotary: Rotary,
}

pub(super) fn read(raw: Raw) -> Result<DecoderConfig> {
    require("alibi", raw.alibi, false)?;
    require("parallel_attn", raw.parallel_attn, true)?;
    require("tie_word_embeddings", raw.tie_word_embeddings, true)?;
    let new = raw.new_decoder_architecture.unwrap_or(false);
    let heads = raw.num_attention_heads;
    let kv_heads = match (new, raw.multi_query.unwrap_or(true)) {
        (true, _) => raw.num_kv_heads.unwrap_or(heads),
        (false, true) => 1,
        (false, false) => heads,
    };
    let norms_per_layer = match (new, raw.num_ln_in_parallel_attn) {
        (false, _) | (true, Some(1)) => 1,
        (true, None | Some(2)) => 2,
        (true, Some(norms)) => return Err(unsupported("num_ln_in_parallel_attn", norms, "1 or 2")),
    };
    let known = [("gelu", Activation::Gelu), ("relu", Activation::Relu)];
    let biased = raw.bias.unwrap_or(false);
    let ffn_dim = raw.ffn_hidden_size.unwrap_or(raw.hidden_size.saturating_mul(4));
    let positions = raw.max_position_embeddings.unwrap_or(2048);
    let decoder = raw.decoder(Architecture::Falcon, [ffn_dim, positions])?;
    let angles = raw.rotary.angles(positions)?;
    Ok(DecoderConfig {
        num_key_value_heads: kv_heads,
        activation: activation("activation", raw.activation.as_deref().unwrap_or("gelu"), &known)?,
        norm_eps: eps("layer_norm_epsilon", raw.layer_norm_epsilon.unwrap_or(1e-5))?,
        rotary_base: Some(angles.base),
        rotary_scaling: angles.scaling,
        attention_bias: biased,
        ffn_bias: biased,
        norms_per_layer,
        ..decoder
    })
}
