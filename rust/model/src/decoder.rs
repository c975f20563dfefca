//! One forward pass of the OPT decoder with a KV cache, as `docs/numerics.md` writes it down.
//!
//! Takes token numbers, returns logits. Every matrix-vector product goes to the backend; LayerNorm, softmax, ReLU and
//! element-wise operations are computed here. Choosing the next token is [`mod@crate::generate`]'s.

use ndp_numerics::{add, f16, layer_norm, mul, relu, rne_rsqrt, softmax};

use crate::config::POSITION_OFFSET;
use crate::kv_cache::LayerCache;
use crate::sparsity::LayerSparsity;
use crate::weights::{Layer, LayerNorm, Linear};
use crate::{GemvBackend, GemvClass, GemvOp, Model, ModelError};

/// Most positions of a prompt that go through the linear layers together.
pub const MAX_BATCH: usize = 16;

/// The state of one sequence: position, caches and counts.
///
/// How tokens are divided among calls and batches does not change a bit of any result. After an error the sequence is as
/// it was before the batch that failed (its zeros may have been counted), so the call may be repeated from there.
#[derive(Debug, Clone)]
pub struct Decoder<'m> {
    model: &'m Model,
    caches: Vec<LayerCache>,
    sparsity: Vec<LayerSparsity>,
    position: usize,
    attention_scale: f16,
}

impl<'m> Decoder<'m> {
    /// A sequence of no tokens yet.
    pub fn new(model: &'m Model) -> Self {
        let config = &model.config;
        let (heads, width) = (config.num_attention_heads(), config.head_width());
        Self {
            model,
            caches: vec![LayerCache::new(heads, width); model.layers.len()],
            sparsity: vec![LayerSparsity::default(); model.layers.len()],
            position: 0,
            // A head is no wider than hidden_size <= 16384; 0 is not reached and would mean +Inf.
            attention_scale: rne_rsqrt(u32::try_from(width).unwrap_or(0)),
        }
    }

    /// Number of tokens run so far.
    pub fn position(&self) -> usize {
        self.position
    }

    /// The zero counts of each layer over all tokens run so far.
    pub fn sparsity(&self) -> &[LayerSparsity] {
        &self.sparsity
    }

    /// Runs `tokens` (one or more) after those run before, in batches of up to [`MAX_BATCH`]; returns the logits `[V]`
    /// that follow the last one.
    ///
    /// Errors: no tokens, a token outside the vocabulary, more positions than the model has (all before anything runs);
    /// the backend's.
    pub fn prefill<B: GemvBackend + ?Sized>(
        &mut self,
        backend: &mut B,
        tokens: &[u32],
    ) -> Result<Vec<f16>, ModelError> {
        self.check(tokens)?;
        let d = self.model.config.hidden_size();
        let mut last = Vec::new();
        for batch in tokens.chunks(MAX_BATCH) {
            let hidden = self.run_batch(backend, batch)?;
            last = hidden[hidden.len() - d..].to_vec();
        }
        self.logits(backend, &last)
    }

    /// As [`Decoder::prefill`], but returns the logits after every token: `[tokens x V]`, row-major.
    pub fn prefill_all_logits<B: GemvBackend + ?Sized>(
        &mut self,
        backend: &mut B,
        tokens: &[u32],
    ) -> Result<Vec<f16>, ModelError> {
        self.check(tokens)?;
        let mut logits = Vec::with_capacity(tokens.len() * self.model.config.vocab_size());
        for batch in tokens.chunks(MAX_BATCH) {
            let hidden = self.run_batch(backend, batch)?;
            logits.extend(self.logits(backend, &hidden)?);
        }
        Ok(logits)
    }

    /// Runs one token; returns the logits `[V]` that follow it.
    pub fn step<B: GemvBackend + ?Sized>(
        &mut self,
        backend: &mut B,
        token: u32,
    ) -> Result<Vec<f16>, ModelError> {
        self.prefill(backend, &[token])
    }

    fn check(&self, tokens: &[u32]) -> Result<(), ModelError> {
        let config = &self.model.config;
        if tokens.is_empty() {
            return Err(ModelError::EmptyPrompt);
        }
        let (requested, max) = (self.position + tokens.len(), config.max_position_embeddings());
        if requested > max {
            return Err(ModelError::PositionOverflow { requested, max });
        }
        let vocab_size = config.vocab_size();
        match tokens.iter().find(|&&token| token as usize >= vocab_size) {
            Some(&token) => Err(ModelError::TokenOutOfRange { token, vocab_size }),
            None => Ok(()),
        }
    }

    /// The hidden states `[batch x d]` after the last layer, before the final LayerNorm.
    fn run_batch<B: GemvBackend + ?Sized>(
        &mut self,
        backend: &mut B,
        tokens: &[u32],
    ) -> Result<Vec<f16>, ModelError> {
        for cache in &mut self.caches {
            cache.truncate(self.position); // whatever a batch that failed has left
        }
        let model = self.model;
        let mut hidden = Vec::with_capacity(tokens.len() * model.config.hidden_size());
        for (position, &token) in (self.position..).zip(tokens) {
            let embedding = model.embed_tokens.row(token as usize);
            let place = model.embed_positions.row(position + POSITION_OFFSET);
            hidden.extend(embedding.iter().zip(place).map(|(&e, &p)| add(e, p)));
        }
        for (index, layer) in model.layers.iter().enumerate() {
            hidden = self.run_layer(backend, index, layer, hidden)?;
        }
        self.position += tokens.len();
        Ok(hidden)
    }

