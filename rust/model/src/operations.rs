//! What the decoder asks of a backend beyond a bare product: linear layers with what follows them, and attention.
//!
//! Each operation is written here as the software's steps on top of [`GemvBackend::gemv`], which is what a backend does that
//! knows no better. Hardware that keeps the caches and has an activation unit replaces them; the bits have to stay.

use ndp_numerics::{add, f16, fp16, mul, softmax};

use crate::config::Activation;
use crate::kv_cache::LayerCache;
use crate::{GemvBackend, GemvClass, GemvOp, ModelError};

/// What becomes of a linear layer's outputs after the bias.
#[derive(Debug, Clone, Copy)]
pub enum Finish<'a> {
    /// Nothing.
    Plain,
    /// `mul(y, factor)`: the attention's scale of a query.
    Scale(f16),
    /// The activation of the feed-forward block.
    Activate(Activation),
    /// `add(y, r)`, element by element: `[batch x rows]` as the outputs are.
    Residual(&'a [f16]),
}

/// A linear layer: `y[b, r] = finish(add(dot(weights[r, :], activations[b, :]), bias[r]))`.
///
/// With a gate (LLaMA's MLP) it has two matrices: `y[b, r] = mul(finish(...), add(dot(up[r, :], activations[b, :]), up_bias[r]))`, where the first
/// factor is the gate's; +0 where the gate is a ReLU that is zero, whatever it is multiplied with.
#[derive(Debug, Clone, Copy)]
pub struct LinearOp<'a> {
    product: GemvOp<'a>,
    bias: Option<&'a [f16]>,
    finish: Finish<'a>,
    up: Option<GemvOp<'a>>,
    up_bias: Option<&'a [f16]>,
}

impl<'a> LinearOp<'a> {
    /// Errors with [`ModelError::Length`] unless a bias is `[rows]` and a residual `[batch x rows]`.
    pub fn new(product: GemvOp<'a>, bias: Option<&'a [f16]>, finish: Finish<'a>) -> Result<Self, ModelError> {
        let residual = if let Finish::Residual(residual) = finish { Some(residual.len()) } else { None };
        let (rows, outputs) = (product.rows(), product.batch() * product.rows());
        for (part, found, expected) in [
            ("bias", bias.map_or(rows, <[f16]>::len), rows),
            ("residual", residual.unwrap_or(outputs), outputs),
        ] {
            if found != expected {
                let what = format!("{}: {part}", product.label());
                return Err(ModelError::Length { what, found, expected });
            }
        }
        Ok(Self { product, bias, finish, up: None, up_bias: None })
    }

    /// The same as the gate of another product of the same vectors. Errors with [`ModelError::Length`] for one of another size.
    pub fn gates(self, up: GemvOp<'a>, bias: Option<&'a [f16]>) -> Result<Self, ModelError> {
        let sizes = |op: &GemvOp<'_>| op.rows() * op.cols();
        if (up.rows(), up.cols(), up.batch())
            != (self.product.rows(), self.product.cols(), self.product.batch())
        {
            let (found, expected) = (sizes(&up), sizes(&self.product));
            return Err(ModelError::Length {
                what: format!("{}: weights beside a gate", up.label()),
                found,
                expected,
            });
        }
        let found = bias.map_or(up.rows(), <[f16]>::len);
        if found != up.rows() {
            let what = format!("{}: bias", up.label());
            return Err(ModelError::Length { what, found, expected: up.rows() });
        }
        Ok(Self { up: Some(up), up_bias: bias, ..self })
    }

    /// The product of a gate's factor, if this is a gate.
    pub fn up(&self) -> Option<&GemvOp<'a>> {
        self.up.as_ref()
    }

    /// The bias of the product of a gate's factor.
    pub fn up_bias(&self) -> Option<&'a [f16]> {
        self.up_bias
    }

    /// The product.
    pub fn product(&self) -> &GemvOp<'a> {
        &self.product
    }

    /// `[rows]`, if there is one.
    pub fn bias(&self) -> Option<&'a [f16]> {
        self.bias
    }

    /// What follows the bias.
    pub fn finish(&self) -> Finish<'a> {
        self.finish
    }

    /// Bias and what follows it, in software, on the product's result `[batch x rows]`. A gate's factor is not part of it.
    pub fn complete(&self, y: &mut [f16]) {
        add_bias(y, self.product.rows(), self.bias);
        match self.finish {
            Finish::Plain => {}
            Finish::Scale(factor) => y.iter_mut().for_each(|y| *y = mul(*y, factor)),
            Finish::Activate(activation) => y.iter_mut().for_each(|y| *y = activation.of(*y)),
            Finish::Residual(residual) => {
                y.iter_mut().zip(residual).for_each(|(y, &r)| *y = add(r, *y));
            }
        }
    }

    /// What a gate's values `[batch x rows]` let through of the other product's results, whose bias is added here.
    pub fn gate(&self, y: &mut [f16], mut up: Vec<f16>) {
        add_bias(&mut up, self.product.rows(), self.up_bias);
        let is_relu = matches!(self.finish, Finish::Activate(Activation::Relu));
        y.iter_mut().zip(up).for_each(|(y, up)| {
            *y = if is_relu && fp16::is_zero(*y) { f16::from_bits(0) } else { mul(*y, up) }
        });
    }
}

fn add_bias(y: &mut [f16], rows: usize, bias: Option<&[f16]>) {
    for row in y.chunks_mut(rows) {
        row.iter_mut().zip(bias.into_iter().flatten()).for_each(|(y, &b)| *y = add(*y, b));
    }
}

