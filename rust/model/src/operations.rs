//! What the decoder asks of a backend beyond a bare product: linear layers with what follows them, and attention.
//!
//! Each operation is written here as the software's steps on top of [`GemvBackend::gemv`], which is what a backend does that
//! knows no better. Hardware that keeps the caches and has an activation unit replaces them; the bits have to stay.

use crate::matrix::same_length;
use ndp_files::Result;
use ndp_numerics::{Rotation, add, f16, fp16, mul, softmax};

use crate::config::Activation;
use crate::kv_cache::LayerCache;
use crate::{GemvBackend, GemvClass, GemvOp};

/// What becomes of a linear layer's outputs after the bias.
#[derive(Debug, Clone, Copy)]
pub enum Finish<'a> {
    /// Nothing.
    Plain,
    /// `mul(y, factor)`: the attention's scale of a query.
    Scale(f16),
    /// The activation of the feed-forward block.
    Activate(Activation),
    /// `mul(gate, y)`, element by element, of a block with a gate; +0 where a ReLU has made the gate zero, whatever `y` is.
    Gate {
        /// The activations behind the first layer, `[batch x rows]`.
        values: &'a [f16],
        /// What they came out of.
        activation: Activation,
    },
    /// `add(y, r)`, element by element: `[batch x rows]` as the outputs are.
    Residual(&'a [f16]),
}

/// A linear layer: `y[b, r] = finish(add(dot(weights[r, :], activations[b, :]), bias[r]))`.
#[derive(Debug, Clone, Copy)]
pub struct LinearOp<'a> {
    product: GemvOp<'a>,
    bias: Option<&'a [f16]>,
    finish: Finish<'a>,
}

ndp_config::getters!(<'a> LinearOp<'a> {
    /// The product.
    product: &GemvOp<'a>,
    /// `[rows]`, if there is one.
    bias: Option<&'a [f16]>,
    /// What follows the bias.
    finish: Finish<'a>,
});

impl<'a> LinearOp<'a> {
    /// Errors unless a bias is `[rows]`, a gate and a residual `[batch x rows]`.
    pub fn new(product: GemvOp<'a>, bias: Option<&'a [f16]>, finish: Finish<'a>) -> Result<Self> {
        let [gate, residual] = match finish {
            Finish::Gate { values, .. } => [Some(values.len()), None],
            Finish::Residual(residual) => [None, Some(residual.len())],
            _ => [None; 2],
        };
        let (rows, outputs) = (product.rows(), product.batch() * product.rows());
        for (part, found, expected) in [
            ("bias", bias.map_or(rows, <[f16]>::len), rows),
            ("gate", gate.unwrap_or(outputs), outputs),
            ("residual", residual.unwrap_or(outputs), outputs),
        ] {
            same_length(|| format!("{}: {part}", product.label()), found, expected)?;
        }
        Ok(Self { product, bias, finish })
    }

    /// Bias and what follows it, in software, on the product's result `[batch x rows]`.
    pub fn complete(&self, y: &mut [f16]) {
        for row in y.chunks_mut(self.product.rows()) {
            row.iter_mut().zip(self.bias.into_iter().flatten()).for_each(|(y, &b)| *y = add(*y, b));
        }
        match self.finish {
            Finish::Plain => {}
            Finish::Scale(factor) => y.iter_mut().for_each(|y| *y = mul(*y, factor)),
            Finish::Activate(activation) => y.iter_mut().for_each(|y| *y = activation.of(*y)),
            Finish::Gate { values, activation } => {
                let shut = |gate| activation == Activation::Relu && fp16::is_zero(gate);
                y.iter_mut().zip(values).for_each(|(y, &gate)| {
                    *y = if shut(gate) { f16::from_bits(0) } else { mul(gate, *y) };
                });
            }
            Finish::Residual(residual) => {
                y.iter_mut().zip(residual).for_each(|(y, &r)| *y = add(r, *y));
            }
        }
    }
}

