//! Every refusal of a GGUF file; truncated and damaged ones.

use std::fs;
use std::io::{Seek, Write};
use std::path::Path;

use super::tokens::{bytes_vocabulary, words_file};
use super::*;

type Change = fn(&mut File);

#[test]
fn metadata_that_is_not_implemented_is_refused_by_name() {
    let changes: [(Change, &str); 35] = [
        (|f| f.version = 1, "version = 1, expected 2 or 3"),
        (|f| f.version = 3 << 24, "version = 50331648, expected 2 or 3, little-endian"),
        (
            |f| f.set("general.architecture", text("mamba")),
            "general.architecture = mamba, expected llama, qwen2, qwen3, qwen3moe, phi3, olmo2, granite, gemma, gemma2, gemma3",
        ),
        (|f| drop(f.entries.remove(0)), "metadata general.architecture is missing"),
        (|f| f.set("general.architecture", write::u32(7)), "general.architecture = 7, expected a text"),
        (|f| f.set("general.type", text("adapter")), "general.type = adapter, expected model"),
        (
            |f| f.set("general.quantization_version", write::u32(1)),
            "general.quantization_version = 1, expected 2",
        ),
        (|f| f.set("split.count", write::u32(3)), "split.count = 3, expected 1"),
        (|f| f.set("general.alignment", write::u32(24)), "general.alignment = 24, expected a power of two"),
        (
            |f| f.set("general.alignment", write::u32(4)),
            "general.alignment = 4, expected a power of two, at least 8",
        ),
        (
            |f| f.set("llama.rope.scaling.type", text("longrope")),
            "llama.rope.scaling.type = longrope, expected none, linear or yarn",
        ),
        (
            |f| f.set("llama.rope.scaling.attn_factor", write::f32(1.2)),
            "llama.rope.scaling.attn_factor = 1.2, expected 1",
        ),
        (
            |f| {
                f.set("general.architecture", text("qwen2"));
                f.set("qwen2.expert_count", write::u32(8));
            },
            "qwen2.expert_count = 8, expected 0",
        ),
        (
            |f| {
                f.entries.iter_mut().for_each(|(key, _)| *key = key.replace("llama.", "granite."));
                f.set("general.architecture", text("granite"));
            },
            "metadata granite.attention.scale is missing",
        ),
        (|f| f.set("llama.expert_count", write::u32(8)), "metadata llama.expert_used_count is missing"),
        (
            |f| f.set("llama.attention.sliding_window", write::u32(9)),
            "llama.attention.sliding_window = 9, expected 0",
        ),
        (
            |f| f.set("llama.attention.causal", boolean(false)),
            "llama.attention.causal = false, expected true",
        ),
        (|f| f.set("llama.logit_scale", write::f32(0.5)), "llama.logit_scale = 0.5, expected 1"),
        (|f| f.set("llama.block_count", text("2")), "llama.block_count = 2, expected a whole number"),
        (|f| f.set("llama.block_count", write::f32(2.5)), "llama.block_count = 2.5, expected a whole number"),
        (
            |f| f.set("llama.attention.head_count_kv", i32s(&[2, 1])),
            "head_count_kv = (array of 2 elements), expected a whole number",
        ),
        (|f| drop(f.entries.remove(1)), "metadata llama.block_count is missing"),
        (
            |f| f.set("llama.block_count", write::u32(0)),
            "metadata llama.block_count: config: num_hidden_layers = 0, expected 1..=2^32-1",
        ),
        (|f| f.set("llama.block_count", write::u32(u32::MAX)), "tensor blk.2.attn_norm.weight is missing"),
        (
            |f| f.set("llama.block_count", write::u32(1)),
            "tensor blk.1.attn_k.weight: expected only tensors of llama with 1 layers",
        ),
        (
            |f| f.set("llama.embedding_length", write::u32(1 << 20)),
            "metadata llama.embedding_length: config: hidden_size = 1048576, expected at most 16384",
        ),
        (
            |f| {
                f.set("llama.embedding_length", write::u32(48));
                f.set("llama.rope.dimension_count", write::u32(8));
            },
            "tensor token_embd.weight has shape [29, 24], expected [29, 48]",
        ),
        (
            |f| f.set("llama.rope.dimension_count", write::u32(2)),
            "llama.rope.dimension_count = 2, expected 4, the width of a head",
        ),
        (
            |f| f.set("llama.attention.value_length", write::u32(8)),
            "llama.attention.value_length = 8, expected 4",
        ),
        (
            |f| f.set("llama.attention.layer_norm_rms_epsilon", write::f32(1e-8)),
            "config: rms_norm_eps = 0.00000001, expected a multiple",
        ),
        (
            |f| f.set("llama.rope.freq_base", write::f32(1.5)),
            "metadata llama.rope.freq_base: config: rope_theta = 1.5",
        ),
        (
            |f| f.set("llama.rope.freq_base", write::f32(f32::NAN)),
            "llama.rope.freq_base = NaN, expected a finite number",
        ),
        (
            |f| f.set("llama.vocab_size", write::u32(30)),
            "llama.vocab_size = 30, expected 29 rows of token_embd.weight",
        ),
        (|f| f.entries.push(f.entries[0].clone()), "metadata general.architecture appears twice"),
        (|f| f.entries.push((String::new(), write::u32(1))), "has an empty key"),
    ];
    for (change, expected) in changes {
        let mut file = fixture().2;
        change(&mut file);
        refused(&file, expected);
    }
    let mut file = fixture().2;
    file.set("llama.new_idea", write::u32(1));
    let (_, remarks) = load_file(&file).unwrap();
    assert_eq!(remarks.warnings, ["ignored metadata without a meaning here: llama.new_idea"]);
}

