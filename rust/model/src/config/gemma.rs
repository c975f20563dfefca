//! `config.json` of Gemma 1 and 2, and of Gemma 3 for text.

use super::{
    Activation, Architecture, DecoderConfig, Extras, Factor, NormPlaces, QkNorm, Rotary, eps, full_layers,
    require, shorter, unsupported,
};
use ndp_files::Result;
use ndp_numerics::{Decimal, SoftCap};
use serde_json::Value;

fields! {
    num_key_value_heads: Option<usize>,
    head_dim: usize,
    intermediate_size: usize,
    max_position_embeddings: usize,
    hidden_act: Option<String>,
    hidden_activation: Option<String>,
    rms_norm_eps: Option<f64>,
    attention_bias: Option<bool>,
    query_pre_attn_scalar: Option<f64>,
    sliding_window: Option<usize>,
    sliding_window_pattern: Option<usize>,
    layer_types: Option<Vec<String>>,
    /// Absent: the family's default. Null: none.
    #[serde(default = "absent")]
    attn_logit_softcapping: Value,
    #[serde(default = "absent")]
    final_logit_softcapping: Value,
    rope_local_base_freq: Option<f64>,
    #[serde(flatten)]
    rotary: Rotary,
}

fn absent() -> Value {
    Value::Bool(false)
}

fn soft_cap(field: &'static str, value: &Value, default: Option<u32>) -> Result<Option<SoftCap>> {
    let cap = match value {
        Value::Null => return Ok(None),
        Value::Bool(false) => match default {
            None => return Ok(None),
            Some(default) => Some(Decimal::whole(default)),
        },
        value => value.as_f64().and_then(Decimal::from_f64),
    };
    match cap.and_then(SoftCap::new) {
        Some(cap) => Ok(Some(cap)),
        None => Err(unsupported(field, value, "null, or a number from 1 to 10^4")),
    }
}

/// Gemma 1.
pub(super) fn gemma(raw: Raw) -> Result<DecoderConfig> {
    raw.refuse_windows()?;
    require("query_pre_attn_scalar", raw.query_pre_attn_scalar, raw.head_dim as f64)?;
    let caps = [&raw.attn_logit_softcapping, &raw.final_logit_softcapping];
    for (field, value) in ["attn_logit_softcapping", "final_logit_softcapping"].into_iter().zip(caps) {
        if !matches!(value, Value::Null | Value::Bool(false)) {
            return Err(unsupported(field, value, "null"));
        }
    }
    read(raw, None)
}

/// Gemma 2: norms before and after each block, soft caps, and windows in every other layer.
pub(super) fn gemma2(mut raw: Raw) -> Result<DecoderConfig> {
    if let Some(found) = raw.sliding_window_pattern.filter(|found| *found != 2) {
        return Err(unsupported("sliding_window_pattern", found, 2));
    }
    if let Some(found) = raw.rope_local_base_freq {
        return Err(unsupported("rope_local_base_freq", found, "null"));
    }
    let extras = Extras {
        norm_places: NormPlaces::Both,
        score_cap: soft_cap("attn_logit_softcapping", &raw.attn_logit_softcapping, Some(50))?,
        logit_cap: soft_cap("final_logit_softcapping", &raw.final_logit_softcapping, Some(30))?,
        query_scale: Some(raw.query_scale()?),
        ..raw.windows(2)?
    };
    let config = read(raw, None)?;
    Ok(config.with(extras))
}

/// Gemma 3: norms of Q and K too, and other angles in layers with a window.
pub(super) fn gemma3(mut raw: Raw) -> Result<DecoderConfig> {
    if !matches!(raw.attn_logit_softcapping, Value::Null | Value::Bool(false)) {
        return Err(unsupported("attn_logit_softcapping", &raw.attn_logit_softcapping, "null"));
    }
    let pattern = raw.sliding_window_pattern.unwrap_or(6);
    if pattern == 0 {
        return Err(unsupported("sliding_window_pattern", 0, "at least 1"));
    }
    let extras = Extras {
        norm_places: NormPlaces::Both,
        qk_norm: Some(QkNorm::Heads),
        logit_cap: soft_cap("final_logit_softcapping", &raw.final_logit_softcapping, None)?,
        query_scale: Some(raw.query_scale()?),
        ..raw.windows(pattern)?
    };
    let local = raw.rope_local_base_freq;
    let config = read(raw, Some(local))?;
    Ok(config.with(extras))
}

