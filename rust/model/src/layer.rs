//! One decoder layer over a batch of tokens, of one sequence or of several.
//!
//! LayerNorm is computed here; linear layers and attention are the backend's. [`crate::Decoder`] runs all layers of one sequence;
//! programs that look at a single layer call [`run_layer`] themselves.

use ndp_numerics::{f16, layer_norm, relu, rne_rsqrt};

use crate::kv_cache::LayerCache;
use crate::operations::{AttentionOp, AttentionSpan, Finish, LinearOp};
use crate::sparsity::LayerSparsity;
use crate::weights::{Layer, LayerNorm, Linear};
use crate::{GemvBackend, GemvClass, GemvOp, ModelError, OptConfig};

/// The dimensions of a layer that its tensors do not tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayerShape {
    /// Attention heads; they divide the hidden size.
    pub heads: usize,
    /// Width of the hidden state.
    pub hidden_size: usize,
    /// Most positions of a sequence.
    pub positions: usize,
    /// Whether a ReLU stands in front of the Q, K and V projections.
    pub relu_before_qkv: bool,
}

impl LayerShape {
    /// That of a model's layers.
    pub fn of(config: &OptConfig) -> Self {
        Self {
            heads: config.num_attention_heads(),
            hidden_size: config.hidden_size(),
            positions: config.max_position_embeddings(),
            relu_before_qkv: config.relu_before_qkv(),
        }
    }

    /// Elements of a head.
    pub fn head_width(&self) -> usize {
        self.hidden_size / self.heads.max(1)
    }
}

/// Consecutive tokens of one sequence, the first of them behind what its cache holds.
#[derive(Debug)]
pub struct LayerSpan<'a> {
    /// Which sequence, for backends that keep caches of their own.
    pub sequence: u32,
    /// Tokens.
    pub tokens: usize,
    /// Keys and values of the positions before; those of the tokens are added.
    pub cache: &'a mut LayerCache,
}

/// Runs the layer with number `index` on the hidden states `[tokens of all spans x d]`; returns those behind it and counts the zeros
/// in `sparsity`.
///
/// # Errors
/// The backend's, as [`ModelError::Backend`]; [`ModelError::Length`] for sizes that do not fit; [`ModelError::Numerics`] from
/// LayerNorm.
pub fn run_layer<B: GemvBackend + ?Sized>(
    backend: &mut B,
    (index, layer): (usize, &Layer),
    shape: &LayerShape,
    spans: &mut [LayerSpan<'_>],
    sparsity: &mut LayerSparsity,
    hidden: &[f16],
) -> Result<Vec<f16>, ModelError> {
    let name = |part: &str| format!("layers.{index}.{part}");
    let mut a = norm(&name("self_attn_layer_norm"), &layer.self_attn_layer_norm, hidden)?;
    if shape.relu_before_qkv {
        a.iter_mut().for_each(|a| *a = relu(*a));
    }
    sparsity.qkv_input.count(&a);
    // A head is no wider than hidden_size <= 16384; 0 is not reached and would mean +Inf.
    let scale = Finish::Scale(rne_rsqrt(u32::try_from(shape.head_width()).unwrap_or(0)));
    let q = linear(backend, &name("q_proj"), GemvClass::Qkv, &layer.q_proj, &a, scale)?;
    let k = linear(backend, &name("k_proj"), GemvClass::Qkv, &layer.k_proj, &a, Finish::Plain)?;
    let v = linear(backend, &name("v_proj"), GemvClass::Qkv, &layer.v_proj, &a, Finish::Plain)?;
    let d = shape.hidden_size;
    let mut rows = k.chunks(d).zip(v.chunks(d));
    for span in &mut *spans {
        rows.by_ref().take(span.tokens).for_each(|(k, v)| span.cache.push(k, v));
    }
    let attended = spans.iter().map(|span| AttentionSpan {
        sequence: span.sequence,
        position: span.cache.positions().saturating_sub(span.tokens),
        tokens: span.tokens,
        cache: &*span.cache,
    });
    let heads = (shape.heads, shape.head_width());
    let attention = AttentionOp::new(index, heads, shape.positions, &q, attended.collect())?;
    let context = backend.attend(&attention);
    let context = checked::<B>(attention.label(), context, q.len())?;
    let out = Finish::Residual(hidden);
    let hidden = linear(backend, &name("out_proj"), GemvClass::Proj, &layer.out_proj, &context, out)?;

    let a = norm(&name("final_layer_norm"), &layer.final_layer_norm, &hidden)?;
    let a = linear(backend, &name("fc1"), GemvClass::Fc1, &layer.fc1, &a, Finish::Relu)?;
    sparsity.ffn_hidden.count(&a);
    linear(backend, &name("fc2"), GemvClass::Fc2, &layer.fc2, &a, Finish::Residual(&hidden))
}

/// LayerNorm of each row of `[batch x d]`.
pub(crate) fn norm(at: &str, parameters: &LayerNorm, rows: &[f16]) -> Result<Vec<f16>, ModelError> {
    let mut result = Vec::with_capacity(rows.len());
    for row in rows.chunks(parameters.gain.len()) {
        let row = layer_norm(row, &parameters.gain, &parameters.bias)
            .map_err(|source| ModelError::Numerics { at: at.to_owned(), source })?;
        result.extend(row);
    }
    Ok(result)
}

/// A linear layer over `[batch x in]`: `[batch x out]`.
fn linear<B: GemvBackend + ?Sized>(
    backend: &mut B,
    label: &str,
    class: GemvClass,
    parameters: &Linear,
    x: &[f16],
    finish: Finish<'_>,
) -> Result<Vec<f16>, ModelError> {
    let weight = &parameters.weight;
    let product = GemvOp::new(label, class, (weight.rows(), weight.cols()), weight.data(), x)?;
    let op = LinearOp::new(product, Some(&parameters.bias), finish)?;
    let result = backend.linear(&op);
    checked::<B>(label, result, product.batch() * product.rows())
}

/// A backend's result, with its length.
pub(crate) fn checked<B: GemvBackend + ?Sized>(
    label: &str,
    result: Result<Vec<f16>, B::Error>,
    expected: usize,
) -> Result<Vec<f16>, ModelError> {
    let result =
        result.map_err(|source| ModelError::Backend { label: label.to_owned(), source: Box::new(source) })?;
    if result.len() != expected {
        let what = format!("{label}: the backend's result");
        return Err(ModelError::Length { what, found: result.len(), expected });
    }
    Ok(result)
}
