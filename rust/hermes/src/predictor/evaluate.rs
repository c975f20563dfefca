//! Quality of predictions, counted by neuron and token.

use crate::predictor::lightweight::Predictor;
use crate::predictor::rules::{PredictorKind, PredictorRules};
use crate::predictor::same_length;
use crate::predictor::states::NeuronStates;
use crate::predictor::table::LayerTable;
use ndp_config::BlockKind;
use ndp_files::{Result, in_range};
use ndp_traces::{Activity, NeuronShape, ones};
use serde::Serialize;
use std::borrow::Borrow;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Confusion {
    pub true_positives: u64,
    /// Predicted, not active.
    pub false_positives: u64,
    /// Active, not predicted.
    pub false_negatives: u64,
    pub true_negatives: u64,
}

impl Confusion {
    /// Bits past the block's `neurons` have to be 0.
    pub fn count(&mut self, neurons: u32, predicted: &[u64], actual: &[u64]) {
        let ones = |f: fn(u64, u64) -> u64| -> u64 {
            predicted.iter().zip(actual).map(|(&p, &a)| u64::from(f(p, a).count_ones())).sum()
        };
        let (both, wrong, missed) = (ones(|p, a| p & a), ones(|p, a| p & !a), ones(|p, a| !p & a));
        *self += Self {
            true_positives: both,
            false_positives: wrong,
            false_negatives: missed,
            true_negatives: u64::from(neurons) - both - wrong - missed,
        };
    }

    pub fn total(&self) -> u64 {
        self.true_positives + self.false_positives + self.false_negatives + self.true_negatives
    }

    /// Share of right predictions; NaN without any.
    pub fn accuracy(&self) -> f64 {
        (self.true_positives + self.true_negatives) as f64 / self.total() as f64
    }

    /// Share of active neurons among those predicted; NaN if none was.
    pub fn precision(&self) -> f64 {
        self.true_positives as f64 / (self.true_positives + self.false_positives) as f64
    }

    /// Share of predicted neurons among the active ones; NaN if none was active.
    pub fn recall(&self) -> f64 {
        self.true_positives as f64 / (self.true_positives + self.false_negatives) as f64
    }
}

ndp_config::sums!(Confusion: true_positives, false_positives, false_negatives, true_negatives);

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evaluation {
    pub attention: Confusion,
    pub mlp: Confusion,
}

impl Evaluation {
    pub fn all(&self) -> Confusion {
        self.attention + self.mlp
    }

    /// Predicts, counts and observes tokens one by one; an error for activity of another shape.
    pub fn of(
        shape: &NeuronShape,
        predictor: &mut Predictor,
        tokens: impl Iterator<Item = impl Borrow<Activity>>,
    ) -> Result<Self> {
        let mut evaluation = Self::default();
        let mut predicted = vec![0; shape.widest().div_ceil(64) as usize];
        for token in tokens {
            let token = token.borrow();
            same_length("words of a token", token.words().len(), shape.words_per_token())?;
            for (number, block) in shape.blocks().iter().enumerate() {
                let actual = token.block(shape, number);
                let predicted = &mut predicted[..actual.len()];
                predictor.predict(number, predicted)?;
                predictor.observe(number, actual)?;
                let counts = match block.kind {
                    BlockKind::Attention => &mut evaluation.attention,
                    BlockKind::Mlp => &mut evaluation.mlp,
                };
                counts.count(block.neurons, predicted, actual);
            }
        }
        Ok(evaluation)
    }
}

/// Plays a sequence: the first `prefill` tokens set states by frequency and parents by the last of them; later ones are
/// predicted, counted and observed. Fails for a prefill of 0 or longer than the sequence, and if table or activity have
/// another shape.
pub fn evaluate(
    shape: &NeuronShape,
    table: &LayerTable,
    rules: PredictorRules,
    kind: PredictorKind,
    prefill: usize,
    tokens: impl Iterator<Item = Activity>,
) -> Result<Evaluation> {
    in_range("tokens of the prefill", prefill as u64, 1, u64::MAX)?;
    let mut tokens = tokens.enumerate();
    let mut counts = vec![0u32; 64 * shape.words_per_token()];
    let mut last = Activity::new(shape);
    for (number, token) in tokens.by_ref().take(prefill) {
        same_length("words of a token", token.words().len(), shape.words_per_token())?;
        ones(token.words()).for_each(|neuron| counts[neuron as usize] += 1);
        last = token;
        if number + 1 == prefill {
            break;
        }
    }
    let frequencies = (0..shape.blocks().len()).flat_map(|block| {
        let first = 64 * shape.words(block).start;
        let own = &counts[first..first + shape.blocks()[block].neurons as usize];
        own.iter().map(|&count| f64::from(count) / prefill as f64)
    });
    let states = NeuronStates::from_frequencies(shape, &frequencies.collect::<Vec<_>>())?;
    let mut predictor = Predictor::new(states, table, rules, kind)?;
    predictor.set_last(shape, &last)?;
    let mut seen = 0;
    let evaluation =
        Evaluation::of(shape, &mut predictor, tokens.map(|(_, token)| token).inspect(|_| seen += 1))?;
    in_range("tokens behind the prefill", seen, 1, u64::MAX)?;
    Ok(evaluation)
}