impl DecoderConfig {
    /// Adds parts to those that all Gemmas have.
    fn with(self, extras: Extras) -> Self {
        let Extras { tanh_gelu, unit_gains, embedding_scale, window_angles, .. } = self.extras;
        let extras = Extras { tanh_gelu, unit_gains, embedding_scale, window_angles, ..extras };
        Self { extras, ..self }
    }
}

impl Raw {
    fn refuse_windows(&self) -> Result<()> {
        let types = self.layer_types.iter().flatten().find(|kind| *kind != "full_attention");
        let found = [
            ("sliding_window", self.sliding_window.map(|found| found.to_string())),
            ("sliding_window_pattern", self.sliding_window_pattern.map(|found| found.to_string())),
            ("rope_local_base_freq", self.rope_local_base_freq.map(|found| found.to_string())),
            ("layer_types", types.cloned()),
        ];
        match found.into_iter().find_map(|(field, found)| Some((field, found?))) {
            Some((field, found)) => Err(unsupported(field, found, "null")),
            None => Ok(()),
        }
    }

    /// `1 / sqrt(query_pre_attn_scalar)`; 256 by default.
    fn query_scale(&self) -> Result<Factor> {
        let found = self.query_pre_attn_scalar.unwrap_or(256.0);
        if found.fract() != 0.0 || !(1.0..=f64::from(u32::MAX)).contains(&found) {
            return Err(unsupported("query_pre_attn_scalar", found, "a whole number from 1 to 2^32-1"));
        }
        Ok(Factor::InverseRoot(found as u32))
    }

    /// Windows in all layers except every `pattern`-th, unless `layer_types` says otherwise.
    fn windows(&mut self, pattern: usize) -> Result<Extras> {
        let types = self.layer_types.take();
        let full_layers =
            full_layers(types.as_deref(), self.num_hidden_layers, |layer| (layer + 1) % pattern == 0)?;
        if self.sliding_window.is_none() && full_layers.contains(&false) {
            return Err(unsupported("sliding_window", "null", "at least 1"));
        }
        // Layers keep their angles even where the window does not matter.
        shorter(self.sliding_window, self.max_position_embeddings)?;
        Ok(Extras { window: self.sliding_window.take(), full_layers, ..Extras::default() })
    }
}

/// `local_base`: layers with a window have angles of their own.
fn read(raw: Raw, local_base: Option<Option<f64>>) -> Result<DecoderConfig> {
    let named = [("hidden_act", &raw.hidden_act), ("hidden_activation", &raw.hidden_activation)];
    for (field, name) in named {
        // Gemma's `hidden_act = gelu` has always meant the form with tanh.
        let legacy = field == "hidden_act" && name.as_deref() == Some("gelu");
        if let Some(name) = name.as_deref().filter(|name| *name != "gelu_pytorch_tanh" && !legacy) {
            return Err(unsupported(field, name, "gelu_pytorch_tanh"));
        }
    }
    let positions = raw.max_position_embeddings;
    let decoder = raw.decoder(Architecture::Llama, [raw.intermediate_size, positions])?;
    let (angles, window_angles) = match local_base {
        None => (raw.rotary.angles(positions)?, None),
        Some(local) => {
            let [local, global] = raw.rotary.angles_of_kinds(local, positions)?;
            (global, Some(local))
        }
    };
    // Wider models are refused later.
    let root = u32::try_from(raw.hidden_size).unwrap_or(0).min(1 << 30);
    Ok(DecoderConfig {
        num_key_value_heads: raw.num_key_value_heads.unwrap_or(raw.num_attention_heads),
        head_width: raw.head_dim,
        activation: Activation::Gelu,
        rms_norm: true,
        norm_eps: eps("rms_norm_eps", raw.rms_norm_eps.unwrap_or(1e-6))?,
        rotary_base: Some(angles.base),
        rotary_scaling: angles.scaling,
        attention_bias: raw.attention_bias.unwrap_or(false),
        tied_head: raw.tie_word_embeddings.unwrap_or(true),
        extras: Extras {
            tanh_gelu: true,
            unit_gains: true,
            embedding_scale: Some(Factor::Root(root)),
            window_angles,
            ..Extras::default()
        },
        ..decoder
    })
}
