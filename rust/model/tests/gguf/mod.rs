//! GGUF files: equal to the same model as safetensors, and each type of tensor against the definition of the format.

mod refusals;
mod tokens;

use std::fs;
use std::path::Path;

use crate::common::gguf::{self as write, File, boolean, f32s, i32s, text, texts};
use crate::common::{Stored, model_and_tensors, serialize};
use ndp_config::WeightFormat;
use ndp_files::{Result, said};
use ndp_model::weights::Linear;
use ndp_model::{DecoderConfig, Model, Remarks, RoundedWeights, RowOf, Vocabulary};
use ndp_numerics::{SplitMix64, f16, round_f64};
use serde_json::{Value, json};
use tempfile::TempDir;

fn config_json() -> Value {
    json!({
        "model_type": "llama", "vocab_size": 29, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 6,
        "num_key_value_heads": 2, "intermediate_size": 40, "max_position_embeddings": 48, "rms_norm_eps": 1e-5,
        "rope_theta": 1e5
    })
}

fn config(json: &Value) -> DecoderConfig {
    DecoderConfig::from_json(Path::new("config.json"), &json.to_string()).unwrap()
}

fn fixture() -> (Model, Vec<Stored>, File) {
    let config = config(&config_json());
    let (model, stored) = model_and_tensors(config.clone(), 1);
    let file = File::of(&config, &stored);
    (model, stored, file)
}

fn load(folder: &TempDir, bytes: &[u8]) -> Result<(Model, Remarks)> {
    let path = folder.path().join("model.gguf");
    fs::write(&path, bytes).unwrap();
    Model::load_with_remarks(&path)
}

fn load_file(file: &File) -> Result<(Model, Remarks)> {
    load(&tempfile::tempdir().unwrap(), &file.bytes())
}

fn refused(file: &File, expected: &str) {
    let said = said(&load_file(file));
    assert!(said.contains(expected), "expected '{expected}' in '{said}'");
}

#[test]
fn a_model_equals_its_safetensors() {
    let tied = json!({"tie_word_embeddings": true, "attention_bias": true, "mlp_bias": true});
    let wide = json!({"head_dim": 8, "rope_theta": 10_000.0});
    for own in [json!({}), tied, wide] {
        let mut json = config_json();
        own.as_object().unwrap().iter().for_each(|(key, value)| json[key] = value.clone());
        let config = config(&json);
        let (model, stored) = model_and_tensors(config.clone(), 3);
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("config.json"), json.to_string()).unwrap();
        fs::write(folder.path().join("model.safetensors"), serialize(&stored, "")).unwrap();
        assert_eq!(Model::load(folder.path()).unwrap(), model);
        let mut file = File::of(&config, &stored);
        if config.head_width() == 8 {
            file.set("llama.attention.key_length", write::u32(8));
            file.set("llama.attention.value_length", write::u32(8));
            // The default.
            file.entries.retain(|(key, _)| key != "llama.rope.freq_base");
        }
        for version in [2, 3] {
            file.version = version;
            let (loaded, remarks) = load(&folder, &file.bytes()).unwrap();
            assert_eq!((&loaded, remarks), (&model, Remarks::default()));
        }
        file.alignment = 8;
        file.set("general.alignment", write::u32(8));
        assert_eq!(load_file(&file).unwrap().0, model);
    }
}

/// The file of an architecture has to give the model that Hugging Face's names give.
fn equals(kind: &str, own: &Value, keys: &[(&str, write::Value)], change: impl Fn(&mut File)) {
    let mut json = config_json();
    own.as_object().unwrap().iter().for_each(|(key, value)| json[key] = value.clone());
    let config = config(&json);
    let (model, stored) = model_and_tensors(config.clone(), 5);
    let mut file = File::of_architecture(kind, &config, &stored);
    for (key, value) in keys {
        file.set(&format!("{kind}.{key}"), value.clone());
    }
    change(&mut file);
    let (loaded, remarks) = load_file(&file).unwrap();
    assert_eq!(remarks.warnings, [""; 0], "{own}");
    // Norms of a file have whole gains.
    let described = format!("{config:?}").replace("unit_gains: true", "unit_gains: false");
    assert_eq!(format!("{:?}", loaded.config), described, "{own}");
    assert_eq!(Model { config, ..loaded }, model, "{own}");
}

