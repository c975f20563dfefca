//! `config.json` of OPT.

use super::{Activation, Architecture, DecoderConfig, activation, require, unsupported};
use ndp_files::Result;

fields! {
    ffn_dim: usize,
    max_position_embeddings: usize,
    word_embed_proj_dim: Option<usize>,
    do_layer_norm_before: Option<bool>,
    activation_function: Option<String>,
    enable_bias: Option<bool>,
    layer_norm_elementwise_affine: Option<bool>,
    #[serde(rename = "_remove_final_layer_norm")]
    remove_final_layer_norm: Option<bool>,
}

pub(super) fn read(raw: Raw) -> Result<DecoderConfig> {
    require("do_layer_norm_before", raw.do_layer_norm_before, true)?;
    require("enable_bias", raw.enable_bias, true)?;
    require("layer_norm_elementwise_affine", raw.layer_norm_elementwise_affine, true)?;
    require("tie_word_embeddings", raw.tie_word_embeddings, true)?;
    require("_remove_final_layer_norm", raw.remove_final_layer_norm, false)?;
    let name = raw.activation_function.as_deref().unwrap_or("relu");
    let activation = activation("activation_function", name, &[("relu", Activation::Relu)])?;
    if let Some(width) = raw.word_embed_proj_dim.filter(|width| *width != raw.hidden_size) {
        return Err(unsupported("word_embed_proj_dim", width, format!("hidden_size = {}", raw.hidden_size)));
    }
    let decoder = raw.decoder(Architecture::Opt, [raw.ffn_dim, raw.max_position_embeddings])?;
    Ok(DecoderConfig { activation, attention_bias: true, ffn_bias: true, ..decoder })
}
