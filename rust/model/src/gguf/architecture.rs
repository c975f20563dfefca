//! Architectures of GGUF files: their metadata as a `config.json`, and their tensors under Hugging Face's names.

use std::path::Path;

use ndp_files::{Context, Result, bail, ensure, refusal};
use serde_json::{Map, Value as Json, json};

use super::reader::{File, shown};
use super::rotary;
use crate::DecoderConfig;
use crate::config::NormPlaces;

/// An architecture of llama.cpp.
pub(super) struct Architecture {
    /// In `general.architecture`, and the first part of keys.
    pub(super) name: &'static str,
    /// Hugging Face's.
    model_type: &'static str,
    /// Rows of Q and K that are rotated together are neighbours.
    pub(super) has_pairs: bool,
    /// Keys beyond [`FIELDS`], with the field of `config.json` that has the same meaning.
    keys: &'static [(&'static str, &'static str)],
}

const fn of(
    name: &'static str,
    model_type: &'static str,
    has_pairs: bool,
    keys: &'static [(&'static str, &'static str)],
) -> Architecture {
    Architecture { name, model_type, has_pairs, keys }
}

static ARCHITECTURES: [Architecture; 11] = [
    of("llama", "llama", true, &[]),
    of("llama", "mixtral", true, &[(EXPERTS, "num_local_experts"), (EXPERTS_USED, "num_experts_per_tok")]),
    of("qwen2", "qwen2", false, &[]),
    of("qwen3", "qwen3", false, &[]),
    of(
        "qwen3moe",
        "qwen3_moe",
        false,
        &[
            (EXPERTS, "num_experts"),
            (EXPERTS_USED, "num_experts_per_tok"),
            ("expert_feed_forward_length", "moe_intermediate_size"),
        ],
    ),
    of("phi3", "phi3", false, &[(WINDOW, "sliding_window")]),
    of("olmo2", "olmo2", false, &[]),
    of(
        "granite",
        "granite",
        true,
        &[
            ("attention.scale", "attention_multiplier"),
            ("embedding_scale", "embedding_multiplier"),
            ("residual_scale", "residual_multiplier"),
            ("logit_scale", "logits_scaling"),
        ],
    ),
    of("gemma", "gemma", false, &[]),
    of(
        "gemma2",
        "gemma2",
        false,
        &[
            (WINDOW, "sliding_window"),
            (SCORE_CAP, "attn_logit_softcapping"),
            (LOGIT_CAP, "final_logit_softcapping"),
        ],
    ),
    of(
        "gemma3",
        "gemma3_text",
        false,
        &[
            (WINDOW, "sliding_window"),
            (PATTERN, "sliding_window_pattern"),
            (LOGIT_CAP, "final_logit_softcapping"),
            (LOCAL_BASE, "rope_local_base_freq"),
        ],
    ),
];

const EXPERTS: &str = "expert_count";
const EXPERTS_USED: &str = "expert_used_count";
const WINDOW: &str = "attention.sliding_window";
const PATTERN: &str = "attention.sliding_window_pattern";
const SCORE_CAP: &str = "attn_logit_softcapping";
const LOGIT_CAP: &str = "final_logit_softcapping";
const LOCAL_BASE: &str = "rope.freq_base_swa";

/// Keys of an architecture that a file may lack. 0 is none.
const OPTIONAL: [&str; 5] = [WINDOW, PATTERN, SCORE_CAP, LOGIT_CAP, LOCAL_BASE];

/// Keys of all architectures with their field. The first six are required.
const FIELDS: [(&str, &str); 9] = [
    ("block_count", "num_hidden_layers"),
    ("context_length", "max_position_embeddings"),
    ("embedding_length", "hidden_size"),
    ("feed_forward_length", "intermediate_size"),
    ("attention.head_count", "num_attention_heads"),
    (EPSILON, "rms_norm_eps"),
    ("attention.head_count_kv", "num_key_value_heads"),
    ("attention.key_length", "head_dim"),
    (BASE, "rope_theta"),
];
const REQUIRED: usize = 6;
const EPSILON: &str = "attention.layer_norm_rms_epsilon";
const BASE: &str = "rope.freq_base";

/// Keys whose numbers need not be whole.
const NUMBERS: [&str; 9] = [
    EPSILON,
    BASE,
    LOCAL_BASE,
    SCORE_CAP,
    LOGIT_CAP,
    "attention.scale",
    "embedding_scale",
    "residual_scale",
    "logit_scale",
];

