//! Writes small GGUF files.

use ndp_model::DecoderConfig;
use ndp_model::config::NormPlaces;
use ndp_numerics::f16;

use super::Stored;

pub const F16: u32 = 1;

/// A value with its type.
#[derive(Clone)]
pub struct Value(pub Vec<u8>);

fn typed(kind: u32, bytes: &[u8]) -> Value {
    Value([&kind.to_le_bytes(), bytes].concat())
}

fn text_bytes(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()
}

pub fn u32(value: u32) -> Value {
    typed(4, &value.to_le_bytes())
}

pub fn f32(value: f32) -> Value {
    typed(6, &value.to_le_bytes())
}

pub fn boolean(value: bool) -> Value {
    typed(7, &[value.into()])
}

pub fn text(value: &str) -> Value {
    typed(8, &text_bytes(value))
}

/// An array of elements of one type; `bytes` has their values.
pub fn array(kind: u32, count: u64, bytes: &[u8]) -> Value {
    typed(9, &[&kind.to_le_bytes()[..], &count.to_le_bytes(), bytes].concat())
}

pub fn texts<T: AsRef<str>>(values: &[T]) -> Value {
    let bytes: Vec<u8> = values.iter().flat_map(|value| text_bytes(value.as_ref())).collect();
    array(8, values.len() as u64, &bytes)
}

pub fn i32s(values: &[i32]) -> Value {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    array(5, values.len() as u64, &bytes)
}

pub fn f32s(values: &[f32]) -> Value {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    array(6, values.len() as u64, &bytes)
}

/// A tensor; sizes as in the file, the fastest dimension first.
#[derive(Clone)]
pub struct Tensor {
    pub name: String,
    pub sizes: Vec<u64>,
    pub kind: u32,
    pub offset: Option<u64>,
    pub bytes: Vec<u8>,
}

#[derive(Clone)]
pub struct File {
    pub version: u32,
    pub alignment: u64,
    pub entries: Vec<(String, Value)>,
    pub tensors: Vec<Tensor>,
}

impl File {
    /// A model of architecture `llama`: metadata, and a checkpoint's tensors in FP16.
    pub fn of(config: &DecoderConfig, stored: &[Stored]) -> Self {
        Self::of_architecture("llama", config, stored)
    }

    /// Keys that all architectures have, and a checkpoint's tensors: FP16, but gains of Gemma in FP32.
    pub fn of_architecture(kind: &str, config: &DecoderConfig, stored: &[Stored]) -> Self {
        let mut file = Self { version: 3, alignment: 32, entries: vec![], tensors: vec![] };
        let size = |n: usize| u32(n as u32);
        file.set("general.architecture", text(kind));
        let rotated = config.extras().rotated_width.unwrap_or(config.head_width());
        for (key, value) in [
            ("block_count", size(config.num_hidden_layers())),
            ("context_length", size(config.max_position_embeddings())),
            ("embedding_length", size(config.hidden_size())),
            ("feed_forward_length", size(config.ffn_dim())),
            ("attention.head_count", size(config.num_attention_heads())),
            ("attention.head_count_kv", size(config.num_key_value_heads())),
            ("attention.layer_norm_rms_epsilon", f32(config.norm_eps().units() as f32 * 1e-12)),
            ("rope.freq_base", f32(config.rotary_base().unwrap() as f32)),
            ("rope.dimension_count", size(rotated)),
        ] {
            file.set(&format!("{kind}.{key}"), value);
        }
        for (name, shape, bytes) in stored {
            let mut tensor = Tensor {
                name: gguf_name(config, name),
                sizes: shape.iter().rev().map(|size| *size as u64).collect(),
                kind: F16,
                offset: None,
                bytes: bytes.clone(),
            };
            if matches!(kind, "llama" | "granite") && (name.contains(".q_proj.") || name.contains(".k_proj."))
            {
                tensor.bytes = paired(bytes, shape[0], config.head_width());
            }
            if config.extras().unit_gains && name.ends_with("norm.weight") {
                let gain = |b: &[u8]| 1.0 + f16::from_bits(u16::from_le_bytes([b[0], b[1]])).to_f32();
                tensor.kind = 0;
                tensor.bytes = bytes.chunks(2).flat_map(|b| gain(b).to_le_bytes()).collect();
            }
            if !name.contains(".experts.") {
                file.tensors.push(tensor);
            } else if let Some(all) = file.tensors.iter_mut().find(|all| all.name == tensor.name) {
                all.sizes[2] += 1;
                all.bytes.extend(tensor.bytes);
            } else {
                tensor.sizes.push(1);
                file.tensors.push(tensor);
            }
        }
        file
    }

