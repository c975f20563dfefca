//! Thresholds on the magnitude of feed-forward activations, found on a text without training (as CATS and TEAL do).
//!
//! An activation that does not exceed its layer's threshold counts as +0, so its row of `up` and of FC2 is not needed.

use crate::operations::{AttentionOp, Finish, LinearOp, RotaryOp};
use crate::{GemvBackend, GemvClass, GemvOp, Model};
use ndp_files::{Result, ensure, refusal};
use ndp_numerics::f16;
use serde::{Deserialize, Serialize};

/// Thresholds of a model's layers, and where they come from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Thresholds {
    /// Share of activations that should exceed their threshold, 0 to 1.
    pub share: f64,
    /// Tokens that the thresholds were found on.
    #[serde(default)]
    pub tokens: u64,
    /// By layer, 0 to 65504, rounded to FP16.
    pub thresholds: Vec<f64>,
}

impl Thresholds {
    /// Sets the thresholds of the model's layers. Fails for another number of layers, and for values beyond FP16.
    pub fn set(&self, model: &mut Model) -> Result<()> {
        let (found, layers) = (self.thresholds.len(), model.layers.len());
        ensure!(
            found == layers,
            "thresholds = {found} values, expected {layers}: one for each layer of the model"
        );
        for (layer, (threshold, own)) in self.thresholds.iter().zip(&mut model.layers).enumerate() {
            let rounded = f16::from_f64(*threshold);
            ensure!(
                *threshold >= 0.0 && rounded.is_finite(),
                "thresholds[{layer}] = {threshold} must be 0 to 65504"
            );
            own.threshold = Some(rounded);
        }
        Ok(())
    }
}

/// Counts the magnitudes of the activations between the feed-forward layers, on the way to another backend.
#[derive(Debug)]
pub struct Magnitudes<B> {
    backend: B,
    /// By layer and by bits of the magnitude.
    counts: Vec<Vec<u64>>,
    gated: bool,
}

impl<B: GemvBackend> Magnitudes<B> {
    /// Nothing is counted yet.
    pub fn new(backend: B, layers: usize) -> Self {
        Self { backend, counts: vec![vec![0; 1 << 15]; layers], gated: false }
    }

    /// For each layer the least magnitude that at most this share of its activations exceeds. Fails without activations, and
    /// if more are NaN or infinite.
    pub fn thresholds(&self, share: f64) -> Result<Vec<f64>> {
        let of_layer = |(layer, counts): (usize, &Vec<u64>)| {
            let all: u64 = counts.iter().sum();
            ensure!(all > 0, "layer {layer}: expected activations, found none");
            let most = (share * all as f64) as u64;
            let mut rest = all;
            let least = counts.iter().position(|count| {
                rest -= count;
                rest <= most
            });
            let threshold = f16::from_bits(least.unwrap_or(0) as u16);
            match threshold.is_finite() {
                true => Ok(threshold.to_f64()),
                false => Err(refusal!("layer {layer}: more than {most} of {all} activations are not finite")),
            }
        };
        self.counts.iter().enumerate().map(of_layer).collect()
    }

    /// Share of the activations of each layer that are not zero, 0 to 1; 0 without activations.
    pub fn active(&self) -> Vec<f64> {
        let of_layer = |counts: &Vec<u64>| {
            let all = counts.iter().sum::<u64>().max(1) as f64;
            counts[1..].iter().sum::<u64>() as f64 / all
        };
        self.counts.iter().map(of_layer).collect()
    }
}

impl<B: GemvBackend> GemvBackend for Magnitudes<B> {
    fn gemv(&mut self, op: &GemvOp<'_>) -> Result<Vec<f16>> {
        self.backend.gemv(op)
    }

    fn linear(&mut self, op: &LinearOp<'_>) -> Result<Vec<f16>> {
        let product = op.product();
        let gate = match op.finish() {
            Finish::Gate { values, .. } => Some(values),
            _ => None,
        };
        // FC2 of a gated block has products with `up`, which are no activations.
        self.gated |= gate.is_some();
        let plain = (product.class() == GemvClass::Fc2 && !self.gated).then(|| product.activations());
        if let Some(values) = gate.or(plain) {
            let layer = product.label().split('.').nth(1).and_then(|layer| layer.parse::<usize>().ok());
            if let Some(counts) = layer.and_then(|layer| self.counts.get_mut(layer)) {
                values.iter().for_each(|value| counts[usize::from(value.to_bits() & 0x7FFF)] += 1);
            }
        }
        self.backend.linear(op)
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
