//! Stored results of the Python reference: checkpoints of `transformers`, also with other values of each key of their
//! `config.json`, and rotations with scaled frequencies. Other vectors: `testbenches/systems/golden_vectors.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use ndp_files::Result;
use ndp_model::{Decoder, Model, SoftwareBackend, logits_digest};
use ndp_numerics::{Alibi, Decimal, Rotary, RotaryScaling, SoftCap, YarnAttention, f16, gelu_tanh};
use serde_json::Value;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden")
}

fn json(path: &Path) -> Value {
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

fn halves(value: &Value) -> Vec<f16> {
    let digits = value.as_str().unwrap().as_bytes();
    let number = |four: &[u8]| u16::from_str_radix(std::str::from_utf8(four).unwrap(), 16).unwrap();
    digits.chunks(4).map(|four| f16::from_bits(number(four))).collect()
}

fn bits(values: &[f16]) -> Vec<u16> {
    values.iter().map(|value| value.to_bits()).collect()
}

/// Sets the thresholds of the layers, FP16 bits in hexadecimal.
fn set_thresholds(model: &mut Model, stated: &Value) {
    for (layer, bits) in model.layers.iter_mut().zip(stated.as_array().unwrap()) {
        layer.threshold = Some(halves(bits)[0]);
    }
}

#[test]
fn checkpoints_give_the_logits_of_the_reference() {
    let (mut names, mut with_thresholds) = (BTreeSet::new(), 0);
    for entry in std::fs::read_dir(folder().join("checkpoints")).unwrap() {
        let path = entry.unwrap().path();
        if !path.is_dir() {
            continue;
        }
        let expected = json(&path.join("expected.json"));
        let tokens = tokens_of(&expected);
        let (mut model, remarks) = Model::load_with_remarks(&path).unwrap();
        let stored = json(&path.join("config.json"))["dtype"].clone();
        assert_eq!(remarks.rounded.converted > 0, stored != "float16", "{path:?}");
        let digests = |model: &Model| {
            let mut decoder = Decoder::new(model);
            let logits = decoder.prefill_all_logits(&mut SoftwareBackend::new(), &tokens).unwrap();
            let digests = logits.chunks(model.config.vocab_size()).map(logits_digest);
            digests.map(|digest| format!("{digest:016x}")).collect::<Vec<String>>()
        };
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        assert_eq!(digests(&model), *expected["logits_fnv1a64"].as_array().unwrap(), "{name}");
        if let Some(thresholded) = expected.get("thresholded") {
            set_thresholds(&mut model, &thresholded["thresholds"]);
            let expected = thresholded["logits_fnv1a64"].as_array().unwrap();
            assert_eq!(digests(&model), *expected, "{name}, with thresholds");
            with_thresholds += 1;
        }
        names.insert(name);
    }
    assert!(names.contains("opt") && names.len() >= 9, "{names:?}");
    assert!(with_thresholds >= 6, "{with_thresholds}");
}

/// The logits after all tokens, or why there are none.
fn last_logits(folder: &Path, tokens: &[u32]) -> Result<Vec<f16>> {
    let model = Model::load(folder)?;
    Decoder::new(&model).prefill(&mut SoftwareBackend::new(), tokens)
}

fn tokens_of(expected: &Value) -> Vec<u32> {
    let numbers = expected["tokens"].as_array().unwrap().iter();
    numbers.map(|token| token.as_u64().unwrap() as u32).collect()
}

/// For each key of each checkpoint: if another value changes the logits of transformers, the model has these logits too,
/// within the bound of the checkpoint, or refuses the key by name.
#[test]
fn other_values_of_keys_give_the_logits_of_transformers_or_are_refused() {
    let root = folder().join("checkpoints");
    let file = json(&root.join("keys.json"));
    let mut met = BTreeMap::new();
    let mut wrong = Vec::new();
    for case in file["cases"].as_array().unwrap() {
        let [name, key, outcome] =
            ["checkpoint", "key", "outcome"].map(|field| case[field].as_str().unwrap());
        let source = root.join(name);
        let expected = json(&source.join("expected.json"));
        let tokens = tokens_of(&expected);
        let copy = tempfile::tempdir().unwrap();
        for entry in std::fs::read_dir(&source).unwrap() {
            let entry = entry.unwrap();
            std::fs::copy(entry.path(), copy.path().join(entry.file_name())).unwrap();
        }
        let mut config = json(&source.join("config.json"));
        config[key] = case["value"].clone();
        std::fs::write(copy.path().join("config.json"), config.to_string()).unwrap();
        let before = last_logits(&source, &tokens).unwrap();
        let found = last_logits(copy.path(), &tokens);
        let (kind, is_right) = match (outcome, &found) {
            ("refused", Err(_)) => ("refused by both", true),
            (_, Err(error)) => ("refused by name", format!("{error:#}").contains(key)),
            ("same", Ok(found)) => ("without an effect", bits(found) == bits(&before)),
            ("changed", Ok(found)) => {
                let theirs = case["logits"].as_array().unwrap().iter().map(|logit| logit.as_f64().unwrap());
                let theirs: Vec<f64> = theirs.collect();
                let bound = |key: &str| expected[key].as_f64().unwrap();
                let largest = theirs.iter().fold(bound("largest_logit"), |most, own| own.abs().max(most));
                let bound = bound("bound_relative") * largest;
                let is_near = |(own, theirs): (&f16, &f64)| (own.to_f64() - theirs).abs() <= bound;
                ("changed", bits(found) != bits(&before) && found.iter().zip(&theirs).all(is_near))
            }
            _ => ("loaded without weights", false),
        };
        *met.entry(kind).or_insert(0) += 1;
        if !is_right {
            wrong.push(format!(
                "{name}: {key} = {}: {outcome}, here {kind}: {:?}",
                case["value"],
                found.map(drop)
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(met["changed"] > 40 && met["without an effect"] > 40 && met["refused by name"] > 10, "{met:?}");
}

fn scaling(stated: &Value) -> RotaryScaling {
    let get = |key: &str| stated[key].as_f64().map(|value| Decimal::from_f64(value).unwrap());
    let factor = get("factor").unwrap();
    let positions = stated["original"].as_u64().unwrap_or(0) as u32;
    match stated["rope_type"].as_str().unwrap() {
        "linear" => RotaryScaling::Linear { factor },
        "llama3" => {
            let [low, high] = ["low_freq_factor", "high_freq_factor"].map(|key| get(key).unwrap());
            RotaryScaling::Llama3 { factor, low, high, positions }
        }
        _ => {
            let of = |key, default| get(key).unwrap_or(Decimal::whole(default));
            let attention = match get("attention_factor") {
                Some(own) => YarnAttention::Factor(own),
                None => YarnAttention::Logarithm([of("mscale", 1), of("mscale_all_dim", 0)]),
            };
            let [fast, slow] = [of("beta_fast", 32), of("beta_slow", 1)];
            RotaryScaling::Yarn { factor, fast, slow, positions, attention }
        }
    }
}

#[test]
fn scaled_rotations_are_those_of_the_reference() {
    let file = json(&folder().join("vectors/rotary_scaled.json"));
    let scalings: Vec<RotaryScaling> = file["scalings"].as_array().unwrap().iter().map(scaling).collect();
    let cases = file["cases"].as_array().unwrap();
    assert!(cases.len() >= 100);
    for case in cases {
        let number = |key: &str| case[key].as_u64().unwrap();
        let scaling = scalings[number("scaling") as usize];
        let rotary = Rotary::scaled(number("theta"), number("rotated") as usize, scaling).unwrap();
        let mut head = halves(&case["x"]);
        rotary.at(number("position") as u32).rotate(&mut head);
        assert_eq!(bits(&head), bits(&halves(&case["y"])), "{case}");
    }
}

#[test]
fn scores_with_alibi_are_those_of_the_reference() {
    let file = json(&folder().join("vectors/alibi.json"));
    for case in file["cases"].as_array().unwrap() {
        let size = |key: &str| case[key].as_u64().unwrap() as usize;
        let alibi = Alibi::new(size("heads"), size("width"));
        assert_eq!(bits(alibi.factors()), bits(&halves(&case["factors"])), "{case}");
        let scores = case["scores"].as_array().unwrap();
        assert!(scores.len() >= 10);
        for own in scores {
            let [head, distance] = ["head", "distance"].map(|key| own[key].as_u64().unwrap() as usize);
            let found = alibi.of(head, halves(&own["s"])[0], distance);
            assert_eq!(found.to_bits(), halves(&own["y"])[0].to_bits(), "{own}");
        }
    }
}

#[test]
fn functions_of_gemma_are_those_of_the_reference() {
    let file = json(&folder().join("vectors/gelu_tanh.json"));
    for case in file["cases"].as_array().unwrap() {
        let [a, expected] = halves(case)[..] else { panic!("{case}") };
        assert_eq!(gelu_tanh(a).to_bits(), expected.to_bits(), "{case}");
    }
    let every = |function: &dyn Fn(f16) -> f16| {
        let results: Vec<f16> = (0..=u16::MAX).map(|bits| function(f16::from_bits(bits))).collect();
        format!("{:016x}", logits_digest(&results))
    };
    assert_eq!(every(&gelu_tanh), file["all_fnv1a64"]);

    let file = json(&folder().join("vectors/soft_cap.json"));
    let cap = |value: &Value| {
        let value: f64 = value.as_str().unwrap().parse().unwrap();
        SoftCap::new(Decimal::from_f64(value).unwrap()).unwrap()
    };
    let cases = file["cases"].as_array().unwrap();
    assert!(cases.len() > 500);
    for case in cases {
        let found = cap(&case["cap"]).of(halves(&case["a"])[0]);
        assert_eq!(found.to_bits(), halves(&case["y"])[0].to_bits(), "{case}");
    }
    let whole = cap(&file["all_cap"]);
    assert_eq!(every(&|a| whole.of(a)), file["all_fnv1a64"]);
}
