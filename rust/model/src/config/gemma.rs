//! `config.json` of Gemma 1 and 2, and of Gemma 3 for text.

use super::llama::relative;
use super::{
    Activation, DecoderConfig, Extras, Factor, Fields, NormPlaces, QkNorm, Rotary, full_layers, require,
    shorter, unsupported,
};
use ndp_files::Result;
use ndp_numerics::{Decimal, SoftCap};
use serde_json::Value;

/// Gemma 1.
pub(super) fn gemma(fields: &mut Fields<'_>) -> Result<DecoderConfig> {
    let scalar: Option<f64> = fields.take("query_pre_attn_scalar")?;
    let config = read(fields)?;
    require("query_pre_attn_scalar", scalar, config.head_width as f64)?;
    Ok(config)
}

/// Gemma 2: norms before and after each block, soft caps, and windows in every other layer.
pub(super) fn gemma2(fields: &mut Fields<'_>) -> Result<DecoderConfig> {
    fields.require("sliding_window_pattern", 2)?;
    let score_cap = soft_cap(fields, "attn_logit_softcapping")?;
    let mut config = later(fields, 2)?;
    config.extras.score_cap = score_cap;
    Ok(config)
}

/// Gemma 3: norms of Q and K too, and other angles in layers with a window.
pub(super) fn gemma3(fields: &mut Fields<'_>) -> Result<DecoderConfig> {
    let pattern = fields.take("sliding_window_pattern")?.unwrap_or(6);
    if pattern == 0 {
        return Err(unsupported("sliding_window_pattern", 0, "at least 1"));
    }
    let rotary = Rotary::take(fields)?;
    let local = fields.take("rope_local_base_freq")?;
    let mut config = later(fields, pattern)?;
    let [local, global] = rotary.angles_of_kinds(local, config.max_position_embeddings)?;
    config.extras.qk_norm = Some(QkNorm::Heads);
    config.extras.window_angles = Some(local);
    Ok(DecoderConfig { rotary_base: Some(global.base), rotary_scaling: global.scaling, ..config })
}

/// Parts that Gemma 2 and 3 add, with windows in all layers except every `pattern`-th, unless `layer_types` says
/// otherwise.
fn later(fields: &mut Fields<'_>, pattern: usize) -> Result<DecoderConfig> {
    let types: Option<Vec<String>> = fields.take("layer_types")?;
    let window = fields.take("sliding_window")?;
    let logit_cap = soft_cap(fields, "final_logit_softcapping")?;
    let scalar = fields.take("query_pre_attn_scalar")?.unwrap_or(256.0);
    if f64::fract(scalar) != 0.0 || !(1.0..=f64::from(u32::MAX)).contains(&scalar) {
        return Err(unsupported("query_pre_attn_scalar", scalar, "a whole number from 1 to 2^32-1"));
    }
    let mut config = read(fields)?;
    let is_full = |layer| (layer + 1) % pattern == 0;
    let full_layers = full_layers(types.as_deref(), config.num_hidden_layers, is_full)?;
    if window.is_none() && full_layers.contains(&false) {
        return Err(unsupported("sliding_window", "null", "at least 1"));
    }
    // Layers keep their angles even where the window does not matter.
    shorter(window, config.max_position_embeddings)?;
    config.extras = Extras {
        norm_places: NormPlaces::Both,
        logit_cap,
        query_scale: Some(Factor::InverseRoot(scalar as u32)),
        window,
        full_layers,
        ..config.extras
    };
    Ok(config)
}

/// Fields of all Gemmas.
fn read(fields: &mut Fields<'_>) -> Result<DecoderConfig> {
    for field in ["hidden_act", "hidden_activation"] {
        let name: Option<String> = fields.take(field)?;
        // Gemma's `hidden_act = gelu` has always meant the form with tanh.
        let legacy = field == "hidden_act" && name.as_deref() == Some("gelu");
        if let Some(name) = name.as_deref().filter(|name| *name != "gelu_pytorch_tanh" && !legacy) {
            return Err(unsupported(field, name, "gelu_pytorch_tanh"));
        }
    }
    let head_width = fields.required("head_dim")?;
    let tied_head = fields.take("tie_word_embeddings")?.unwrap_or(true);
    let config = relative(fields, 1e-6)?;
    // Wider models are refused later.
    let root = u32::try_from(config.hidden_size).unwrap_or(0).min(1 << 30);
    let extras = Extras {
        tanh_gelu: true,
        unit_gains: true,
        embedding_scale: Some(Factor::Root(root)),
        ..Extras::default()
    };
    Ok(DecoderConfig { head_width, tied_head, activation: Activation::Gelu, extras, ..config })
}

/// Absent and null are none.
fn soft_cap(fields: &mut Fields<'_>, field: &'static str) -> Result<Option<SoftCap>> {
    let Some(value) = fields.take::<Value>(field)? else { return Ok(None) };
    let cap = value.as_f64().and_then(Decimal::from_f64).and_then(SoftCap::new);
    let cap = cap.ok_or_else(|| unsupported(field, &value, "null, or a number from 1 to 10^4"))?;
    Ok(Some(cap))
}
