//! Activity of a model that runs: a backend that looks at what passes through it.
//!
//! [`Capture`] wraps any [`GemvBackend`]. It sees the inputs of the Q projection (behind the ReLU, in models that have one there) and
//! of FC2 (behind the MLP's ReLU; of an MLP with a gate it is the gate), and marks those that are not zero. Results are the wrapped backend's, bit for bit.

use crate::{Activity, NeuronShape};
use ndp_files::{Result, ensure};
use ndp_model::{AttentionOp, DecoderConfig, Finish, GemvBackend, GemvClass, GemvOp, LinearOp, RotaryOp};
use ndp_numerics::{f16, fp16};

/// The neurons of a model: the blocks whose activity is captured.
pub fn shape_of(config: &DecoderConfig) -> NeuronShape {
    NeuronShape::new(
        config.num_hidden_layers() as u32, // each below 2^20
        config.hidden_size() as u32,
        config.ffn_dim() as u32,
    )
}

/// A backend around another one. Hands the activity of each token to `sink`, in the order of the tokens.
#[derive(Debug)]
pub struct Capture<B, S> {
    backend: B,
    shape: NeuronShape,
    sink: S,
    /// The tokens that run together.
    batch: Vec<Activity>,
    /// Block whose activations come next.
    block: usize,
}

impl<B: GemvBackend, S: FnMut(&Activity) -> Result<()>> Capture<B, S> {
    /// The wrapped backend.
    pub fn into_inner(self) -> B {
        self.backend
    }

    /// Looks at a model of that shape.
    pub fn new(backend: B, shape: NeuronShape, sink: S) -> Self {
        Self { backend, shape, sink, batch: Vec::new(), block: 0 }
    }

    /// Takes the values `[tokens x neurons]` of the block that comes next; a decoder asks for its blocks' products in the order of the blocks.
    fn look(&mut self, values: &[f16], neurons: usize) -> Result<()> {
        let expected = self.shape.blocks()[self.block].neurons as usize;
        ensure!(neurons == expected, "the activity has {neurons} words, the trace's shape {expected}");
        if self.block == 0 {
            self.batch.resize_with(values.len() / neurons, Activity::default);
            self.batch.iter_mut().for_each(|activity| *activity = Activity::new(&self.shape));
        }
        for (activity, values) in self.batch.iter_mut().zip(values.chunks(neurons)) {
            let bits = activity.block_mut(&self.shape, self.block);
            for (neuron, &value) in values.iter().enumerate() {
                bits[neuron / 64] |= u64::from(!fp16::is_zero(value)) << (neuron % 64);
            }
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
        // K and V have the same input as Q. Behind a gate a product may be zero of a neuron that is active.
        let is_attention = self.block.is_multiple_of(2);
        let values = match (product.class(), op.finish()) {
            (GemvClass::Qkv, _) => Some(product.activations()).filter(|_| is_attention),
            (_, Finish::Gate { values, .. }) => Some(values),
            (GemvClass::Fc2, _) => Some(product.activations()).filter(|_| !is_attention),
            _ => None,
        };
        if let Some(values) = values {
            self.look(values, values.len() / product.batch())?;
        }
        self.backend.linear(op)
    }

    fn rotate(&mut self, op: &RotaryOp<'_>) -> Result<Vec<f16>> {
        self.backend.rotate(op)
    }

    fn attend(&mut self, op: &AttentionOp<'_>) -> Result<Vec<f16>> {
        self.backend.attend(op)
    }
}
