//! Text generation from prompt, decoder and sampler, with a digest of all logits.
//!
//! Model, prompt and options determine the result, whatever the backend.

use ndp_files::{Context, Result, ensure};
use ndp_numerics::{Sampling, SplitMix64, f16, sample};

use crate::sparsity::LayerSparsity;
use crate::{Decoder, GemvBackend, Model};

/// Options of a generation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GenerateOptions {
    /// Most tokens; 0 runs nothing.
    pub tokens: usize,
    /// Sampling of each token.
    pub sampling: Sampling,
    /// Initial state of the random generator; unused if greedy.
    pub seed: u64,
    /// Each of these tokens ends the text; it is the last of the generated ones.
    pub end_tokens: Vec<u32>,
}

impl GenerateOptions {
    /// All tokens can be drawn, and none ends the text.
    pub const fn new(tokens: usize, temperature_percent: u32, seed: u64) -> Self {
        Self { tokens, sampling: Sampling::at(temperature_percent), seed, end_tokens: Vec::new() }
    }
}

/// A token as it is drawn, for the progress callback.
#[derive(Debug, Clone, Copy)]
pub struct GeneratedToken<'a> {
    /// From 0.
    pub index: usize,
    /// The token.
    pub token: u32,
    /// Logits it was drawn from, `[V]`.
    pub logits: &'a [f16],
    /// [`logits_digest`] of the logits.
    pub logits_digest: u64,
}

/// Result of a generation; the prompt is not part of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Generation {
    /// Generated tokens.
    pub tokens: Vec<u32>,
    /// Text that they add to the prompt ([`crate::Vocabulary::continuation`]).
    pub text: String,
    /// [`logits_digest`] of each token's logits.
    pub logits_digests: Vec<u64>,
    /// Zero counts per layer, over the prompt and all generated tokens but the last, which is not run.
    pub sparsity: Vec<LayerSparsity>,
}

/// FNV-1a, 64 bits, over the logits' bits, two bytes each, little-endian.
pub fn logits_digest(logits: &[f16]) -> u64 {
    let bytes = logits.iter().flat_map(|l| l.to_bits().to_le_bytes());
    bytes.fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
    })
}

/// Continues the text `prompt`; calls `progress` for each token. Fails as [`generate_tokens`], and without vocabulary.
pub fn generate<B: GemvBackend + ?Sized>(
    model: &Model,
    backend: &mut B,
    prompt: &[u8],
    options: &GenerateOptions,
    progress: impl FnMut(GeneratedToken<'_>),
) -> Result<Generation> {
    let prompt = model.vocabulary.tokens(prompt)?;
    generate_tokens(model, backend, &prompt, options, progress)
}

/// Continues `prompt` with `options.tokens` tokens, or fewer if a token ends the text. Fails, before anything runs, for an empty prompt, a token outside
/// the vocabulary and too many positions; later as the backend, and as the sampler (logits that are not finite, a
/// temperature out of range).
pub fn generate_tokens<B: GemvBackend + ?Sized>(
    model: &Model,
    backend: &mut B,
    prompt: &[u32],
    options: &GenerateOptions,
    mut progress: impl FnMut(GeneratedToken<'_>),
) -> Result<Generation> {
    ensure!(!prompt.is_empty(), "the prompt is empty, at least one token is needed");
    model.config.check_text(backend, prompt.len().saturating_add(options.tokens))?;
    let mut decoder = Decoder::new(model);
    let mut rng = SplitMix64::new(options.seed);
    let mut tokens: Vec<u32> = Vec::with_capacity(options.tokens);
    let mut logits_digests = Vec::with_capacity(options.tokens);
    for index in 0..options.tokens {
        let logits = match tokens.last() {
            None => decoder.prefill(backend, prompt)?,
            Some(&token) => decoder.step(backend, token)?,
        };
        let drawn = sample(&logits, options.sampling, &mut rng)
            .with_context(|| format!("generated token {index}"))?;
        let token = drawn as u32; // below vocab_size, which is below 2^32
        let logits_digest = logits_digest(&logits);
        progress(GeneratedToken { index, token, logits: &logits, logits_digest });
        tokens.push(token);
        logits_digests.push(logits_digest);
        if options.end_tokens.contains(&token) {
            break;
        }
    }
    Ok(Generation {
        text: model.vocabulary.continuation(prompt, &tokens)?,
        tokens,
        logits_digests,
        sparsity: decoder.sparsity().to_vec(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digest_is_fnv_1a_over_little_endian_bytes() {
        assert_eq!(logits_digest(&[]), 0xCBF2_9CE4_8422_2325);
        let foobar = [0x6F66u16, 0x626F, 0x7261].map(f16::from_bits);
        assert_eq!(logits_digest(&foobar), 0x8594_4171_F739_67E8);
        assert_ne!(logits_digest(&foobar[..2]), logits_digest(&foobar));
    }
}
