//! Fields of a `config.json` that no family reads. Fields that would change the result are refused by name, harmless
//! ones are ignored, and others cause a warning.

use ndp_files::Result;
use serde_json::{Map, Value};

use super::unsupported;

/// Fields of related models with their neutral value; null, and empty lists or objects are also neutral.
const NEUTRAL: [(&str, &str); 50] = [
    // Positions that a position sees.
    ("add_cross_attention", "false"),
    ("attention_chunk_size", "null"),
    ("is_causal", "true"),
    ("is_encoder_decoder", "false"),
    ("layer_types", "full_attention"),
    ("sliding_window", "null"),
    ("sliding_window_pattern", "null"),
    ("use_bidirectional_attention", "false"),
    // Factors and limits of scores, residuals and logits.
    ("attention_multiplier", "null"),
    ("attn_logit_softcapping", "null"),
    ("attn_temperature_tuning", "false"),
    ("clip_qkv", "null"),
    ("dim_model_base", "null"),
    ("embedding_multiplier", "1"),
    ("final_logit_softcapping", "null"),
    ("lm_head_multiplier", "1"),
    ("logit_scale", "1"),
    ("logits_scaling", "1"),
    ("query_pre_attn_scalar", "null"),
    ("residual_multiplier", "1"),
    ("scale_depth", "null"),
    ("scale_emb", "1"),
    ("scale_embedding", "false"),
    ("swiglu_limit", "null"),
    // Rotary embedding under other names.
    ("no_rope_layer_interval", "0"),
    ("no_rope_layers", "1"),
    ("rope_interleave", "false"),
    ("rope_interleaved", "false"),
    ("rope_local_base_freq", "null"),
    ("rope_ratio", "1"),
    ("rotary_dim", "null"),
    ("rotary_emb_base", "10000"),
    ("rotary_pct", "1"),
    // Other layers.
    ("apply_residual_connection_post_layernorm", "false"),
    ("bias", "false"),
    ("hidden_activation", "null"),
    ("kv_lora_rank", "null"),
    ("lm_head_bias", "false"),
    ("mlp_bias", "false"),
    ("n_embed", "null"),
    ("n_routed_experts", "0"),
    ("num_experts", "0"),
    ("num_local_experts", "0"),
    ("pruned_heads", "null"),
    ("qk_layernorm", "false"),
    ("qk_norm", "false"),
    ("q_lora_rank", "null"),
    ("qkv_bias", "false"),
    ("use_bias", "false"),
    ("use_qk_norm", "false"),
];

const QUANTISED: [&str; 3] = ["compression_config", "quantization", "quantization_config"];

/// Sampling options with their neutral value; the sampler has none of them.
const SAMPLING: [(&str, &str); 10] = [
    ("bad_words_ids", "null"),
    ("begin_suppress_tokens", "null"),
    ("encoder_no_repeat_ngram_size", "0"),
    ("exponential_decay_length_penalty", "null"),
    ("forced_bos_token_id", "null"),
    ("forced_eos_token_id", "null"),
    ("min_length", "0"),
    ("no_repeat_ngram_size", "0"),
    ("repetition_penalty", "1"),
    ("suppress_tokens", "null"),
];

/// The checkpoint's own code.
const CODE: &str = "auto_map";

