//! Operations beyond a bare product: linear layers with the operations after them, and attention.
//!
//! Written as software steps on [`GemvBackend::gemv`], the default of a backend. Hardware with caches and an activation
//! unit replaces them, with the same bits.

use crate::matrix::same_length;
use ndp_config::Activation;
use ndp_files::Result;
use ndp_numerics::{Alibi, Rotation, SoftCap, add, f16, fp16, gelu, mul, relu, silu, softmax};

use crate::kv_cache::LayerCache;
use crate::{GemvBackend, GemvClass, GemvOp};

/// Operation on a linear layer's outputs after the bias.
#[derive(Debug, Clone, Copy)]
pub enum Finish<'a> {
    /// No operation.
    Plain,
    /// `mul(y, factor)`: the attention's scale of a query.
    Scale(f16),
    /// The activation of the feed-forward block.
    Activate(Activation),
    /// `mul(gate, y)`, element by element.
    Gate {
        /// Activations after the first layer, `[batch x rows]`.
        values: &'a [f16],
        /// Whether the result is +0 where the gate is zero, for any `y`: after a ReLU, and with a threshold.
        shuts: bool,
    },
    /// `add(y, r)`, element by element, `[batch x rows]`.
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
    /// Operation after the bias.
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

    /// Applies bias and finish in software to the product's result `[batch x rows]`.
    pub fn complete(&self, y: &mut [f16]) {
        for row in y.chunks_mut(self.product.rows()) {
            row.iter_mut().zip(self.bias.into_iter().flatten()).for_each(|(y, &b)| *y = add(*y, b));
        }
        match self.finish {
            Finish::Plain => {}
            Finish::Scale(factor) => y.iter_mut().for_each(|y| *y = mul(*y, factor)),
            Finish::Activate(activation) => {
                let function = match activation {
                    Activation::Relu => relu,
                    Activation::Gelu => gelu,
                    Activation::Silu => silu,
                };
                y.iter_mut().for_each(|y| *y = function(*y));
            }
            Finish::Gate { values, shuts } => {
                let shut = |gate| shuts && fp16::is_zero(gate);
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

/// Rotary embedding of a batch's queries or keys: the first elements of each head, by its token's position.
#[derive(Debug, Clone)]
pub struct RotaryOp<'a> {
    label: &'a str,
    head_width: usize,
    states: &'a [f16],
    rotations: Vec<&'a Rotation>,
}

ndp_config::getters!(<'a> RotaryOp<'a> {
    /// Place in the model, for messages: `layers.2.q_proj.rotary`.
    label: &'a str,
    /// `[tokens x width]`, not rotated.
    states: &'a [f16],
});

impl<'a> RotaryOp<'a> {
    /// `states` is `[tokens x heads * head_width]`, with a rotation per token. Fails for other sizes.
    pub fn new(
        label: &'a str,
        head_width: usize,
        states: &'a [f16],
        rotations: Vec<&'a Rotation>,
    ) -> Result<Self> {
        let check = |part: &str, found, expected| same_length(|| format!("{label}: {part}"), found, expected);
        let rotated = rotations.first().map_or(0, |rotation| 2 * rotation.angles()[0].len());
        for rotation in &rotations {
            let own = 2 * rotation.angles()[0].len();
            check("elements of a rotated head", own, rotated.min(head_width))?;
        }
        let unit = rotations.len().max(1) * head_width.max(1);
        check("states", states.len(), (states.len() / unit).max(1) * unit)?;
        Ok(Self { label, head_width, states, rotations })
    }

    /// Elements of a token: all heads.
    pub fn width(&self) -> usize {
        self.states.len() / self.rotations.len().max(1)
    }

    /// Pairs of rotated elements, by token and head: both indices in the states, cosine and sine.
    pub fn pairs(&self) -> impl Iterator<Item = ([usize; 2], [f16; 2])> {
        let width = self.width();
        let half = self.rotations.first().map_or(0, |rotation| rotation.angles()[0].len());
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
    /// Number of the sequence, for backends with their own caches.
    pub sequence: u32,
    /// Position of the first token.
    pub position: usize,
    /// Tokens.
    pub tokens: usize,
    /// Keys and values of all positions, these tokens included.
    pub cache: &'a LayerCache,
}

/// Causal attention: the token at position `p` of its sequence sees positions `0..=p`, or the last ones of them.
#[derive(Debug, Clone)]
pub struct AttentionOp<'a> {
    label: String,
    layer: usize,
    heads: usize,
    kv_heads: usize,
    head_width: usize,
    capacity: usize,
    window: Option<usize>,
    score_cap: Option<SoftCap>,
    alibi: bool,
    queries: &'a [f16],
    spans: Vec<AttentionSpan<'a>>,
}

ndp_config::getters!(<'a> AttentionOp<'a> {
    /// Place in the model, for messages: `layers.2.attention`.
    label: &str,
    /// The decoder layer.
    layer: usize,
    /// Heads of the queries.
    heads: usize,
    /// Heads of keys and values.
    kv_heads: usize,
    /// Elements of a head.
    head_width: usize,
    /// Most positions of a sequence.
    capacity: usize,
    /// Number of last positions that a token sees, its own included; `None` for all. Without effect up to as many.
    window: Option<usize>,
    /// Function of scores before softmax.
    score_cap: Option<SoftCap>,
    /// Whether scores fall with the distance of their positions.
    has_alibi = alibi: bool,
    /// The sequences of the batch, in order.
    spans: &[AttentionSpan<'a>],
    /// `[tokens x width]`, scaled.
    queries: &'a [f16],
});

impl<'a> AttentionOp<'a> {
    /// `queries`, scaled, is `[tokens of all spans x heads * head_width]`; a sequence has at most `capacity` positions.
    /// If caches have fewer heads, consecutive heads of queries share each (grouped-query attention). Fails for other
    /// sizes.
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
        Ok(Self {
            label,
            layer,
            heads,
            kv_heads,
            head_width,
            capacity,
            window: None,
            score_cap: None,
            alibi: false,
            queries,
            spans,
        })
    }

    /// Limits what tokens see to a number of last positions.
    #[must_use]
    pub fn with_window(self, window: Option<usize>) -> Self {
        Self { window, ..self }
    }

    /// Caps scores before softmax.
    #[must_use]
    pub fn with_score_cap(self, score_cap: Option<SoftCap>) -> Self {
        Self { score_cap, ..self }
    }

    /// Lets scores fall with the distance of their positions.
    #[must_use]
    pub fn with_alibi(self, alibi: bool) -> Self {
        Self { alibi, ..self }
    }

    /// First position that a token sees, if it sees those before `visible`.
    pub fn first(&self, visible: usize) -> usize {
        visible.saturating_sub(self.window.unwrap_or(visible))
    }

    /// Heads of queries that share one of keys and values.
    pub fn sharing(&self) -> usize {
        self.heads / self.kv_heads
    }

    /// Elements of a query: all heads.
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

    /// Each token: its sequence, the number of positions up to its own, and its query `[width]`.
    pub fn each(&self) -> impl Iterator<Item = (&AttentionSpan<'a>, usize, &'a [f16])> {
        let places =
            self.spans.iter().flat_map(|span| (1..=span.tokens).map(move |n| (span, span.position + n)));
        places.zip(self.queries.chunks(self.width())).map(|((span, visible), query)| (span, visible, query))
    }
}

/// Head by head: two products and a softmax. Ends early if a backend returns too few values; the caller checks the
/// length.
pub(crate) fn attend_by_heads<B: GemvBackend + ?Sized>(
    backend: &mut B,
    op: &AttentionOp<'_>,
) -> Result<Vec<f16>> {
    let (layer, width) = (op.layer(), op.head_width());
    let mut context = Vec::with_capacity(op.queries().len());
    let alibi = op.has_alibi().then(|| Alibi::new(op.heads(), width));
    for (span, end, query) in op.each() {
        let first = op.first(end);
        let visible = end - first;
        for (head, q) in query.chunks(width).enumerate() {
            let label = format!("layers.{layer}.head.{head}.scores");
            let keys = &span.cache.keys(head / op.sharing(), end)[first * width..];
            let product = GemvOp::unchecked(&label, GemvClass::Scores, (visible, width), keys, q);
            let mut scores = backend.gemv(&product)?;
            if let Some(cap) = op.score_cap() {
                scores.iter_mut().for_each(|score| *score = cap.of(*score));
            }
            if scores.len() != visible {
                return Ok(context);
            }
            if let Some(alibi) = &alibi {
                let distances = (0..visible).rev();
                scores.iter_mut().zip(distances).for_each(|(s, distance)| *s = alibi.of(head, *s, distance));
            }
            let probabilities = softmax(&scores);
            let label = format!("layers.{layer}.head.{head}.context");
            let values = span.cache.values_transposed(head / op.sharing(), first..end);
            let shape = (width, visible);
            let product = GemvOp::unchecked(&label, GemvClass::Context, shape, &values, &probabilities);
            context.extend(backend.gemv(&product)?);
        }
    }
    Ok(context)
}
