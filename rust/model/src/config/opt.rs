//! `config.json` of OPT.

use super::{Activation, Architecture, DecoderConfig, Extras, Fields, NormPlaces, activation};
use ndp_files::Result;

pub(super) fn read(fields: &mut Fields<'_>) -> Result<DecoderConfig> {
    let is_before = fields.take("do_layer_norm_before")?.unwrap_or(true);
    fields.require("enable_bias", true)?;
    fields.require("layer_norm_elementwise_affine", true)?;
    fields.require("tie_word_embeddings", true)?;
    let is_removed = fields.take("_remove_final_layer_norm")?.unwrap_or(false);
    let activation = activation(fields, "activation_function", "relu", &[("relu", Activation::Relu)])?;
    let sizes = [fields.required("ffn_dim")?, fields.required("max_position_embeddings")?];
    let decoder = DecoderConfig::of(fields, Architecture::Opt, sizes)?;
    let width: Option<usize> = fields.take("word_embed_proj_dim")?;
    let extras = Extras {
        norm_places: if is_before { NormPlaces::Before } else { NormPlaces::AfterResidual },
        embedding_width: width.filter(|width| *width != decoder.hidden_size),
        no_final_norm: is_removed || !is_before,
        ..Extras::default()
    };
    Ok(DecoderConfig { activation, attention_bias: true, ffn_bias: true, extras, ..decoder })
}
