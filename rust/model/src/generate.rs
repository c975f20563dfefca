//! Text generation: prompt, decoder, sampler, one token after the other, with a digest of all logits on the way.
//!
//! The top of the crate. Everything it returns is determined by model, prompt and options, whichever backend multiplied.

use ndp_files::{Context, Result, ensure};
use ndp_numerics::{SplitMix64, f16, sample};

use crate::sparsity::LayerSparsity;
use crate::{Decoder, GemvBackend, Model};

/// What to generate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GenerateOptions {
    /// Number of tokens; 0 runs nothing.
    pub tokens: usize,
    /// Temperature in hundredths, 1..=1000, or 0 for greedy.
    pub temperature_percent: u32,
    /// Initial state of the random generator; without effect if greedy.
    pub seed: u64,
}

/// What the progress callback sees of each token as it is drawn.
#[derive(Debug, Clone, Copy)]
pub struct GeneratedToken<'a> {
    /// 0 for the first generated token.
    pub index: usize,
    /// The token.
    pub token: u32,
    /// The logits it was drawn from, `[V]`.
    pub logits: &'a [f16],
    /// Their [`logits_digest`].
    pub logits_digest: u64,
}

/// What was generated; the prompt is not part of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Generation {
    /// The generated tokens.
    pub tokens: Vec<u32>,
    /// Text that they add to the prompt ([`crate::Vocabulary::continuation`]).
    pub text: String,
    /// Per generated token, the [`logits_digest`] of the logits it was drawn from.
    pub logits_digests: Vec<u64>,
    /// Zero counts per layer, over the prompt and all generated tokens but the last (which is not run).
    pub sparsity: Vec<LayerSparsity>,
}

/// FNV-1a, 64 bits, over the logits' bit patterns, two bytes each, little-endian.
pub fn logits_digest(logits: &[f16]) -> u64 {
    let bytes = logits.iter().flat_map(|l| l.to_bits().to_le_bytes());
    bytes.fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
    })
}

/// Continues the text `prompt`, in the tokens of the model's vocabulary.
///
/// `progress` is called once per token. Errors: those of [`generate_tokens`], and a model without vocabulary.
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

/// Continues `prompt` with `options.tokens` tokens.
///
/// Errors before anything runs: an empty prompt, a token outside the vocabulary, `prompt + tokens` above
/// the model's positions. Errors on the way: the backend's, and the sampler's (logits that are not finite, a
/// temperature out of range).
pub fn generate_tokens<B: GemvBackend + ?Sized>(
    model: &Model,
    backend: &mut B,
    prompt: &[u32],
    options: &GenerateOptions,
    mut progress: impl FnMut(GeneratedToken<'_>),
) -> Result<Generation> {
    ensure!(!prompt.is_empty(), "the prompt is empty, at least one token is needed");
    model.config.check_positions(prompt.len().saturating_add(options.tokens))?;
    let mut decoder = Decoder::new(model);
    let mut rng = SplitMix64::new(options.seed);
    let mut tokens: Vec<u32> = Vec::with_capacity(options.tokens);
    let mut logits_digests = Vec::with_capacity(options.tokens);
    for index in 0..options.tokens {
        let logits = match tokens.last() {
            None => decoder.prefill(backend, prompt)?,
            Some(&token) => decoder.step(backend, token)?,
        };
        let drawn = sample(&logits, options.temperature_percent, &mut rng)
            .with_context(|| format!("generated token {index}"))?;
        let token = drawn as u32; // below vocab_size, which is below 2^32
        let logits_digest = logits_digest(&logits);
        progress(GeneratedToken { index, token, logits: &logits, logits_digest });
        tokens.push(token);
        logits_digests.push(logits_digest);
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
        // FNV-1a of the published test string "foobar".
        let foobar = [0x6F66u16, 0x626F, 0x7261].map(f16::from_bits);
        assert_eq!(logits_digest(&foobar), 0x8594_4171_F739_67E8);
        assert_ne!(logits_digest(&foobar[..2]), logits_digest(&foobar));
    }
}
