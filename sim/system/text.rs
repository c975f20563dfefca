//! Texts given by the model's sizes and each token's activity, on a system without data.
//!
//! It requests the decoder's operations in the decoder's order, so the host does the same and everything takes the same
//! time. [`SystemBackend::timing_only`] computes nothing; inputs are 1 for active neurons and 0 elsewhere.

use super::backend::SystemBackend;
use super::causes::Breakdown;
use super::energy::{EnergyBreakdown, EnergyCosts, EnergyTally};
use super::neuron_map::NeuronMap;
use super::reference::{active_ones, count_in};
use ndp_config::{BlockKind, LlmShape};
use ndp_files::Result;
use ndp_model::decoder::MAX_BATCH;
use ndp_model::{AttentionOp, AttentionSpan, Finish, GemvBackend, GemvClass, GemvOp, LayerCache, LinearOp};
use ndp_numerics::{Decimal, SoftCap, f16};
use ndp_traces::{Activity, NeuronShape};
use std::sync::Arc;

pub struct TracedText<P> {
    system: SystemBackend<P>,
    model: LlmShape,
    shape: NeuronShape,
    /// Caches by text and layer.
    caches: Vec<Vec<LayerCache>>,
    positions: usize,
    breakdown: Option<Breakdown>,
    costs: Option<EnergyCosts>,
    energy: EnergyTally,
}

impl<P: NeuronMap> TracedText<P> {
    /// `positions` of each of `texts`, the prompt included.
    pub fn new(mut system: SystemBackend<P>, model: &LlmShape, (positions, texts): (usize, usize)) -> Self {
        let (heads, width) = (model.kv_heads() as usize, model.head_width() as usize);
        let blank: Arc<[f16]> = zeros(positions * width).into();
        let cache = LayerCache::blank(heads, width, &blank);
        system.blank = Some(blank);
        Self {
            system,
            shape: NeuronShape::of(model),
            caches: vec![vec![cache; model.layers() as usize]; texts],
            model: model.clone(),
            positions,
            breakdown: None,
            costs: None,
            energy: EnergyTally::default(),
        }
    }

    #[must_use]
    pub fn with_energy(self, costs: EnergyCosts) -> Self {
        Self { costs: Some(costs), ..self }
    }

    pub fn system(&self) -> &SystemBackend<P> {
        &self.system
    }

    pub fn system_mut(&mut self) -> &mut SystemBackend<P> {
        &mut self.system
    }

    /// Times of the tokens after the prompt.
    pub fn breakdown(&self) -> Option<&Breakdown> {
        self.breakdown.as_ref()
    }

    /// Energy of the tokens after the prompt; `None` without [`TracedText::with_energy`].
    pub fn energy(&self) -> Option<EnergyBreakdown> {
        self.costs.as_ref().map(|costs| self.energy.breakdown(costs))
    }

    /// Adds positions of each prompt before the traced ones; without traced tokens the prompt consists of these. Call it before [`Self::prompt`].
    pub fn precede(&mut self, positions: usize) {
        for cache in self.caches.iter_mut().flatten() {
            (0..positions).for_each(|_| cache.push(&[], &[]));
        }
        self.system.precede(positions * self.caches.len());
    }

    /// Runs the prompt of a text, and the logits of its last token.
    ///
    /// # Errors
    /// Errors of [`SystemBackend`]'s operations.
    pub fn prompt(&mut self, text: usize, tokens: &[Activity]) -> Result<()> {
        for batch in tokens.chunks(MAX_BATCH) {
            self.layers(&[(text, batch.len())], batch)?;
        }
        self.head(1)?;
        self.system.take_events();
        Ok(())
    }

    /// Runs one token of each text.
    ///
    /// # Errors
    /// Errors of [`SystemBackend`]'s operations.
    pub fn token(&mut self, tokens: &[Activity]) -> Result<()> {
        let before = self.system.figures().generated().2 + self.system.figures().prompt_ns;
        let each: Vec<_> = (0..tokens.len()).map(|text| (text, 1)).collect();
        self.layers(&each, tokens)?;
        self.head(tokens.len())?;
        let figures = self.system.figures();
        let (now, dimms) = (figures.generated().2 + figures.prompt_ns, figures.dimms.len() as u32);
        let events = self.system.take_events();
        let own = Breakdown::of_tokens(dimms, (1, before, now), &events);
        match &mut self.breakdown {
            None => self.breakdown = Some(Breakdown { path: Vec::new(), ..own }),
            Some(all) => all.add(&own),
        }
        if let Some(costs) = &self.costs {
            self.energy.add(costs, (1, before, now), &events);
        }
        Ok(())
    }

    /// Passes over a token of each text, which takes no time: [`SystemBackend`] is then as if they had been computed.
    ///
    /// # Errors
    /// Errors of the predictor.
    pub fn skip(&mut self, tokens: &[Activity]) -> Result<()> {
        self.caches.iter_mut().flatten().for_each(|cache| cache.push(&[], &[]));
        let positions: Vec<_> = (0..self.caches.len()).map(|text| self.held(text)).collect();
        self.system.skip(tokens, &positions)
    }

