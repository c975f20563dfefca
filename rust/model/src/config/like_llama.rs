//! `config.json` of Phi-3 and Phi-4-mini, OLMo 2, and Granite: LLaMA with other places of weights, norms, or factors.

use super::{
    Activation, Architecture, DecoderConfig, Extras, Factor, NormPlaces, QkNorm, Rotary, activation, eps,
    require, shorter, unsupported,
};
use ndp_files::Result;
use ndp_numerics::Decimal;

fields! {
    num_key_value_heads: Option<usize>,
    head_dim: Option<usize>,
    intermediate_size: usize,
    max_position_embeddings: usize,
    hidden_act: Option<String>,
    rms_norm_eps: Option<f64>,
    attention_bias: Option<bool>,
    mlp_bias: Option<bool>,
    sliding_window: Option<usize>,
    embedding_multiplier: Option<f64>,
    attention_multiplier: Option<f64>,
    residual_multiplier: Option<f64>,
    logits_scaling: Option<f64>,
    #[serde(flatten)]
    rotary: Rotary,
}

/// Phi-3 and Phi-4-mini: fused projections, perhaps partly rotated heads and a window.
pub(super) fn phi3(mut raw: Raw) -> Result<DecoderConfig> {
    raw.without_factors()?;
    require("attention_bias", raw.attention_bias, false)?;
    let part = raw.rotary.take_part()?;
    let heads = raw.num_attention_heads.max(1);
    let width = raw.head_dim.unwrap_or(raw.hidden_size / heads);
    // As transformers computes it, in double precision.
    let rotated_width = part.map(|part| (width as f64 * part) as usize);
    if let Some(rotated) = rotated_width.filter(|rotated| *rotated == 0 || !rotated.is_multiple_of(2)) {
        return Err(unsupported("head_dim * partial_rotary_factor", rotated, "even, at least 2"));
    }
    let window = shorter(raw.sliding_window.take(), raw.max_position_embeddings)?;
    let extras = Extras { fused: true, rotated_width, window, ..Extras::default() };
    Ok(DecoderConfig { extras, ..read(raw, 1e-5)? })
}

/// OLMo 2: norms after the blocks, and of Q and K as a whole.
pub(super) fn olmo2(raw: Raw) -> Result<DecoderConfig> {
    raw.without_factors()?;
    let extras = Extras { norm_places: NormPlaces::After, qk_norm: Some(QkNorm::Whole), ..Extras::default() };
    Ok(DecoderConfig { extras, ..read(raw, 1e-5)? })
}

/// Granite: factors of embeddings, queries, residuals and logits.
pub(super) fn granite(raw: Raw) -> Result<DecoderConfig> {
    let factor = |field, value: Option<f64>| -> Result<Option<Factor>> {
        let value = value.unwrap_or(1.0);
        let number = Decimal::from_f64(value).filter(|number| !number.is_zero());
        let number = number.ok_or_else(|| unsupported(field, value, "a number from 10^-6 to 10^6"))?;
        Ok(Some(Factor::Number(number)))
    };
    let unless_one = |factor: Option<Factor>| factor.filter(|own| *own != Factor::Number(Decimal::ONE));
    let extras = Extras {
        query_scale: factor("attention_multiplier", raw.attention_multiplier)?,
        embedding_scale: unless_one(factor("embedding_multiplier", raw.embedding_multiplier)?),
        residual_scale: unless_one(factor("residual_multiplier", raw.residual_multiplier)?),
        logit_divisor: unless_one(factor("logits_scaling", raw.logits_scaling)?),
        ..Extras::default()
    };
    let ffn_bias = raw.mlp_bias.unwrap_or(false);
    Ok(DecoderConfig { extras, ffn_bias, ..read(Raw { mlp_bias: None, ..raw }, 1e-6)? })
}

impl Raw {
    /// Refuses factors that only Granite has.
    fn without_factors(&self) -> Result<()> {
        for (field, value) in [
            ("embedding_multiplier", self.embedding_multiplier),
            ("residual_multiplier", self.residual_multiplier),
            ("logits_scaling", self.logits_scaling),
        ] {
            require(field, value, 1.0)?;
        }
        match self.attention_multiplier {
            Some(found) => Err(unsupported("attention_multiplier", found, "null")),
            None => Ok(()),
        }
    }
}

fn read(raw: Raw, default_eps: f64) -> Result<DecoderConfig> {
    require("mlp_bias", raw.mlp_bias, false)?;
    if let Some(found) = raw.sliding_window {
        return Err(unsupported("sliding_window", found, "null"));
    }
    let known = [("silu", Activation::Silu), ("relu", Activation::Relu)];
    let activation = activation("hidden_act", raw.hidden_act.as_deref().unwrap_or("silu"), &known)?;
    let positions = raw.max_position_embeddings;
    let decoder = raw.decoder(Architecture::Llama, [raw.intermediate_size, positions])?;
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
        ..decoder
    })
}