/// Width of a value's head, and of its rotated part.
const VALUE_WIDTH: &str = "attention.value_length";
const ROTATED_WIDTH: &str = "rope.dimension_count";

/// Keys that change the result, with their neutral value, unless the architecture has them.
const NEUTRAL: [(&str, &str); 20] = [
    ("attention.causal", "true"),
    ("attention.clamp_kqv", "0"),
    ("attention.max_alibi_bias", "0"),
    ("attention.scale", "0"),
    (WINDOW, "0"),
    ("attention.temperature_scale", "0"),
    (SCORE_CAP, "0"),
    ("embedding_scale", "1"),
    (EXPERTS, "0"),
    ("expert_shared_count", "0"),
    (EXPERTS_USED, "0"),
    (LOGIT_CAP, "0"),
    ("interleave_moe_layer_step", "0"),
    ("leading_dense_block_count", "0"),
    ("logit_scale", "1"),
    ("nextn_predict_layers", "0"),
    ("no_rope_layer_interval", "0"),
    (PATTERN, "0"),
    ("residual_scale", "1"),
    ("use_parallel_residual", "false"),
];

/// Keys of the architecture without an effect on the result.
const HARMLESS: [&str; 2] = ["vocab_size", "rope.scaling.finetuned"];

pub(super) const EMBEDDING: &str = "token_embd.weight";
pub(super) const HEAD: &str = "output.weight";

/// Norm of an attention's output, or before the feed-forward block.
const AFTER_ATTENTION: &str = "post_attention_layernorm";

/// Names of a layer's parts: Hugging Face's, and GGUF's.
const PARTS: [(&str, &str); 17] = [
    ("input_layernorm", "attn_norm"),
    ("self_attn.q_proj", "attn_q"),
    ("self_attn.k_proj", "attn_k"),
    ("self_attn.v_proj", "attn_v"),
    ("self_attn.qkv_proj", "attn_qkv"),
    ("self_attn.q_norm", "attn_q_norm"),
    ("self_attn.k_norm", "attn_k_norm"),
    ("self_attn.o_proj", "attn_output"),
    (AFTER_ATTENTION, "ffn_norm"),
    ("pre_feedforward_layernorm", "ffn_norm"),
    ("post_feedforward_layernorm", "post_ffw_norm"),
    ("mlp.gate_proj", "ffn_gate"),
    ("mlp.up_proj", "ffn_up"),
    ("mlp.gate_up_proj", "ffn_up"),
    ("mlp.down_proj", "ffn_down"),
    ("mlp.gate", "ffn_gate_inp"),
    ("block_sparse_moe.gate", "ffn_gate_inp"),
];

/// Names of an expert's parts. A tensor has this part of all experts of a layer.
const EXPERT_PARTS: [(&str, &str); 6] = [
    ("gate_proj", "ffn_gate_exps"),
    ("up_proj", "ffn_up_exps"),
    ("down_proj", "ffn_down_exps"),
    ("w1", "ffn_gate_exps"),
    ("w3", "ffn_up_exps"),
    ("w2", "ffn_down_exps"),
];

