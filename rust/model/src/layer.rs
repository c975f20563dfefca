//! One decoder layer over a batch of tokens, of one sequence or of several.
//!
//! Computes the normalisation; the backend has linear layers, rotary embedding and attention.

use crate::matrix::same_length;
use ndp_config::Activation;
use ndp_files::{Context, Result, bail, ensure};
use std::borrow::Cow;

use ndp_numerics::{Rotation, SoftCap, above, add, dot, f16, fp16, gelu_tanh, mul, relu, rne_ratio, softmax};

use crate::config::{Factor, Mixture, NormPlaces};
use crate::kv_cache::LayerCache;
use crate::operations::{AttentionOp, AttentionSpan, Finish, LinearOp, RotaryOp};
use crate::sparsity::LayerSparsity;
use crate::weights::{FeedForward, Layer, Linear, Norm};
use crate::{DecoderConfig, GemvBackend, GemvClass, GemvOp, Matrix, SoftwareBackend};

/// Properties of a layer that its tensors do not show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LayerShape {
    /// Heads of queries.
    pub heads: usize,
    /// Heads of keys and values; their number divides `heads`.
    pub kv_heads: usize,
    /// Elements of a head.
    pub head_width: usize,
    /// Most positions of a sequence.
    pub positions: usize,
    /// Whether a ReLU precedes the Q, K and V projections.
    pub relu_before_qkv: bool,
    /// The function between the feed-forward layers.
    pub activation: Activation,
    /// Whether the feed-forward block takes the layer's input, not the state after attention.
    pub parallel: bool,
    /// Factor of queries, which replaces `1 / sqrt(head_width)`.
    pub query_scale: Option<Factor>,
    /// Factor of the blocks' outputs before they are added.
    pub residual_scale: Option<Factor>,
    /// Whether norms after a block take the sum with its residual.
    pub norms_sums: bool,
    /// Number of last positions that a position sees; `None` for all.
    pub window: Option<usize>,
    /// Function of scores before softmax.
    pub score_cap: Option<SoftCap>,
    /// Whether scores fall with the distance of their positions.
    pub alibi: bool,
    /// Whether the activation is `gelu_tanh`.
    pub tanh_gelu: bool,
    /// Experts in place of the feed-forward block.
    pub mixture: Option<Mixture>,
    /// Whether an activation that is not finite is an error.
    pub reports_overflow: bool,
}

impl LayerShape {
    /// For one of a model's layers.
    pub fn of(config: &DecoderConfig, layer: usize) -> Self {
        Self {
            heads: config.num_attention_heads(),
            kv_heads: config.num_key_value_heads(),
            head_width: config.head_width(),
            positions: config.max_position_embeddings(),
            relu_before_qkv: config.relu_before_qkv(),
            activation: config.activation(),
            parallel: config.is_parallel(),
            query_scale: config.extras().query_scale,
            residual_scale: config.extras().residual_scale,
            window: config.window(layer),
            score_cap: config.extras().score_cap,
            alibi: config.extras().alibi,
            tanh_gelu: config.extras().tanh_gelu,
            mixture: config.extras().mixture,
            reports_overflow: config.extras().reports_overflow,
            norms_sums: config.extras().norm_places == NormPlaces::AfterResidual,
        }
    }
}

impl LayerShape {
    fn check(&self, label: &str, values: &[f16], spans: &[LayerSpan<'_>]) -> Result<()> {
        let tokens = spans.iter().map(|span| span.tokens).sum();
        if self.reports_overflow { all_finite(label, values, tokens) } else { Ok(()) }
    }
}

/// Fails if the result of an operation, `[tokens x width]`, is not finite.
pub(crate) fn all_finite(label: &str, values: &[f16], tokens: usize) -> Result<()> {
    let Some(at) = values.iter().position(|value| !value.is_finite()) else { return Ok(()) };
    let width = (values.len() / tokens.max(1)).max(1);
    let (token, element, found) = (at / width, at % width, values[at]);
    bail!(
        "{label}: element {element} of token {token} of the batch is {found}: an activation is beyond FP16's range, 65504"
    );
}

/// Consecutive tokens of one sequence, after those in its cache.
#[derive(Debug)]
pub struct LayerSpan<'a> {
    /// Number of the sequence, for backends with their own caches.
    pub sequence: u32,
    /// Tokens.
    pub tokens: usize,
    /// Keys and values of earlier positions; the tokens' are added.
    pub cache: &'a mut LayerCache,
    /// Rotation of each token; empty without rotary embedding.
    pub rotations: &'a [Rotation],
}

