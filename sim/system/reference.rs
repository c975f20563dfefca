//! The expected results: from software, or, in a run without data, from the activity of a trace.

use super::online_predictor::layer_of;
use ndp_config::{BlockKind, LlmShape};
use ndp_files::{Result, refusal};
use ndp_model::{AttentionOp, GemvBackend, GemvClass, GemvOp, LinearOp, SoftwareBackend};
use ndp_numerics::{SerialSteps, f16};
use ndp_traces::{Activity, NeuronShape};

/// 1 in FP16: the value of an active neuron in a timing-only system.
const ONE: u16 = 0x3C00;

#[derive(Debug)]
pub(super) enum Reference {
    Software(SoftwareBackend),
    /// Outputs of FC1, and gated ones, are 1 where a neuron was active; everything else is 0.
    TimingOnly {
        shape: NeuronShape,
        /// Tokens of the current batch.
        tokens: Vec<Activity>,
    },
}

impl Reference {
    pub fn software() -> Self {
        Self::Software(SoftwareBackend::new())
    }

    /// Multiplies the same weight bits as hardware with this number of serial steps.
    pub fn with_serial_steps(serial_steps: u32) -> Result<Self> {
        let steps = SerialSteps::new(serial_steps).map_err(|_| {
            refusal!("serial_steps = {serial_steps} must be in 1..={}", SerialSteps::FULL.get())
        })?;
        Ok(Self::Software(SoftwareBackend::with_serial_steps(steps)))
    }

    pub fn timing_only(model: &LlmShape) -> Self {
        Self::TimingOnly { shape: NeuronShape::of(model), tokens: Vec::new() }
    }

    pub fn is_timing_only(&self) -> bool {
        matches!(self, Self::TimingOnly { .. })
    }

    pub fn trace(&mut self, next: Vec<Activity>) {
        if let Self::TimingOnly { tokens, .. } = self {
            *tokens = next;
        }
    }

    pub fn gemv(&mut self, op: &GemvOp<'_>) -> Result<Vec<f16>> {
        match self {
            Self::Software(software) => software.gemv(op),
            Self::TimingOnly { .. } => Ok(zeros(op.batch() * op.rows())),
        }
    }

    pub fn linear(&mut self, op: &LinearOp<'_>) -> Result<Vec<f16>> {
        let product = op.product();
        match self {
            Self::Software(software) => software.linear(op),
            Self::TimingOnly { shape, tokens }
                if matches!(product.class(), GemvClass::Fc1 | GemvClass::Up) =>
            {
                let block = BlockKind::Mlp.block(layer_of(product.label()).unwrap_or(0));
                Ok(active_ones(shape, tokens, block))
            }
            Self::TimingOnly { .. } => Ok(zeros(product.batch() * product.rows())),
        }
    }

    pub fn attend(&mut self, op: &AttentionOp<'_>) -> Result<Vec<f16>> {
        match self {
            Self::Software(software) => software.attend(op),
            Self::TimingOnly { .. } => Ok(zeros(op.queries().len())),
        }
    }
}

fn zeros(count: usize) -> Vec<f16> {
    vec![f16::from_bits(0); count]
}

/// `[tokens x neurons]`: 1 for active neurons.
pub(super) fn active_ones(shape: &NeuronShape, tokens: &[Activity], block: usize) -> Vec<f16> {
    let neurons = shape.blocks()[block].neurons as usize;
    let mut values = zeros(tokens.len() * neurons);
    for (values, token) in values.chunks_mut(neurons).zip(tokens) {
        for (values, bits) in values.chunks_mut(64).zip(token.block(shape, block)) {
            for (n, value) in values.iter_mut().enumerate() {
                *value = f16::from_bits(ONE * (bits >> n & 1) as u16);
            }
        }
    }
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_serial_steps_of_the_hardware_count() {
        let (w, x) = ([f16::from_bits(0x3FFF)], [f16::from_bits(0x3C00)]);
        let op = GemvOp::new("t", GemvClass::Fc1, (1, 1), &w, &x).unwrap();
        let result = |steps| Reference::with_serial_steps(steps).unwrap().gemv(&op).unwrap()[0].to_bits();
        assert_eq!((result(4), result(11)), (0x3F80, 0x3FFF));
        assert!(Reference::with_serial_steps(12).is_err());
    }
}
