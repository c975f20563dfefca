//! Sizes of a model from the `config.json` of its checkpoint on Hugging Face.

use crate::llm::Activation;
use crate::{LlmFamily, LlmShape, require};
use ndp_files::{Result, bail, ensure, refusal};
use serde::{Deserialize, Deserializer};
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
    /// `null` differs from a missing key.
    #[serde(default, deserialize_with = "given")]
    sliding_window: Option<Option<u32>>,
    use_sliding_window: Option<bool>,
    max_window_layers: Option<u32>,
    layer_types: Option<Vec<String>>,
    sliding_window_pattern: Option<u32>,
    max_position_embeddings: Option<u32>,
    #[serde(default, deserialize_with = "given")]
    attn_logit_softcapping: Option<Option<f64>>,
    #[serde(alias = "num_experts", alias = "n_routed_experts")]
    num_local_experts: Option<u32>,
    num_experts_per_tok: Option<u32>,
    moe_intermediate_size: Option<u32>,
    shared_expert_intermediate_size: Option<u32>,
    n_shared_experts: Option<u32>,
    decoder_sparse_step: Option<u32>,
    mlp_only_layers: Option<Vec<u32>>,
    word_embed_proj_dim: Option<u32>,
    quantization_config: Option<serde_json::Value>,
}

fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(value: D) -> Result<Option<Option<T>>, D::Error> {
    Option::deserialize(value).map(Some)
}

impl Raw {
    /// The window of some layers, and every how many layers one has none.
    fn windows(&self) -> Result<(Option<u32>, Option<u32>)> {
        let kind = self.model_type.as_str();
        let is_qwen = kind.starts_with("qwen");
        let default = Some(4096).filter(|_| matches!(kind, "mistral" | "gemma2" | "gemma3_text"));
        // A window as long as the model's texts is none.
        let is_shorter = |window: &u32| self.max_position_embeddings.is_none_or(|most| *window < most);
        let window = self.sliding_window.unwrap_or(default).filter(is_shorter);
        let Some(window) = window.filter(|_| !is_qwen || self.use_sliding_window == Some(true)) else {
            return Ok((None, None));
        };
        let layers = self.num_hidden_layers;
        let every = match (kind, &self.layer_types) {
            ("mistral" | "phi3", _) => None,
            (_, Some(types)) => {
                let full: Vec<u32> = (1..)
                    .zip(types)
                    .filter(|(_, of)| *of == "full_attention")
                    .map(|(layer, _)| layer)
                    .collect();
                let first = full.first().copied();
                let periodic = |every: u32| full.iter().copied().eq((every..=layers).step_by(every as usize));
                if first == Some(1) && full.len() == layers as usize {
                    return Ok((None, None));
                }
                ensure!(
                    first.is_none_or(|every| every > 1 && periodic(every)),
                    "layers with full_attention = {full:?} must be every n-th one, or none; a file in TOML can describe a similar model"
                );
                first
            }
            ("gemma2", None) => Some(2),
            ("gemma3_text", None) => Some(self.sliding_window_pattern.unwrap_or(6)),
            _ => match self.max_window_layers.unwrap_or(28) {
                0 => None,
                first if first >= layers => return Ok((None, None)),
                first => {
                    bail!("max_window_layers = {first} must be 0 or at least num_hidden_layers = {layers}")
                }
            },
        };
        Ok((Some(window), every.filter(|every| *every <= layers)))
    }
}

/// Differences between the types of models.
struct Type {
    gated: bool,
    activation: Activation,
    biased: bool,
    tied: bool,
    rotary: bool,
    /// Experts of a layer, if the file does not say; 1 for a single MLP.
    experts: u32,
}

const LLAMA: Type =
    Type { gated: true, activation: Activation::Silu, biased: false, tied: false, rotary: true, experts: 1 };
