//! The expected results: from software, or, in a run without data, from the activity of a trace.

use super::online_predictor::{expert_of, layer_of};
use ndp_config::{BlockKind, LlmShape};
use ndp_files::{Result, refusal};
use ndp_model::{AttentionOp, GemvBackend, GemvClass, GemvOp, LinearOp, SoftwareBackend};
use ndp_numerics::{SerialSteps, f16};
use ndp_traces::{Activity, NeuronShape};
use std::ops::Range;

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
                let width = product.rows() as u32;
                let first = expert_of(product.label()) * width;
                Ok(active_among(shape, tokens, block, first..first + width))
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
    active_among(shape, tokens, block, 0..shape.blocks()[block].neurons)
}

/// [`active_ones`] of an expert's neurons, for the tokens that use it: those with an active one.
fn active_among(shape: &NeuronShape, tokens: &[Activity], block: usize, neurons: Range<u32>) -> Vec<f16> {
    let is_expert = neurons.len() < shape.blocks()[block].neurons as usize;
    let mut values = Vec::with_capacity(tokens.len() * neurons.len());
    for bits in tokens.iter().map(|token| token.block(shape, block)) {
        if !is_expert || count_in(bits, neurons.clone()) > 0 {
            let bit = |n: u32| bits[n as usize / 64] >> (n % 64) & 1;
            values.extend(neurons.clone().map(|n| f16::from_bits(ONE * bit(n) as u16)));
        }
    }
    values
}

/// Number of neurons of a range, which is not empty, that are active.
pub(super) fn count_in(bits: &[u64], neurons: Range<u32>) -> u32 {
    let (first, last) = (neurons.start as usize / 64, (neurons.end as usize - 1) / 64);
    let all: u32 = bits[first..=last].iter().map(|word| word.count_ones()).sum();
    let before = bits[first] & !(u64::MAX << (neurons.start % 64));
    let after = bits[last] & !(u64::MAX >> (63 - (neurons.end - 1) % 64));
    all - before.count_ones() - after.count_ones()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neurons_of_an_expert_are_counted_and_set_for_the_tokens_that_use_it() {
        let shape = NeuronShape::new(1, 2, 150);
        let mut tokens = vec![Activity::new(&shape); 2];
        for n in [49usize, 50, 63, 64, 99, 100] {
            tokens[1].block_mut(&shape, 1)[n / 64] |= 1 << (n % 64);
        }
        let bits = tokens[1].block(&shape, 1);
        let of = |first: u32, last: u32| count_in(bits, first..last);
        assert_eq!(
            [of(0, 49), of(0, 50), of(50, 100), of(64, 128), of(101, 150), of(0, 150)],
            [0, 1, 4, 3, 0, 6]
        );
        let values = active_among(&shape, &tokens, 1, 50..100);
        let active: Vec<usize> = (0..values.len()).filter(|n| values[*n] == f16::ONE).collect();
        assert_eq!((values.len(), active), (50, vec![0, 13, 14, 49]), "only the second token uses it");
        assert_eq!(active_ones(&shape, &tokens, 1).len(), 300);
    }

    #[test]
    fn the_serial_steps_of_the_hardware_count() {
        let (w, x) = ([f16::from_bits(0x3FFF)], [f16::from_bits(0x3C00)]);
        let op = GemvOp::new("t", GemvClass::Fc1, (1, 1), &w, &x).unwrap();
        let result = |steps| Reference::with_serial_steps(steps).unwrap().gemv(&op).unwrap()[0].to_bits();
        assert_eq!((result(4), result(11)), (0x3F80, 0x3FFF));
        assert!(Reference::with_serial_steps(12).is_err());
    }
}
