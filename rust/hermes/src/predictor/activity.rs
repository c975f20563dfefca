//! The trait of predictors of active neurons.
//!
//! [`Predictor`] (Hermes: states and parents) learns from activity and needs no weights. [`LowRank`] (PowerInfer, LLM
//! in a flash) uses the block's input and never learns. [`Exact`] predicts nothing.

use crate::predictor::lightweight::Predictor;
use crate::predictor::low_rank::LowRank;
use ndp_files::{Result, refusal};
use ndp_numerics::f16;
use std::fmt::Debug;

/// Says which neurons of a block to compute.
pub trait ActivityPredictor: Debug + Send {
    fn name(&self) -> &'static str;

    /// Writes one bit per neuron of a block into `out` and returns `true`, or `false` to skip nothing: the activity is
    /// already known, or all is computed. `input` is the vector that the block's first matrix is multiplied with.
    ///
    /// Fails for an unknown block, data of the wrong length, and a low-rank predictor without input.
    fn predict(&self, block: usize, input: Option<&[f16]>, out: &mut [u64]) -> Result<bool>;

    /// Learns from the active neurons of a block.
    fn observe(&mut self, _block: usize, _actual: &[u64]) -> Result<()> {
        Ok(())
    }

    fn boxed(&self) -> Box<dyn ActivityPredictor>;
}

impl Clone for Box<dyn ActivityPredictor> {
    fn clone(&self) -> Self {
        (**self).boxed()
    }
}

impl ActivityPredictor for Predictor {
    fn name(&self) -> &'static str {
        "hermes"
    }

    fn predict(&self, block: usize, _: Option<&[f16]>, out: &mut [u64]) -> Result<bool> {
        Predictor::predict(self, block, out)?;
        Ok(true)
    }

    fn observe(&mut self, block: usize, actual: &[u64]) -> Result<()> {
        Predictor::observe(self, block, actual)
    }

    fn boxed(&self) -> Box<dyn ActivityPredictor> {
        Box::new(self.clone())
    }
}

impl ActivityPredictor for LowRank {
    fn name(&self) -> &'static str {
        "low-rank"
    }

    /// Predicts MLPs only; attention's active neurons are known, as its input.
    fn predict(&self, block: usize, input: Option<&[f16]>, out: &mut [u64]) -> Result<bool> {
        let Some(layer) = self.layer_of(block)? else { return Ok(false) };
        let bits = LowRank::predict(
            self,
            layer,
            input.ok_or_else(|| {
                refusal!(
                    "block {block}: a low-rank predictor needs the input of the block, and none was given"
                )
            })?,
        )?;
        crate::predictor::same_length("words of the prediction", out.len(), bits.len())?;
        out.copy_from_slice(&bits);
        Ok(true)
    }

    fn boxed(&self) -> Box<dyn ActivityPredictor> {
        Box::new(self.clone())
    }
}

/// Predicts nothing: all active neurons take part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exact;

impl ActivityPredictor for Exact {
    fn name(&self) -> &'static str {
        "exact"
    }

    fn predict(&self, _: usize, _: Option<&[f16]>, _: &mut [u64]) -> Result<bool> {
        Ok(false)
    }

    fn boxed(&self) -> Box<dyn ActivityPredictor> {
        Box::new(*self)
    }
}
