//! Preparation of a run on several devices: the model's sizes, a machine for it, and the activity of another text.

use super::online_scheduler::{Known, OnlineScheduler, OnlineStart};
use ndp_config::{DesignConfig, LlmFamily, LlmShape, SystemConfig};
use ndp_files::{Context, Result, ensure, refusal};
use ndp_hermes::placement::Placement;
use ndp_hermes::predictor::PredictorRules;
use ndp_hermes::scheduler::{Policy, WINDOW_TOKENS};
use ndp_model::{Decoder, GemvBackend, GenerateOptions, Model, SoftwareBackend, generate_tokens};
use ndp_numerics::{f16, fp16};
use ndp_traces::capture::{Capture, shape_of};
use ndp_traces::{Activity, NeuronShape};
use serde::Serialize;

#[derive(Clone, Debug)]
pub struct Setup {
    /// In the form for placement and scheduler.
    pub shape: LlmShape,
    pub profile: Vec<Activity>,
    /// First placement; by default the offline method's for the profile.
    pub placement: Option<Placement>,
}

impl Setup {
    /// For a model whose neurons are all active.
    ///
    /// # Errors
    /// A model that is too large.
    pub fn dense(model: &Model) -> Result<Self> {
        let shape = llm_shape(model)?;
        let neurons = NeuronShape::of(&shape);
        let mut all = Activity::new(&neurons);
        (0..neurons.blocks().len()).for_each(|block| all.fill(&neurons, block));
        Ok(Self { shape, profile: vec![all], placement: None })
    }

    /// Generates another text in software and notes its activity: `text` continues the same prompt with its own seed
    /// and temperature, as far as the model has positions.
    ///
    /// # Errors
    /// A model that is too large or cannot be run.
    pub fn profile(model: &Model, prompt: &[u32], text: &GenerateOptions) -> Result<Self> {
        let mut profile = Vec::new();
        let mut observed = Capture::new(SoftwareBackend::new(), shape_of(&model.config), |activity| {
            profile.push(activity.clone());
            Ok(())
        });
        let room = model.config.max_position_embeddings().saturating_sub(prompt.len());
        let text = GenerateOptions { tokens: text.tokens.min(room), ..text.clone() };
        generate_tokens(model, &mut observed, prompt, &text, |_| {}).context("cannot profile the model")?;
        Ok(Self { shape: llm_shape(model)?, profile, placement: None })
    }

    pub fn online(
        &self,
        design: &DesignConfig,
        system: &SystemConfig,
        policy: Policy,
        (prompt_tokens, seed): (usize, u64),
    ) -> Result<OnlineScheduler> {
        OnlineScheduler::new(&OnlineStart {
            design,
            model: &self.shape,
            system,
            policy,
            known: &Known::of(&NeuronShape::of(&self.shape), &self.profile)?,
            placement: self.placement.as_ref(),
            prompt_tokens,
            seed,
            window: WINDOW_TOKENS,
            rules: PredictorRules::default(),
        })
    }
}

pub(super) fn llm_shape(model: &Model) -> Result<LlmShape> {
    let config = &model.config;
    let shape = LlmShape::opt_like(
        "model",
        config.num_hidden_layers() as u32,
        config.hidden_size() as u32,
        config.num_attention_heads() as u32,
        config.ffn_dim() as u32,
        config.vocab_size() as u32,
    )?
    .of_family(LlmFamily {
        kv_heads: config.num_key_value_heads() as u32,
        head_width: Some(config.head_width() as u32),
        gated: config.is_gated(),
        activation: config.activation(),
        biased: config.has_attention_bias(),
        tied_embeddings: config.has_tied_head(),
        rotary: config.rotary_base().is_some(),
    })?;
    let experts = [config.experts(), config.experts_per_token()].map(|count| count as u32);
    Ok(shape.of_experts(experts)?.with_weights(model.weights()))
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Perplexity {
    pub tokens: usize,
    /// `exp` of the tokens' mean negative log probability, from a softmax of the logits in double precision.
    pub per_token: f64,
    /// Tokens with the largest logit.
    pub right: usize,
}

/// Runs a given text token by token, and measures the probability of each token after the prompt.
///
/// # Errors
/// Errors of [`Decoder::prefill`]; a text no longer than the prompt.
pub fn perplexity<B: GemvBackend>(
    model: &Model,
    backend: &mut B,
    text: &[u8],
    prompt_tokens: usize,
) -> Result<Perplexity> {
    let tokens = model.vocabulary.tokens(text)?;
    let (prompt, rest) = tokens
        .split_at_checked(prompt_tokens)
        .ok_or_else(|| refusal!("the prompt is empty, at least one token is needed"))?;
    ensure!(!rest.is_empty(), "the prompt is empty, at least one token is needed");
    let mut decoder = Decoder::new(model);
    let mut logits = decoder.prefill(backend, prompt)?;
    let mut scores = Scores::default();
    for (index, &token) in rest.iter().enumerate() {
        if index > 0 {
            logits = decoder.step(backend, rest[index - 1])?;
        }
        scores.add(&logits, token);
    }
    Ok(scores.perplexity())
}

/// Probabilities of the tokens of a text that is cut into windows of `context` tokens. Each window is a text of its own,
/// so its first token has no probability. Calls `progress` with the tokens of each window.
///
/// # Errors
/// Errors of [`Decoder::prefill`]; a text or a window of fewer than two tokens.
pub fn perplexity_in_windows<B: GemvBackend>(
    model: &Model,
    backend: &mut B,
    (tokens, context): (&[u32], usize),
    mut progress: impl FnMut(usize),
) -> Result<Perplexity> {
    ensure!(context >= 2, "context = {context} must be at least 2 tokens");
    ensure!(tokens.len() >= 2, "the text has {} tokens, at least 2 are needed", tokens.len());
    let mut scores = Scores::default();
    for window in tokens.chunks(context).filter(|window| window.len() >= 2) {
        let logits = Decoder::new(model).prefill_all_logits(backend, &window[..window.len() - 1])?;
        let each = logits.chunks(model.config.vocab_size()).zip(&window[1..]);
        each.for_each(|(logits, token)| scores.add(logits, *token));
        progress(window.len());
    }
    Ok(scores.perplexity())
}

/// Sums over the tokens of a text.
#[derive(Default)]
struct Scores {
    tokens: usize,
    nats: f64,
    right: usize,
}

impl Scores {
    /// `logits` are those before the token.
    fn add(&mut self, logits: &[f16], token: u32) {
        let values: Vec<f64> = logits.iter().map(|l| value(*l)).collect();
        let largest = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = values.iter().map(|v| (v - largest).exp()).sum();
        self.tokens += 1;
        self.nats += sum.ln() + largest - values[token as usize];
        self.right += usize::from(values.iter().position(|v| *v == largest) == Some(token as usize));
    }

    fn perplexity(&self) -> Perplexity {
        let Self { tokens, nats, right } = *self;
        Perplexity { tokens, per_token: (nats / tokens as f64).exp(), right }
    }
}

fn value(x: f16) -> f64 {
    fp16::to_fixed(x).map_or(f64::NAN, |fixed| fixed as f64 / f64::from(1 << fp16::FIXED_LSB))
}
