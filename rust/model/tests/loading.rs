//! Loading from disk: the layouts that are accepted, and every defect with the error that names it.

use ndp_files::said;
use std::fs;
use std::path::Path;

use crate::common::{Stored, config, config_json, model_and_tensors, serialize};
use ndp_model::{DecoderConfig, Model, Remarks, RoundedWeights};
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use serde_json::json;
use tempfile::TempDir;

const WEIGHTS: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";
const FC1: &str = "decoder.layers.1.fc1.weight";

fn fixture() -> (TempDir, Model, Vec<Stored>) {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("config.json"), config_json(17, true).to_string()).unwrap();
    let (model, tensors) = model_and_tensors(config(17, true), 1);
    (dir, model, tensors)
}

fn write_index(dir: &Path, map: serde_json::Map<String, serde_json::Value>) {
    fs::write(dir.join(INDEX), json!({"metadata": {}, "weight_map": map}).to_string()).unwrap();
}

/// Writes tensors alternately into two shards; returns the index's map.
fn write_shards(dir: &Path, tensors: &[Stored], prefix: &str) -> serde_json::Map<String, serde_json::Value> {
    let mut map = serde_json::Map::new();
    for shard in 0..2 {
        let file = format!("model-{:05}-of-00002.safetensors", shard + 1);
        let part: Vec<Stored> = tensors.iter().skip(shard).step_by(2).cloned().collect();
        fs::write(dir.join(&file), serialize(&part, prefix)).unwrap();
        map.extend(part.into_iter().map(|(name, ..)| (format!("{prefix}{name}"), json!(file))));
    }
    map
}

#[test]
fn one_file_with_and_without_the_prefix() {
    for prefix in ["model.", ""] {
        let (dir, model, mut tensors) = fixture();
        tensors.push(("project.weight".into(), vec![3], vec![0; 6])); // not needed
        tensors.push(("rotary_emb.inv_freq".into(), vec![0], vec![]));
        fs::write(dir.path().join(WEIGHTS), serialize(&tensors, prefix)).unwrap();
        let (loaded, remarks) = Model::load_with_remarks(dir.path()).unwrap();
        assert_eq!(loaded, model);
        assert_eq!(remarks.warnings, [format!("unused tensors: 1, the first is {prefix}project.weight")]);
        let elements: usize = tensors.iter().map(|(_, _, bytes)| bytes.len() / 2).sum();
        assert_eq!(loaded.parameters(), elements - 3);
    }
}

#[test]
fn tensors_at_odd_byte_offsets_load() {
    // Headers have any length, so data may start at an odd address.
    for padding in 0..4 {
        let (dir, model, tensors) = fixture();
        let bytes = serialize(&tensors, "");
        let header_len = u64::from_le_bytes(bytes[..8].try_into().unwrap());
        let (header, data) = bytes[8..].split_at(header_len as usize);
        let mut file = (header_len + padding).to_le_bytes().to_vec();
        file.extend_from_slice(header);
        file.extend(std::iter::repeat_n(b' ', padding as usize));
        file.extend_from_slice(data);
        fs::write(dir.path().join(WEIGHTS), file).unwrap();
        assert_eq!(Model::load(dir.path()).unwrap(), model, "padding {padding}");
    }
}

#[test]
fn shards_with_and_without_the_prefix() {
    for prefix in ["model.", ""] {
        let (dir, model, tensors) = fixture();
        let map = write_shards(dir.path(), &tensors, prefix);
        write_index(dir.path(), map);
        assert_eq!(Model::load(dir.path()).unwrap(), model);
    }
}

#[test]
fn absent_files_are_named() {
    let (dir, _, tensors) = fixture();
    assert!(said(&Model::load(dir.path())).contains(&format!("no weights in '{}'", dir.path().display())));
    let map = write_shards(dir.path(), &tensors, "");
    write_index(dir.path(), map);
    let shard = dir.path().join("model-00002-of-00002.safetensors");
    fs::remove_file(&shard).unwrap();
    assert!(said(&Model::load(dir.path())).contains(&format!("cannot read {}", shard.display())));
    fs::remove_file(dir.path().join("config.json")).unwrap();
    let error = Model::load(dir.path()).unwrap_err();
    assert!(error.to_string().contains("config.json"), "{error}");
}

