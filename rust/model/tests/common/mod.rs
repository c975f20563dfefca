//! A tiny random OPT model, seeded, in memory and as safetensors bytes.

pub mod gguf;

use std::path::Path;

use ndp_model::{DecoderConfig, Model};
use ndp_numerics::{SplitMix64, f16};
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use serde_json::{Value, json};

/// As in a file: name, shape, little-endian bytes.
pub type Stored = (String, Vec<usize>, Vec<u8>);

pub fn config_json(vocab_size: usize, relu_before_qkv: bool) -> Value {
    json!({
        "model_type": "opt", "architectures": ["OPTForCausalLM"], "vocab_size": vocab_size, "hidden_size": 24,
        "num_hidden_layers": 2, "num_attention_heads": 3, "ffn_dim": 40, "max_position_embeddings": 48,
        "word_embed_proj_dim": 24, "do_layer_norm_before": true, "activation_function": "relu",
        "relu_before_qkv": relu_before_qkv
    })
}

pub fn config(vocab_size: usize, relu_before_qkv: bool) -> DecoderConfig {
    let json = config_json(vocab_size, relu_before_qkv).to_string();
    DecoderConfig::from_json(Path::new("config.json"), &json).unwrap()
}

/// Numbers of four binades from `2^(lowest - 15)` upward, with random signs.
fn random(rng: &mut SplitMix64, lowest: u16, len: usize) -> Vec<f16> {
    let mut draw = || {
        let r = rng.next_u64();
        f16::from_bits((r as u16 & 0x83FF) | (lowest + (r >> 32) as u16 % 4) << 10)
    };
    (0..len).map(|_| draw()).collect()
}

/// The model of `seed` and its tensors, without prefix, in order of request.
pub fn model_and_tensors(config: DecoderConfig, seed: u64) -> (Model, Vec<Stored>) {
    let mut rng = SplitMix64::new(seed);
    let mut stored = Vec::new();
    let model = Model::from_tensors(config, |name, shape| {
        // Small queries and keys keep the softmax from one-hot, which would hide wrong scores.
        let lowest = if name.contains("q_proj") || name.contains("k_proj") { 10 } else { 12 };
        let data = random(&mut rng, lowest, shape.iter().product());
        let bytes = data.iter().flat_map(|v| v.to_bits().to_le_bytes()).collect();
        stored.push((name.to_owned(), shape.to_vec(), bytes));
        Ok::<_, ndp_files::Error>(data)
    });
    (model.unwrap(), stored)
}

/// Small models of the other families: gates, shared keys, biases, one norm for two blocks.
pub fn other_configs() -> Vec<DecoderConfig> {
    let sizes = json!({
        "vocab_size": 29, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 6,
        "max_position_embeddings": 48, "intermediate_size": 40, "ffn_hidden_size": 40
    });
    let llama = json!({"model_type": "llama", "num_key_value_heads": 2, "hidden_act": "silu"});
    let relu = json!({
        "model_type": "mistral", "num_key_value_heads": 3, "head_dim": 8, "hidden_act": "relu", "attention_bias": true,
        "mlp_bias": true, "tie_word_embeddings": true, "relu_before_qkv": true, "rope_theta": 1e6
    });
    let falcon =
        json!({"model_type": "falcon", "num_kv_heads": 3, "new_decoder_architecture": true, "bias": true});
    let multi_query = json!({"model_type": "falcon", "multi_query": true, "activation": "relu"});
    let qwen2 = json!({
        "model_type": "qwen2", "num_key_value_heads": 2,
        "rope_scaling": {"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16}
    });
    let qwen3 = json!({"model_type": "qwen3", "num_key_value_heads": 2, "head_dim": 6});
    let phi3 =
        json!({"model_type": "phi3", "num_key_value_heads": 2, "head_dim": 8, "partial_rotary_factor": 0.5});
    let olmo2 = json!({"model_type": "olmo2", "num_key_value_heads": 3, "attention_bias": true});
    let granite = json!({
        "model_type": "granite", "num_key_value_heads": 2, "embedding_multiplier": 12.0, "attention_multiplier": 0.4,
        "residual_multiplier": 0.22, "logits_scaling": 8.0
    });
    let config = |own: Value| {
        let mut all = sizes.clone();
        own.as_object().unwrap().iter().for_each(|(key, value)| all[key] = value.clone());
        DecoderConfig::from_json(Path::new("config.json"), &all.to_string()).unwrap()
    };
    let window = json!({"model_type": "mistral", "num_key_value_heads": 2, "sliding_window": 5});
    let windows = json!({
        "model_type": "qwen2", "num_key_value_heads": 6, "sliding_window": 3, "use_sliding_window": true, "max_window_layers": 1
    });
    let gemma = json!({"model_type": "gemma", "head_dim": 6, "num_key_value_heads": 1});
    let gemma2 = json!({
        "model_type": "gemma2", "head_dim": 6, "num_key_value_heads": 3, "sliding_window": 4, "query_pre_attn_scalar": 5
    });
    let gemma3 = json!({
        "model_type": "gemma3_text", "head_dim": 8, "num_key_value_heads": 2, "sliding_window": 4,
        "sliding_window_pattern": 2, "rope_scaling": {"rope_type": "linear", "factor": 8.0}
    });
    let all = [
        gemma,
        gemma2,
        gemma3,
        window,
        windows,
        llama,
        relu,
        falcon,
        multi_query,
        qwen2,
        qwen3,
        phi3,
        olmo2,
        granite,
    ];
    all.map(config).to_vec()
}

/// A Mistral of [`other_configs`] without its window.
pub fn whole(config: &DecoderConfig) -> DecoderConfig {
    let sizes = json!({
        "model_type": "mistral", "vocab_size": config.vocab_size(), "hidden_size": config.hidden_size(),
        "num_hidden_layers": 2, "num_attention_heads": 6, "num_key_value_heads": config.num_key_value_heads(),
        "max_position_embeddings": 48, "intermediate_size": config.ffn_dim(), "sliding_window": null
    });
    DecoderConfig::from_json(Path::new("config.json"), &sizes.to_string()).unwrap()
}

pub fn model(vocab_size: usize, relu_before_qkv: bool, seed: u64) -> Model {
    model_and_tensors(config(vocab_size, relu_before_qkv), seed).0
}

pub fn serialize(tensors: &[Stored], prefix: &str) -> Vec<u8> {
    let views = tensors.iter().map(|(name, shape, bytes)| {
        (format!("{prefix}{name}"), TensorView::new(Dtype::F16, shape.clone(), bytes).unwrap())
    });
    safetensors::serialize(views, None).unwrap()
}
