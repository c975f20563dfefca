//! How good predictions are: each neuron and token counted by what was predicted and what was.

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

/// Counts of predictions.
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
    /// Counts the predictions for a block of so many neurons. Bits behind them have to be 0.
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

    /// All predictions.
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

/// Counts for each kind of block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Evaluation {
    /// Blocks in front of attention.
    pub attention: Confusion,
    /// Blocks of the MLP.
    pub mlp: Confusion,
}

impl Evaluation {
    /// Both kinds together.
    pub fn all(&self) -> Confusion {
        self.attention + self.mlp
    }

    /// Predicts, counts and observes tokens one after the other.
    ///
    /// # Errors
    /// Activity that does not fit the shape.
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

/// Plays a sequence of tokens: the first `prefill` ones set the states by how often each neuron is active and the parents by the
/// last of them; each later one is predicted, counted and observed.
///
/// # Errors
/// A prefill of 0 or one longer than the sequence, a table of another shape, activity that does not fit the shape.
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
