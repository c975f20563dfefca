//! The live predictor: it decides which neurons of a token are computed before their activity is known.
//!
//! During the prompt activity is counted; then the predictor ([`ndp_hermes::predictor`]) begins with states from these
//! counts. Afterwards only predicted neurons take part; others count as inactive, and the text may change. The
//! predictor learns from the data that the machine has ([`Knowledge`]): all inputs of attention blocks, and computed
//! neurons of the MLP. Its figures compare it with the neurons that would have been active given the same inputs.
//!
//! A low-rank predictor ([`LowRank`]) replaces Hermes' where a model has one. It reads the input of the MLP and does
//! not predict attention, whose active inputs are known. With [`Exact`] nothing is left out.

use ndp_config::BlockKind;
use ndp_files::{Result, fault};
use ndp_hermes::predictor::{
    ActivityPredictor, Confusion, Evaluation, Exact, LayerTable, LowRank, NeuronStates, Predictor,
    PredictorKind, PredictorRules,
};
use ndp_model::{GemvBackend, GemvClass, GemvOp, LinearOp, SoftwareBackend};
use ndp_numerics::{f16, fp16};
use ndp_traces::{Activity, NeuronShape, Profile};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Knowledge {
    /// The machine's own data: MLP neurons that were not computed count as inactive.
    #[default]
    Computed,
    /// For comparison: activity as if all neurons were computed.
    Everything,
}

#[derive(Clone, Debug)]
enum Source {
    /// Hermes' states and parents; states are counted in the prompt.
    Hermes(LayerTable),
    /// A low-rank predictor: two small products of the MLP's input.
    LowRank(LowRank),
    Exact,
}

/// Share of the MLP's activations that was left out.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Missed {
    /// Sum of the activations of active neurons that were not predicted.
    pub missed: f64,
    pub all: f64,
}

impl Missed {
    /// Share of the sum; NaN if nothing was active.
    pub fn share(&self) -> f64 {
        self.missed / self.all
    }
}

#[derive(Clone, Debug)]
pub struct OnlinePredictor {
    shape: NeuronShape,
    source: Source,
    rules: PredictorRules,
    knowledge: Knowledge,
    prompt_tokens: usize,
    counts: Profile,
    /// Activity of each token of the prompt's batch.
    batch: Vec<Activity>,
    last: Activity,
    predictor: Option<Box<dyn ActivityPredictor>>,
    evaluation: Evaluation,
    tokens: Vec<Confusion>,
    blocks: Vec<Confusion>,
    missed: Missed,
}

impl OnlinePredictor {
    /// Parents come from the activity of other texts.
    pub fn new(shape: &NeuronShape, profile: &[Activity], prompt_tokens: usize) -> Result<Self> {
        let table = LayerTable::sample(shape, profile.iter().cloned())?;
        Ok(Self::of_table(shape, table, prompt_tokens))
    }

    pub fn of_table(shape: &NeuronShape, table: LayerTable, prompt_tokens: usize) -> Self {
        Self::of_source(shape, Source::Hermes(table), prompt_tokens)
    }

    pub fn of_low_rank(shape: &NeuronShape, low_rank: LowRank, prompt_tokens: usize) -> Self {
        Self::of_source(shape, Source::LowRank(low_rank), prompt_tokens)
    }

    /// A predictor that is always right: all active neurons take part.
    pub fn exact(shape: &NeuronShape, prompt_tokens: usize) -> Self {
        Self::of_source(shape, Source::Exact, prompt_tokens)
    }

    fn of_source(shape: &NeuronShape, source: Source, prompt_tokens: usize) -> Self {
        Self {
            source,
            rules: PredictorRules::default(),
            knowledge: Knowledge::default(),
            prompt_tokens,
            counts: Profile::new(shape),
            batch: Vec::new(),
            last: Activity::new(shape),
            predictor: None,
            evaluation: Evaluation::default(),
            tokens: Vec::new(),
            blocks: vec![Confusion::default(); shape.blocks().len()],
            missed: Missed::default(),
            shape: shape.clone(),
        }
    }

    /// Given low-rank predictors: devices predict the neurons that they hold.
    pub fn low_rank(&self) -> Option<&LowRank> {
        if let Source::LowRank(low_rank) = &self.source { Some(low_rank) } else { None }
    }

    #[must_use]
    pub fn with_knowledge(self, knowledge: Knowledge) -> Self {
        Self { knowledge, ..self }
    }

