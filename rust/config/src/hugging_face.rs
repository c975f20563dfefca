//! Sizes of a model from the `config.json` of its checkpoint on Hugging Face.

use crate::llm::Activation;
use crate::{LlmFamily, LlmShape, require};
use ndp_files::{Result, bail, ensure, refusal};
use serde::Deserialize;
use std::path::Path;

/// Keys that give sizes, and those that would change them.
#[derive(Deserialize)]
struct Raw {
    model_type: String,
    #[serde(alias = "n_layer")]
    num_hidden_layers: u32,
    hidden_size: u32,
    #[serde(alias = "n_head")]
    num_attention_heads: u32,
    #[serde(alias = "num_kv_heads")]
    num_key_value_heads: Option<u32>,
    head_dim: Option<u32>,
    #[serde(alias = "ffn_dim", alias = "ffn_hidden_size")]
    intermediate_size: Option<u32>,
    #[serde(alias = "activation_function", alias = "hidden_activation", alias = "activation")]
    hidden_act: Option<String>,
    vocab_size: u32,
    tie_word_embeddings: Option<bool>,
    bias: Option<bool>,
    multi_query: Option<bool>,
    new_decoder_architecture: Option<bool>,
    sliding_window: Option<u32>,
    use_sliding_window: Option<bool>,
    #[serde(alias = "num_experts", alias = "n_routed_experts")]
    num_local_experts: Option<u32>,
    word_embed_proj_dim: Option<u32>,
    quantization_config: Option<serde_json::Value>,
}

/// Differences between the types of models.
struct Type {
    gated: bool,
    activation: Activation,
    biased: bool,
    tied: bool,
    rotary: bool,
}

const LLAMA: Type =
    Type { gated: true, activation: Activation::Silu, biased: false, tied: false, rotary: true };
const GEMMA: Type = Type { activation: Activation::Gelu, tied: true, ..LLAMA };
const TYPES: [(&str, Type); 12] = [
    ("llama", LLAMA),
    ("mistral", LLAMA),
    ("qwen2", LLAMA),
    ("qwen3", LLAMA),
    ("phi3", LLAMA),
    ("olmo2", LLAMA),
    ("granite", LLAMA),
    ("gemma", GEMMA),
    ("gemma2", GEMMA),
    ("gemma3_text", GEMMA),
    ("opt", Type { gated: false, activation: Activation::Relu, biased: true, tied: true, rotary: false }),
    ("falcon", Type { gated: false, activation: Activation::Gelu, biased: false, tied: true, rotary: true }),
];

/// Sizes of the model that `config.json` at this path describes. Its folder, or the file if it has another name, gives
/// the model's name.
pub(crate) fn shape(path: &str, text: &str) -> Result<LlmShape> {
    let raw: Raw =
        serde_json::from_str(text).map_err(|error| refusal!("not the configuration of a model: {error}"))?;
    let Some((_, of)) = TYPES.iter().find(|(name, _)| *name == raw.model_type) else {
        let known = TYPES.map(|(name, _)| name).join(", ");
        bail!(
            "model_type = \"{}\" must be one of {known}; a file in TOML can describe others",
            raw.model_type
        );
    };
    if let Some(experts) = raw.num_local_experts.filter(|experts| *experts > 1) {
        bail!("number of experts = {experts} must be 1: mixtures of experts are not modelled");
    }
    ensure!(
        raw.quantization_config.is_none(),
        "quantization_config must be missing: weights here are FP16 or the format of --weights; delete the key"
    );
    let hidden = raw.hidden_size;
    if let Some(width) = raw.word_embed_proj_dim.filter(|width| *width != hidden) {
        bail!("word_embed_proj_dim = {width} must equal hidden_size = {hidden}");
    }
    let windowed = raw.use_sliding_window != Some(false);
    if let Some(window) = raw.sliding_window.filter(|_| windowed) {
        bail!(
            "sliding_window = {window} must be null, because attention here sees every position: if contexts stay within the window, set it \
             to null"
        );
    }
    let heads = raw.num_attention_heads;
    require(heads > 0, "num_attention_heads", heads, "be at least 1")?;
    let all = raw.num_key_value_heads.unwrap_or(heads);
    let is_falcon = raw.model_type == "falcon";
    let kv_heads = match raw.new_decoder_architecture {
        Some(true) => all,
        _ if is_falcon && raw.multi_query != Some(false) => 1,
        _ if is_falcon => heads,
        _ => all,
    };
    let ffn = match raw.intermediate_size {
        Some(ffn) => ffn,
        None if is_falcon => hidden.saturating_mul(4),
        None => bail!("intermediate_size is missing"),
    };
    let activation = match raw.hidden_act.as_deref() {
        None => of.activation,
        Some("relu") => Activation::Relu,
        Some("silu" | "swish") => Activation::Silu,
        Some("gelu" | "gelu_new" | "gelu_pytorch_tanh") => Activation::Gelu,
        Some(other) => bail!("hidden_act = \"{other}\" must be relu, silu or gelu"),
    };
    let family = LlmFamily {
        kv_heads,
        head_width: raw.head_dim,
        gated: of.gated,
        activation,
        biased: raw.bias.unwrap_or(of.biased),
        tied_embeddings: raw.tie_word_embeddings.unwrap_or(of.tied),
        rotary: of.rotary,
    };
    let named = name(path);
    LlmShape::opt_like(&named, raw.num_hidden_layers, hidden, heads, ffn, raw.vocab_size)?.of_family(family)
}