/// Rotary embedding of the queries or keys of a batch: every head of a token is rotated by the angles of the token's position.
#[derive(Debug, Clone)]
pub struct RotaryOp<'a> {
    label: &'a str,
    head_width: usize,
    states: &'a [f16],
    rotations: Vec<&'a Rotation>,
}

ndp_config::getters!(<'a> RotaryOp<'a> {
    /// Where in the model, for messages: `layers.2.q_proj.rotary`.
    label: &'a str,
    /// `[tokens x width]`, not rotated.
    states: &'a [f16],
});

impl<'a> RotaryOp<'a> {
    /// `states` is `[tokens x heads * head_width]`, with a rotation for each token.
    /// Errors for states or rotations of other sizes.
    pub fn new(
        label: &'a str,
        head_width: usize,
        states: &'a [f16],
        rotations: Vec<&'a Rotation>,
    ) -> Result<Self> {
        let check = |part: &str, found, expected| same_length(|| format!("{label}: {part}"), found, expected);
        for rotation in &rotations {
            check("elements of a rotated head", 2 * rotation.angles()[0].len(), head_width)?;
        }
        let unit = rotations.len().max(1) * head_width.max(1);
        check("states", states.len(), (states.len() / unit).max(1) * unit)?;
        Ok(Self { label, head_width, states, rotations })
    }

    /// Elements of a token: all heads side by side.
    pub fn width(&self) -> usize {
        self.states.len() / self.rotations.len().max(1)
    }

    /// Pairs of elements that are rotated together, token by token and head by head: the places of both in the states, and cosine
    /// and sine of their angle.
    pub fn pairs(&self) -> impl Iterator<Item = ([usize; 2], [f16; 2])> {
        let (width, half) = (self.width(), self.head_width / 2);
        (0..self.states.len()).filter(move |at| at % self.head_width < half).map(move |at| {
            let angles = self.rotations[at / width].angles();
            ([at, at + half], angles.map(|values| values[at % self.head_width]))
        })
    }

    /// `[tokens x width]`, rotated in software.
    pub fn rotated(&self) -> Vec<f16> {
        let mut states = self.states.to_vec();
        for (token, rotation) in states.chunks_mut(self.width().max(1)).zip(&self.rotations) {
            token.chunks_mut(self.head_width).for_each(|head| rotation.rotate(head));
        }
        states
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

ndp_config::getters!(<'a> AttentionOp<'a> {
    /// Where in the model, for messages: `layers.2.attention`.
    label: &str,
    /// The decoder layer.
    layer: usize,
    /// Heads of the queries.
    heads: usize,
    /// Heads of keys and values.
    kv_heads: usize,
    /// Elements of a head.
    head_width: usize,
    /// Most positions that a sequence will have.
    capacity: usize,
    /// The sequences of the batch, in order.
    spans: &[AttentionSpan<'a>],
    /// `[tokens x width]`, scaled.
    queries: &'a [f16],
});

impl<'a> AttentionOp<'a> {
    /// `queries`, scaled, is `[tokens of all spans x heads * head_width]`; no sequence will have more than `capacity` positions. If caches have
    /// fewer heads than queries, so many heads of queries one after the other share each of them (grouped-query attention).
    /// Errors for queries or caches of other sizes.
    pub fn new(
        layer: usize,
        (heads, head_width): (usize, usize),
        capacity: usize,
        queries: &'a [f16],
        spans: Vec<AttentionSpan<'a>>,
    ) -> Result<Self> {
        let label = format!("layers.{layer}.attention");
        let check = |part: &str, found, expected| same_length(|| format!("{label}: {part}"), found, expected);
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

    /// Heads of the queries that share one of keys and values.
    pub fn sharing(&self) -> usize {
        self.heads / self.kv_heads
    }

    /// Elements of a query: all heads side by side.
    pub fn width(&self) -> usize {
        self.heads * self.head_width
    }

    /// Elements of a key, and of a value.
    pub fn kv_width(&self) -> usize {
        self.kv_heads * self.head_width
    }

    /// Tokens of the batch.
    pub fn tokens(&self) -> usize {
        self.queries.len() / self.width()
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
) -> Result<Vec<f16>> {
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