/// Runs layer `index` on the hidden states `[tokens of all spans x d]`; returns those after it and counts zeros in
/// `sparsity`. Fails as the backend, for sizes that do not fit, and as the normalisation.
pub fn run_layer<B: GemvBackend + ?Sized>(
    backend: &mut B,
    (index, layer): (usize, &Layer),
    shape: &LayerShape,
    spans: &mut [LayerSpan<'_>],
    sparsity: &mut LayerSparsity,
    hidden: &[f16],
) -> Result<Vec<f16>> {
    let name = |part: &str| format!("layers.{index}.{part}");
    let normed = match &layer.attention_norm {
        Some(parameters) => norm(&name("attention_norm"), parameters, hidden)?,
        None => hidden.to_vec(),
    };
    let a = match shape.relu_before_qkv {
        true => Cow::Owned(normed.iter().map(|a| relu(*a)).collect()),
        false => Cow::Borrowed(&normed[..]),
    };
    shape.check(&name("attention_norm"), &a, spans)?;
    sparsity.qkv_input.count(&a);
    // A head is at most 16384 wide. 0 is not reached; it would give +Inf.
    let own = Factor::InverseRoot(u32::try_from(shape.head_width).unwrap_or(0));
    let factor = shape.query_scale.unwrap_or(own).rounded();
    let scale = if layer.qk_norms.is_some() { Finish::Plain } else { Finish::Scale(factor) };
    let mut q = linear(backend, &name("q_proj"), GemvClass::Qkv, &layer.q_proj, &a, scale)?;
    let mut k = linear(backend, &name("k_proj"), GemvClass::Qkv, &layer.k_proj, &a, Finish::Plain)?;
    let v = linear(backend, &name("v_proj"), GemvClass::Qkv, &layer.v_proj, &a, Finish::Plain)?;
    if let Some([q_norm, k_norm]) = &layer.qk_norms {
        q = norm(&name("q_norm"), q_norm, &q)?.into_iter().map(|q| mul(q, factor)).collect();
        k = norm(&name("k_norm"), k_norm, &k)?;
    }
    for (part, states) in [("q_proj", &q), ("k_proj", &k), ("v_proj", &v)] {
        shape.check(&name(part), states, spans)?;
    }
    let width = shape.head_width;
    let rotations: Vec<&Rotation> = spans.iter().flat_map(|span| span.rotations).collect();
    if !rotations.is_empty() {
        for (states, part) in [(&mut q, "q_proj.rotary"), (&mut k, "k_proj.rotary")] {
            let label = name(part);
            let op = RotaryOp::new(&label, width, states, rotations.clone())?;
            let rotated = backend.rotate(&op);
            *states = checked(&label, rotated, states.len())?;
        }
    }
    let kv_width = shape.kv_heads * width;
    let mut rows = k.chunks(kv_width).zip(v.chunks(kv_width));
    for span in &mut *spans {
        rows.by_ref().take(span.tokens).for_each(|(k, v)| span.cache.push(k, v));
    }
    let attended = spans.iter().map(|span| AttentionSpan {
        sequence: span.sequence,
        position: span.cache.positions().saturating_sub(span.tokens),
        tokens: span.tokens,
        cache: &*span.cache,
    });
    let window = shape.window.filter(|window| *window < shape.positions);
    ensure!(!shape.alibi || backend.has_alibi(), "{}: expected a backend with ALiBi", name("attention"));
    let attention = AttentionOp::new(index, (shape.heads, width), shape.positions, &q, attended.collect())?;
    let attention = attention.with_window(window).with_score_cap(shape.score_cap).with_alibi(shape.alibi);
    let context = backend.attend(&attention);
    let context = checked(attention.label(), context, q.len())?;
    shape.check(&name("attention"), &context, spans)?;
    let out = Output {
        shape,
        label: &name("out_proj"),
        class: GemvClass::Proj,
        linear: &layer.out_proj,
        norm: layer.after_attention.as_ref(),
    };
    let attended = out.add(backend, &context, hidden)?;
    shape.check(&name("out_proj"), &attended, spans)?;

    let input = if shape.parallel { hidden } else { &attended };
    let a = match &layer.ffn_norm {
        Some(parameters) => norm(&name("ffn_norm"), parameters, input)?,
        None if shape.parallel => normed,
        None => input.to_vec(),
    };
    shape.check(&name("ffn_norm"), &a, spans)?;
    let result = match (&layer.router, &layer.experts[..]) {
        (None, [only]) => {
            let block = Block { shape, name: &name, threshold: layer.threshold, of: only };
            let inner = block.neurons(backend, &a, sparsity)?;
            let out = Output {
                shape,
                label: &name("fc2"),
                class: GemvClass::Fc2,
                linear: &only.fc2,
                norm: layer.after_ffn.as_ref(),
            };
            out.add(backend, &inner, &attended)?
        }
        (Some(router), experts) => {
            let mixed = mixed(backend, &name, (router, experts), layer.threshold, shape, &a, sparsity)?;
            attended.iter().zip(mixed).map(|(h, y)| add(*h, y)).collect()
        }
        (None, blocks) => {
            bail!("layer {index} has {} feed-forward blocks and no router, expected one", blocks.len())
        }
    };
    shape.check(&name("fc2"), &result, spans)?;
    Ok(result)
}

/// Feed-forward block up to its last layer.
struct Block<'a> {
    shape: &'a LayerShape,
    name: &'a dyn Fn(&str) -> String,
    threshold: Option<f16>,
    of: &'a FeedForward,
}