#[test]
fn a_missing_tensor_is_named() {
    let (dir, _, mut tensors) = fixture();
    let map = write_shards(dir.path(), &tensors, "model.");
    tensors.retain(|(name, ..)| name != FC1);
    fs::write(dir.path().join(WEIGHTS), serialize(&tensors, "model.")).unwrap();
    let error = Model::load(dir.path()).unwrap_err();
    let missing = format!("{WEIGHTS}: tensor model.{FC1} is missing");
    assert!(error.to_string().contains(&missing), "{error}");

    // Missing from the index, then listed for a shard that does not hold it.
    fs::remove_file(dir.path().join(WEIGHTS)).unwrap();
    let mut without = map.clone();
    let shard = without.remove(&format!("model.{FC1}")).unwrap();
    write_index(dir.path(), without);
    assert!(said(&Model::load(dir.path())).contains(&format!("{INDEX}: tensor model.{FC1} is missing")));
    let other = if shard.as_str().unwrap().contains("00001-of") { 2 } else { 1 };
    let other = format!("model-0000{other}-of-00002.safetensors");
    let mut wrong = map;
    wrong.insert(format!("model.{FC1}"), json!(other));
    write_index(dir.path(), wrong);
    assert!(said(&Model::load(dir.path())).contains(&format!("{other}: tensor model.{FC1} is missing")));
}

fn write_fc1(dir: &Path, tensors: &[Stored], dtype: Dtype, fc1: &[u8]) {
    let views = tensors.iter().map(|(name, shape, bytes)| {
        let (dtype, bytes) = if name == FC1 { (dtype, fc1) } else { (Dtype::F16, &bytes[..]) };
        (name.clone(), TensorView::new(dtype, shape.clone(), bytes).unwrap())
    });
    fs::write(dir.join(WEIGHTS), safetensors::serialize(views, None).unwrap()).unwrap();
}

#[test]
fn another_dtype_is_refused() {
    let (dir, _, tensors) = fixture();
    write_fc1(dir.path(), &tensors, Dtype::F64, &[0; 40 * 24 * 8]);
    let error = Model::load(dir.path()).unwrap_err();
    let text = error.to_string();
    assert!(text.contains(FC1) && text.contains("F64") && text.contains("F16, BF16 or F32"), "{text}");
}

#[test]
fn other_formats_are_rounded_once_and_counted() {
    let (dir, model, tensors) = fixture();
    let exact: Vec<f32> = model.layers[1].experts[0].fc1.weight.data().iter().map(|w| w.to_f32()).collect();
    let store = |values: &[f32]| {
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        write_fc1(dir.path(), &tensors, Dtype::F32, &bytes);
        Model::load_with_remarks(dir.path())
    };
    let (loaded, Remarks { rounded, .. }) = store(&exact).unwrap();
    assert_eq!((&loaded, rounded), (&model, RoundedWeights { converted: 960, changed: 0 }));
    let mut values = exact.clone();
    // A tie, which goes to even; slightly more; less than half of the smallest number.
    (values[0], values[1], values[2]) = (1.0 + 2f32.powi(-11), 1.000_488_4, 2f32.powi(-26));
    let (loaded, Remarks { rounded, .. }) = store(&values).unwrap();
    let bits: Vec<u16> =
        loaded.layers[1].experts[0].fc1.weight.data()[..3].iter().map(|w| w.to_bits()).collect();
    assert_eq!((bits, rounded.changed), (vec![0x3C00, 0x3C01, 0x0000], 3));
    values[25] = 65520.0;
    let text = store(&values).unwrap_err().to_string();
    assert!(text.contains(FC1) && text.contains("[1, 1] is inf, weights must be finite in FP16"), "{text}");

    let bfloat: Vec<u8> = exact.iter().flat_map(|v| ((v.to_bits() >> 16) as u16).to_le_bytes()).collect();
    write_fc1(dir.path(), &tensors, Dtype::BF16, &bfloat);
    let (loaded, Remarks { rounded, .. }) = Model::load_with_remarks(dir.path()).unwrap();
    assert_eq!(rounded, RoundedWeights { converted: 960, changed: 0 });
    let kept = loaded.layers[1].experts[0].fc1.weight.data().iter().zip(&exact);
    assert!(kept.clone().all(|(w, v)| w.to_f32().to_bits() == v.to_bits() >> 16 << 16));
    assert!(kept.filter(|(w, v)| w.to_f32() != **v).count() > 100);
}

#[test]
fn a_stored_head_equals_the_embedding_that_takes_its_place() {
    let (dir, model, mut tensors) = fixture();
    let (_, shape, embedding) = tensors[0].clone();
    tensors.push(("lm_head.weight".into(), shape, embedding));
    let load = |tensors: &[Stored]| {
        fs::write(dir.path().join(WEIGHTS), serialize(tensors, "")).unwrap();
        Model::load_with_remarks(dir.path())
    };
    assert_eq!(load(&tensors).unwrap(), (model, Remarks::default()));
    tensors.last_mut().unwrap().2[3] ^= 1;
    let said = load(&tensors).unwrap_err().to_string();
    assert!(said.contains("tie_word_embeddings = true, expected a stored lm_head.weight"), "{said}");
}

