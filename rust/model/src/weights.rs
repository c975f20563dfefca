//! The model's parameters: which tensors there are, of which shape, and how they fit together.
//!
//! Reads no file: the tensors come from a function, so that [`crate::loader`] (safetensors) and tests (random numbers)
//! build the same thing.

use ndp_numerics::f16;

use crate::config::POSITION_OFFSET;
use crate::{Matrix, ModelError, OptConfig};

/// Gain and bias of a LayerNorm, both `[d]`.
#[derive(Debug, Clone, PartialEq)]
pub struct LayerNorm {
    /// Gain (`weight` in the checkpoint).
    pub gain: Vec<f16>,
    /// Bias.
    pub bias: Vec<f16>,
}

/// A linear layer: `y[r] = add(dot(weight[r, :], x), bias[r])`.
#[derive(Debug, Clone, PartialEq)]
pub struct Linear {
    /// `[out x in]`.
    pub weight: Matrix,
    /// `[out]`.
    pub bias: Vec<f16>,
}

/// The parameters of one decoder layer.
#[derive(Debug, Clone, PartialEq)]
pub struct Layer {
    /// LayerNorm before the attention.
    pub self_attn_layer_norm: LayerNorm,
    /// Query projection, `[d x d]`.
    pub q_proj: Linear,
    /// Key projection, `[d x d]`.
    pub k_proj: Linear,
    /// Value projection, `[d x d]`.
    pub v_proj: Linear,
    /// Output projection of the attention, `[d x d]`.
    pub out_proj: Linear,
    /// LayerNorm before the feed-forward block.
    pub final_layer_norm: LayerNorm,
    /// First feed-forward layer, `[f x d]`.
    pub fc1: Linear,
    /// Second feed-forward layer, `[d x f]`.
    pub fc2: Linear,
}

/// A whole OPT decoder: configuration and parameters.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// The dimensions.
    pub config: OptConfig,
    /// Token embedding and (tied) output head, `[V x d]`.
    pub embed_tokens: Matrix,
    /// Position embedding, `[max_position_embeddings + 2 x d]`.
    pub embed_positions: Matrix,
    /// The layers, in order.
    pub layers: Vec<Layer>,
    /// LayerNorm before the head.
    pub final_layer_norm: LayerNorm,
}

impl Model {
    /// Builds a model from `tensor(name, shape)`, called once per tensor in a fixed order.
    ///
    /// Names are the checkpoint's without `model.` (`decoder.layers.0.fc1.weight`); shapes have one (vectors) or two
    /// (matrices, row-major) dimensions. Errors: those of `tensor`, and [`ModelError::Length`] for an answer that does not
    /// have as many elements as the shape.
    pub fn from_tensors<F>(config: OptConfig, mut tensor: F) -> Result<Self, ModelError>
    where
        F: FnMut(&str, &[usize]) -> Result<Vec<f16>, ModelError>,
    {
        let (d, f) = (config.hidden_size(), config.ffn_dim());
        let positions = config.max_position_embeddings() + POSITION_OFFSET;
        let mut source = Source { tensor: &mut tensor };
        Ok(Self {
            embed_tokens: source.matrix("decoder.embed_tokens.weight", config.vocab_size(), d)?,
            embed_positions: source.matrix("decoder.embed_positions.weight", positions, d)?,
            layers: (0..config.num_hidden_layers())
                .map(|i| source.layer(&format!("decoder.layers.{i}"), d, f))
                .collect::<Result<_, _>>()?,
            final_layer_norm: source.layer_norm("decoder.final_layer_norm", d)?,
            config,
        })
    }

    /// Number of parameters (the tied head counted once).
    pub fn parameters(&self) -> usize {
        let norm = |n: &LayerNorm| n.gain.len() + n.bias.len();
        let linear = |l: &Linear| l.weight.data().len() + l.bias.len();
        let layer = |l: &Layer| {
            let linears = [&l.q_proj, &l.k_proj, &l.v_proj, &l.out_proj, &l.fc1, &l.fc2];
            linears.map(linear).iter().sum::<usize>()
                + norm(&l.self_attn_layer_norm)
                + norm(&l.final_layer_norm)
        };
        self.embed_tokens.data().len()
            + self.embed_positions.data().len()
            + self.layers.iter().map(layer).sum::<usize>()
            + norm(&self.final_layer_norm)
    }
}

/// The tensor function with the shapes of the parts of a decoder.
struct Source<'a, F> {
    tensor: &'a mut F,
}

impl<F> Source<'_, F>
where
    F: FnMut(&str, &[usize]) -> Result<Vec<f16>, ModelError>,
{
    fn vector(&mut self, name: &str, len: usize) -> Result<Vec<f16>, ModelError> {
        let data = (self.tensor)(name, &[len])?;
        if data.len() != len {
            return Err(ModelError::Length { what: name.to_owned(), found: data.len(), expected: len });
        }
        Ok(data)
    }

    fn matrix(&mut self, name: &str, rows: usize, cols: usize) -> Result<Matrix, ModelError> {
        let data = (self.tensor)(name, &[rows, cols])?;
        Matrix::new(name, rows, cols, data)
    }

    fn layer_norm(&mut self, name: &str, width: usize) -> Result<LayerNorm, ModelError> {
        Ok(LayerNorm {
            gain: self.vector(&format!("{name}.weight"), width)?,
            bias: self.vector(&format!("{name}.bias"), width)?,
        })
    }

    fn linear(&mut self, name: &str, out: usize, width: usize) -> Result<Linear, ModelError> {
        Ok(Linear {
            weight: self.matrix(&format!("{name}.weight"), out, width)?,
            bias: self.vector(&format!("{name}.bias"), out)?,
        })
    }

    fn layer(&mut self, name: &str, d: usize, f: usize) -> Result<Layer, ModelError> {
        Ok(Layer {
            self_attn_layer_norm: self.layer_norm(&format!("{name}.self_attn_layer_norm"), d)?,
            q_proj: self.linear(&format!("{name}.self_attn.q_proj"), d, d)?,
            k_proj: self.linear(&format!("{name}.self_attn.k_proj"), d, d)?,
            v_proj: self.linear(&format!("{name}.self_attn.v_proj"), d, d)?,
            out_proj: self.linear(&format!("{name}.self_attn.out_proj"), d, d)?,
            final_layer_norm: self.layer_norm(&format!("{name}.final_layer_norm"), d)?,
            fc1: self.linear(&format!("{name}.fc1"), f, d)?,
            fc2: self.linear(&format!("{name}.fc2"), d, f)?,
        })
    }
}