    pub fn set(&mut self, key: &str, value: Value) {
        self.entries.retain(|(other, _)| other != key);
        self.entries.push((key.to_owned(), value));
    }

    pub fn tensor(&mut self, name: &str) -> &mut Tensor {
        self.tensors.iter_mut().find(|tensor| tensor.name == name).unwrap()
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut bytes = b"GGUF".to_vec();
        bytes.extend(self.version.to_le_bytes());
        bytes.extend((self.tensors.len() as u64).to_le_bytes());
        bytes.extend((self.entries.len() as u64).to_le_bytes());
        for (key, Value(value)) in &self.entries {
            bytes.extend(text_bytes(key));
            bytes.extend(value);
        }
        let mut data = Vec::new();
        let pad = |bytes: &mut Vec<u8>| {
            bytes.resize(bytes.len().next_multiple_of(self.alignment as usize), 0);
        };
        for tensor in &self.tensors {
            pad(&mut data);
            bytes.extend(text_bytes(&tensor.name));
            bytes.extend((tensor.sizes.len() as u32).to_le_bytes());
            bytes.extend(tensor.sizes.iter().flat_map(|size| size.to_le_bytes()));
            bytes.extend(tensor.kind.to_le_bytes());
            bytes.extend(tensor.offset.unwrap_or(data.len() as u64).to_le_bytes());
            data.extend(&tensor.bytes);
        }
        pad(&mut bytes);
        [bytes, data].concat()
    }
}

/// Rows of Q or K in FP16, with both rows of each rotated pair next to each other.
fn paired(bytes: &[u8], rows: usize, width: usize) -> Vec<u8> {
    let row = bytes.len() / rows;
    let mut result = Vec::new();
    for head in bytes.chunks(row * width) {
        let (first, second) = head.split_at(head.len() / 2);
        for pair in first.chunks(row).zip(second.chunks(row)) {
            result.extend_from_slice(pair.0);
            result.extend_from_slice(pair.1);
        }
    }
    result
}

/// The name in GGUF of a tensor; all experts of a layer share a tensor.
fn gguf_name(config: &DecoderConfig, name: &str) -> String {
    let whole = [
        ("embed_tokens.weight", "token_embd.weight"),
        ("norm.weight", "output_norm.weight"),
        ("lm_head.weight", "output.weight"),
    ];
    if let Some((_, own)) = whole.iter().find(|(theirs, _)| *theirs == name) {
        return (*own).to_owned();
    }
    let is_before = config.extras().norm_places == NormPlaces::Before;
    let parts = [
        ("layers.", "blk."),
        ("post_attention_layernorm", if is_before { "ffn_norm" } else { "post_attention_norm" }),
        ("pre_feedforward_layernorm", "ffn_norm"),
        ("post_feedforward_layernorm", "post_ffw_norm"),
        ("input_layernorm", "attn_norm"),
        ("self_attn.qkv_proj", "attn_qkv"),
        ("self_attn.q_proj", "attn_q"),
        ("self_attn.k_proj", "attn_k"),
        ("self_attn.v_proj", "attn_v"),
        ("self_attn.q_norm", "attn_q_norm"),
        ("self_attn.k_norm", "attn_k_norm"),
        ("self_attn.o_proj", "attn_output"),
        ("mlp.gate_up_proj", "ffn_up"),
        ("mlp.gate_proj", "ffn_gate"),
        ("mlp.up_proj", "ffn_up"),
        ("mlp.down_proj", "ffn_down"),
        ("mlp.gate.", "ffn_gate_inp."),
        ("block_sparse_moe.gate.", "ffn_gate_inp."),
    ];
    if let Some((layer, own)) =
        name.split_once(".mlp.experts.").or(name.split_once(".block_sparse_moe.experts."))
    {
        let parts =
            [("gate", "gate"), ("w1", "gate"), ("up", "up"), ("w3", "up"), ("down", "down"), ("w2", "down")];
        let (_, part) = parts.iter().find(|(theirs, _)| own.contains(theirs)).unwrap();
        return format!("{}.ffn_{part}_exps.weight", layer.replace("layers.", "blk."));
    }
    parts.iter().fold(name.to_owned(), |name, (theirs, own)| name.replace(theirs, own))
}
