//! One forward pass of the decoder with a KV cache, after `docs/numerics.md`: from tokens to logits, with embeddings,
//! last normalisation and head.

use std::borrow::Cow;

use crate::matrix::same_length;
use ndp_files::{Result, ensure, refusal};
use ndp_numerics::{Rotary, Rotation, add, div, f16, mul};

use crate::config::{Extras, Factor, POSITION_OFFSET};
use crate::kv_cache::LayerCache;
use crate::layer::{LayerShape, LayerSpan, all_finite, checked, norm, run_layer};
use crate::sparsity::LayerSparsity;
use crate::{GemvBackend, GemvClass, GemvOp, Matrix, Model, SoftwareBackend};

/// Most positions of a prompt in a batch.
pub const MAX_BATCH: usize = 16;

/// The state of one sequence: position, caches and counts.
///
/// Dividing tokens among calls and batches changes no bit. After an error the sequence is as before the failed batch
/// (its zeros may have been counted), so the call may be repeated.
#[derive(Debug, Clone)]
pub struct Decoder<'m> {
    model: &'m Model,
    caches: Vec<LayerCache>,
    sparsity: Vec<LayerSparsity>,
    position: usize,
    sequence: u32,
    /// Of layers in general, and of those with a window if it has others.
    rotaries: [Option<Rotary>; 2],
}

ndp_config::getters!(<'m> Decoder<'m> {
    /// Number of tokens run so far.
    position: usize,
    /// Zero counts of each layer over all tokens so far.
    sparsity: &[LayerSparsity],
});

impl<'m> Decoder<'m> {
    /// An empty sequence.
    pub fn new(model: &'m Model) -> Self {
        let config = &model.config;
        let (heads, width) = (config.num_key_value_heads(), config.head_width());
        // A configuration only has valid bases, widths and scalings.
        let first = |has_own: bool| {
            let mut layers = 0..config.num_hidden_layers();
            let layer = layers.find(|&layer| config.has_window_angles(layer) == has_own)?;
            config.rotary(layer).ok().flatten()
        };
        let rotaries = [false, true].map(first);
        Self {
            model,
            caches: vec![LayerCache::new(heads, width); model.layers.len()],
            sparsity: vec![LayerSparsity::default(); model.layers.len()],
            position: 0,
            sequence: 0,
            rotaries,
        }
    }

    /// Sets a number, by default 0, for backends with caches of several sequences.
    #[must_use]
    pub fn with_sequence(mut self, sequence: u32) -> Self {
        self.sequence = sequence;
        self
    }

    /// Runs one or more `tokens` in batches of up to [`MAX_BATCH`]; returns the logits `[V]` after the last. Fails,
    /// before anything runs, without tokens, for tokens outside the vocabulary and too many positions; or as the
    /// backend.
    pub fn prefill<B: GemvBackend + ?Sized>(&mut self, backend: &mut B, tokens: &[u32]) -> Result<Vec<f16>> {
        let last = self.extend(backend, tokens)?;
        self.logits(backend, &last)
    }

    /// [`Decoder::prefill`] without head: returns the last token's hidden state `[d]`.
    pub fn extend<B: GemvBackend + ?Sized>(&mut self, backend: &mut B, tokens: &[u32]) -> Result<Vec<f16>> {
        self.check(backend, tokens)?;
        let d = self.model.config.hidden_size();
        let mut last = Vec::new();
        for batch in tokens.chunks(MAX_BATCH) {
            let hidden = run_spans(backend, &mut [(&mut *self, batch)])?;
            last = hidden[hidden.len() - d..].to_vec();
        }
        Ok(last)
    }

    /// [`Decoder::prefill`] with the logits after every token: `[tokens x V]`, row-major.
    pub fn prefill_all_logits<B: GemvBackend + ?Sized>(
        &mut self,
        backend: &mut B,
        tokens: &[u32],
    ) -> Result<Vec<f16>> {
        self.check(backend, tokens)?;
        let mut logits = Vec::with_capacity(tokens.len() * self.model.config.vocab_size());
        for batch in tokens.chunks(MAX_BATCH) {
            let hidden = run_spans(backend, &mut [(&mut *self, batch)])?;
            logits.extend(self.logits(backend, &hidden)?);
        }
        Ok(logits)
    }

    /// Runs one token; returns the logits `[V]` after it.
    pub fn step<B: GemvBackend + ?Sized>(&mut self, backend: &mut B, token: u32) -> Result<Vec<f16>> {
        self.prefill(backend, &[token])
    }

    fn check<B: GemvBackend + ?Sized>(&self, backend: &B, tokens: &[u32]) -> Result<()> {
        let config = &self.model.config;
        ensure!(!tokens.is_empty(), "the prompt is empty, at least one token is needed");
        config.check_text(backend, self.position + tokens.len())?;
        let vocab_size = config.vocab_size();
        match tokens.iter().find(|&&token| token as usize >= vocab_size) {
            Some(&token) => {
                Err(refusal!("token {token} is outside the vocabulary, vocab_size = {vocab_size}"))
            }
            None => Ok(()),
        }
    }