#[test]
fn a_head_of_its_own_is_named_as_it_is_stored() {
    let dir = tempfile::tempdir().unwrap();
    let json = json!({
        "model_type": "llama", "vocab_size": 17, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3,
        "intermediate_size": 40, "max_position_embeddings": 48
    });
    fs::write(dir.path().join("config.json"), json.to_string()).unwrap();
    let config = DecoderConfig::load(dir.path()).unwrap();
    let (_, mut tensors) = model_and_tensors(config, 1);
    let head = tensors.pop().unwrap();
    assert_eq!(head.0, "lm_head.weight");
    fs::write(dir.path().join(WEIGHTS), serialize(&tensors, "")).unwrap();
    let said = Model::load(dir.path()).unwrap_err().to_string();
    assert!(said.ends_with("tensor lm_head.weight is missing"), "{said}");
    // GPTQ has packed integers in place of the weights.
    tensors.push(("layers.0.mlp.up_proj.qweight".into(), head.1, head.2));
    tensors.retain(|(name, ..)| name != "layers.0.mlp.up_proj.weight");
    fs::write(dir.path().join(WEIGHTS), serialize(&tensors, "model.")).unwrap();
    let said = Model::load(dir.path()).unwrap_err().to_string();
    assert!(
        said.contains("up_proj.weight is missing, but there is model.layers.0.mlp.up_proj.qweight"),
        "{said}"
    );
}

#[test]
fn files_that_stand_for_others_say_what_they_are() {
    let (dir, _, tensors) = fixture();
    let good = serialize(&tensors, "");
    let pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 135\n";
    for (content, what) in [
        (&pointer[..], "is a Git LFS pointer, not the file: fetch the file with 'git lfs pull'"),
        (b"<!DOCTYPE html>\n<html>", "is an HTML page, not the file"),
        (b"\n <HTML lang=en>", "is an HTML page, not the file"),
        (b"PK\x03\x04\0\0", "is a PyTorch file or another archive: convert it to safetensors"),
        (b"GGUF\x03\0\0\0", "is a GGUF file: name the file itself as the model"),
        (b"\x80\x02}q", "is a PyTorch file (a pickle): convert it to safetensors"),
        (b"\x80\x04\x95\x10\0\0\0\0\0\0\0}", "is a PyTorch file (a pickle): convert it to safetensors"),
        (b"<?xml version=\"1.0\"?>", "is not a safetensors file: convert the weights to safetensors"),
        (b"weights\n", "is not a safetensors file: convert the weights to safetensors"),
        (b"\x02\0\0\0\0\0\0\0[]", "is not a safetensors file: convert the weights to safetensors"),
    ] {
        let path = dir.path().join(WEIGHTS);
        fs::write(&path, content).unwrap();
        let said = Model::load(dir.path()).unwrap_err().to_string();
        assert!(said.starts_with(&format!("'{}' {what}", path.display())), "{said}");
    }
    for name in ["tokenizer.json", INDEX, "config.json"] {
        fs::remove_file(dir.path().join(WEIGHTS)).ok();
        fs::write(dir.path().join(name), pointer).unwrap();
        let said = Model::load(dir.path()).unwrap_err().to_string();
        assert!(said.contains(&format!("{name}' is a Git LFS pointer")), "{said}");
        fs::remove_file(dir.path().join(name)).unwrap();
        fs::write(dir.path().join(WEIGHTS), &good).unwrap();
    }
}

#[test]
fn weights_under_other_names_are_named() {
    let (dir, ..) = fixture();
    for (name, advice) in [
        ("pytorch_model.bin", "convert it to safetensors in FP16, BF16 or FP32"),
        ("model-00001-of-00002.safetensors", "a part, whose index is missing"),
        ("model.fp16.safetensors", "rename it if it has all weights"),
        ("adapter_model.safetensors", "an adapter, which has to be merged into its model first"),
    ] {
        fs::write(dir.path().join(name), "").unwrap();
        let said = Model::load(dir.path()).unwrap_err().to_string();
        assert!(said.ends_with(&format!("model.safetensors.index.json; found {name}: {advice}")), "{said}");
        fs::remove_file(dir.path().join(name)).unwrap();
    }
}

#[test]
fn texts_with_a_byte_order_mark_load() {
    let (dir, model, tensors) = fixture();
    let map = write_shards(dir.path(), &tensors, "");
    write_index(dir.path(), map);
    for name in ["config.json", INDEX] {
        let path = dir.path().join(name);
        let text = fs::read_to_string(&path).unwrap();
        fs::write(&path, format!("\u{FEFF}{text}\r\n")).unwrap();
    }
    assert_eq!(Model::load(dir.path()).unwrap(), model);
}

