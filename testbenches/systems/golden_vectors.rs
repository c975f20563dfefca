//! The software numerics and the software model against the Python reference's vectors and texts.
//!
//! Reads the files of `golden/vectors` and `golden/generate`; `rust/model/tests/golden.rs` reads the others. No hardware takes part: this shows that the golden is
//! right. A file without cases fails.

use common::Outcome;
use ndp_config::WeightFormat;
use ndp_model::{Decoder, GenerateOptions, Model, Remarks, SoftwareBackend, generate, logits_digest};
use ndp_numerics::{
    Epsilon, OF_TWO, Rotary, Sampling, SplitMix64, dequantise, dot, exp, exp_q30, f16, gelu, layer_norm,
    quantise, rms_norm, sample, silu, softmax,
};
use serde_json::Value;
use std::collections::BTreeSet;
use std::error::Error;
use std::path::Path;

fn golden(path: &str) -> Result<Value, Box<dyn Error>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden").join(path);
    let text = std::fs::read_to_string(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(serde_json::from_str(&text)?)
}

/// The cases of a vector file: at least forty, so that an emptied file cannot pass.
fn cases(name: &str) -> Result<Vec<Value>, Box<dyn Error>> {
    let file = golden(&format!("vectors/{name}.json"))?;
    let cases = file["cases"].as_array().cloned().unwrap_or_default();
    assert!(cases.len() >= 40, "{name}: only {} cases", cases.len());
    Ok(cases)
}

/// FP16 numbers as hex digits, four each.
fn halves(value: &Value) -> Result<Vec<f16>, Box<dyn Error>> {
    let digits = value.as_str().ok_or("not a string of digits")?;
    let number = |start: usize| Ok(f16::from_bits(u16::from_str_radix(&digits[start..start + 4], 16)?));
    (0..digits.len()).step_by(4).map(number).collect()
}

fn quad(value: &Value) -> Result<u64, Box<dyn Error>> {
    Ok(u64::from_str_radix(value.as_str().ok_or("not a number in hex")?, 16)?)
}

fn bits(values: &[f16]) -> Vec<u16> {
    values.iter().map(|value| value.to_bits()).collect()
}

#[test]
fn element_wise_results_are_those_of_the_reference() -> Outcome {
    for name in ["add", "sub", "mul", "div", "max"] {
        let (_, operation) = OF_TWO.into_iter().find(|(known, _)| *known == name).ok_or(name)?;
        for case in cases(name)? {
            let [a, b, expected] = halves(&case)?[..] else { return Err(format!("{name}: {case}").into()) };
            assert_eq!(operation(a, b).to_bits(), expected.to_bits(), "{name} {case}");
        }
    }
    Ok(())
}

#[test]
fn dot_products_are_those_of_the_reference() -> Outcome {
    for case in cases("dot")? {
        let y = dot(&halves(&case["w"])?, &halves(&case["x"])?);
        assert_eq!([y.to_bits()], *bits(&halves(&case["y"])?), "{}", case["kind"]);
    }
    Ok(())
}

#[test]
fn quantised_weights_are_those_of_the_reference() -> Outcome {
    for case in cases("quantise")? {
        let limit = case["limit"].as_i64().ok_or("limit")? as i8;
        let (numbers, scale) = quantise(&halves(&case["w"])?, limit).ok_or("not finite")?;
        let expected = case["q"].as_array().ok_or("numbers")?.iter().map(|q| q.as_i64());
        assert!(numbers.iter().map(|q| Some(i64::from(*q))).eq(expected), "{case}");
        assert_eq!([scale.to_bits()], *bits(&halves(&case["s"])?), "{case}");
        let weights: Vec<f16> = numbers.iter().map(|q| dequantise(*q, scale)).collect();
        assert_eq!(bits(&weights), bits(&halves(&case["y"])?), "{case}");
    }
    let file = golden("vectors/quantise.json")?;
    let scales = file["all_numbers"].as_array().ok_or("all numbers")?;
    assert!(scales.len() >= 40);
    for case in scales {
        let scale = halves(&case["s"])?[0];
        let weights: Vec<f16> = (i8::MIN..=i8::MAX).map(|q| dequantise(q, scale)).collect();
        assert_eq!(bits(&weights), bits(&halves(&case["y"])?), "{scale}");
    }
    Ok(())
}