#[test]
fn other_architectures_equal_their_safetensors() {
    let (whole, number) = (write::u32, write::f32);
    let width = |width| [("attention.key_length", whole(width)), ("attention.value_length", whole(width))];
    let same = |_: &mut File| {};
    equals("qwen2", &json!({"model_type": "qwen2"}), &[], same);
    equals("qwen3", &json!({"model_type": "qwen3", "head_dim": 6}), &width(6), same);
    let own = json!({
        "model_type": "qwen3_moe", "head_dim": 4, "num_experts": 5, "num_experts_per_tok": 3,
        "moe_intermediate_size": 16, "norm_topk_prob": true
    });
    let experts = |count, used| [("expert_count", whole(count)), ("expert_used_count", whole(used))];
    equals(
        "qwen3moe",
        &own,
        &[&experts(5, 3)[..], &[("expert_feed_forward_length", whole(16))]].concat(),
        same,
    );
    let own = json!({"model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 2});
    equals("llama", &own, &experts(4, 2), same);
    for window in [json!(null), json!(7)] {
        let own = json!({
            "model_type": "phi3", "head_dim": 8, "partial_rotary_factor": 0.75, "sliding_window": window
        });
        let window = whole(window.as_u64().unwrap_or(0) as u32);
        equals("phi3", &own, &[&width(8)[..], &[("attention.sliding_window", window)]].concat(), same);
    }
    equals("olmo2", &json!({"model_type": "olmo2"}), &[], same);
    let own = json!({
        "model_type": "granite", "embedding_multiplier": 12.0, "attention_multiplier": 0.4,
        "residual_multiplier": 0.22, "logits_scaling": 8.0, "tie_word_embeddings": true
    });
    let keys = [
        ("embedding_scale", number(12.0)),
        ("attention.scale", number(0.4)),
        ("residual_scale", number(0.22)),
        ("logit_scale", number(8.0)),
    ];
    equals("granite", &own, &keys, same);
    equals("gemma", &json!({"model_type": "gemma", "head_dim": 6}), &width(6), same);
    let own = json!({
        "model_type": "gemma2", "head_dim": 6, "query_pre_attn_scalar": 6, "sliding_window": 5,
        "attn_logit_softcapping": 3.0, "final_logit_softcapping": null
    });
    let keys = [
        ("attention.sliding_window", whole(5)),
        ("attn_logit_softcapping", number(3.0)),
        ("final_logit_softcapping", number(0.0)),
    ];
    equals("gemma2", &own, &[&width(6)[..], &keys].concat(), same);
    let mut own = json!({
        "model_type": "gemma3_text", "head_dim": 6, "query_pre_attn_scalar": 6, "sliding_window": 5,
        "sliding_window_pattern": 2, "rope_scaling": {"rope_type": "linear", "factor": 4.0}
    });
    let keys = [
        ("attention.sliding_window", whole(5)),
        ("attention.sliding_window_pattern", whole(2)),
        ("rope.scaling.factor", number(4.0)),
    ];
    equals("gemma3", &own, &[&width(6)[..], &keys].concat(), same);
    (own["sliding_window"], own["sliding_window_pattern"]) = (json!(null), json!(1));
    equals("gemma3", &own, &[&width(6)[..], &keys[2..]].concat(), same);
}

#[test]
fn scaled_rotary_angles_equal_those_of_a_config_json() {
    let (whole, number) = (write::u32, write::f32);
    let same = |_: &mut File| {};
    let scaled = |scaling| json!({"rope_scaling": scaling, "head_dim": 8});
    let width = ("attention.key_length", whole(8));
    let linear = scaled(json!({"rope_type": "linear", "factor": 2.5}));
    let factor = ("rope.scaling.factor", number(2.5));
    let kind = |kind: &str| ("rope.scaling.type", text(kind));
    equals("llama", &linear, &[width.clone(), kind("linear"), factor.clone()], same);
    equals("llama", &linear, &[width.clone(), ("rope.scale_linear", number(2.5))], same);
    equals("llama", &json!({"head_dim": 8}), &[width.clone(), kind("none"), factor], same);
    let yarn = json!({
        "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "beta_fast": 30.0
    });
    let keys = [
        width.clone(),
        kind("yarn"),
        ("rope.scaling.factor", number(4.0)),
        ("rope.scaling.original_context_length", whole(16)),
        ("rope.scaling.yarn_beta_fast", number(30.0)),
    ];
    equals("llama", &scaled(yarn), &keys, same);
    let mut llama3 = json!({
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 8192
    });
    // Waves of 6, 112, 1987 and 35,332 positions.
    let with_factors = |factors: [f32; 4]| {
        move |file: &mut File| {
            let bytes = factors.iter().flat_map(|factor| factor.to_le_bytes()).collect();
            let name = "rope_freqs.weight".to_owned();
            file.tensors.push(write::Tensor { name, sizes: vec![4], kind: 0, offset: None, bytes });
        }
    };
    equals("llama", &scaled(llama3.clone()), &[width.clone()], with_factors([1.0, 1.0, 1.0, 8.0]));
    llama3["original_max_position_embeddings"] = json!(4096);
    let positions = ("rope.scaling.original_context_length", whole(4096));
    // 4096 positions are 2.06 turns of the third wave.
    let turns = 4096.0 / (std::f64::consts::TAU * 1e5f64.sqrt());
    let share = (turns - 1.0) / 3.0;
    let third = (1.0 / ((1.0 - share) / 8.0 + share)) as f32;
    assert!(third > 1.1 && third < 4.0);
    equals("llama", &scaled(llama3), &[width, positions], with_factors([1.0, 1.0, third, 8.0]));
}

#[test]
fn rows_of_q_and_k_are_reordered() {
    let (model, _, mut file) = fixture();
    // Row 1 of a head of 4 rows in the file is its row 2.
    let row = &file.tensor("blk.0.attn_k.weight").bytes[2 * 24 * (4 + 1)..][..2 * 24];
    let found: Vec<u8> =
        model.layers[0].k_proj.weight.row(4 + 2).iter().flat_map(|w| w.to_bits().to_le_bytes()).collect();
    assert_eq!(row, found);
}

/// Element `i` of a block by the format's definition, exactly.
fn element(kind: &str, b: &[u8], i: usize) -> f64 {
    let bit = |at: usize| i64::from(b[at / 8] >> (at % 8) & 1);
    // A number of bits from several places of the block, lowest first.
    let number = |bits: &[usize]| bits.iter().rev().fold(0, |value, at| 2 * value + bit(*at));
    let field = |at: usize, bits: usize| number(&(at..at + bits).collect::<Vec<_>>());
    let half = |byte: usize| f64::from(f16::from_bits(u16::from_le_bytes([b[byte], b[byte + 1]])).to_f32());
    let signed = |byte: usize| f64::from(b[byte] as i8);
    // In bits: where four bits of element `i` of 32 are, after `byte`.
    let nibble = |byte: usize| (byte + i % 16) * 8 + i / 16 * 4;
    let four = |byte: usize| field(nibble(byte), 4) as f64;
    let five = |high: usize, byte: usize| (field(nibble(byte), 4) + 16 * bit(high * 8 + i)) as f64;
    match kind {
        "F32" => f64::from(f32::from_le_bytes([b[0], b[1], b[2], b[3]])),
        "F16" => half(0),
        "BF16" => f64::from(f32::from_le_bytes([0, 0, b[0], b[1]])),
        "Q8_0" => half(0) * signed(2 + i),
        "Q4_0" => half(0) * (four(2) - 8.0),
        "Q4_1" => half(0) * four(4) + half(2),
        "Q5_0" => half(0) * (five(2, 6) - 16.0),
        "Q5_1" => half(0) * five(4, 8) + half(2),
        "Q4_K" | "Q5_K" => {
            let group = i / 32;
            let six = |own: usize| match group {
                // Low bits of a byte, or four bits of one byte and two of another.
                0..4 => field((4 + own * 4 + group) * 8, 6),
                _ => {
                    field((4 + 4 + group) * 8 + 4 * own, 4) + 16 * field((4 + own * 4 + group - 4) * 8 + 6, 2)
                }
            };
            let low = if kind == "Q4_K" { 16 } else { 48 };
            let mut q = field((low + i / 64 * 32 + i % 32) * 8 + group % 2 * 4, 4);
            if kind == "Q5_K" {
                q += 16 * bit((16 + i % 32) * 8 + group);
            }
            half(0) * (six(0) * q) as f64 - half(2) * six(1) as f64
        }
        "Q6_K" => {
            let (part, own) = (i / 128, i % 128);
            let low = field((part * 64 + own % 64) * 8 + own / 64 * 4, 4);
            let high = field((128 + part * 32 + own % 32) * 8 + own / 32 * 2, 2);
            half(208) * signed(192 + i / 16) * (low + 16 * high - 32) as f64
        }
        _ => unreachable!("{kind}"),
    }
}

/// Name, number, elements and bytes of a block, and places of its FP16 scales.
const TYPES: [(&str, u32, usize, usize, &[usize]); 11] = [
    ("F32", 0, 1, 4, &[]),
    ("F16", 1, 1, 2, &[0]),
    ("BF16", 30, 1, 2, &[]),
    ("Q8_0", 8, 32, 34, &[0]),
    ("Q4_0", 2, 32, 18, &[0]),
    ("Q4_1", 3, 32, 20, &[0, 2]),
    ("Q5_0", 6, 32, 22, &[0]),
    ("Q5_1", 7, 32, 24, &[0, 2]),
    ("Q4_K", 12, 256, 144, &[0, 2]),
    ("Q5_K", 13, 256, 176, &[0, 2]),
    ("Q6_K", 14, 256, 210, &[208]),
];

fn wide_fixture() -> (Model, File) {
    let mut json = config_json();
    for (key, value) in [("hidden_size", 256), ("intermediate_size", 8), ("num_hidden_layers", 1)] {
        json[key] = value.into();
    }
    json["num_attention_heads"] = 4.into();
    let config = config(&json);
    let (model, stored) = model_and_tensors(config.clone(), 5);
    let file = File::of(&config, &stored);
    (model, file)
}

#[test]
fn each_type_of_tensor_is_read_as_its_format_defines_it() {
    let mut rng = SplitMix64::new(7);
    let (model, file) = wide_fixture();
    for (name, kind, elements, size, scales) in TYPES {
        let mut file = file.clone();
        let mut bytes = Vec::new();
        for _ in 0..8 * 256 / elements {
            let mut block: Vec<u8> = (0..size).map(|_| rng.next_u64() as u8).collect();
            for at in scales {
                // Subnormal, and up to 2^-1.
                block[at + 1] = block[at + 1] & 0x80 | (rng.next_u64() % 0x38) as u8;
            }
            match name {
                // Exponents of FP32 and BF16 from 2^-27 to 2^4: subnormal in FP16 and above.
                "F32" => block[2..]
                    .copy_from_slice(&(((100 + rng.next_u64() as u16 % 32) << 7) | 0x15).to_le_bytes()),
                "BF16" => {
                    block.copy_from_slice(&(((100 + rng.next_u64() as u16 % 32) << 7) | 0x2A).to_le_bytes())
                }
                _ => {}
            }
            bytes.extend(block);
        }
        let (stored, expected) = (bytes.clone(), bytes.chunks(size));
        let expected: Vec<u16> = expected
            .flat_map(|block| (0..elements).map(move |i| element(name, block, i)))
            .map(|value| round_f64(f64::from(value as f32)).to_bits())
            .collect();
        let tensor = file.tensor("blk.0.ffn_gate.weight");
        (tensor.kind, tensor.bytes) = (kind, bytes);
        let (loaded, Remarks { rounded, .. }) = load_file(&file).unwrap();
        let found: Vec<u16> =
            loaded.layers[0].experts[0].fc1.weight.data().iter().map(|w| w.to_bits()).collect();
        assert_eq!(found, expected, "{name}");
        let different = found.iter().collect::<std::collections::BTreeSet<_>>().len();
        assert!(different > 20, "{name}: {different} different values");
        let converted = if name == "F16" { 0 } else { 8 * 256 };
        assert_eq!(rounded.converted, converted, "{name}");
        assert_eq!(loaded.layers[0].experts[0].up, model.layers[0].experts[0].up);
        if elements > 1 {
            // A scale that is NaN makes the first element NaN.
            let tensor = file.tensor("blk.0.ffn_gate.weight");
            tensor.bytes = stored;
            tensor.bytes[scales[0]..scales[0] + 2].copy_from_slice(&[0, 0x7E]);
            refused(&file, "tensor blk.0.ffn_gate.weight: [0, 0] is NaN, weights must be finite in FP16");
            tensor_rows(&mut file);
            refused(&file, &format!("rows of 1 elements, expected a multiple of {elements} ({name})"));
        }
    }
}

/// Matrices keep the file's numbers if their rows in DRAM hold consecutive inputs; `q_proj` does not.
#[test]
fn blocks_of_8_and_4_bits_stay_in_dram() {
    for (kind, format, size) in [(8, WeightFormat::Int8, 34), (2, WeightFormat::Int4, 18)] {
        let (_, mut file) = wide_fixture();
        let mut rng = SplitMix64::new(u64::from(kind));
        for name in ["blk.0.ffn_gate.weight", "blk.0.ffn_up.weight", "blk.0.attn_q.weight"] {
            let tensor = file.tensor(name);
            let blocks = tensor.sizes.iter().product::<u64>() / 32;
            tensor.kind = kind;
            tensor.bytes = (0..blocks * size).map(|_| rng.next_u64() as u8).collect();
            // Scales of both signs from 2^-13 to 2^-1; one is zero.
            for block in tensor.bytes.chunks_mut(size as usize) {
                block[1] = block[1] & 0x80 | (8 + rng.next_u64() % 0x30) as u8;
            }
            tensor.bytes[..2].fill(0);
        }
        let model = load_file(&file).unwrap().0;
        let number = |block: &[u8], i: usize| match kind {
            8 => block[2 + i] as i8,
            _ => (block[2 + i % 16] >> (i / 16 * 4) & 0xF) as i8 - 8,
        };
        let (quantised, error) = model.clone().quantised(format).unwrap();
        assert!(error.unwrap().mean > 0.0);
        let [before, after] = [&model, &quantised].map(|model| &model.layers[0]);
        for (name, before, after) in [
            ("blk.0.ffn_gate.weight", &before.experts[0].fc1, &after.experts[0].fc1),
            (
                "blk.0.ffn_up.weight",
                before.experts[0].up.as_ref().unwrap(),
                after.experts[0].up.as_ref().unwrap(),
            ),
        ] {
            let (row_of, stored) = after.weight.stored().unwrap();
            assert_eq!((row_of, stored.format), (RowOf::Output, format));
            let bytes = &file.tensor(name).bytes;
            let blocks: Vec<&[u8]> = bytes.chunks(size as usize).collect();
            let numbers = blocks.iter().flat_map(|block| (0..32).map(|i| number(block, i)));
            let found = stored.rows.iter().flat_map(|row| row.numbers.iter().copied());
            // The product with a scale of zero has only a sign.
            assert!(found.skip(32).eq(numbers.skip(32)), "{name}");
            let scales = blocks.iter().map(|block| u16::from_le_bytes([block[0], block[1]]));
            assert!(stored.rows.iter().flat_map(|row| &row.scales).map(|scale| scale.to_bits()).eq(scales));
            let bits = |linear: &Linear| linear.weight.data().iter().map(|w| w.to_bits()).collect::<Vec<_>>();
            assert_eq!(bits(before), bits(after), "{name}");
        }
        assert_ne!(before.q_proj.weight.data(), after.q_proj.weight.data());
        let other = if format == WeightFormat::Int8 { WeightFormat::Int4 } else { WeightFormat::Int8 };
        let (again, _) = model.clone().quantised(other).unwrap();
        assert_ne!(again.layers[0].experts[0].fc1.weight.data(), before.experts[0].fc1.weight.data());
    }
}

fn tensor_rows(file: &mut File) {
    file.tensor("blk.0.ffn_gate.weight").sizes = vec![1, 256 * 8];
}

#[test]
fn weights_beyond_fp16_and_rounded_weights_are_told() {
    let (_, mut file) = wide_fixture();
    let tensor = file.tensor("blk.0.ffn_gate.weight");
    tensor.kind = 0;
    let mut values = vec![1.0f32; 8 * 256];
    (values[0], values[1]) = (1.0 + 2f32.powi(-11), 2f32.powi(-26));
    let bytes = |values: &[f32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>();
    tensor.bytes = bytes(&values);
    let rounded = load_file(&file).unwrap().1.rounded;
    assert_eq!(rounded, RoundedWeights { converted: 2048, changed: 2 });
    values[257] = 65520.0;
    file.tensor("blk.0.ffn_gate.weight").bytes = bytes(&values);
    refused(&file, "tensor blk.0.ffn_gate.weight: [1, 1] is inf, weights must be finite in FP16");
}

/// A real model, SmolLM2-135M-Instruct, if the variable `NDP_GGUF` names its file.
#[test]
fn a_real_file_loads() {
    let Some(path) = std::env::var_os("NDP_GGUF") else { return };
    let (model, remarks) = Model::load_with_remarks(Path::new(&path)).unwrap();
    assert_eq!(remarks.warnings, [""; 0]);
    let (config, prompt) = (&model.config, "<|im_start|>user\nWhat is 12?<|im_end|>\n");
    assert_eq!((config.num_hidden_layers(), config.hidden_size(), config.vocab_size()), (30, 576, 49152));
    let tokens = model.vocabulary.tokens(prompt.as_bytes()).unwrap();
    assert_eq!((tokens[0], tokens.iter().filter(|token| **token == 2).count()), (1, 1));
    assert_eq!(model.vocabulary.text(&tokens).unwrap(), "user\nWhat is 12?\n");
    assert_eq!(model.vocabulary.end_tokens(), [2]);
}
