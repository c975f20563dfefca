//! One decoder layer in one decode step, with random inputs: what `ndp layer` runs and the testbenches check.
//!
//! A step takes one new token of each of several sequences. Hidden states and the caches of earlier tokens are random;
//! weights are random or a model's. The caller chooses the backend.

use crate::stimulus::DataKind;
use ndp_config::WeightFormat;
use ndp_files::{Result, bail};
use ndp_model::weights::{FeedForward, Layer, Linear, Norm};
use ndp_model::{
    Activation, GemvBackend, LayerCache, LayerShape, LayerSpan, LayerSparsity, Matrix, Model, run_layer,
};
use ndp_numerics::{Epsilon, Rotation, f16};

/// Sizes of a layer with random weights.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LayerSizes {
    pub hidden: usize,
    /// Attention heads, a divisor of `hidden`.
    pub heads: usize,
    /// Heads with keys and values of their own, a divisor of `heads`.
    pub kv_heads: usize,
    pub ffn: usize,
    /// A second product with the input of FC1 multiplies the outputs of the activation, as in LLaMA.
    pub gated: bool,
    pub activation: Activation,
    /// Approximate share of active inputs of Q, K, V and of FC2; by default a half and a sixth.
    pub active: Option<f64>,
}

#[derive(Clone, Debug)]
pub struct LayerStep {
    index: usize,
    layer: Layer,
    shape: LayerShape,
    /// For the new token's position, in models with rotary embedding.
    rotation: Vec<Rotation>,
    caches: Vec<LayerCache>,
    hidden: Vec<f16>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct LayerOutput {
    /// Hidden states, `[batch x hidden]`.
    pub hidden: Vec<f16>,
    pub sparsity: LayerSparsity,
}

fn draw(len: usize, seed: &mut u64, deviation: f32, mean: f32) -> Vec<f16> {
    *seed = seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let values = DataKind::Gaussian.weights(1, len, *seed);
    values.into_iter().map(|value| f16::from_f32(value.to_f32() * deviation + mean)).collect()
}

/// Mean at which this share of normal numbers of deviation 1 is above 0, from 4096 samples.
fn mean_above_zero(share: f64) -> f32 {
    let mut sample: Vec<f32> = draw(4096, &mut 1, 1.0, 0.0).into_iter().map(f32::from).collect();
    sample.sort_by(f32::total_cmp);
    // With share 1 the mean is so high that practically none is below 0.
    sample.get(((1.0 - share) * 4096.0) as usize).filter(|_| share < 1.0).map_or(8.0, |quantile| -quantile)
}

impl LayerStep {
    /// `context` counts the new token of each sequence.
    pub fn of_model(model: &Model, index: usize, context: usize, batch: usize, seed: u64) -> Self {
        let shape = LayerShape { positions: context, ..LayerShape::of(&model.config, index) };
        // The configuration was validated.
        let rotary = model.config.rotary(index).ok().flatten();
        let rotation = rotary.map(|rotary| rotary.at(context.saturating_sub(1) as u32));
        Self::new((index, model.layers[index].clone()), shape, rotation, batch, seed)
    }

