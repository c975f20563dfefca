//! A small model with random parameters, and batches whose texts are compared with each prompt's own.
#![allow(clippy::unwrap_used)]

use ndp_config::HbmConfig;
use ndp_librapim::host::{Outcome, Prompt, Text};
use ndp_model::{DecoderConfig, GenerateOptions, Model, SoftwareBackend, generate_tokens};
use ndp_numerics::{SplitMix64, f16};
use std::path::Path;

/// With few weights for its keys and values, so that attention can be the longer side.
pub fn random_model(hidden: u32, heads: u32, ffn: u32) -> Model {
    random(&format!(
        "{{\"model_type\": \"opt\", \"vocab_size\": 64, \"hidden_size\": {hidden}, \"num_hidden_layers\": 2, \
         \"num_attention_heads\": {heads}, \"ffn_dim\": {ffn}, \"max_position_embeddings\": 128}}"
    ))
}

/// A gated model without biases: `heads` heads of queries share `kv_heads` of keys and values.
#[allow(dead_code)] // Not every program that includes this module has such models.
pub fn random_llama(hidden: u32, [heads, kv_heads, head_width]: [u32; 3], ffn: u32) -> Model {
    random(&format!(
        "{{\"model_type\": \"llama\", \"vocab_size\": 64, \"hidden_size\": {hidden}, \"num_hidden_layers\": 2, \
         \"num_attention_heads\": {heads}, \"num_key_value_heads\": {kv_heads}, \"head_dim\": {head_width}, \
         \"intermediate_size\": {ffn}, \"max_position_embeddings\": 256, \"hidden_act\": \"silu\", \
         \"rms_norm_eps\": 1e-5, \"tie_word_embeddings\": false}}"
    ))
}

fn random(json: &str) -> Model {
    let config = DecoderConfig::from_json(Path::new("config.json"), json).unwrap();
    let mut rng = SplitMix64::new(11);
    Model::from_tensors(config, |name, shape| {
        let gain = name.contains("norm.weight");
        let mut number = || {
            // A sign and 2^-4 .. 2^-2, or about 1.
            let bits = rng.next_u64();
            let exponent = if gain { 15 } else { 11 + (bits >> 20) % 2 };
            f16::from_bits(((bits & if gain { 0 } else { 0x8000 }) | exponent << 10 | bits & 0xFF) as u16)
        };
        Ok((0..shape.iter().product()).map(|_| number()).collect())
    })
    .unwrap()
}

/// One prompt per pair (length of the prompt, tokens to generate).
pub fn prompts(lengths: &[(usize, usize)], vocabulary: u32) -> Vec<Prompt> {
    let prompt = |(number, &(length, generate)): (usize, &(usize, usize))| Prompt {
        tokens: (0..length).map(|at| (7 * number + 5 * at) as u32 % vocabulary).collect(),
        generate,
        temperature_percent: 60,
        seed: number as u64,
    };
    lengths.iter().enumerate().map(prompt).collect()
}

/// Asserts that each text, with its logits, is the one that the prompt gives by itself.
pub fn assert_texts(model: &Model, prompts: &[Prompt], outcome: &Outcome) {
    prompts.iter().zip(&outcome.texts).for_each(|(prompt, text)| assert_text(model, prompt, text));
    assert_eq!(outcome.texts.len(), prompts.len());
}

pub fn assert_text(model: &Model, prompt: &Prompt, text: &Text) {
    let options = GenerateOptions::new(prompt.generate, prompt.temperature_percent, prompt.seed);
    let alone =
        generate_tokens(model, &mut SoftwareBackend::new(), &prompt.tokens, &options, |_| {}).unwrap();
    assert_eq!((&text.tokens, &text.logits_digests), (&alone.tokens, &alone.logits_digests));
}

#[allow(dead_code)] // The testbenches, which share the others, have memories of their own.
pub fn memory(channels: u32) -> HbmConfig {
    HbmConfig::preset("librapim-small").unwrap().with_channels(channels).unwrap()
}