/// In lower case, with a hyphen for each character that a name cannot have.
fn name(path: &str) -> String {
    let path = Path::new(path);
    let stem = path.file_stem().unwrap_or_default();
    let folder = path.parent().and_then(Path::file_name).filter(|_| stem == "config");
    let text = folder.unwrap_or(stem).to_string_lossy().to_lowercase();
    let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    text.chars().map(|c| if allowed(c) { c } else { '-' }).collect()
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// Keys of published files that give the sizes of presets.
    const FILES: [(&str, &str); 6] = [
        (
            "smollm2-135m",
            r#"{"model_type": "llama", "num_hidden_layers": 30, "hidden_size": 576, "num_attention_heads": 9, "num_key_value_heads": 3,
                "intermediate_size": 1536, "hidden_act": "silu", "vocab_size": 49152, "tie_word_embeddings": true}"#,
        ),
        (
            "qwen2.5-7b",
            r#"{"model_type": "qwen2", "num_hidden_layers": 28, "hidden_size": 3584, "num_attention_heads": 28, "num_key_value_heads": 4,
                "intermediate_size": 18944, "hidden_act": "silu", "vocab_size": 152064, "tie_word_embeddings": false,
                "sliding_window": 131072, "use_sliding_window": false}"#,
        ),
        (
            "qwen3-8b",
            r#"{"model_type": "qwen3", "num_hidden_layers": 36, "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8,
                "head_dim": 128, "intermediate_size": 12288, "hidden_act": "silu", "vocab_size": 151936, "tie_word_embeddings": false,
                "sliding_window": null}"#,
        ),
        (
            "gemma-2-9b",
            r#"{"model_type": "gemma2", "num_hidden_layers": 42, "hidden_size": 3584, "num_attention_heads": 16, "num_key_value_heads": 8,
                "head_dim": 256, "intermediate_size": 14336, "hidden_activation": "gelu_pytorch_tanh", "vocab_size": 256000}"#,
        ),
        (
            "opt-6.7b",
            r#"{"model_type": "opt", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32, "ffn_dim": 16384,
                "activation_function": "relu", "vocab_size": 50272, "word_embed_proj_dim": 4096}"#,
        ),
        (
            "falcon-7b",
            r#"{"model_type": "falcon", "num_hidden_layers": 32, "hidden_size": 4544, "num_attention_heads": 71, "multi_query": true,
                "new_decoder_architecture": false, "bias": false, "vocab_size": 65024}"#,
        ),
    ];

    #[test]
    fn published_files_give_the_sizes_of_presets() {
        for (preset, text) in FILES {
            let found = shape(&format!("models/{}/config.json", preset.to_uppercase()), text).unwrap();
            assert_eq!(found, LlmShape::preset(preset).unwrap());
        }
    }

    #[test]
    fn what_sizes_cannot_say_is_refused() {
        let base = FILES[0].1;
        for (from, to, message) in [
            ("llama", "mamba", "model_type = \"mamba\" must be one of llama, mistral,"),
            ("\"silu\"", "\"tanh\"", "hidden_act = \"tanh\" must be relu, silu or gelu"),
            ("\"vocab", "\"num_local_experts\": 8, \"vocab", "number of experts = 8 must be 1"),
            ("\"vocab", "\"num_experts\": 128, \"vocab", "number of experts = 128 must be 1"),
            ("\"vocab", "\"quantization_config\": {}, \"vocab", "quantization_config must be missing"),
            ("\"vocab", "\"sliding_window\": 4096, \"vocab", "sliding_window = 4096 must be null"),
            ("\"vocab", "\"head_dim\": 0, \"vocab", "head_width = 0 must be in 1..=116508"),
            (
                "\"vocab",
                "\"word_embed_proj_dim\": 8, \"vocab",
                "word_embed_proj_dim = 8 must equal hidden_size = 576",
            ),
            (
                "\"num_attention_heads\": 9",
                "\"num_attention_heads\": 0",
                "num_attention_heads = 0 must be at least 1",
            ),
            (
                "\"num_key_value_heads\": 3",
                "\"num_key_value_heads\": 2",
                "kv_heads = 2 must divide heads = 9",
            ),
            ("\"intermediate_size\": 1536,", "", "intermediate_size is missing"),
            ("\"hidden_size\": 576,", "", "missing field `hidden_size`"),
            ("{", "", "not the configuration of a model"),
        ] {
            assert_eq!(base.matches(from).count().min(1), 1, "{from}");
            let error = shape("config.json", &base.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(error.contains(message), "{message}: {error}");
        }
    }

    #[test]
    fn a_folder_or_a_file_names_the_model() {
        for (path, expected) in [
            ("a/SmolLM2-135M/config.json", "smollm2-135m"),
            ("config.json", "config"),
            ("a/My model.json", "my-model"),
        ] {
            assert_eq!(name(path), expected);
        }
    }
}