/// Consecutive tokens of one sequence in a batch.
#[derive(Debug, Clone, Copy)]
pub struct AttentionSpan<'a> {
    /// Which sequence: backends that keep caches of their own have one for each.
    pub sequence: u32,
    /// Position of the first token.
    pub position: usize,
    /// Tokens.
    pub tokens: usize,
    /// Keys and values of all positions, those of these tokens included.
    pub cache: &'a LayerCache,
}

/// Causal attention of a batch of tokens: the token at position `p` of its sequence sees the positions `0..=p`.
#[derive(Debug, Clone)]
pub struct AttentionOp<'a> {
    label: String,
    layer: usize,
    heads: usize,
    kv_heads: usize,
    head_width: usize,
    capacity: usize,
    queries: &'a [f16],
    spans: Vec<AttentionSpan<'a>>,
}

impl<'a> AttentionOp<'a> {
    /// `queries`, scaled, is `[tokens of all spans x heads * head_width]`; no sequence will have more than `capacity` positions. If caches have
    /// fewer heads than queries, so many heads of queries one after the other share each of them (grouped-query attention).
    /// Errors with [`ModelError::Length`] for queries or caches of other sizes.
    pub fn new(
        layer: usize,
        (heads, head_width): (usize, usize),
        capacity: usize,
        queries: &'a [f16],
        spans: Vec<AttentionSpan<'a>>,
    ) -> Result<Self, ModelError> {
        let label = format!("layers.{layer}.attention");
        let check = |part: &str, found, expected| {
            let what = format!("{label}: {part}");
            if found == expected { Ok(()) } else { Err(ModelError::Length { what, found, expected }) }
        };
        let tokens: usize = spans.iter().map(|span| span.tokens).sum();
        check("queries", queries.len(), tokens.max(1) * heads * head_width)?;
        let kv_heads = spans.first().map_or(heads, |span| span.cache.heads());
        if kv_heads == 0 || !heads.is_multiple_of(kv_heads) {
            check("heads of the cache, a divisor of those of the queries", kv_heads, heads)?;
        }
        for span in &spans {
            check("positions of the cache", span.cache.positions(), span.position + span.tokens)?;
            check("heads of the cache", span.cache.heads(), kv_heads)?;
            check("elements of a cached head", span.cache.head_width(), head_width)?;
            if span.cache.positions() > capacity {
                check("positions", span.cache.positions(), capacity)?;
            }
        }
        Ok(Self { label, layer, heads, kv_heads, head_width, capacity, queries, spans })
    }

    /// Where in the model, for messages: `layers.2.attention`.
    pub fn label(&self) -> &str {
        &self.label
    }

    /// The decoder layer.
    pub fn layer(&self) -> usize {
        self.layer
    }

    /// Heads of the queries.
    pub fn heads(&self) -> usize {
        self.heads
    }

    /// Heads of keys and values.
    pub fn kv_heads(&self) -> usize {
        self.kv_heads
    }

    /// Heads of the queries that share one of keys and values.
    pub fn sharing(&self) -> usize {
        self.heads / self.kv_heads
    }

    /// Elements of a head.
    pub fn head_width(&self) -> usize {
        self.head_width
    }

    /// Most positions that a sequence will have.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Elements of a query: all heads side by side.
    pub fn width(&self) -> usize {
        self.heads * self.head_width
    }

    /// Elements of a key, and of a value.
    pub fn kv_width(&self) -> usize {
        self.kv_heads * self.head_width
    }

    /// The sequences of the batch, in order.
    pub fn spans(&self) -> &[AttentionSpan<'a>] {
        &self.spans
    }

    /// Tokens of the batch.
    pub fn tokens(&self) -> usize {
        self.queries.len() / self.width()
    }

    /// `[tokens x width]`, scaled.
    pub fn queries(&self) -> &'a [f16] {
        self.queries
    }

    /// One token after the other: its sequence, how many positions it sees, and its query `[width]`.
    pub fn each(&self) -> impl Iterator<Item = (&AttentionSpan<'a>, usize, &'a [f16])> {
        let places =
            self.spans.iter().flat_map(|span| (1..=span.tokens).map(move |n| (span, span.position + n)));
        places.zip(self.queries.chunks(self.width())).map(|((span, visible), query)| (span, visible, query))
    }
}

/// Attention head by head: two products and a softmax each.
///
/// A backend that returns too few values ends it early; the caller finds the result too short.
pub(crate) fn attend_by_heads<B: GemvBackend + ?Sized>(
    backend: &mut B,
    op: &AttentionOp<'_>,
) -> Result<Vec<f16>, B::Error> {
    let (layer, width) = (op.layer(), op.head_width());
    let mut context = Vec::with_capacity(op.queries().len());
    for (span, visible, query) in op.each() {
        for (head, q) in query.chunks(width).enumerate() {
            let label = format!("layers.{layer}.head.{head}.scores");
            let keys = span.cache.keys(head / op.sharing(), visible);
            let product = GemvOp::unchecked(&label, GemvClass::Scores, (visible, width), keys, q);
            let scores = backend.gemv(&product)?;
            if scores.len() != visible {
                return Ok(context);
            }
            let probabilities = softmax(&scores);
            let label = format!("layers.{layer}.head.{head}.context");
            let values = span.cache.values_transposed(head / op.sharing(), visible);
            let shape = (width, visible);
            let product = GemvOp::unchecked(&label, GemvClass::Context, shape, &values, &probabilities);
            context.extend(backend.gemv(&product)?);
        }
    }
    Ok(context)
}