/// Fields without effect on logits.
const HARMLESS: [&str; 86] = [
    "_attn_implementation",
    "_attn_implementation_autoset",
    "_commit_hash",
    "_flash_attn_2_enabled",
    "_name_or_path",
    "_sliding_window_pattern",
    "activation_dropout",
    "architectures",
    "attention_dropout",
    "attn_implementation",
    "attn_pdrop",
    "bos_token_id",
    "cache_implementation",
    "chunk_size_feed_forward",
    "classifier_dropout",
    "cls_token_id",
    "cross_attention_hidden_size",
    "decoder_start_token_id",
    "diversity_penalty",
    "do_sample",
    "dropout",
    "dtype",
    "early_stopping",
    "embd_pdrop",
    "eos_token_id",
    "finetuning_task",
    "gradient_checkpointing",
    "hidden_dropout",
    "id2label",
    "ignore_keys_at_rope_validation",
    "init_std",
    "initializer_range",
    "is_decoder",
    "label2id",
    "layerdrop",
    "length_penalty",
    "mask_token_id",
    "max_length",
    "max_sequence_length",
    "max_window_layers",
    "model_max_length",
    "model_type",
    "num_assistant_tokens",
    "num_beam_groups",
    "num_beams",
    "num_experts_per_tok",
    "num_labels",
    "num_return_sequences",
    "output_attentions",
    "output_hidden_states",
    "output_router_logits",
    "output_scores",
    "pad_token_id",
    "prefix",
    "pretraining_tp",
    "problem_type",
    "remove_invalid_values",
    "resid_pdrop",
    "return_dict",
    "return_dict_in_generate",
    "router_aux_loss_coef",
    "router_jitter_noise",
    "sep_token_id",
    "task_specific_params",
    "temperature",
    "tf_legacy_loss",
    "tie_encoder_decoder",
    "tokenizer_class",
    "top_k",
    "top_p",
    "torch_dtype",
    "torchscript",
    "transformers_version",
    "transformers.js_config",
    "typical_p",
    "unk_token_id",
    "unsloth_fixed",
    "unsloth_version",
    "use_bfloat16",
    "use_cache",
    "use_flash_attention",
    "use_flash_attn",
    "use_flash_attention_2",
    "use_mem_efficient_attention",
    "use_sdpa_with_sliding_window_mask",
    "use_sliding_window",
];

/// Warnings about unknown fields; an error for fields that would change the result.
pub(super) fn check(others: &Map<String, Value>) -> Result<Vec<String>> {
    for field in QUANTISED {
        if let Some(value) = others.get(field).filter(|value| !value.is_null()) {
            let method = value.get("quant_method").and_then(Value::as_str).unwrap_or("an unnamed method");
            let expected = "null: the checkpoint is quantised; convert it to FP16, BF16 or FP32";
            return Err(unsupported(field, method, expected));
        }
    }
    for (field, neutral) in NEUTRAL {
        if let Some(value) = others.get(field).filter(|value| !is_neutral(value, neutral)) {
            return Err(unsupported(field, value, neutral));
        }
    }
    let mut warnings = Vec::new();
    if others.contains_key(CODE) {
        warnings.push(format!("the checkpoint's own code ({CODE}) does not run"));
    }
    let options: Vec<&str> = SAMPLING
        .into_iter()
        .filter(|(field, neutral)| others.get(*field).is_some_and(|value| !is_neutral(value, neutral)))
        .map(|(field, _)| field)
        .collect();
    if !options.is_empty() {
        warnings.push(format!("ignored, for the sampler does without them: {}", options.join(", ")));
    }
    let known = |field: &str| {
        field == CODE
            || HARMLESS.contains(&field)
            || QUANTISED.contains(&field)
            || NEUTRAL.iter().chain(&SAMPLING).any(|(name, _)| *name == field)
    };
    let unknown: Vec<&str> = others.keys().map(String::as_str).filter(|field| !known(field)).collect();
    if !unknown.is_empty() {
        warnings.push(format!("ignored, for nothing here knows them: {}", unknown.join(", ")));
    }
    Ok(warnings)
}

fn is_neutral(value: &Value, neutral: &str) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(value) => value.to_string() == neutral,
        Value::Number(value) => neutral.parse().is_ok_and(|neutral: f64| value.as_f64() == Some(neutral)),
        Value::String(value) => value == neutral,
        Value::Array(values) => values.iter().all(|value| is_neutral(value, neutral)),
        Value::Object(values) => values.is_empty(),
    }
}