    pub fn evaluation(&self) -> &Evaluation {
        &self.evaluation
    }

    /// Results by token, for both kinds of blocks together.
    pub fn tokens(&self) -> &[Confusion] {
        &self.tokens
    }

    /// Results by block, in the order of [`NeuronShape::blocks`].
    pub fn blocks(&self) -> &[Confusion] {
        &self.blocks
    }

    pub fn missed(&self) -> Missed {
        self.missed
    }

    fn block(&self, layer: u32, kind: BlockKind) -> Option<usize> {
        self.shape.blocks().iter().position(|block| block.layer == layer && block.kind == kind)
    }

    /// Neurons of a block to compute for the next token, as bits. `None` without a prediction: all in the prompt, later
    /// the active ones, if known.
    ///
    /// # Errors
    /// An MLP with low-rank predictors, which need [`OnlinePredictor::predict_from`].
    pub fn predict(&self, layer: u32, kind: BlockKind) -> Result<Option<Vec<u64>>> {
        self.predicted(layer, kind, None)
    }

    /// Like [`Self::predict`], with the input vector of the block's first matrix.
    ///
    /// # Errors
    /// A vector of the wrong length for a low-rank predictor.
    pub fn predict_from(&self, layer: u32, kind: BlockKind, input: &[f16]) -> Result<Option<Vec<u64>>> {
        self.predicted(layer, kind, Some(input))
    }

    fn predicted(&self, layer: u32, kind: BlockKind, input: Option<&[f16]>) -> Result<Option<Vec<u64>>> {
        let (Some(predictor), Some(block)) = (&self.predictor, self.block(layer, kind)) else {
            return Ok(None);
        };
        let mut bits = vec![0; self.shape.words(block).len()];
        Ok(predictor.predict(block, input, &mut bits)?.then_some(bits))
    }

    /// Takes a block's outputs, `[batch x neurons]`, and the result of [`OnlinePredictor::predict`]; of the MLP only
    /// predicted neurons are known.
    pub fn observe(
        &mut self,
        layer: u32,
        kind: BlockKind,
        values: &[f16],
        predicted: Option<&[u64]>,
    ) -> Result<()> {
        let Some(block) = self.block(layer, kind) else { return Ok(()) };
        let neurons = self.shape.blocks()[block].neurons;
        for (index, values) in values.chunks(neurons as usize).enumerate() {
            let active = bits_of(values);
            match &mut self.predictor {
                Some(predictor) => {
                    let known: Vec<u64> = match (kind, self.knowledge, predicted) {
                        (BlockKind::Mlp, Knowledge::Computed, Some(predicted)) => {
                            active.iter().zip(predicted).map(|(a, p)| a & p).collect()
                        }
                        _ => active.clone(),
                    };
                    predictor.observe(block, &known)?;
                    if block == 0 {
                        self.tokens.push(Confusion::default());
                    }
                    if let Some(predicted) = predicted {
                        self.count(block, values, predicted, &active);
                    }
                }
                None => {
                    if block == 0 && index == 0 {
                        self.batch.clear();
                    }
                    if block == 0 {
                        self.batch.push(Activity::new(&self.shape));
                    }
                    if let Some(activity) = self.batch.get_mut(index) {
                        activity.block_mut(&self.shape, block).copy_from_slice(&active);
                    }
                }
            }
        }
        if self.predictor.is_none() && block + 1 == self.shape.blocks().len() {
            self.end_batch()?;
        }
        Ok(())
    }

    pub(super) fn attention(&mut self, layer: u32, inputs: &[f16]) -> Result<Option<Vec<u64>>> {
        let predicted = self.predict(layer, BlockKind::Attention)?;
        self.observe(layer, BlockKind::Attention, inputs, predicted.as_deref())?;
        Ok(predicted)
    }

    pub(super) fn mlp(&mut self, layer: u32, inputs: &[f16], outputs: &[f16]) -> Result<Option<Vec<u64>>> {
        let predicted = self.predict_from(layer, BlockKind::Mlp, inputs)?;
        self.observe(layer, BlockKind::Mlp, outputs, predicted.as_deref())?;
        Ok(predicted)
    }