const GEMMA: Type = Type { activation: Activation::Gelu, tied: true, ..LLAMA };
const TYPES: [(&str, Type); 14] = [
    ("llama", LLAMA),
    ("mistral", LLAMA),
    ("qwen2", LLAMA),
    ("qwen3", LLAMA),
    ("mixtral", Type { experts: 8, ..LLAMA }),
    ("qwen3_moe", Type { experts: 128, ..LLAMA }),
    ("phi3", LLAMA),
    ("olmo2", LLAMA),
    ("granite", LLAMA),
    ("gemma", GEMMA),
    ("gemma2", GEMMA),
    ("gemma3_text", GEMMA),
    (
        "opt",
        Type {
            gated: false,
            activation: Activation::Relu,
            biased: true,
            tied: true,
            rotary: false,
            experts: 1,
        },
    ),
    ("falcon", Type { gated: false, activation: Activation::Gelu, tied: true, ..LLAMA }),
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
    let experts = raw.num_local_experts.unwrap_or(of.experts);
    if of.experts == 1 && experts > 1 {
        let known = "mixtures that are modelled are mixtral and qwen3_moe";
        bail!("number of experts = {experts} must be 1 with model_type = \"{}\": {known}", raw.model_type);
    }
    let shared = raw.shared_expert_intermediate_size.or(raw.n_shared_experts).unwrap_or(0);
    require(shared == 0, "shared experts", shared, "be 0")?;
    require(
        raw.decoder_sparse_step.unwrap_or(1) == 1,
        "decoder_sparse_step",
        raw.decoder_sparse_step.unwrap_or(1),
        "be 1",
    )?;
    ensure!(
        raw.mlp_only_layers.as_ref().is_none_or(Vec::is_empty),
        "mlp_only_layers must be empty: every layer has experts here"
    );
    ensure!(
        raw.quantization_config.is_none(),
        "quantization_config must be missing: weights here are FP16 or the format of --weights; delete the key"
    );
    let hidden = raw.hidden_size;
    if let Some(width) = raw.word_embed_proj_dim.filter(|width| *width != hidden) {
        bail!("word_embed_proj_dim = {width} must equal hidden_size = {hidden}");
    }
    let (window, full_every) = raw.windows()?;
    let is_capped = raw.attn_logit_softcapping.map_or(raw.model_type == "gemma2", |cap| cap.is_some());
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
    let of_expert = raw.moe_intermediate_size.filter(|_| of.experts > 1);
    let ffn = match of_expert.or(raw.intermediate_size) {
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
    let shape = LlmShape::opt_like(&named, raw.num_hidden_layers, hidden, heads, ffn, raw.vocab_size)?;
    let shape = shape.with_windows(window, full_every).with_capped_scores(is_capped).of_family(family)?;
    match (of.experts, raw.num_experts_per_tok) {
        (1, _) => Ok(shape),
        (_, Some(per_token)) => shape.of_experts([experts, per_token]),
        (_, None) => bail!("num_experts_per_tok is missing"),
    }
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
    const FILES: [(&str, &str); 8] = [
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
            "mixtral-8x7b",
            r#"{"model_type": "mixtral", "num_hidden_layers": 32, "hidden_size": 4096, "num_attention_heads": 32, "num_key_value_heads": 8,
                "intermediate_size": 14336, "hidden_act": "silu", "vocab_size": 32000, "tie_word_embeddings": false,
                "num_local_experts": 8, "num_experts_per_tok": 2, "sliding_window": null}"#,
        ),
        (
            "qwen3-30b-a3b",
            r#"{"model_type": "qwen3_moe", "num_hidden_layers": 48, "hidden_size": 2048, "num_attention_heads": 32, "num_key_value_heads": 4,
                "head_dim": 128, "intermediate_size": 6144, "moe_intermediate_size": 768, "hidden_act": "silu", "vocab_size": 151936,
                "tie_word_embeddings": false, "num_experts": 128, "num_experts_per_tok": 8, "decoder_sparse_step": 1, "mlp_only_layers": [],
                "use_sliding_window": false, "sliding_window": null}"#,
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
            (
                "\"vocab",
                "\"num_local_experts\": 8, \"vocab",
                "number of experts = 8 must be 1 with model_type = \"llama\"",
            ),
            ("\"llama\"", "\"mixtral\"", "num_experts_per_tok is missing"),
            (
                "\"llama\"",
                "\"mixtral\", \"num_experts_per_tok\": 9",
                "experts_per_token = 9 must be in 1..=8",
            ),
            ("\"llama\"", "\"qwen3_moe\", \"n_shared_experts\": 1", "shared experts = 1 must be 0"),
            ("\"llama\"", "\"qwen3_moe\", \"decoder_sparse_step\": 2", "decoder_sparse_step = 2 must be 1"),
            ("\"llama\"", "\"qwen3_moe\", \"mlp_only_layers\": [0]", "mlp_only_layers must be empty"),
            ("\"vocab", "\"quantization_config\": {}, \"vocab", "quantization_config must be missing"),
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
    fn windows_are_those_of_the_family() {
        let of = |kind: &str, keys: &str| {
            let text = FILES[0].1.replace("llama", kind).replacen('{', &format!("{{{keys}"), 1);
            shape("config.json", &text).map(|shape| [0, 1, 5, 29].map(|layer| shape.window(layer)))
        };
        let all = |window| [Some(window); 4];
        for (kind, keys, expected) in [
            ("llama", "", [None; 4]),
            ("mistral", "", all(4096)),
            ("mistral", "\"sliding_window\": null, ", [None; 4]),
            ("mistral", "\"sliding_window\": 64, \"max_position_embeddings\": 64, ", [None; 4]),
            ("phi3", "\"sliding_window\": 2047, \"max_position_embeddings\": 4096, ", all(2047)),
            ("gemma3_text", "\"sliding_window\": 512, ", [Some(512), Some(512), None, None]),
            ("qwen2", "\"sliding_window\": 512, \"use_sliding_window\": false, ", [None; 4]),
            (
                "qwen2",
                "\"sliding_window\": 512, \"use_sliding_window\": true, \"max_window_layers\": 0, ",
                all(512),
            ),
        ] {
            assert_eq!(of(kind, keys).unwrap(), expected, "{kind} {keys}");
        }
        let keys = "\"sliding_window\": 9, \"use_sliding_window\": true, \"max_window_layers\": 3, ";
        let error = of("qwen2", keys).unwrap_err().to_string();
        assert!(error.contains("max_window_layers = 3 must be 0 or at least"), "{error}");
        let types = ["full", "sliding", "full"].map(|kind| format!("\"{kind}_attention\""));
        let error =
            of("gemma2", &format!("\"layer_types\": [{}], ", types.join(", "))).unwrap_err().to_string();
        assert!(error.contains("layers with full_attention = [1, 3] must be every n-th one"), "{error}");
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