#[test]
fn tensors_that_do_not_fit_are_refused_by_name() {
    let changes: [(&str, Change, &str); 14] = [
        (
            "type",
            |f| f.tensor("output.weight").kind = 10,
            "tensor output.weight: type = 10 (Q2_K), expected F32, F16, BF16, Q8_0, Q4_0",
        ),
        (
            "unknown type",
            |f| f.tensor("output.weight").kind = 99,
            "type = 99 (an unknown type), expected F32",
        ),
        ("no dimension", |f| f.tensor("output.weight").sizes.clear(), "dimensions = 0, expected 1..=4"),
        ("five", |f| f.tensor("output.weight").sizes = vec![1; 5], "dimensions = 5, expected 1..=4"),
        ("zero", |f| f.tensor("output.weight").sizes = vec![0, 9], "sizes [0, 9], expected at least 1 each"),
        ("wraps", |f| f.tensor("output.weight").sizes = vec![1 << 40; 4], "have more than 2^64 bytes"),
        ("long", |f| f.tensor("output.weight").sizes = vec![24, 1 << 50], "bytes at offset"),
        ("odd", |f| f.tensor("output.weight").offset = Some(7), "offset = 7, expected a multiple of 32"),
        (
            "far",
            |f| f.tensor("output.weight").offset = Some(u64::MAX - 31),
            "bytes at offset 18446744073709551584, but the file has",
        ),
        ("shared", |f| f.tensor("output.weight").offset = Some(0), "ends at"),
        (
            "twice",
            |f| f.tensor("output.weight").name = "output_norm.weight".into(),
            "output_norm.weight appears twice",
        ),
        (
            "rotary",
            |f| f.tensor("output.weight").name = "rope_freqs.weight".into(),
            "tensor rope_freqs.weight has 696 elements, expected 2, half of a head",
        ),
        (
            "expert",
            |f| f.tensor("blk.0.ffn_up.weight").name = "blk.0.ffn_up_exps.weight".into(),
            "tensor blk.0.ffn_up.weight is missing",
        ),
        (
            "bias",
            |f| f.tensor("output.weight").name = "blk.0.attn_q_norm.weight".into(),
            "tensor blk.0.attn_q_norm.weight: expected only tensors",
        ),
    ];
    for (what, change, expected) in changes {
        let mut file = fixture().2;
        change(&mut file);
        let said = said(&load_file(&file));
        assert!(said.contains(expected), "{what}: expected '{expected}' in '{said}'");
    }
    for name in ["token_embd.weight", "output_norm.weight", "blk.1.ffn_down.weight"] {
        let mut file = fixture().2;
        file.tensors.retain(|tensor| tensor.name != name);
        refused(&file, &format!("tensor {name} is missing"));
    }
}

#[test]
fn sizes_beyond_the_file_are_refused_before_memory_is_allocated() {
    let good = fixture().2.bytes();
    let folder = tempfile::tempdir().unwrap();
    let with = |at: usize, value: u64| {
        let mut bytes = good.clone();
        bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
        said(&load(&folder, &bytes))
    };
    for value in [u64::MAX, 1 << 40] {
        assert!(
            with(8, value)
                .contains(&format!("number of tensors = {value}, but the file has room for at most "))
        );
        assert!(
            with(16, value).contains(&format!("number of metadata entries = {value}, but the file has room"))
        );
        assert!(with(24, value).contains(&format!("key of metadata entry 0: text: expected {value} bytes")));
    }
    for (value, expected) in [
        (write::array(4, 1 << 62, &[]), "array of 4611686018427387904 elements of 4 bytes, but the file has"),
        (write::array(8, u64::MAX, &[]), "expected"),
        (write::array(9, 1, &[0; 12]), "array of elements of type 9, expected numbers, booleans or texts"),
        (write::Value(13u32.to_le_bytes().to_vec()), "type = 13, expected 0..=12"),
        (write::Value([7, 0, 0, 0, 2].to_vec()), "boolean = 2, expected 0 or 1"),
        (write::array(8, 1, &[2, 0, 0, 0, 0, 0, 0, 0, b'a', 0xFF]), "text at byte"),
    ] {
        let mut file = fixture().2;
        file.set("general.name", value);
        refused(&file, "metadata general.name: ");
        refused(&file, expected);
    }
}

