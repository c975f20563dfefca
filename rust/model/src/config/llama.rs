//! `config.json` of LLaMA and its relatives. Fields that one of them lacks stay for [`super::others`].

use super::{
    Activation, Architecture, DecoderConfig, Extras, Factor, Fields, MAX_POSITIONS, Mixture, NormPlaces,
    QkNorm, Rotary, activation, eps, full_layers, shorter, unsupported,
};
use ndp_files::Result;
use ndp_numerics::{Decimal, RotaryScaling};

/// Fields of LLaMA and all its relatives; the family gives `default_eps`.
pub(super) fn relative(fields: &mut Fields<'_>, default_eps: f64) -> Result<DecoderConfig> {
    let rotary = Rotary::take(fields)?;
    rotated(fields, default_eps, rotary)
}

fn rotated(fields: &mut Fields<'_>, default_eps: f64, rotary: Rotary) -> Result<DecoderConfig> {
    let positions = fields.required("max_position_embeddings")?;
    let ffn_dim = fields.required("intermediate_size")?;
    let decoder = DecoderConfig::of(fields, Architecture::Llama, [ffn_dim, positions])?;
    let known = [("silu", Activation::Silu), ("relu", Activation::Relu)];
    let angles = rotary.angles(positions)?;
    Ok(DecoderConfig {
        num_key_value_heads: fields.take("num_key_value_heads")?.unwrap_or(decoder.num_attention_heads),
        head_width: fields.take("head_dim")?.unwrap_or(0),
        activation: activation(fields, "hidden_act", "silu", &known)?,
        rms_norm: true,
        norm_eps: eps("rms_norm_eps", fields.take("rms_norm_eps")?.unwrap_or(default_eps))?,
        rotary_base: Some(angles.base),
        rotary_scaling: angles.scaling,
        attention_bias: fields.take("attention_bias")?.unwrap_or(false),
        tied_head: fields.take("tie_word_embeddings")?.unwrap_or(false),
        ..decoder
    })
}

/// The same, with biases of the feed-forward block.
fn biased(fields: &mut Fields<'_>) -> Result<DecoderConfig> {
    let ffn_bias = fields.take("mlp_bias")?.unwrap_or(false);
    Ok(DecoderConfig { ffn_bias, ..relative(fields, 1e-6)? })
}

/// LLaMA has no windows; with the key, texts end within it.
pub(super) fn llama(fields: &mut Fields<'_>) -> Result<DecoderConfig> {
    let window = fields.take("sliding_window")?;
    let config = biased(fields)?;
    Ok(match shorter(window, config.max_position_embeddings)? {
        Some(window) => {
            DecoderConfig { max_position_embeddings: window, position_limit: "sliding_window", ..config }
        }
        None => config,
    })
}