    /// # Errors
    /// Heads that do not divide the hidden size, or key and value heads that do not divide the heads; a size of 0.
    pub fn random(sizes: &LayerSizes, context: usize, batch: usize, seed: u64) -> Result<Self> {
        let LayerSizes { hidden, heads, kv_heads, ffn, gated, activation, active } = *sizes;
        if heads == 0 || ffn == 0 || hidden == 0 || !hidden.is_multiple_of(heads) {
            let what = format!("hidden size with {heads} heads and a feed-forward block of {ffn}");
            bail!("{what} has {hidden} elements, expected {}", hidden.next_multiple_of(heads.max(1)));
        }
        if kv_heads == 0 || !heads.is_multiple_of(kv_heads) {
            bail!("{kv_heads} key and value heads, expected a divisor of the {heads} heads");
        }
        let kv = hidden / heads * kv_heads;
        let mut state = !seed;
        let mut linear = |what: &str, rows: usize, cols: usize, mean: f32| -> Result<Linear> {
            let deviation = 1.0 / (cols as f32).sqrt();
            let weight = Matrix::new(what, rows, cols, draw(rows * cols, &mut state, deviation, 0.0))?;
            Ok(Linear { weight, bias: Some(draw(rows, &mut state, 0.1, mean)) })
        };
        // Both are normal, with a deviation of about 1, before the ReLU.
        let [input, inner] = active.map_or([0.0, -1.0], |share| [mean_above_zero(share); 2]);
        let norm = |bias: f32| Norm {
            gain: vec![f16::from_f32(1.0); hidden],
            bias: Some(vec![f16::from_f32(bias); hidden]),
            eps: Epsilon::OPT,
        };
        let layer = Layer {
            attention_norm: Some(norm(input)),
            q_proj: linear("q_proj", hidden, hidden, 0.0)?,
            k_proj: linear("k_proj", kv, hidden, 0.0)?,
            v_proj: linear("v_proj", kv, hidden, 0.0)?,
            qk_norms: None,
            out_proj: linear("out_proj", hidden, hidden, 0.0)?,
            after_attention: None,
            ffn_norm: Some(norm(0.0)),
            experts: vec![FeedForward {
                fc1: linear("fc1", ffn, hidden, inner)?,
                // Models with a gate have no bias here.
                up: gated
                    .then(|| linear("up", ffn, hidden, 0.0))
                    .transpose()?
                    .map(|up| Linear { bias: None, ..up }),
                fc2: linear("fc2", hidden, ffn, 0.0)?,
            }],
            router: None,
            after_ffn: None,
            threshold: None,
        };
        let shape = LayerShape {
            heads,
            kv_heads,
            head_width: hidden / heads,
            positions: context,
            relu_before_qkv: true,
            activation,
            parallel: false,
            query_scale: None,
            residual_scale: None,
            norms_sums: false,
            window: None,
            score_cap: None,
            alibi: false,
            tanh_gelu: false,
            mixture: None,
            reports_overflow: false,
        };
        Ok(Self::new((0, layer), shape, None, batch, seed))
    }

    /// Quantises the matrices; FP16 changes nothing.
    pub fn quantised(self, weights: WeightFormat) -> Result<Self> {
        Ok(Self { layer: self.layer.quantised(weights)?, ..self })
    }

    /// Makes the layer the only one of a model, as a system without other layers counts.
    pub fn alone(self) -> Self {
        Self { index: 0, ..self }
    }

    fn new(
        (index, layer): (usize, Layer),
        shape: LayerShape,
        rotation: Option<Rotation>,
        batch: usize,
        seed: u64,
    ) -> Self {
        let (d, kv) = (layer.q_proj.weight.cols(), shape.kv_heads * shape.head_width);
        let mut state = seed;
        let mut caches = vec![LayerCache::new(shape.kv_heads, shape.head_width); batch];
        for cache in &mut caches {
            for _ in 1..shape.positions {
                cache.push(&draw(kv, &mut state, 1.0, 0.0), &draw(kv, &mut state, 1.0, 0.0));
            }
        }
        let hidden = draw(batch * d, &mut state, 1.0, 0.0);
        Self { index, layer, shape, rotation: rotation.into_iter().collect(), caches, hidden }
    }

    pub fn layer(&self) -> &Layer {
        &self.layer
    }

    pub fn shape(&self) -> &LayerShape {
        &self.shape
    }

    pub fn hidden(&self) -> usize {
        self.layer.q_proj.weight.cols()
    }

    pub fn is_rotary(&self) -> bool {
        !self.rotation.is_empty()
    }

    pub fn ffn(&self) -> usize {
        self.layer.experts.first().map_or(0, |ffn| ffn.fc1.weight.rows())
    }

    /// Repeated runs give the same result.
    ///
    /// # Errors
    /// Errors of [`run_layer`].
    pub fn run<B: GemvBackend + ?Sized>(&self, backend: &mut B) -> Result<LayerOutput> {
        let mut caches = self.caches.clone();
        let mut sparsity = LayerSparsity::default();
        let rotations = self.rotation.as_slice();
        let spans = (0..).zip(&mut caches);
        let spans = spans.map(|(sequence, cache)| LayerSpan { sequence, tokens: 1, cache, rotations });
        let mut spans: Vec<LayerSpan<'_>> = spans.collect();
        let layer = (self.index, &self.layer);
        let hidden = run_layer(backend, layer, &self.shape, &mut spans, &mut sparsity, &self.hidden)?;
        Ok(LayerOutput { hidden, sparsity })
    }
}
