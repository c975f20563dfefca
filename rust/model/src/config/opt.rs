//! `config.json` of OPT.

use serde::Deserialize;

use super::others::{self, Others};
use super::{Activation, Architecture, DecoderConfig, activation, require, unsupported};
use crate::ModelError;
use ndp_numerics::Epsilon;

/// The fields that matter; every default is Hugging Face's `OPTConfig`'s.
#[derive(Debug, Deserialize)]
pub(super) struct Raw {
    vocab_size: usize,
    hidden_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    ffn_dim: usize,
    max_position_embeddings: usize,
    word_embed_proj_dim: Option<usize>,
    do_layer_norm_before: Option<bool>,
    activation_function: Option<String>,
    enable_bias: Option<bool>,
    layer_norm_elementwise_affine: Option<bool>,
    tie_word_embeddings: Option<bool>,
    #[serde(rename = "_remove_final_layer_norm")]
    remove_final_layer_norm: Option<bool>,
    relu_before_qkv: Option<bool>,
    #[serde(flatten)]
    others: Others,
}

pub(super) fn read(raw: Raw) -> Result<DecoderConfig, ModelError> {
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
    Ok(DecoderConfig {
        architecture: Architecture::Opt,
        vocab_size: raw.vocab_size,
        hidden_size: raw.hidden_size,
        num_hidden_layers: raw.num_hidden_layers,
        num_attention_heads: raw.num_attention_heads,
        num_key_value_heads: raw.num_attention_heads,
        head_width: 0,
        ffn_dim: raw.ffn_dim,
        max_position_embeddings: raw.max_position_embeddings,
        position_limit: "max_position_embeddings",
        warnings: others::check(&raw.others)?,
        activation,
        rms_norm: false,
        norm_eps: Epsilon::OPT.units(),
        rotary_base: None,
        attention_bias: true,
        ffn_bias: true,
        norms_per_layer: 2,
        tied_head: true,
        relu_before_qkv: raw.relu_before_qkv.unwrap_or(false),
    })
}