    /// One decoder layer: `[batch x d] -> [batch x d]`.
    fn run_layer<B: GemvBackend + ?Sized>(
        &mut self,
        backend: &mut B,
        index: usize,
        layer: &Layer,
        hidden: Vec<f16>,
    ) -> Result<Vec<f16>, ModelError> {
        let name = |part: &str| format!("layers.{index}.{part}");
        let mut a = norm(&name("self_attn_layer_norm"), &layer.self_attn_layer_norm, &hidden)?;
        if self.model.config.relu_before_qkv() {
            a.iter_mut().for_each(|a| *a = relu(*a));
        }
        self.sparsity[index].qkv_input.count(&a);
        let mut q = linear(backend, &name("q_proj"), GemvClass::Qkv, &layer.q_proj, &a)?;
        q.iter_mut().for_each(|q| *q = mul(*q, self.attention_scale));
        let k = linear(backend, &name("k_proj"), GemvClass::Qkv, &layer.k_proj, &a)?;
        let v = linear(backend, &name("v_proj"), GemvClass::Qkv, &layer.v_proj, &a)?;
        let d = self.model.config.hidden_size();
        for (k, v) in k.chunks(d).zip(v.chunks(d)) {
            self.caches[index].push(k, v);
        }
        let context = self.attention(backend, index, &q)?;
        let out = linear(backend, &name("out_proj"), GemvClass::Proj, &layer.out_proj, &context)?;
        let hidden = residual(&hidden, &out);

        let a = norm(&name("final_layer_norm"), &layer.final_layer_norm, &hidden)?;
        let mut a = linear(backend, &name("fc1"), GemvClass::Fc1, &layer.fc1, &a)?;
        a.iter_mut().for_each(|a| *a = relu(*a));
        self.sparsity[index].ffn_hidden.count(&a);
        let out = linear(backend, &name("fc2"), GemvClass::Fc2, &layer.fc2, &a)?;
        Ok(residual(&hidden, &out))
    }

    /// Causal attention of the batch's scaled queries `[batch x d]`; the cache holds the batch's keys and values already,
    /// and position `p` sees `0..=p` of it. Returns the heads' contexts side by side, `[batch x d]`.
    fn attention<B: GemvBackend + ?Sized>(
        &self,
        backend: &mut B,
        index: usize,
        queries: &[f16],
    ) -> Result<Vec<f16>, ModelError> {
        let width = self.model.config.head_width();
        let cache = &self.caches[index];
        let mut context = Vec::with_capacity(queries.len());
        for (position, query) in (self.position..).zip(queries.chunks(self.model.config.hidden_size())) {
            let visible = position + 1;
            for (head, q) in query.chunks(width).enumerate() {
                let label = format!("layers.{index}.head.{head}.scores");
                let keys = cache.keys(head, visible);
                let scores = gemv(backend, &label, GemvClass::Scores, (visible, width), keys, q)?;
                let probabilities = softmax(&scores);
                let label = format!("layers.{index}.head.{head}.context");
                let values = cache.values_transposed(head, visible);
                let shape = (width, visible);
                context.extend(gemv(backend, &label, GemvClass::Context, shape, &values, &probabilities)?);
            }
        }
        Ok(context)
    }

    /// Final LayerNorm and tied head: `[batch x d] -> [batch x V]`.
    fn logits<B: GemvBackend + ?Sized>(
        &self,
        backend: &mut B,
        hidden: &[f16],
    ) -> Result<Vec<f16>, ModelError> {
        let y = norm("final_layer_norm", &self.model.final_layer_norm, hidden)?;
        let head = &self.model.embed_tokens;
        gemv(backend, "lm_head", GemvClass::Head, (head.rows(), head.cols()), head.data(), &y)
    }
}

/// LayerNorm of each row of `[batch x d]`.
fn norm(at: &str, parameters: &LayerNorm, rows: &[f16]) -> Result<Vec<f16>, ModelError> {
    let mut result = Vec::with_capacity(rows.len());
    for row in rows.chunks(parameters.gain.len()) {
        let row = layer_norm(row, &parameters.gain, &parameters.bias)
            .map_err(|source| ModelError::Numerics { at: at.to_owned(), source })?;
        result.extend(row);
    }
    Ok(result)
}

/// The backend's product with its result's length checked.
fn gemv<B: GemvBackend + ?Sized>(
    backend: &mut B,
    label: &str,
    class: GemvClass,
    shape: (usize, usize),
    weights: &[f16],
    activations: &[f16],
) -> Result<Vec<f16>, ModelError> {
    let op = GemvOp::new(label, class, shape, weights, activations)?;
    let result = backend
        .gemv(&op)
        .map_err(|source| ModelError::Backend { label: label.to_owned(), source: Box::new(source) })?;
    let expected = op.batch() * op.rows();
    if result.len() != expected {
        let what = format!("{label}: the backend's result");
        return Err(ModelError::Length { what, found: result.len(), expected });
    }
    Ok(result)
}

/// A linear layer over `[batch x in]`: product and bias, `[batch x out]`.
fn linear<B: GemvBackend + ?Sized>(
    backend: &mut B,
    label: &str,
    class: GemvClass,
    parameters: &Linear,
    x: &[f16],
) -> Result<Vec<f16>, ModelError> {
    let weight = &parameters.weight;
    let mut y = gemv(backend, label, class, (weight.rows(), weight.cols()), weight.data(), x)?;
    for row in y.chunks_mut(weight.rows()) {
        row.iter_mut().zip(&parameters.bias).for_each(|(y, &b)| *y = add(*y, b));
    }
    Ok(y)
}

fn residual(hidden: &[f16], out: &[f16]) -> Vec<f16> {
    hidden.iter().zip(out).map(|(&h, &o)| add(h, o)).collect()
}