    fn count(&mut self, block: usize, values: &[f16], predicted: &[u64], active: &[u64]) {
        let mut found = Confusion::default();
        found.count(values.len() as u32, predicted, active);
        let counts = match self.shape.blocks()[block].kind {
            BlockKind::Attention => &mut self.evaluation.attention,
            BlockKind::Mlp => {
                for (neuron, &value) in values.iter().enumerate() {
                    let value = fp16::to_fixed(value).unwrap_or_default() as f64;
                    self.missed.all += value;
                    if predicted[neuron / 64] >> (neuron % 64) & 1 == 0 {
                        self.missed.missed += value;
                    }
                }
                &mut self.evaluation.mlp
            }
        };
        *counts += found;
        self.blocks[block] += found;
        if let Some(token) = self.tokens.last_mut() {
            *token += found;
        }
    }

    /// Ends a batch of the prompt; after the last one the predictor begins.
    fn end_batch(&mut self) -> Result<()> {
        for activity in self.batch.drain(..) {
            self.counts.add(&activity);
            self.last = activity;
        }
        if (self.counts.tokens() as usize) < self.prompt_tokens {
            return Ok(());
        }
        self.predictor = Some(match &self.source {
            Source::Hermes(table) => Box::new(self.hermes(table)?),
            Source::LowRank(low_rank) => low_rank.boxed(),
            Source::Exact => Exact.boxed(),
        });
        Ok(())
    }

    /// Hermes' predictor with the prompt's states.
    fn hermes(&self, table: &LayerTable) -> Result<Predictor> {
        let states = states_of(&self.shape, &self.counts)?;
        let mut predictor = Predictor::new(states, table, self.rules, PredictorKind::Both)?;
        for block in 0..self.shape.blocks().len() {
            predictor.set_activity(block, self.last.block(&self.shape, block))?;
        }
        Ok(predictor)
    }
}

pub(super) fn states_of(shape: &NeuronShape, counted: &Profile) -> Result<NeuronStates> {
    let counts = (0..shape.blocks().len()).flat_map(|block| counted.counts(block));
    let frequencies: Vec<f64> = counts.map(|&count| f64::from(count) / f64::from(counted.tokens())).collect();
    NeuronStates::from_frequencies(shape, &frequencies)
}

/// A bit for each value that is not zero.
fn bits_of(values: &[f16]) -> Vec<u64> {
    let mut bits = vec![0; values.len().div_ceil(64)];
    for (neuron, &value) in values.iter().enumerate() {
        bits[neuron / 64] |= u64::from(!fp16::is_zero(value)) << (neuron % 64);
    }
    bits
}

/// `[batch x neurons]`, with +0 where the bit is not set.
pub(super) fn masked(values: &[f16], neurons: usize, bits: &[u64]) -> Vec<f16> {
    let keep = |(index, &value): (usize, &f16)| {
        let neuron = index % neurons;
        if bits[neuron / 64] >> (neuron % 64) & 1 == 1 { value } else { f16::from_bits(0) }
    };
    values.iter().enumerate().map(keep).collect()
}

/// The decoder in software with a live predictor: the exact reference for a system with that predictor.
#[derive(Debug)]
pub struct PredictedSoftware {
    software: SoftwareBackend,
    live: OnlinePredictor,
    /// Prediction for the attention block.
    predicted: Option<Vec<u64>>,
}

impl PredictedSoftware {
    pub fn new(live: OnlinePredictor) -> Self {
        Self { software: SoftwareBackend::new(), live, predicted: None }
    }

    pub fn live(&self) -> &OnlinePredictor {
        &self.live
    }
}

impl GemvBackend for PredictedSoftware {
    fn gemv(&mut self, op: &GemvOp<'_>) -> Result<Vec<f16>> {
        self.software.gemv(op)
    }

    fn linear(&mut self, op: &LinearOp<'_>) -> Result<Vec<f16>> {
        let product = op.product();
        let layer = layer_of(product.label()).unwrap_or(0);
        match product.class() {
            GemvClass::Qkv => {
                if product.label().ends_with(".q_proj") {
                    self.predicted = self.live.attention(layer, product.activations())?;
                }
                let Some(bits) = &self.predicted else { return self.software.linear(op) };
                let inputs = masked(product.activations(), product.cols(), bits);
                let product = product.with_activations(&inputs)?;
                self.software.linear(&LinearOp::new(product, op.bias(), op.finish())?)
            }
            GemvClass::Fc1 => {
                let result = self.software.linear(op)?;
                let predicted = self.live.mlp(layer, product.activations(), &result)?;
                Ok(predicted.map_or(result.clone(), |bits| masked(&result, product.rows(), &bits)))
            }
            _ => self.software.linear(op),
        }
    }

