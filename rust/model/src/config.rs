//! The model's configuration: Hugging Face's `config.json` of OPT, checked against what this decoder implements.
//!
//! First step of loading. Fields that say how to train, tokenise or generate are ignored; fields that change the
//! arithmetic are either implemented or refused by name.

use std::path::Path;

use ndp_numerics::layer_norm::MAX_LEN;
use serde::{Deserialize, Serialize};

use crate::ModelError;

/// Checkpoints store `max_position_embeddings + 2` position rows: position `p` is row `p + 2`.
pub const POSITION_OFFSET: usize = 2;

/// `config.json` as it is written; every default is Hugging Face's `OPTConfig`'s.
#[derive(Debug, Deserialize)]
struct RawConfig {
    model_type: Option<String>,
    architectures: Option<Vec<String>>,
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
}

/// The validated dimensions of an OPT decoder. Made by [`OptConfig::load`] or [`OptConfig::from_json`] only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OptConfig {
    vocab_size: usize,
    hidden_size: usize,
    num_hidden_layers: usize,
    num_attention_heads: usize,
    ffn_dim: usize,
    max_position_embeddings: usize,
    relu_before_qkv: bool,
}

fn unsupported(field: &'static str, found: impl ToString, expected: impl ToString) -> ModelError {
    ModelError::Config { field, found: found.to_string(), expected: expected.to_string() }
}

/// A boolean that must have one value; absent means it has.
fn require(field: &'static str, found: Option<bool>, expected: bool) -> Result<(), ModelError> {
    match found {
        Some(value) if value != expected => Err(unsupported(field, value, expected)),
        _ => Ok(()),
    }
}

/// Longest `config.json`.
const MAX_CONFIG_BYTES: u64 = 1 << 20;

impl OptConfig {
    /// Reads and checks `config.json` in `dir`.
    pub fn load(dir: &Path) -> Result<Self, ModelError> {
        let path = dir.join("config.json");
        let text = ndp_files::read_bytes(&path, MAX_CONFIG_BYTES)
            .map_err(|source| ModelError::Io { path: path.clone(), source })?;
        Self::from_json(&path, &text)
    }

    /// Checks the bytes of a `config.json`; `path` serves the error messages only.
    pub fn from_json(path: &Path, json: &[u8]) -> Result<Self, ModelError> {
        let raw: RawConfig = serde_json::from_slice(json)
            .map_err(|source| ModelError::Json { path: path.to_owned(), source })?;
        Self::validate(raw)
    }

    fn validate(raw: RawConfig) -> Result<Self, ModelError> {
        check_architecture(&raw)?;
        check_options(&raw)?;
        for (field, value) in [
            ("vocab_size", raw.vocab_size),
            ("hidden_size", raw.hidden_size),
            ("num_hidden_layers", raw.num_hidden_layers),
            ("num_attention_heads", raw.num_attention_heads),
            ("ffn_dim", raw.ffn_dim),
            ("max_position_embeddings", raw.max_position_embeddings),
        ] {
            // Tensor sizes are products of two of these; 32 bits each keep them inside 64.
            if value == 0 || u32::try_from(value).is_err() {
                return Err(unsupported(field, value, "1..=2^32-1"));
            }
        }
        if raw.hidden_size > MAX_LEN {
            return Err(unsupported(
                "hidden_size",
                raw.hidden_size,
                format!("at most {MAX_LEN} (LayerNorm)"),
            ));
        }
        if !raw.hidden_size.is_multiple_of(raw.num_attention_heads) {
            return Err(unsupported(
                "num_attention_heads",
                raw.num_attention_heads,
                format!("a divisor of hidden_size = {}", raw.hidden_size),
            ));
        }
        Ok(Self {
            vocab_size: raw.vocab_size,
            hidden_size: raw.hidden_size,
            num_hidden_layers: raw.num_hidden_layers,
            num_attention_heads: raw.num_attention_heads,
            ffn_dim: raw.ffn_dim,
            max_position_embeddings: raw.max_position_embeddings,
            relu_before_qkv: raw.relu_before_qkv.unwrap_or(false),
        })
    }

    /// Number of tokens, `V`.
    pub fn vocab_size(&self) -> usize {
        self.vocab_size
    }

    /// Width of the hidden state, `d`.
    pub fn hidden_size(&self) -> usize {
        self.hidden_size
    }

    /// Number of decoder layers.
    pub fn num_hidden_layers(&self) -> usize {
        self.num_hidden_layers
    }

    /// Number of attention heads, `H`.
    pub fn num_attention_heads(&self) -> usize {
        self.num_attention_heads
    }

    /// Width of one head, `d / H`.
    pub fn head_width(&self) -> usize {
        self.hidden_size / self.num_attention_heads
    }

    /// Width of the feed-forward hidden layer, `f`.
    pub fn ffn_dim(&self) -> usize {
        self.ffn_dim
    }

    /// Longest sequence, prompt and generated tokens together.
    pub fn max_position_embeddings(&self) -> usize {
        self.max_position_embeddings
    }