#[test]
fn damaged_files_never_panic() {
    let mut file = fixture().2;
    bytes_vocabulary(&mut file, 29);
    let good = file.bytes();
    let folder = tempfile::tempdir().unwrap();
    let model = load(&folder, &good).unwrap().0;
    let path = folder.path().join("model.gguf");
    // Some file systems write to the disk after each truncation to nothing.
    let mut disk = fs::OpenOptions::new().write(true).open(&path).unwrap();
    for len in (0..good.len()).rev() {
        disk.set_len(len as u64).unwrap();
        let said = said(&Model::load(&path));
        assert!(said.contains("model.gguf") && said.len() > 20, "{len}: {said}");
    }
    let data = file.tensors.iter().map(|tensor| tensor.bytes.len().next_multiple_of(32)).sum::<usize>();
    let mut rng = SplitMix64::new(11);
    let mut refused = 0;
    for _ in 0..2000 {
        let mut bad = good.clone();
        for _ in 0..=rng.next_u64() % 3 {
            bad[rng.next_u64() as usize % (good.len() - data)] ^= 1 << (rng.next_u64() % 8);
        }
        disk.rewind().unwrap();
        disk.write_all(&bad).unwrap();
        refused += u32::from(Model::load(&path).is_err());
    }
    assert!(refused > 1000, "{refused}");
    assert_eq!(load(&folder, &good).unwrap().0, model);
}

#[test]
fn other_files_say_what_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let named = |name: &str, content: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, content).unwrap();
        said(&Model::load(&path))
    };
    assert!(
        named("a.gguf", b"version https://git-lfs.github.com/spec/v1\n").contains("is a Git LFS pointer")
    );
    assert!(named("b.gguf", b"<!doctype html>").contains("is an HTML page"));
    assert!(
        named("c.gguf", b"weights").contains("is not a GGUF file: expected a folder, or a file that begins")
    );
    assert!(named("model.safetensors", b"\x10").contains("name the folder of a model with safetensors"));
    let pipe = said(&Model::load(Path::new("/dev/null")));
    assert!(pipe.contains("'/dev/null' is neither a folder nor a regular file"), "{pipe}");
    let inner = tempfile::tempdir().unwrap();
    fs::write(inner.path().join("config.json"), config_json().to_string()).unwrap();
    fs::write(inner.path().join("own.gguf"), "").unwrap();
    let said = said(&Model::load(inner.path()));
    assert!(said.ends_with("found own.gguf: name the file itself as the model, not its folder"), "{said}");
}

#[test]
fn tokenizers_that_are_not_implemented_are_refused() {
    let changes: [(Change, &str); 14] = [
        (
            |f| f.set("tokenizer.ggml.model", text("bert")),
            "tokenizer.ggml.model = bert, expected gpt2 or llama",
        ),
        (
            |f| f.set("tokenizer.ggml.pre", text("tekken")),
            "tokenizer.ggml.pre = tekken, expected default, gpt-2, smollm, llama-bpe, qwen2",
        ),
        (
            |f| f.set("tokenizer.ggml.tokens", texts(&["a"])),
            "tokenizer.ggml.tokens has 1 tokens, expected 260, the rows of token_embd.weight",
        ),
        (|f| f.set("tokenizer.ggml.tokens", texts(&["a"; 260])), "tokens 0 and 1 are both 'a'"),
        (|f| f.set("tokenizer.ggml.tokens", i32s(&[1; 260])), "expected an array of texts"),
        (
            |f| f.set("tokenizer.ggml.token_type", i32s(&[1])),
            "token_type has 1 elements, expected 260, one for each token",
        ),
        (|f| f.set("tokenizer.ggml.token_type", f32s(&[1.0; 260])), "token_type = 1, expected whole numbers"),
        (|f| f.set("tokenizer.ggml.merges", texts(&["ab"])), "merge 0 = 'ab', expected two parts of a token"),
        (|f| f.set("tokenizer.ggml.merges", texts(&["a z"])), "not a tokenizer: "),
        (
            |f| f.set("tokenizer.ggml.eos_token_id", write::u32(260)),
            "eos_token_id = 260, expected a token below 260",
        ),
        (|f| f.set("tokenizer.ggml.add_eos_token", boolean(true)), "add_eos_token = true, expected false"),
        (
            |f| f.set("tokenizer.ggml.add_bos_token", write::u32(1)),
            "add_bos_token = 1, expected true or false",
        ),
        (|f| f.entries.retain(|(key, _)| !key.ends_with("merges")), "tokenizer.ggml.merges is missing"),
        (|f| f.set("tokenizer.ggml.model", text("llama")), "tokenizer.ggml.scores is missing"),
    ];
    for (change, expected) in changes {
        let mut file = words_file("smollm", &["ab"]).0;
        change(&mut file);
        refused(&file, expected);
    }
    let mut file = words_file("smollm", &["ab"]).0;
    file.set("tokenizer.ggml.add_bos_token", boolean(true));
    file.entries.retain(|(key, _)| !key.ends_with("bos_token_id"));
    refused(&file, "bos_token_id is missing, but each text begins with that token");
    file.set("tokenizer.ggml.model", text("none"));
    assert_eq!(load_file(&file).unwrap().0.vocabulary, Vocabulary::Unknown(260));
}
