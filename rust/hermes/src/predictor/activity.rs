//! One trait over what can say which neurons of a block are computed.
//!
//! [`Predictor`] (Hermes: states and parents) learns from what was active and needs no weights; [`LowRank`]
//! (PowerInfer, LLM in a flash) looks at the input of the block and never learns; [`Exact`] predicts nothing.

use crate::predictor::lightweight::Predictor;
use crate::predictor::low_rank::LowRank;
use ndp_files::{Result, refusal};
use ndp_numerics::f16;
use std::fmt::Debug;

/// Says which neurons of a block are computed, before they are.
pub trait ActivityPredictor: Debug + Send {
    /// Its name on command lines and in reports.
    fn name(&self) -> &'static str;

    /// Writes one bit per neuron of a block into `out`, and says that it did. Where it does not (`false`),
    /// nothing is left out: what is active in the block is known without a prediction, or all of it is
    /// computed. `input` is the vector that the block's first matrix is multiplied with, for whom it matters.
    ///
    /// # Errors
    /// A block that the shape does not have, data that have not the length which the shape implies; no input for a low-rank
    /// predictor.
    fn predict(&self, block: usize, input: Option<&[f16]>, out: &mut [u64]) -> Result<bool>;

    /// Takes what was active in a block, for who learns.
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

    /// Of the MLP; what is active in front of attention is known, as it is that block's input.
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

/// Predicts nothing: all neurons that are active take part.
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