impl Architecture {
    /// That of a file; refuses files that are not a whole model.
    pub(super) fn find(file: &File<'_>) -> Result<&'static Self> {
        let key = "general.architecture";
        let found = file.metadata.get(key).with_context(|| format!("metadata {key} is missing"));
        let found = found.map_err(|error| refusal!("{error}"))?;
        let name = found.text(key)?;
        let mut all = ARCHITECTURES.iter().filter(|own| own.name == name);
        let Some(first) = all.next() else {
            let mut names: Vec<&str> = ARCHITECTURES.iter().map(|own| own.name).collect();
            names.dedup();
            return Err(found.unexpected(key, &names.join(", ")));
        };
        for (key, expected) in
            [("general.type", "model"), ("general.quantization_version", "2"), ("split.count", "1")]
        {
            if let Some(value) = file.metadata.get(key).filter(|value| value.to_string() != expected) {
                // A file that was not split may say so with 0.
                ensure!(
                    key == "split.count" && value.to_string() == "0",
                    "{}",
                    value.unexpected(key, expected)
                );
            }
        }
        let experts = file.metadata.get(first.key(EXPERTS).as_str());
        let has_experts = experts.is_some_and(|count| count.to_string() != "0");
        Ok(all.find(|_| has_experts).unwrap_or(first))
    }

    /// A key's whole name.
    pub(super) fn key(&self, key: &str) -> String {
        format!("{}.{key}", self.name)
    }

    /// Warning about keys of the architecture that have no meaning here; an error for those that change the result.
    fn others(&self, file: &File<'_>) -> Result<Option<String>> {
        let mut unknown = Vec::new();
        for (key, value) in &file.metadata {
            let own = key.strip_prefix(self.name).and_then(|key| key.strip_prefix('.'));
            let known = FIELDS.iter().chain(self.keys).map(|(name, _)| name);
            let known = known.chain(&HARMLESS).chain(&rotary::KEYS).chain([&VALUE_WIDTH, &ROTATED_WIDTH]);
            let Some(own) = own.filter(|own| known.into_iter().all(|name| name != own)) else { continue };
            match NEUTRAL.iter().find(|(name, _)| *name == own) {
                Some((_, neutral)) if value.to_string() != *neutral => {
                    return Err(value.unexpected(key, neutral));
                }
                Some(_) => {}
                None => unknown.push(shown(key)),
            }
        }
        let warning = || format!("ignored metadata without a meaning here: {}", unknown.join(", "));
        Ok((!unknown.is_empty()).then(warning))
    }

    /// Fields of `config.json` that keys give.
    fn fields(&self, file: &File<'_>) -> Result<Map<String, Json>> {
        let mut fields = Map::new();
        for (number, (key, field)) in FIELDS.iter().chain(self.keys).enumerate() {
            let name = self.key(key);
            let is_own = number >= FIELDS.len();
            let value: Json = match file.metadata.get(name.as_str()) {
                Some(value) if OPTIONAL.contains(key) && value.to_string() == "0" => Json::Null,
                Some(value) if NUMBERS.contains(key) => value.number(&name)?.into(),
                Some(value) => value.unsigned(&name)?.into(),
                None if number < REQUIRED || is_own && !OPTIONAL.contains(key) => {
                    bail!("metadata {name} is missing")
                }
                None => continue,
            };
            fields.insert((*field).to_owned(), value);
        }
        Ok(fields)
    }

    /// Configuration of the model, and a warning about ignored metadata. `path` is for messages.
    pub(super) fn config(&self, path: &Path, file: &File<'_>) -> Result<(DecoderConfig, Option<String>)> {
        let warning = self.others(file)?;
        let mut fields = self.fields(file)?;
        let Some(embedding) = file.tensors.get(EMBEDDING) else { bail!("tensor {EMBEDDING} is missing") };
        // A matrix has as many rows as tokens; another shape is refused when it is read.
        fields.insert("vocab_size".into(), embedding.shape[0].into());
        fields.insert("tie_word_embeddings".into(), (!file.tensors.contains_key(HEAD)).into());
        for (field, tensor) in [("attention_bias", "blk.0.attn_q.bias"), ("mlp_bias", "blk.0.ffn_gate.bias")]
        {
            fields.insert(field.into(), file.tensors.contains_key(tensor).into());
        }
        fields.insert("model_type".into(), self.model_type.into());
        self.add_defaults(&mut fields);
        let width = fields.get("head_dim").and_then(Json::as_u64).unwrap_or(0);
        if let Some(scaling) = rotary::scaling(self, file, width)? {
            fields.insert("rope_scaling".into(), scaling);
        }
        let rotated = self.key(ROTATED_WIDTH);
        if let Some(value) = file.metadata.get(rotated.as_str()).filter(|_| self.model_type == "phi3") {
            let rotated = value.unsigned(&rotated)?;
            // The share by which the width is multiplied again, and cut off.
            let share = rotated as f64 / width.max(1) as f64;
            let is_cut = (width as f64 * share) as u64 != rotated;
            let share = if is_cut { share.next_up() } else { share };
            fields.insert("partial_rotary_factor".into(), share.into());
        }
        let config = DecoderConfig::from_json(path, &Json::Object(fields).to_string());
        let config = config.map_err(|error| {
            let said = error.to_string();
            let mut all = FIELDS.iter().chain(self.keys);
            match all.find(|(_, field)| said.starts_with(&format!("config: {field} = "))) {
                Some((key, _)) => error.context(format!("metadata {}", self.key(key))),
                None => error,
            }
        })?;
        let width = config.head_width();
        let rotated = config.extras().rotated_width.unwrap_or(width);
        let rows = format!("{} rows of {EMBEDDING}", config.vocab_size());
        for (key, expected, what) in [
            (VALUE_WIDTH, width, format!("{width}, the width of a head")),
            (ROTATED_WIDTH, rotated, format!("{rotated}, the width of a head")),
            ("vocab_size", config.vocab_size(), rows),
        ] {
            let name = self.key(key);
            if let Some(value) = file.metadata.get(name.as_str())
                && value.unsigned(&name)? != expected as u64
            {
                return Err(value.unexpected(&name, &what));
            }
        }
        Ok((config.with_whole_gains(), warning))
    }

    /// What llama.cpp takes for absent keys, where Hugging Face takes something else.
    fn add_defaults(&self, fields: &mut Map<String, Json>) {
        let number = |fields: &Map<String, Json>, field: &str| fields.get(field).and_then(Json::as_u64);
        let [hidden, heads, layers] = ["hidden_size", "num_attention_heads", "num_hidden_layers"]
            .map(|field| number(fields, field).unwrap_or(0));
        let whole = hidden.checked_div(heads).filter(|width| width * heads == hidden && *width > 0);
        let mut default = |field: &str, value: Option<Json>| {
            if let Some(value) = value.filter(|_| !fields.contains_key(field)) {
                fields.insert(field.into(), value);
            }
        };
        default("rope_theta", Some(json!(10_000)));
        default("num_key_value_heads", Some(heads.into()));
        default("head_dim", whole.map(Json::from));
        let width = number(fields, "head_dim").unwrap_or(0);
        match self.model_type {
            "qwen3_moe" => {
                fields.insert("norm_topk_prob".into(), true.into());
            }
            // Scores of the largest models have a scale of their own.
            "gemma2" | "gemma3_text" => {
                let is_largest = layers == if self.model_type == "gemma2" { 46 } else { 62 };
                let scalar = if is_largest { whole.unwrap_or(width) } else { width };
                fields.insert("query_pre_attn_scalar".into(), scalar.into());
                if self.model_type == "gemma3_text" && fields.get("sliding_window").is_none_or(Json::is_null)
                {
                    fields.insert("sliding_window_pattern".into(), 1.into());
                    fields.insert("sliding_window".into(), Json::Null);
                }
            }
            _ => {}
        }
    }
}

/// Name in the file of a tensor that [`crate::Model::from_tensors`] requests, and its place among experts.
pub(super) fn stored_name(config: &DecoderConfig, name: &str) -> (String, Option<usize>) {
    let whole = match name {
        "embed_tokens.weight" => EMBEDDING,
        "norm.weight" => "output_norm.weight",
        "lm_head.weight" => HEAD,
        _ => "",
    };
    let inner = name.strip_prefix("layers.").and_then(|rest| rest.split_once('.'));
    let of_layer = || {
        let (layer, part) = inner?;
        let (part, kind) = part.rsplit_once('.')?;
        let find =
            |parts: &[(&str, &'static str)], part| Some(parts.iter().find(|(theirs, _)| *theirs == part)?.1);
        let (own, expert) = match part.split_once(".experts.").and_then(|(_, own)| own.split_once('.')) {
            Some((number, part)) => (find(&EXPERT_PARTS, part)?, Some(number.parse().ok()?)),
            None if part == AFTER_ATTENTION && config.extras().norm_places != NormPlaces::Before => {
                ("post_attention_norm", None)
            }
            None => (find(&PARTS, part)?, None),
        };
        Some((format!("blk.{layer}.{own}.{kind}"), expert))
    };
    if whole.is_empty() {
        of_layer().unwrap_or_else(|| (name.to_owned(), None))
    } else {
        (whole.to_owned(), None)
    }
}

/// Puts the rows of Q and K in Hugging Face's order. A rotary embedding rotates pairs of elements. In the file the rows
/// of a pair are neighbours; there, the second rows of all pairs follow the first ones.
pub(super) fn unpaired<T: Copy>(name: &str, rows: usize, width: usize, data: Vec<T>) -> Vec<T> {
    if !name.contains(".attn_q.") && !name.contains(".attn_k.") {
        return data;
    }
    let (cols, half) = (data.len() / rows, width / 2);
    let source = |row: usize| {
        let (head, own) = (row / width * width, row % width);
        head + own % half * 2 + own / half
    };
    (0..rows).flat_map(|row| &data[source(row) * cols..][..cols]).copied().collect()
}