    fn head(&mut self, batch: usize) -> Result<()> {
        let (rows, hidden) = (self.model.vocabulary() as usize, self.model.hidden() as usize);
        let inputs = zeros(batch * hidden);
        let op = GemvOp::timing_only("lm_head", GemvClass::Head, (rows, hidden), &inputs)?;
        self.system.gemv(&op).map(drop)
    }

    /// Runs the layers for tokens that are computed together: of each text named by `of`, that number of them.
    fn layers(&mut self, of: &[(usize, usize)], tokens: &[Activity]) -> Result<()> {
        let hidden = self.model.hidden() as usize;
        let (query, kv) = (self.model.query_width() as usize, self.model.kv_width() as usize);
        let batch = tokens.len();
        let positions: Vec<usize> = of.iter().map(|(text, _)| self.held(*text)).collect();
        self.system.trace(tokens.to_vec());
        // Residuals take time whatever they are.
        let residual = zeros(batch * hidden);
        for layer in 0..self.model.layers() {
            let block = BlockKind::Attention.block(layer);
            let inputs = active_ones(&self.shape, tokens, block);
            let scale = Finish::Scale(f16::from_bits(0));
            for (name, rows, finish) in
                [("q_proj", query, scale), ("k_proj", kv, Finish::Plain), ("v_proj", kv, Finish::Plain)]
            {
                self.linear((layer, name, GemvClass::Qkv), (rows, hidden), &inputs, finish)?;
            }
            for &(text, tokens) in of {
                (0..tokens).for_each(|_| self.caches[text][layer as usize].push(&[], &[]));
            }
            self.attend(layer, of, &positions)?;
            let out = Finish::Residual(&residual);
            let context = vec![f16::ONE; batch * query];
            self.linear((layer, "out_proj", GemvClass::Proj), (hidden, query), &context, out)?;
            for expert in 0..self.model.experts() {
                self.expert(layer, expert, tokens, &residual)?;
            }
        }
        Ok(())
    }

    /// The MLP, or an expert, for the tokens that use it. The host adds up the experts.
    fn expert(&mut self, layer: u32, expert: u32, tokens: &[Activity], residual: &[f16]) -> Result<()> {
        let (hidden, width) = (self.model.hidden() as usize, self.model.ffn());
        let is_mixture = self.model.is_mixture();
        let active = |token: &Activity| {
            let bits = token.block(&self.shape, BlockKind::Mlp.block(layer));
            count_in(bits, expert * width..(expert + 1) * width)
        };
        let users = tokens.iter().filter(|token| !is_mixture || active(token) > 0).count();
        if users == 0 {
            return Ok(());
        }
        let name = |part: &str| if is_mixture { format!("experts.{expert}.{part}") } else { part.to_owned() };
        let (inner, all) = ((width as usize, hidden), vec![f16::ONE; users * hidden]);
        let activation = self.model.activation();
        let finish = Finish::Activate(activation);
        let mut active = self.linear((layer, &name("fc1"), GemvClass::Fc1), inner, &all, finish)?;
        if self.model.mlp_matrices() == 3 {
            let gate = Finish::Gate { values: &active, shuts: !self.model.is_dense() };
            active = self.linear((layer, &name("up"), GemvClass::Up), inner, &all, gate)?;
        }
        let out = if is_mixture { Finish::Plain } else { Finish::Residual(residual) };
        self.linear((layer, &name("fc2"), GemvClass::Fc2), (hidden, width as usize), &active, out).map(drop)
    }

    fn linear(
        &mut self,
        (layer, name, class): (u32, &str, GemvClass),
        shape: (usize, usize),
        inputs: &[f16],
        finish: Finish<'_>,
    ) -> Result<Vec<f16>> {
        let label = format!("layers.{layer}.{name}");
        let product = GemvOp::timing_only(&label, class, shape, inputs)?;
        // No model has a bias in up_proj.
        let bias = (self.model.is_biased() && class != GemvClass::Up).then(|| zeros(shape.0));
        self.system.linear(&LinearOp::new(product, bias.as_deref(), finish)?)
    }

    /// Positions of a text.
    fn held(&self, text: usize) -> usize {
        self.caches[text].first().map_or(0, LayerCache::positions)
    }

    fn attend(&mut self, layer: u32, of: &[(usize, usize)], positions: &[usize]) -> Result<()> {
        let tokens: usize = of.iter().map(|(_, tokens)| tokens).sum();
        let queries = zeros(tokens * self.model.query_width() as usize);
        let span = |(&(text, tokens), &position): (&(usize, usize), &usize)| {
            let cache = &self.caches[text][layer as usize];
            AttentionSpan { sequence: text as u32, position, tokens, cache }
        };
        let spans = of.iter().zip(positions).map(span).collect();
        let heads = (self.model.heads() as usize, self.model.head_width() as usize);
        let op = AttentionOp::new(layer as usize, heads, self.positions, &queries, spans)?;
        let window = self.model.window(layer).map(|window| window as usize);
        // Any cap takes the same time.
        let cap = if self.model.has_capped_scores() { SoftCap::new(Decimal::whole(1)) } else { None };
        self.system.attend(&op.with_window(window).with_score_cap(cap)).map(drop)
    }
}

fn zeros(count: usize) -> Vec<f16> {
    vec![f16::from_bits(0); count]
}