#[test]
fn normalisations_are_those_of_the_reference() -> Outcome {
    for case in cases("layernorm")? {
        let y =
            layer_norm(&halves(&case["x"])?, &halves(&case["gain"])?, &halves(&case["bias"])?, Epsilon::OPT)?;
        assert_eq!(bits(&y), bits(&halves(&case["y"])?), "{case}");
    }
    for case in cases("rms_norm")? {
        let eps = Epsilon::new(case["eps"].as_u64().ok_or("eps")?).ok_or("eps")?;
        let y = rms_norm(&halves(&case["x"])?, &halves(&case["gain"])?, eps)?;
        assert_eq!(bits(&y), bits(&halves(&case["y"])?), "{case}");
    }
    Ok(())
}

#[test]
fn rotations_are_those_of_the_reference() -> Outcome {
    for case in cases("rotary")? {
        let number = |key: &str| case[key].as_u64().ok_or_else(|| format!("{key} of {case}"));
        let rotary = Rotary::new(number("theta")?, number("width")? as usize)?;
        let mut head = halves(&case["x"])?;
        rotary.at(number("position")? as u32).rotate(&mut head);
        assert_eq!(bits(&head), bits(&halves(&case["y"])?), "{case}");
    }
    Ok(())
}

#[test]
fn softmax_is_that_of_the_reference() -> Outcome {
    for case in cases("softmax")? {
        let p = softmax(&halves(&case["scores"])?);
        assert_eq!(bits(&p), bits(&halves(&case["p"])?), "{case}");
    }
    let file = golden("vectors/softmax.json")?;
    let generated = file["generated"].as_array().ok_or("generated rows")?;
    assert!(generated.len() >= 20);
    for row in generated {
        let digest = logits_digest(&softmax(&generated_scores(row)?));
        assert_eq!(digest, quad(&row["p_fnv1a64"])?, "{row}");
    }
    Ok(())
}

/// The row of scores that `golden/README.md` describes.
fn generated_scores(row: &Value) -> Result<Vec<f16>, Box<dyn Error>> {
    let number = |key: &str| row[key].as_u64().ok_or_else(|| format!("{key} of {row}"));
    let (lowest, exponents, masked) = (number("lowest")?, number("exponents")?, number("masked_percent")?);
    let mut random = SplitMix64::new(quad(&row["state"])?);
    let mut score = || {
        let z = random.next_u64();
        let exponent = lowest + (z >> 16) % exponents;
        let is_masked = (z >> 32) % 100 < masked;
        f16::from_bits(if is_masked { 0xFC00 } else { z as u16 & 0x83FF | (exponent as u16) << 10 })
    };
    Ok((0..number("n")?).map(|_| score()).collect())
}

#[test]
fn functions_of_one_number_are_those_of_the_reference() -> Outcome {
    for (name, function) in [("exp", exp as fn(f16) -> f16), ("silu", silu), ("gelu", gelu)] {
        for case in cases(name)? {
            let [a, expected] = halves(&case)?[..] else { return Err(format!("{name}: {case}").into()) };
            assert_eq!(function(a).to_bits(), expected.to_bits(), "{name} {case}");
        }
        let every: Vec<f16> = (0..=u16::MAX).map(|bits| function(f16::from_bits(bits))).collect();
        assert_eq!(logits_digest(&every), quad(&golden(&format!("vectors/{name}.json"))?["all_fnv1a64"])?);
    }
    for case in cases("exp_q30")? {
        let (d, e) = (case[0].as_u64().ok_or("D")?, case[1].as_u64().ok_or("E")?);
        assert_eq!(exp_q30(d), e, "E({d})");
    }
    Ok(())
}

#[test]
fn samples_are_those_of_the_reference() -> Outcome {
    for case in cases("sample")? {
        let temperature = u32::try_from(case["temperature_percent"].as_u64().ok_or("temperature")?)?;
        let number = |key: &str, default: u64| case[key].as_u64().unwrap_or(default) as u32;
        let sampling = Sampling {
            top_k: number("top_k", 0),
            top_p_percent: number("top_p_percent", 100),
            ..Sampling::at(temperature)
        };
        let mut random = SplitMix64::new(quad(&case["state"])?);
        let token = sample(&halves(&case["logits"])?, sampling, &mut random)?;
        assert_eq!(Some(token as u64), case["token"].as_u64(), "{case}");
        assert_eq!(random, SplitMix64::new(quad(&case["state_after"])?), "{case}");
    }
    Ok(())
}