    /// Whether a ReLU stands between the attention's LayerNorm and the Q, K and V projections (Hermes, section II).
    pub fn relu_before_qkv(&self) -> bool {
        self.relu_before_qkv
    }
}

fn check_architecture(raw: &RawConfig) -> Result<(), ModelError> {
    const ARCHITECTURES: [&str; 2] = ["OPTForCausalLM", "OPTModel"];
    if raw.model_type.is_none() && raw.architectures.is_none() {
        return Err(unsupported("model_type", "(absent)", "opt"));
    }
    if let Some(model_type) = &raw.model_type
        && model_type != "opt"
    {
        return Err(unsupported("model_type", model_type, "opt"));
    }
    let unknown = raw.architectures.iter().flatten().find(|a| !ARCHITECTURES.contains(&a.as_str()));
    match unknown {
        Some(name) => Err(unsupported("architectures", name, ARCHITECTURES.join(" or "))),
        None => Ok(()),
    }
}

fn check_options(raw: &RawConfig) -> Result<(), ModelError> {
    require("do_layer_norm_before", raw.do_layer_norm_before, true)?;
    require("enable_bias", raw.enable_bias, true)?;
    require("layer_norm_elementwise_affine", raw.layer_norm_elementwise_affine, true)?;
    require("tie_word_embeddings", raw.tie_word_embeddings, true)?;
    require("_remove_final_layer_norm", raw.remove_final_layer_norm, false)?;
    if let Some(activation) = &raw.activation_function
        && activation != "relu"
    {
        return Err(unsupported("activation_function", activation, "relu"));
    }
    match raw.word_embed_proj_dim {
        Some(width) if width != raw.hidden_size => {
            Err(unsupported("word_embed_proj_dim", width, format!("hidden_size = {}", raw.hidden_size)))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn base() -> Value {
        json!({
            "model_type": "opt", "architectures": ["OPTForCausalLM"], "vocab_size": 256, "hidden_size": 64,
            "num_hidden_layers": 2, "num_attention_heads": 4, "ffn_dim": 128, "max_position_embeddings": 32,
            "word_embed_proj_dim": 64, "do_layer_norm_before": true, "activation_function": "relu",
            "torch_dtype": "float16", "dropout": 0.1, "_remove_final_layer_norm": false
        })
    }

    fn parse(value: &Value) -> Result<OptConfig, ModelError> {
        OptConfig::from_json(Path::new("config.json"), value.to_string().as_bytes())
    }

    #[test]
    fn a_checkpoint_s_configuration_is_read() {
        let config = parse(&base()).unwrap();
        assert_eq!(config.head_width(), 16);
        assert_eq!(config.ffn_dim(), 128);
        assert!(!config.relu_before_qkv());
        let mut with_relu = base();
        with_relu["relu_before_qkv"] = json!(true);
        assert!(parse(&with_relu).unwrap().relu_before_qkv());
    }

    #[test]
    fn unsupported_options_are_refused_by_name() {
        for (field, value, expected) in [
            ("model_type", json!("llama"), "opt"),
            ("architectures", json!(["GPT2LMHeadModel"]), "OPTForCausalLM or OPTModel"),
            ("do_layer_norm_before", json!(false), "true"),
            ("enable_bias", json!(false), "true"),
            ("layer_norm_elementwise_affine", json!(false), "true"),
            ("tie_word_embeddings", json!(false), "true"),
            ("_remove_final_layer_norm", json!(true), "false"),
            ("activation_function", json!("gelu"), "relu"),
            ("word_embed_proj_dim", json!(32), "hidden_size = 64"),
            ("num_attention_heads", json!(5), "a divisor of hidden_size = 64"),
            ("num_attention_heads", json!(0), "1..=2^32-1"),
            ("vocab_size", json!(1u64 << 32), "1..=2^32-1"),
        ] {
            let mut config = base();
            config[field] = value;
            match parse(&config) {
                Err(ModelError::Config { field: found, expected: e, .. }) => {
                    assert_eq!((found, e.as_str()), (field, expected));
                }
                other => panic!("{field}: {other:?}"),
            }
        }
    }

    #[test]
    fn hidden_sizes_beyond_layer_norm_are_refused() {
        let mut config = base();
        config["hidden_size"] = json!(16388);
        config["word_embed_proj_dim"] = json!(16388);
        assert!(matches!(parse(&config), Err(ModelError::Config { field: "hidden_size", .. })));
    }

    #[test]
    fn absent_architecture_missing_fields_and_wrong_types_are_errors() {
        let mut config = base();
        let fields = config.as_object_mut().unwrap();
        fields.remove("model_type");
        fields.remove("architectures");
        assert!(matches!(parse(&config), Err(ModelError::Config { field: "model_type", .. })));
        let mut config = base();
        config.as_object_mut().unwrap().remove("ffn_dim");
        let reason = std::error::Error::source(&parse(&config).unwrap_err()).unwrap().to_string();
        assert!(reason.contains("ffn_dim"), "{reason}");
        config["ffn_dim"] = json!(-1);
        assert!(matches!(parse(&config), Err(ModelError::Json { .. })));
    }
}