impl Block<'_> {
    /// `[batch x d]` to the inputs of the last layer, `[batch x f]`, whose zeros are counted.
    fn neurons<B: GemvBackend + ?Sized>(
        &self,
        backend: &mut B,
        a: &[f16],
        sparsity: &mut LayerSparsity,
    ) -> Result<Vec<f16>> {
        let Self { shape, name, threshold, of: FeedForward { fc1, up, .. } } = *self;
        let tokens = a.len() / fc1.weight.cols().max(1);
        let check = |part: &str, values: &[f16]| match shape.reports_overflow {
            true => all_finite(&name(part), values, tokens),
            false => Ok(()),
        };
        let activation = shape.activation;
        let finish = if shape.tanh_gelu { Finish::Plain } else { Finish::Activate(activation) };
        let mut inner = linear(backend, &name("fc1"), GemvClass::Fc1, fc1, a, finish)?;
        if shape.tanh_gelu {
            inner.iter_mut().for_each(|inner| *inner = gelu_tanh(*inner));
        }
        check("fc1", &inner)?;
        if let Some(threshold) = threshold {
            inner.iter_mut().for_each(|inner| *inner = above(*inner, threshold));
        }
        sparsity.ffn_hidden.count(&inner);
        if let Some(up) = up {
            let shuts = activation == Activation::Relu || threshold.is_some();
            let finish = Finish::Gate { values: &inner, shuts };
            inner = linear(backend, &name("up"), GemvClass::Up, up, a, finish)?;
            check("up", &inner)?;
        }
        Ok(inner)
    }
}

/// The sum of each token's experts by their weights, `[batch x d]`. Tokens of an expert are one batch.
fn mixed<B: GemvBackend + ?Sized>(
    backend: &mut B,
    name: &dyn Fn(&str) -> String,
    (router, experts): (&Matrix, &[FeedForward]),
    threshold: Option<f16>,
    shape: &LayerShape,
    a: &[f16],
    sparsity: &mut LayerSparsity,
) -> Result<Vec<f16>> {
    let d = router.cols();
    let label = name("router");
    let scores = SoftwareBackend::new().gemv(&GemvOp::of_matrix(&label, GemvClass::Fc1, router, a)?)?;
    let chosen: Vec<Vec<(usize, f16)>> =
        scores.chunks(router.rows()).map(|scores| chosen(scores, shape.mixture)).collect();
    let numbers: Vec<Vec<usize>> =
        chosen.iter().map(|own| own.iter().map(|(expert, _)| *expert).collect()).collect();
    backend.route(&numbers)?;
    // By token, then by place among its experts.
    let mut outputs: Vec<Vec<Vec<f16>>> = chosen.iter().map(|own| vec![Vec::new(); own.len()]).collect();
    for (number, of) in experts.iter().enumerate() {
        let find = |own: &Vec<(usize, f16)>| own.iter().position(|(expert, _)| *expert == number);
        let users: Vec<(usize, usize)> =
            (0..).zip(&chosen).filter_map(|(token, own)| Some((token, find(own)?))).collect();
        if users.is_empty() {
            continue;
        }
        let inputs: Vec<f16> =
            users.iter().flat_map(|(token, _)| &a[token * d..(token + 1) * d]).copied().collect();
        let of_expert = |part: &str| name(&format!("experts.{number}.{part}"));
        let block = Block { shape, name: &of_expert, threshold, of };
        let inner = block.neurons(backend, &inputs, sparsity)?;
        let y = linear(backend, &of_expert("fc2"), GemvClass::Fc2, &of.fc2, &inner, Finish::Plain)?;
        if shape.reports_overflow {
            all_finite(&of_expert("fc2"), &y, users.len())?;
        }
        for ((token, place), y) in users.iter().zip(y.chunks(d)) {
            outputs[*token][*place] = y.to_vec();
        }
    }
    let mut mixed = Vec::with_capacity(a.len());
    for (own, outputs) in chosen.iter().zip(&outputs) {
        let weights: Vec<f16> = own.iter().map(|(_, weight)| *weight).collect();
        for element in 0..d {
            let values: Vec<f16> = outputs.iter().map(|output| output[element]).collect();
            mixed.push(dot(&weights, &values));
        }
    }
    Ok(mixed)
}