    fn attend(&mut self, op: &ndp_model::AttentionOp<'_>) -> Result<Vec<f16>> {
        self.software.attend(op)
    }
}

/// The layer of a label such as `layers.2.fc1`.
/// Number of the expert that a label names; 0 if it names none.
pub(super) fn expert_of(label: &str) -> u32 {
    let mut parts = label.split('.').skip_while(|part| *part != "experts");
    parts.nth(1).and_then(|number| number.parse().ok()).unwrap_or(0)
}

pub(super) fn layer_of(label: &str) -> Result<u32> {
    let number = label.strip_prefix("layers.").and_then(|rest| rest.split('.').next()?.parse().ok());
    number.ok_or_else(|| fault!("cycle 0: '{label}' names no layer"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndp_hermes::predictor::evaluate;
    use ndp_numerics::SplitMix64;

    /// Random activity in which neighbouring tokens are alike.
    fn tokens(shape: &NeuronShape, count: usize, seed: u64) -> Vec<Activity> {
        let mut random = SplitMix64::new(seed);
        let mut now = Activity::new(shape);
        let next = |_| {
            for block in 0..shape.blocks().len() {
                for neuron in 0..shape.blocks()[block].neurons as usize {
                    let (draw, often) = (random.next_u64() % 100, if neuron % 5 == 0 { 90 } else { 10 });
                    if draw < 30 {
                        let word = &mut now.block_mut(shape, block)[neuron / 64];
                        *word &= !(1 << (neuron % 64));
                        *word |= u64::from(random.next_u64() % 100 < often) << (neuron % 64);
                    }
                }
            }
            now.clone()
        };
        (0..count).map(next).collect()
    }

    fn values(shape: &NeuronShape, activity: &Activity, block: usize) -> Vec<f16> {
        let bits = activity.block(shape, block);
        let value = |n: usize| f16::from_bits(0x3C00 * (bits[n / 64] >> (n % 64) & 1) as u16);
        (0..shape.blocks()[block].neurons as usize).map(value).collect()
    }

    #[test]
    fn told_everything_it_predicts_what_the_offline_evaluation_does() {
        let shape = NeuronShape::new(3, 70, 130);
        let (profile, text) = (tokens(&shape, 90, 1), tokens(&shape, 60, 2));
        let prompt = 20;
        let live = OnlinePredictor::new(&shape, &profile, prompt).unwrap();
        let run = |mut live: OnlinePredictor, batch: usize| {
            for chunk in text[..prompt].chunks(batch).chain(text[prompt..].chunks(1)) {
                for (number, block) in shape.blocks().iter().enumerate() {
                    let predicted = live.predict(block.layer, block.kind).unwrap();
                    let values: Vec<f16> =
                        chunk.iter().flat_map(|token| values(&shape, token, number)).collect();
                    live.observe(block.layer, block.kind, &values, predicted.as_deref()).unwrap();
                }
            }
            (*live.evaluation(), live.tokens().to_vec())
        };
        let (found, of_tokens) = run(live.clone().with_knowledge(Knowledge::Everything), 7);
        let table = LayerTable::sample(&shape, profile.iter().cloned()).unwrap();
        let rules = PredictorRules::default();
        let expected =
            evaluate(&shape, &table, rules, PredictorKind::Both, prompt, text.iter().cloned()).unwrap();
        assert_eq!(found, expected);
        assert!(found.mlp.true_positives > 100 && found.mlp.false_negatives > 100, "{found:?}");
        let sum = of_tokens.iter().fold(Confusion::default(), |sum, token| sum + *token);
        assert_eq!((of_tokens.len(), sum), (text.len() - prompt, found.all()));
        // Batches of the prompt do not matter; the predictor's knowledge does.
        assert_eq!(run(live.clone().with_knowledge(Knowledge::Everything), prompt).0, found);
        let (known, _) = run(live, 7);
        assert!(known.mlp.recall() < found.mlp.recall(), "{known:?} {found:?}");
    }

    #[test]
    fn what_is_not_predicted_becomes_zero() {
        let x = f16::from_bits(0x4200);
        let kept: Vec<u16> = masked(&[x; 6], 3, &[0b101]).iter().map(|value| value.to_bits()).collect();
        assert_eq!(kept, [0x4200, 0, 0x4200, 0x4200, 0, 0x4200]);
    }
}
