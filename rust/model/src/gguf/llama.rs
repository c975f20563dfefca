//! Architecture `llama` of a GGUF file: its metadata as a `config.json`, and its tensors under Hugging Face's names.

use std::path::Path;

use ndp_files::{Context, Result, bail, ensure, refusal};
use serde_json::{Map, Value as Json};

use super::reader::{File, shown};
use crate::DecoderConfig;

const ARCHITECTURE: &str = "llama";

/// Keys with the field of `config.json` that has the same meaning. The first six are required.
const FIELDS: [(&str, &str); 9] = [
    ("block_count", "num_hidden_layers"),
    ("context_length", "max_position_embeddings"),
    ("embedding_length", "hidden_size"),
    ("feed_forward_length", "intermediate_size"),
    ("attention.head_count", "num_attention_heads"),
    (EPSILON, "rms_norm_eps"),
    ("attention.head_count_kv", "num_key_value_heads"),
    (HEAD_WIDTH, "head_dim"),
    (BASE, "rope_theta"),
];
const REQUIRED: usize = 6;
const EPSILON: &str = "attention.layer_norm_rms_epsilon";
const HEAD_WIDTH: &str = "attention.key_length";
const BASE: &str = "rope.freq_base";

/// Keys that have to equal the width of a head.
const HEAD_WIDTHS: [&str; 2] = ["rope.dimension_count", "attention.value_length"];

/// Keys that change the result, with their neutral value.
const NEUTRAL: [(&str, &str); 23] = [
    ("attention.causal", "true"),
    ("attention.clamp_kqv", "0"),
    ("attention.max_alibi_bias", "0"),
    ("attention.scale", "0"),
    ("attention.sliding_window", "0"),
    ("attention.temperature_scale", "0"),
    ("attn_logit_softcapping", "0"),
    ("embedding_scale", "1"),
    ("expert_count", "0"),
    ("expert_shared_count", "0"),
    ("expert_used_count", "0"),
    ("final_logit_softcapping", "0"),
    ("interleave_moe_layer_step", "0"),
    ("logit_scale", "1"),
    ("nextn_predict_layers", "0"),
    ("no_rope_layer_interval", "0"),
    ("residual_scale", "1"),
    ("rope.scale_linear", "1"),
    ("rope.scaling.attn_factor", "1"),
    ("rope.scaling.factor", "1"),
    ("rope.scaling.finetuned", "false"),
    ("rope.scaling.type", "none"),
    ("use_parallel_residual", "false"),
];

/// Keys of the architecture without an effect on the result.
const HARMLESS: [&str; 2] = ["vocab_size", "rope.scaling.original_context_length"];

pub(super) const EMBEDDING: &str = "token_embd.weight";
pub(super) const HEAD: &str = "output.weight";

/// Names of a layer's parts: Hugging Face's, and GGUF's.
const PARTS: [(&str, &str); 9] = [
    ("input_layernorm", "attn_norm"),
    ("self_attn.q_proj", "attn_q"),
    ("self_attn.k_proj", "attn_k"),
    ("self_attn.v_proj", "attn_v"),
    ("self_attn.o_proj", "attn_output"),
    ("post_attention_layernorm", "ffn_norm"),
    ("mlp.gate_proj", "ffn_gate"),
    ("mlp.up_proj", "ffn_up"),
    ("mlp.down_proj", "ffn_down"),
];

fn named(key: &str) -> String {
    format!("{ARCHITECTURE}.{key}")
}

/// Refuses files that are not a whole model of this architecture.
fn check_kind(file: &File<'_>) -> Result<()> {
    let architecture = file.metadata.get("general.architecture");
    let architecture = architecture.context("metadata general.architecture is missing");
    let architecture = architecture.map_err(|error| refusal!("{error}"))?;
    if architecture.text("general.architecture")? != ARCHITECTURE {
        return Err(architecture.unexpected("general.architecture", ARCHITECTURE));
    }
    for (key, expected) in
        [("general.type", "model"), ("general.quantization_version", "2"), ("split.count", "1")]
    {
        if let Some(value) = file.metadata.get(key).filter(|value| value.to_string() != expected) {
            // A file that was not split may say so with 0.
            ensure!(key == "split.count" && value.to_string() == "0", "{}", value.unexpected(key, expected));
        }
    }
    ensure!(
        !file.tensors.contains_key("rope_freqs.weight"),
        "tensor rope_freqs.weight: scaled rotary angles are not implemented; expected a model without it"
    );
    Ok(())
}