/// Experts with the largest scores and their weights; the lower number of equals.
fn chosen(scores: &[f16], mixture: Option<Mixture>) -> Vec<(usize, f16)> {
    let (used, normalised) = mixture.map_or((1, true), |mixture| (mixture.used, mixture.normalised));
    let mut order: Vec<usize> = (0..scores.len()).collect();
    // Comparing -0 with +0, as any equal scores, keeps the order.
    order.sort_by(|a, b| scores[*b].partial_cmp(&scores[*a]).unwrap_or(std::cmp::Ordering::Equal));
    order.truncate(used);
    let probabilities = softmax(scores);
    let own: Vec<f16> = order.iter().map(|expert| probabilities[*expert]).collect();
    // Probabilities are multiples of 2^-24; a NaN, from scores that are not finite, stays one.
    let units: Option<Vec<i128>> = own.iter().map(|own| fp16::to_fixed(*own).map(i128::from)).collect();
    let weights = match units.filter(|_| normalised) {
        None => own,
        Some(units) => units.iter().map(|own| rne_ratio(*own, units.iter().sum())).collect(),
    };
    order.into_iter().zip(weights).collect()
}

/// The end of a block: its last linear layer, and the operations that add it to the hidden state.
struct Output<'a> {
    shape: &'a LayerShape,
    label: &'a str,
    class: GemvClass,
    linear: &'a Linear,
    norm: Option<&'a Norm>,
}

impl Output<'_> {
    /// `[batch x in]` and the hidden state `[batch x d]`, to the state after the block.
    fn add<B: GemvBackend + ?Sized>(&self, backend: &mut B, x: &[f16], hidden: &[f16]) -> Result<Vec<f16>> {
        let Self { shape, label, class, linear: parameters, norm: after } = *self;
        let normed = |y: Vec<f16>| match after {
            Some(parameters) => norm(&format!("{label}.norm"), parameters, &y),
            None => Ok(y),
        };
        if shape.norms_sums || after.is_none() && shape.residual_scale.is_none() {
            let sum = linear(backend, label, class, parameters, x, Finish::Residual(hidden))?;
            return normed(sum);
        }
        let mut y = normed(linear(backend, label, class, parameters, x, Finish::Plain)?)?;
        if let Some(factor) = shape.residual_scale.map(Factor::rounded) {
            y.iter_mut().for_each(|y| *y = mul(*y, factor));
        }
        Ok(hidden.iter().zip(y).map(|(h, y)| add(*h, y)).collect())
    }
}

/// Normalises each row of `[batch x d]`.
pub(crate) fn norm(at: &str, parameters: &Norm, rows: &[f16]) -> Result<Vec<f16>> {
    let mut result = Vec::with_capacity(rows.len());
    for row in rows.chunks(parameters.gain.len()) {
        let row = parameters.of(row).with_context(|| at.to_owned())?;
        result.extend(row);
    }
    Ok(result)
}

/// `[batch x in] -> [batch x out]`.
fn linear<B: GemvBackend + ?Sized>(
    backend: &mut B,
    label: &str,
    class: GemvClass,
    parameters: &Linear,
    x: &[f16],
    finish: Finish<'_>,
) -> Result<Vec<f16>> {
    let product = GemvOp::of_matrix(label, class, &parameters.weight, x)?;
    let op = LinearOp::new(product, parameters.bias.as_deref(), finish)?;
    let result = backend.linear(&op);
    checked(label, result, product.batch() * product.rows())
}

/// Checks the length of a backend's result.
pub(crate) fn checked(label: &str, result: Result<Vec<f16>>, expected: usize) -> Result<Vec<f16>> {
    let result = result.with_context(|| format!("{label}: the backend failed"))?;
    same_length(|| format!("{label}: the backend's result"), result.len(), expected)?;
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_scores_are_chosen_and_the_lower_number_of_equals() {
        let scores = [1.0, 2.0, -1.0, 2.0, 1.0].map(f16::from_f64);
        let of = |used, normalised| {
            let mixture = Mixture { experts: 5, used, normalised, mixtral: true };
            chosen(&scores, Some(mixture))
        };
        let numbers =
            |chosen: Vec<(usize, f16)>| chosen.into_iter().map(|(expert, _)| expert).collect::<Vec<_>>();
        assert_eq!(numbers(of(3, true)), [1, 3, 0]);
        assert_eq!(of(2, true), [(1, f16::from_f64(0.5)), (3, f16::from_f64(0.5))]);
        let probabilities = softmax(&scores);
        assert_eq!(of(1, false), [(1, probabilities[1])]);
    }
}
