//! `config.json` of OPT.

use super::{Activation, Architecture, DecoderConfig, Fields, activation, unsupported};
use ndp_files::Result;

pub(super) fn read(fields: &mut Fields<'_>) -> Result<DecoderConfig> {
    fields.require("do_layer_norm_before", true)?;
    fields.require("enable_bias", true)?;
    fields.require("layer_norm_elementwise_affine", true)?;
    fields.require("tie_word_embeddings", true)?;
    fields.require("_remove_final_layer_norm", false)?;
    let activation = activation(fields, "activation_function", "relu", &[("relu", Activation::Relu)])?;
    let sizes = [fields.required("ffn_dim")?, fields.required("max_position_embeddings")?];
    let decoder = DecoderConfig::of(fields, Architecture::Opt, sizes)?;
    let width: Option<usize> = fields.take("word_embed_proj_dim")?;
    if let Some(width) = width.filter(|width| *width != decoder.hidden_size) {
        let expected = format!("hidden_size = {}", decoder.hidden_size);
        return Err(unsupported("word_embed_proj_dim", width, expected));
    }
    Ok(DecoderConfig { activation, attention_bias: true, ffn_bias: true, ..decoder })
}