/// Warning about keys of the architecture that have no meaning here; an error for those that change the result.
fn others(file: &File<'_>) -> Result<Option<String>> {
    let mut unknown = Vec::new();
    for (key, value) in &file.metadata {
        let Some(own) = key.strip_prefix(ARCHITECTURE).and_then(|key| key.strip_prefix('.')) else {
            continue;
        };
        if let Some((_, neutral)) = NEUTRAL.iter().find(|(name, _)| *name == own) {
            if value.to_string() != *neutral {
                return Err(value.unexpected(key, neutral));
            }
            continue;
        }
        let known = FIELDS.iter().map(|(name, _)| name).chain(&HARMLESS).chain(&HEAD_WIDTHS);
        if !known.into_iter().any(|name| *name == own) {
            unknown.push(shown(key));
        }
    }
    Ok((!unknown.is_empty())
        .then(|| format!("ignored metadata without a meaning here: {}", unknown.join(", "))))
}

/// Configuration of the model, and a warning about ignored metadata. `path` is for messages.
pub(super) fn config(path: &Path, file: &File<'_>) -> Result<(DecoderConfig, Option<String>)> {
    check_kind(file)?;
    let warning = others(file)?;
    let mut fields = Map::new();
    for (number, (key, field)) in FIELDS.into_iter().enumerate() {
        let name = named(key);
        let value = match file.metadata.get(name.as_str()) {
            Some(value) if matches!(key, EPSILON | BASE) => value.number(&name)?.into(),
            Some(value) => value.unsigned(&name)?.into(),
            None if number < REQUIRED => bail!("metadata {name} is missing"),
            None => continue,
        };
        fields.insert(field.to_owned(), value);
    }
    let Some(embedding) = file.tensors.get(EMBEDDING) else { bail!("tensor {EMBEDDING} is missing") };
    // A matrix has as many rows as tokens; another shape is refused when it is read.
    fields.insert("vocab_size".into(), embedding.shape[0].into());
    fields.insert("tie_word_embeddings".into(), (!file.tensors.contains_key(HEAD)).into());
    for (field, tensor) in [("attention_bias", "blk.0.attn_q.bias"), ("mlp_bias", "blk.0.ffn_gate.bias")] {
        fields.insert(field.into(), file.tensors.contains_key(tensor).into());
    }
    fields.insert("model_type".into(), "llama".into());
    let config = DecoderConfig::from_json(path, &Json::Object(fields).to_string());
    let config = config.map_err(|error| {
        let said = error.to_string();
        let cause = FIELDS.iter().find(|(_, field)| said.starts_with(&format!("config: {field} = ")));
        match cause {
            Some((key, _)) => error.context(format!("metadata {}", named(key))),
            None => error,
        }
    })?;
    for key in HEAD_WIDTHS {
        let (name, width) = (named(key), config.head_width());
        if let Some(value) = file.metadata.get(name.as_str())
            && value.unsigned(&name)? != width as u64
        {
            return Err(value.unexpected(&name, &format!("{width}, the width of a head")));
        }
    }
    let name = named("vocab_size");
    if let Some(value) = file.metadata.get(name.as_str())
        && value.unsigned(&name)? != config.vocab_size() as u64
    {
        return Err(value.unexpected(&name, &format!("{} rows of {EMBEDDING}", config.vocab_size())));
    }
    Ok((config, warning))
}

/// Name in the file of a tensor that [`crate::Model::from_tensors`] requests.
pub(super) fn stored_name(name: &str) -> String {
    match name {
        "embed_tokens.weight" => EMBEDDING.into(),
        "norm.weight" => "output_norm.weight".into(),
        "lm_head.weight" => HEAD.into(),
        _ => {
            let inner = name.strip_prefix("layers.").and_then(|rest| rest.split_once('.'));
            let found = inner.and_then(|(layer, part)| {
                let (part, kind) = part.rsplit_once('.')?;
                let (_, own) = PARTS.iter().find(|(theirs, _)| *theirs == part)?;
                Some(format!("blk.{layer}.{own}.{kind}"))
            });
            found.unwrap_or_else(|| name.to_owned())
        }
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
