//! Activity of a running model.
//!
//! [`Capture`] wraps a [`GemvBackend`]. It marks nonzero inputs of the Q projection (after a ReLU, if there is one) and
//! of FC2 (after the MLP's ReLU; with a gate it is the gate). Neurons of experts follow one another, and those of an expert
//! that a token does not use are inactive. Results are the wrapped backend's, bit for bit.

use crate::{Activity, NeuronShape};
use ndp_files::{Result, ensure};
use ndp_model::{AttentionOp, DecoderConfig, Finish, GemvBackend, GemvClass, GemvOp, LinearOp, RotaryOp};
use ndp_numerics::{f16, fp16};
use std::collections::{BTreeMap, VecDeque};

/// Blocks of a model whose activity is captured.
pub fn shape_of(config: &DecoderConfig) -> NeuronShape {
    NeuronShape::new(
        config.num_hidden_layers() as u32, // each below 2^20
        config.hidden_size() as u32,
        (config.ffn_dim() * config.experts()) as u32,
    )
}

/// Wraps a backend, and passes each token's activity to `sink` in order.
#[derive(Debug)]
pub struct Capture<B, S> {
    backend: B,
    shape: NeuronShape,
    sink: S,
    /// Tokens of a batch.
    batch: Vec<Activity>,
    /// Next block.
    block: usize,
    /// Experts of the next block that are still to come, each with the tokens that use it.
    experts: VecDeque<(usize, Vec<usize>)>,
}

impl<B: GemvBackend, S: FnMut(&Activity) -> Result<()>> Capture<B, S> {
    /// The wrapped backend.
    pub fn into_inner(self) -> B {
        self.backend
    }

    /// `shape` describes the model.
    pub fn new(backend: B, shape: NeuronShape, sink: S) -> Self {
        Self { backend, shape, sink, batch: Vec::new(), block: 0, experts: VecDeque::new() }
    }

    /// Takes values `[tokens x neurons]` of the next block, or of its next expert; a decoder computes blocks in order.
    fn look(&mut self, values: &[f16], neurons: usize) -> Result<()> {
        let expected = self.shape.blocks()[self.block].neurons as usize;
        let tokens = values.len() / neurons;
        let (first, tokens, fits) = match self.experts.pop_front() {
            Some((expert, tokens)) => (expert * neurons, tokens, (expert + 1) * neurons <= expected),
            None => (0, (0..tokens).collect(), neurons == expected),
        };
        ensure!(fits, "the activity has {neurons} words, the trace's shape {expected}");
        if self.block == 0 {
            self.batch.resize_with(tokens.len(), Activity::default);
            self.batch.iter_mut().for_each(|activity| *activity = Activity::new(&self.shape));
        }
        for (token, values) in tokens.into_iter().zip(values.chunks(neurons)) {
            let bits = self.batch[token].block_mut(&self.shape, self.block);
            for (neuron, &value) in (first..).zip(values) {
                bits[neuron / 64] |= u64::from(!fp16::is_zero(value)) << (neuron % 64);
            }
        }
        if !self.experts.is_empty() {
            return Ok(());
        }
        self.block += 1;
        if self.block == self.shape.blocks().len() {
            self.block = 0;
            self.batch.iter().try_for_each(&mut self.sink)?;
        }
        Ok(())
    }
}

impl<B: GemvBackend, S: FnMut(&Activity) -> Result<()>> GemvBackend for Capture<B, S> {
    fn gemv(&mut self, op: &GemvOp<'_>) -> Result<Vec<f16>> {
        self.backend.gemv(op)
    }

    fn linear(&mut self, op: &LinearOp<'_>) -> Result<Vec<f16>> {
        let product = op.product();
        // K and V have Q's input. After a gate, a product may be zero for an active neuron.
        let is_attention = self.block.is_multiple_of(2);
        // The gate of an expert has been seen, and the next expert is still to come.
        let goes_on = !self.experts.is_empty();
        let values = match (product.class(), op.finish()) {
            (GemvClass::Qkv, _) => Some(product.activations()).filter(|_| is_attention),
            (_, Finish::Gate { values, .. }) => Some(values),
            (GemvClass::Fc2, _) => Some(product.activations()).filter(|_| !is_attention && !goes_on),
            _ => None,
        };
        if let Some(values) = values {
            self.look(values, values.len() / product.batch())?;
        }
        self.backend.linear(op)
    }

    fn route(&mut self, chosen: &[Vec<usize>]) -> Result<()> {
        let mut users: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (token, experts) in chosen.iter().enumerate() {
            experts.iter().for_each(|expert| users.entry(*expert).or_default().push(token));
        }
        self.experts = users.into_iter().collect();
        self.backend.route(chosen)
    }

    fn rotate(&mut self, op: &RotaryOp<'_>) -> Result<Vec<f16>> {
        self.backend.rotate(op)
    }

    fn attend(&mut self, op: &AttentionOp<'_>) -> Result<Vec<f16>> {
        self.backend.attend(op)
    }

    fn has_alibi(&self) -> bool {
        self.backend.has_alibi()
    }
}