/// Adds a window to all layers.
fn windowed(
    fields: &mut Fields<'_>,
    read: impl FnOnce(&mut Fields<'_>) -> Result<DecoderConfig>,
) -> Result<DecoderConfig> {
    let window = fields.take("sliding_window")?;
    let mut config = read(fields)?;
    config.extras.window = shorter(window, config.max_position_embeddings)?;
    Ok(config)
}

/// Mistral: a window in all layers.
pub(super) fn mistral(fields: &mut Fields<'_>) -> Result<DecoderConfig> {
    windowed(fields, biased)
}

/// Phi-3 and Phi-4-mini: fused projections, perhaps partly rotated heads and a window.
pub(super) fn phi3(fields: &mut Fields<'_>) -> Result<DecoderConfig> {
    fields.require("attention_bias", false)?;
    let mut rotary = Rotary::take(fields)?;
    let part = rotary.take_part()?;
    let mut config = windowed(fields, |fields| rotated(fields, 1e-5, rotary))?;
    let kind = match config.rotary_scaling {
        RotaryScaling::Default => None,
        RotaryScaling::Linear { .. } => Some("linear"),
        RotaryScaling::Llama3 { .. } => Some("llama3"),
        RotaryScaling::Yarn { .. } => Some("yarn"),
    };
    if let Some(kind) = kind {
        return Err(unsupported("rope_scaling", kind, "default"));
    }
    let width = match config.head_width {
        0 => config.hidden_size / config.num_attention_heads.max(1),
        width => width,
    };
    // As transformers computes it, in double precision.
    let rotated_width = part.map(|part| (width as f64 * part) as usize);
    if let Some(rotated) = rotated_width.filter(|rotated| *rotated == 0 || !rotated.is_multiple_of(2)) {
        return Err(unsupported("head_dim * partial_rotary_factor", rotated, "even, at least 2"));
    }
    config.extras = Extras { fused: true, rotated_width, ..config.extras };
    Ok(config)
}

/// OLMo 2: norms after the blocks, and of Q and K as a whole.
pub(super) fn olmo2(fields: &mut Fields<'_>) -> Result<DecoderConfig> {
    let extras = Extras { norm_places: NormPlaces::After, qk_norm: Some(QkNorm::Whole), ..Extras::default() };
    Ok(DecoderConfig { extras, ..relative(fields, 1e-5)? })
}

/// Granite: factors of embeddings, queries, residuals and logits.
pub(super) fn granite(fields: &mut Fields<'_>) -> Result<DecoderConfig> {
    let mut factor = |field| -> Result<Option<Factor>> {
        let value = fields.take(field)?.unwrap_or(1.0);
        let number = Decimal::from_f64(value).filter(|number| !number.is_zero());
        let number = number.ok_or_else(|| unsupported(field, value, "a number from 10^-6 to 10^6"))?;
        Ok(Some(Factor::Number(number)))
    };
    let unless_one = |factor: Option<Factor>| factor.filter(|own| *own != Factor::Number(Decimal::ONE));
    let extras = Extras {
        query_scale: factor("attention_multiplier")?,
        embedding_scale: unless_one(factor("embedding_multiplier")?),
        residual_scale: unless_one(factor("residual_multiplier")?),
        logit_divisor: unless_one(factor("logits_scaling")?),
        ..Extras::default()
    };
    Ok(DecoderConfig { extras, ..biased(fields)? })
}

/// Qwen 2 and 2.5: biases of Q, K and V.
pub(super) fn qwen2(fields: &mut Fields<'_>) -> Result<DecoderConfig> {
    fields.require("attention_bias", true)?;
    let mut config = qwen(fields)?;
    config.extras.only_qkv_bias = true;
    Ok(DecoderConfig { attention_bias: true, ..config })
}

/// Qwen 3: norms of the heads of Q and K.
pub(super) fn qwen3(fields: &mut Fields<'_>) -> Result<DecoderConfig> {
    let mut config = qwen(fields)?;
    config.extras.qk_norm = Some(QkNorm::Heads);
    Ok(config)
}

/// The first layers have no window. Without `use_sliding_window` no layer has one, whatever the other keys say.
fn qwen(fields: &mut Fields<'_>) -> Result<DecoderConfig> {
    let is_used = fields.take("use_sliding_window")? == Some(true);
    let own = fields.take("sliding_window")?.filter(|_| is_used);
    let first = fields.take("max_window_layers")?.unwrap_or(28);
    let types: Option<Vec<String>> = fields.take("layer_types")?;
    let mut config = relative(fields, 1e-6)?;
    let window = shorter(own, config.max_position_embeddings)?;
    let full_layers = full_layers(types.as_deref(), config.num_hidden_layers, |layer| layer < first)?;
    if own.is_none() && full_layers.contains(&false) && types.is_some() {
        return Err(unsupported("layer_types", "sliding_attention", "full_attention without a window"));
    }
    // Equal layers are described alike.
    if let Some(window) = window.filter(|_| full_layers.contains(&false)) {
        config.extras = Extras { window: Some(window), full_layers, ..config.extras };
    }
    Ok(config)
}

/// Mixtral.
pub(super) fn mixtral(fields: &mut Fields<'_>) -> Result<DecoderConfig> {
    let mut rotary = Rotary::take(fields)?;
    rotary.set_default_base(1e6);
    fields.require("attention_bias", false)?;
    fields.require("norm_topk_prob", true)?;
    let mixture = Mixture {
        experts: fields.required("num_local_experts")?,
        used: fields.required("num_experts_per_tok")?,
        normalised: true,
        mixtral: true,
    };
    let config = windowed(fields, |fields| rotated(fields, 1e-5, rotary))?;
    with_experts(fields, config, "num_local_experts", mixture)
}

/// Qwen 3 with experts in every layer.
pub(super) fn qwen3_moe(fields: &mut Fields<'_>) -> Result<DecoderConfig> {
    fields.require("use_sliding_window", false)?;
    // Newer files have the second spelling.
    let [own, newer] = [fields.take("num_experts")?, fields.take("num_local_experts")?];
    let experts: usize = own.or(newer).unwrap_or(128);
    super::require("num_local_experts", newer, experts)?;
    let mixture = Mixture {
        experts,
        used: fields.required("num_experts_per_tok")?,
        normalised: fields.take("norm_topk_prob")?.unwrap_or(false),
        mixtral: false,
    };
    let ffn_dim: usize = fields.required("moe_intermediate_size")?;
    fields.set("intermediate_size", ffn_dim);
    let mut config = relative(fields, 1e-6)?;
    config.extras.qk_norm = Some(QkNorm::Heads);
    with_experts(fields, config, "num_experts", mixture)
}

fn with_experts(
    fields: &mut Fields<'_>,
    mut config: DecoderConfig,
    field: &'static str,
    mixture: Mixture,
) -> Result<DecoderConfig> {
    fields.require("decoder_sparse_step", 1)?;
    fields.require("shared_expert_intermediate_size", 0)?;
    let dense: Option<Vec<usize>> = fields.take("mlp_only_layers")?;
    if let Some(layer) = dense.iter().flatten().next() {
        return Err(unsupported("mlp_only_layers", layer, "no layers"));
    }
    let Mixture { experts, used, .. } = mixture;
    // Softmax bounds the experts, as it bounds the positions.
    if !(1..=MAX_POSITIONS).contains(&experts) {
        return Err(unsupported(field, experts, format!("1..={MAX_POSITIONS}")));
    }
    if !(1..=experts).contains(&used) {
        return Err(unsupported("num_experts_per_tok", used, format!("1..={field} = {experts}")));
    }
    config.extras.mixture = Some(mixture);
    Ok(config)
}