#[test]
fn texts_and_all_logits_are_those_of_the_reference() -> Outcome {
    for (file, name) in [
        ("model", "default"),
        ("model", "greedy"),
        ("model", "int4-greedy"),
        ("model-llama", "llama-default"),
        ("model-llama", "llama-greedy"),
        ("model-llama", "llama-int4-default"),
        ("model-llama", "llama-int4-greedy"),
        ("model-llama", "llama-int8-greedy"),
    ] {
        let model = Model::load(&Path::new(env!("CARGO_MANIFEST_DIR")).join("golden").join(file))?;
        let golden = golden(&format!("generate/{name}.json"))?;
        let weights = golden["weights"].as_str().map_or(Some(WeightFormat::Fp16), WeightFormat::named);
        let (model, _) = model.quantised(weights.ok_or("weights")?)?;
        let number = |key: &str| golden[key].as_u64().ok_or_else(|| format!("{name}: {key}"));
        let prompt = golden["prompt"].as_str().ok_or("prompt")?;
        let options = GenerateOptions::new(
            number("tokens")? as usize,
            number("temperature_percent")? as u32,
            number("seed")?,
        );
        let mut backend = SoftwareBackend::new();
        let generation = generate(&model, &mut backend, prompt.as_bytes(), &options, |_| {})?;
        assert_eq!(Some(generation.text.as_str()), golden["text"].as_str(), "{name}");
        assert!(options.tokens >= 32 && generation.tokens.len() == options.tokens, "{name}");

        // Every position, the prompt's included; the last generated token is not run.
        let mut tokens = model.vocabulary.tokens(prompt.as_bytes())?;
        assert_eq!(tokens, numbers(&golden["prompt_tokens"])?, "{name}");
        let behind = tokens.len() - 1;
        tokens.extend(&generation.tokens[..options.tokens - 1]);
        let digests = digests_of(&model, &tokens)?;
        assert_eq!(digests, quads(&golden["logits_fnv1a64"])?, "{name}");
        assert_eq!(generation.logits_digests, digests[behind..], "{name}");
    }
    Ok(())
}

fn digests_of(model: &Model, tokens: &[u32]) -> Result<Vec<u64>, Box<dyn Error>> {
    let logits = Decoder::new(model).prefill_all_logits(&mut SoftwareBackend::new(), tokens)?;
    Ok(logits.chunks(model.config.vocab_size()).map(logits_digest).collect())
}

fn quads(values: &Value) -> Result<Vec<u64>, Box<dyn Error>> {
    values.as_array().ok_or("digests")?.iter().map(quad).collect()
}

fn numbers(values: &Value) -> Result<Vec<u32>, Box<dyn Error>> {
    let number = |value: &Value| Ok(value.as_u64().ok_or("a token")? as u32);
    values.as_array().ok_or("tokens")?.iter().map(number).collect()
}

#[test]
fn checkpoints_of_transformers_give_the_logits_of_the_reference() -> Outcome {
    let mut families = BTreeSet::new();
    for name in ["opt", "llama", "llama-bias", "mistral", "falcon-new", "falcon-mq"] {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("golden/checkpoints").join(name);
        let (model, Remarks { rounded, .. }) = Model::load_with_remarks(&dir)?;
        families.insert(format!("{:?}", model.config.architecture()));
        // Two are stored in other formats, of numbers that FP16 has.
        assert_eq!(rounded.converted > 0, ["llama-bias", "falcon-mq"].contains(&name), "{name}");
        let expected = golden(&format!("checkpoints/{name}/expected.json"))?;
        let digests = digests_of(&model, &numbers(&expected["tokens"])?)?;
        assert_eq!(digests, quads(&expected["logits_fnv1a64"])?, "{name}");
    }
    assert_eq!(families.len(), 3);
    Ok(())
}