#[test]
fn another_shape_is_refused() {
    let (dir, _, mut tensors) = fixture();
    let fc1 = tensors.iter_mut().find(|(name, ..)| name == FC1).unwrap();
    fc1.1 = vec![24, 40]; // the same number of elements
    fs::write(dir.path().join(WEIGHTS), serialize(&tensors, "")).unwrap();
    let text = said(&Model::load(dir.path()));
    assert!(text.contains(&format!("tensor {FC1} has shape [24, 40], expected [40, 24]")), "{text}");
}

#[test]
fn truncated_files_never_panic() {
    let (dir, _, tensors) = fixture();
    let bytes = serialize(&tensors, "model.");
    let path = dir.path().join(WEIGHTS);
    let lengths = (0..64).chain((64..bytes.len()).step_by(997)).chain([bytes.len() - 1]);
    for len in lengths {
        fs::write(&path, &bytes[..len]).unwrap();
        let error = Model::load(dir.path()).unwrap_err();
        let text = format!("{}: not a valid safetensors file: ", path.display());
        assert!(error.to_string().contains(&text), "{len}: {error}");
    }
}

#[test]
fn damage_of_weights_is_named() {
    let (dir, _, tensors) = fixture();
    let good = serialize(&tensors, "");
    let path = dir.path().join(WEIGHTS);
    let header = u64::from_le_bytes(good[..8].try_into().unwrap()) as usize;
    let refused = |bytes: &[u8], expected: &str| {
        fs::write(&path, bytes).unwrap();
        let error = Model::load(dir.path()).unwrap_err();
        let said = error.to_string();
        assert!(said.ends_with(&format!("not a valid safetensors file: {expected}")), "{said}");
        assert_eq!(error.chain().count(), 1, "said twice: {said}");
    };
    let len = good.len();
    refused(&good[..len - 1], &format!("expected {len} bytes, found {}", len - 1));
    refused(&[&good[..], b"+"].concat(), &format!("expected {len} bytes, found {}", len + 1));
    refused(&good[..100], &format!("expected a header of {header} bytes, found 92"));
    refused(&good[..4], "header too small");

    let json: serde_json::Value = serde_json::from_slice(&good[8..8 + header]).unwrap();
    let with = |key: &str, value: serde_json::Value| {
        let mut json = json.clone();
        json[FC1][key] = value;
        let json = json.to_string();
        [&(json.len() as u64).to_le_bytes(), json.as_bytes(), &good[8 + header..]].concat()
    };
    let offsets = json[FC1]["data_offsets"].as_array().unwrap();
    refused(
        &with("shape", json!([-1, 24])),
        &format!(
            "tensor {FC1} = {{\"dtype\":\"F16\",\"shape\":[-1,24],\"data_offsets\":[{},{}]}}: invalid value: integer `-1`, expected a whole number",
            offsets[0], offsets[1]
        ),
    );
    for (key, value, found) in [
        ("dtype", json!("I8"), "dtype I8 and shape [40, 24]"),
        ("shape", json!([40, 23]), "dtype F16 and shape [40, 23]"),
        ("shape", json!([1u64 << 40, 1u64 << 40]), "dtype F16 and shape [1099511627776, 1099511627776]"),
    ] {
        let expected =
            format!("tensor {FC1}: data_offsets = [{}, {}] do not fit {found}", offsets[0], offsets[1]);
        refused(&with(key, value), &expected);
    }
}

#[test]
fn corrupt_headers_never_panic() {
    let (dir, model, tensors) = fixture();
    let good = serialize(&tensors, "model.");
    let header = 8 + u64::from_le_bytes(good[..8].try_into().unwrap()) as usize;
    let path = dir.path().join(WEIGHTS);
    let mut refused = 0;
    for at in (0..header).step_by(7) {
        for flip in [0x01, 0x80, 0xFF] {
            let mut bad = good.clone();
            bad[at] ^= flip;
            fs::write(&path, bad).unwrap();
            match Model::load(dir.path()) {
                Err(_) => refused += 1,
                // Possible only for padding of the header.
                Ok(loaded) => assert_eq!(loaded, model, "byte {at} ^ {flip:#x}"),
            }
        }
    }
    assert!(refused > 0);
}

#[test]
fn a_broken_index_is_refused() {
    let (dir, _, tensors) = fixture();
    let map = write_shards(dir.path(), &tensors, "");
    fs::write(dir.path().join(INDEX), "{\"weight_map\": [1]}").unwrap();
    assert!(said(&Model::load(dir.path())).contains(&format!("{INDEX} is not valid: ")));
    for outside in ["../model-00001-of-00002.safetensors", "/etc/hostname", "a/b", "..", "", "."] {
        let mut map = map.clone();
        map.insert(FC1.to_owned(), json!(outside));
        write_index(dir.path(), map);
        let text = said(&Model::load(dir.path()));
        let expected = format!("shard {outside:?} of tensor {FC1} must be a plain file name");
        assert!(text.contains(&expected), "{outside}: {text}");
    }
}
