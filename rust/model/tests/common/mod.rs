//! A tiny random OPT model, seeded, in memory and as safetensors bytes.

use std::path::Path;

use ndp_model::{Model, ModelError, OptConfig};
use ndp_numerics::{SplitMix64, f16};
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use serde_json::{Value, json};

/// A tensor as a file holds it: name, shape, little-endian bytes.
pub type Stored = (String, Vec<usize>, Vec<u8>);

pub fn config_json(vocab_size: usize, relu_before_qkv: bool) -> Value {
    json!({
        "model_type": "opt", "architectures": ["OPTForCausalLM"], "vocab_size": vocab_size, "hidden_size": 24,
        "num_hidden_layers": 2, "num_attention_heads": 3, "ffn_dim": 40, "max_position_embeddings": 48,
        "word_embed_proj_dim": 24, "do_layer_norm_before": true, "activation_function": "relu",
        "relu_before_qkv": relu_before_qkv
    })
}

pub fn config(vocab_size: usize, relu_before_qkv: bool) -> OptConfig {
    let json = config_json(vocab_size, relu_before_qkv).to_string();
    OptConfig::from_json(Path::new("config.json"), json.as_bytes()).unwrap()
}

/// Numbers of four binades from `2^(lowest - 15)` on, sign at random.
fn random(rng: &mut SplitMix64, lowest: u16, len: usize) -> Vec<f16> {
    let mut draw = || {
        let r = rng.next_u64();
        f16::from_bits((r as u16 & 0x83FF) | (lowest + (r >> 32) as u16 % 4) << 10)
    };
    (0..len).map(|_| draw()).collect()
}

/// The model of `seed`, and its tensors named without prefix, in the order they were asked for.
pub fn model_and_tensors(config: OptConfig, seed: u64) -> (Model, Vec<Stored>) {
    let mut rng = SplitMix64::new(seed);
    let mut stored = Vec::new();
    let model = Model::from_tensors(config, |name, shape| {
        // Small queries and keys keep the softmax from one-hot, where a wrong score would not show.
        let lowest = if name.contains("q_proj") || name.contains("k_proj") { 10 } else { 12 };
        let data = random(&mut rng, lowest, shape.iter().product());
        let bytes = data.iter().flat_map(|v| v.to_bits().to_le_bytes()).collect();
        stored.push((name.to_owned(), shape.to_vec(), bytes));
        Ok::<_, ModelError>(data)
    });
    (model.unwrap(), stored)
}

pub fn model(vocab_size: usize, relu_before_qkv: bool, seed: u64) -> Model {
    model_and_tensors(config(vocab_size, relu_before_qkv), seed).0
}

/// A safetensors file of F16 tensors, each name with `prefix` before it.
pub fn serialize(tensors: &[Stored], prefix: &str) -> Vec<u8> {
    let views = tensors.iter().map(|(name, shape, bytes)| {
        (format!("{prefix}{name}"), TensorView::new(Dtype::F16, shape.clone(), bytes).unwrap())
    });
    safetensors::serialize(views, None).unwrap()
}
