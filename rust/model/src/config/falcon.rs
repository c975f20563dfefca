//! `config.json` of Falcon.

use super::{
    Activation, Architecture, DecoderConfig, Extras, Fields, Rotary, activation, eps, require, unsupported,
};
use ndp_files::Result;
use ndp_numerics::RotaryScaling;

pub(super) fn read(fields: &mut Fields<'_>) -> Result<DecoderConfig> {
    let alibi = fields.take("alibi")?.unwrap_or(false);
    let new = fields.take("new_decoder_architecture")?.unwrap_or(false);
    let parallel = fields.take("parallel_attn")?.unwrap_or(true);
    if new {
        require("parallel_attn", Some(parallel), true)?;
    }
    fields.require("tie_word_embeddings", true)?;
    let ffn_dim: Option<usize> = fields.take("ffn_hidden_size")?;
    let positions = fields.take("max_position_embeddings")?.unwrap_or(2048);
    let decoder = DecoderConfig::of(fields, Architecture::Falcon, [0, positions])?;
    let ffn_dim = ffn_dim.unwrap_or(decoder.hidden_size.saturating_mul(4));
    let heads = decoder.num_attention_heads;
    let kv_heads: Option<usize> = fields.take("num_kv_heads")?;
    let kv_heads = match (new, fields.take("multi_query")?.unwrap_or(true)) {
        (true, _) => kv_heads.unwrap_or(heads),
        (false, true) => 1,
        (false, false) => {
            require("num_kv_heads", kv_heads, heads)?;
            heads
        }
    };
    let norms_per_layer = match (new, fields.take("num_ln_in_parallel_attn")?) {
        (false, _) if !parallel => 2,
        (false, _) | (true, Some(1)) => 1,
        (true, None | Some(2)) => 2,
        (true, Some(norms)) => return Err(unsupported("num_ln_in_parallel_attn", norms, "1 or 2")),
    };
    let known = [("gelu", Activation::Gelu), ("relu", Activation::Relu)];
    let biased = fields.take("bias")?.unwrap_or(false);
    let rotary = Rotary::take(fields)?;
    let angles = if alibi { None } else { Some(rotary.angles(positions)?) };
    Ok(DecoderConfig {
        num_key_value_heads: kv_heads,
        ffn_dim,
        activation: activation(fields, "activation", "gelu", &known)?,
        norm_eps: eps("layer_norm_epsilon", fields.take("layer_norm_epsilon")?.unwrap_or(1e-5))?,
        rotary_base: angles.map(|angles| angles.base),
        rotary_scaling: angles.map_or(RotaryScaling::Default, |angles| angles.scaling),
        attention_bias: biased,
        ffn_bias: biased,
        norms_per_layer,
        parallel,
        extras: Extras { alibi, ..Extras::default() },
        ..decoder
    })
}