    /// Runs one token of each of several sequences of one model; returns logits `[sequences x V]`, with the same bits
    /// as [`Decoder::step`]. Counts zeros only of a single sequence. Fails as there, and unless there is a token for
    /// each; does nothing without sequences.
    pub fn step_together<B: GemvBackend + ?Sized>(
        sequences: &mut [&mut Self],
        backend: &mut B,
        tokens: &[u32],
    ) -> Result<Vec<f16>> {
        same_length(|| "tokens of a step".to_owned(), tokens.len(), sequences.len())?;
        let mut batch: Vec<(&mut Self, &[u32])> = Vec::with_capacity(tokens.len());
        for (sequence, token) in sequences.iter_mut().zip(tokens) {
            sequence.check(backend, std::slice::from_ref(token))?;
            batch.push((sequence, std::slice::from_ref(token)));
        }
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        let hidden = run_spans(backend, &mut batch)?;
        batch[0].0.logits(backend, &hidden)
    }

    /// `[batch x d] -> [batch x V]`.
    fn logits<B: GemvBackend + ?Sized>(&self, backend: &mut B, hidden: &[f16]) -> Result<Vec<f16>> {
        let mut y = match &self.model.final_norm {
            Some(parameters) => norm("final_norm", parameters, hidden)?,
            None => hidden.to_vec(),
        };
        if self.model.config.extras().reports_overflow {
            all_finite("final_norm", &y, y.len() / self.model.config.hidden_size())?;
        }
        if let Some([_, out]) = &self.model.projections {
            y = on_host("project_out", out, &y)?;
        }
        let head = self.model.head();
        let op = GemvOp::new("lm_head", GemvClass::Head, (head.rows(), head.cols()), head.data(), &y)?;
        let mut logits = checked("lm_head", backend.gemv(&op), op.batch() * op.rows())?;
        let Extras { logit_divisor, logit_cap, .. } = self.model.config.extras();
        if let Some(divisor) = logit_divisor.map(Factor::rounded) {
            logits.iter_mut().for_each(|logit| *logit = div(*logit, divisor));
        }
        if let Some(cap) = logit_cap {
            logits.iter_mut().for_each(|logit| *logit = cap.of(*logit));
        }
        Ok(logits)
    }
}

/// The host multiplies by a matrix outside the layers, `[batch x in] -> [batch x out]`.
fn on_host(label: &str, matrix: &Matrix, x: &[f16]) -> Result<Vec<f16>> {
    SoftwareBackend::new().gemv(&GemvOp::of_matrix(label, GemvClass::Proj, matrix, x)?)
}

/// Hidden states `[batch x d]` after the last layer, of the next tokens of some sequences, at least one, of one model.
fn run_spans<B: GemvBackend + ?Sized>(
    backend: &mut B,
    batch: &mut [(&mut Decoder<'_>, &[u32])],
) -> Result<Vec<f16>> {
    let model = batch[0].0.model;
    let mut hidden = Vec::new();
    for (sequence, tokens) in &mut *batch {
        for cache in &mut sequence.caches {
            cache.truncate(sequence.position); // whatever a batch that failed has left
        }
        for (position, &token) in (sequence.position..).zip(*tokens) {
            let mut embedding = Cow::Borrowed(model.embed_tokens.row(token as usize));
            if let Some([project_in, _]) = &model.projections {
                embedding = on_host("project_in", project_in, &embedding)?.into();
            }
            match &model.embed_positions {
                None => match model.config.extras().embedding_scale.map(Factor::rounded) {
                    None => hidden.extend(embedding.iter()),
                    Some(factor) => hidden.extend(embedding.iter().map(|&e| mul(e, factor))),
                },
                Some(positions) => {
                    let place = positions.row(position + POSITION_OFFSET);
                    hidden.extend(embedding.iter().zip(place).map(|(&e, &p)| add(e, p)));
                }
            }
        }
    }
    if model.config.extras().reports_overflow {
        all_finite("embedding", &hidden, hidden.len() / model.config.hidden_size())?;
    }
    let rotations = batch.iter().map(|(sequence, tokens)| {
        let positions = sequence.position..sequence.position + tokens.len();
        sequence.rotaries.each_ref().map(|rotary| -> Vec<Rotation> {
            let rotary = rotary.iter();
            rotary.flat_map(|rotary| positions.clone().map(|position| rotary.at(position as u32))).collect()
        })
    });
    let rotations: Vec<[Vec<Rotation>; 2]> = rotations.collect();
    for (index, layer) in model.layers.iter().enumerate() {
        let shape = LayerShape::of(&model.config, index);
        let kind = usize::from(model.config.has_window_angles(index));
        let mut sparsity = LayerSparsity::default();
        let mut spans: Vec<LayerSpan<'_>> = batch
            .iter_mut()
            .zip(&rotations)
            .map(|((sequence, tokens), rotations)| LayerSpan {
                sequence: sequence.sequence,
                tokens: tokens.len(),
                cache: &mut sequence.caches[index],
                rotations: &rotations[kind],
            })
            .collect();
        hidden = run_layer(backend, (index, layer), &shape, &mut spans, &mut sparsity, &hidden)?;
        // Zeros cannot be counted by sequence if there are several.
        if let [(sequence, _)] = batch {
            sequence.sparsity[index] += sparsity;
        }
    }
    batch.iter_mut().for_each(|(sequence, tokens)| sequence.position += tokens.len());
    Ok(hidden)
}
