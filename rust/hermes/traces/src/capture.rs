//! Activity of a model that runs: a backend that looks at what passes through it.
//!
//! [`Capture`] wraps any [`GemvBackend`]. It sees the inputs of the Q projection (behind the ReLU, in models that have one there) and
//! of FC2 (behind the MLP's ReLU, and what its gate lets through), and marks those that are not zero. Results are the wrapped backend's, bit for bit.

use crate::{Activity, NeuronShape, TraceError};
use ndp_model::{AttentionOp, DecoderConfig, GemvBackend, GemvClass, GemvOp, LinearOp};
use ndp_numerics::{f16, fp16};

/// The neurons of a model: the blocks whose activity is captured.
pub fn shape_of(config: &DecoderConfig) -> NeuronShape {
    NeuronShape::new(
        config.num_hidden_layers() as u32, // each below 2^20
        config.hidden_size() as u32,
        config.ffn_dim() as u32,
    )
}

/// Why a captured run stopped.
#[derive(Debug, thiserror::Error)]
pub enum CaptureError<E: std::error::Error> {
    /// The wrapped backend failed.
    #[error(transparent)]
    Backend(E),
    /// The trace could not be written.
    #[error(transparent)]
    Trace(TraceError),
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

impl<B: GemvBackend, S: FnMut(&Activity) -> Result<(), TraceError>> Capture<B, S> {
    /// The wrapped backend.
    pub fn into_inner(self) -> B {
        self.backend
    }

    /// Looks at a model of that shape.
    pub fn new(backend: B, shape: NeuronShape, sink: S) -> Self {
        Self { backend, shape, sink, batch: Vec::new(), block: 0 }
    }

    /// Takes the activations in front of `product`; a decoder asks for its blocks' products in the order of the blocks.
    fn look(&mut self, product: &GemvOp<'_>) -> Result<(), TraceError> {
        let expected = self.shape.blocks()[self.block].neurons as usize;
        if product.cols() != expected {
            return Err(TraceError::Shape { found: product.cols(), expected });
        }
        if self.block == 0 {
            self.batch.resize_with(product.batch(), Activity::default);
            self.batch.iter_mut().for_each(|activity| *activity = Activity::new(&self.shape));
        }
        for (index, activity) in self.batch.iter_mut().enumerate() {
            let bits = activity.block_mut(&self.shape, self.block);
            for (neuron, &value) in product.activation(index).iter().enumerate() {
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

impl<B: GemvBackend, S: FnMut(&Activity) -> Result<(), TraceError>> GemvBackend for Capture<B, S> {
    type Error = CaptureError<B::Error>;

    fn gemv(&mut self, op: &GemvOp<'_>) -> Result<Vec<f16>, Self::Error> {
        self.backend.gemv(op).map_err(CaptureError::Backend)
    }

    fn linear(&mut self, op: &LinearOp<'_>) -> Result<Vec<f16>, Self::Error> {
        let product = op.product();
        // K and V have the same input as Q.
        let wanted = match product.class() {
            GemvClass::Qkv => product.label().ends_with(".q_proj"),
            class => class == GemvClass::Fc2,
        };
        if wanted {
            self.look(product).map_err(CaptureError::Trace)?;
        }
        self.backend.linear(op).map_err(CaptureError::Backend)
    }

    fn attend(&mut self, op: &AttentionOp<'_>) -> Result<Vec<f16>, Self::Error> {
        self.backend.attend(op).map_err(CaptureError::Backend)
    }
}
