//! Texts without data, from lengths and a model's sizes: the same clocks on the same host, for models of any size.
//!
//! Requests perform the decoder's operations in order ([`ndp_model::Decoder`]); all numbers are zeros.
//!
//! **One channel can stand for several** ([`Sizes::channels`]) equal ones. It has its part of each matrix, and heads:
//! of each request if K and V have as many heads as there are channels; with fewer, one head of every `every`-th
//! request, longest first. Arrays and vector units have the work of all. In this case nothing is offloaded.

use crate::host::backend::{GroupBackend, Homes};
use crate::host::batch::{Arrangement, prepare};
use crate::host::machine::Machine;
use crate::host::memory::CacheShape;
use crate::host::pins::Channel;
use crate::host::policy::Offloading;
use crate::host::session::{Generates, Session};
use crate::offloading::{Hardware, Model};
use ndp_config::HbmConfig;
use ndp_files::{Result, bail, failure};
use ndp_model::decoder::MAX_BATCH;
use ndp_model::{AttentionOp, AttentionSpan, Finish, GemvBackend, GemvClass, GemvOp, LayerCache, LinearOp};
use ndp_numerics::f16;

/// Sizes of a model, and of a channel's part.
#[derive(Clone, Debug)]
pub struct Sizes {
    model: Model,
    channels: u32,
    /// Heads of Q, and of K and V, in the simulated channels.
    heads: [usize; 2],
    /// Every how many requests one has a head there.
    every: usize,
    /// Layers whose matrices have their own places.
    placed: u32,
}

impl Sizes {
    /// A whole model on all channels.
    pub fn new(model: &Model) -> Self {
        let heads = [model.heads, model.kv_heads].map(|heads| heads as usize);
        Self { model: model.clone(), channels: 1, heads, every: 1, placed: model.layers }
    }

    /// The part of one channel. If it has no room for all weights (LibraPIM leaves capacity out), all layers share the
    /// first one's places. Fails unless the channels divide the heads of K and V, or these the channels.
    pub fn of_channel(model: &Model, config: &HbmConfig) -> Result<Self> {
        let (channels, &Model { heads, kv_heads, .. }) = (config.channels(), model);
        if !kv_heads.is_multiple_of(channels) && !channels.is_multiple_of(kv_heads) {
            let (what, found) = ("heads of K and V", kv_heads.to_string());
            let expected = "a multiple or a divisor of the channels that one stands for";
            bail!("the model's {what} = {found}: this host runs models with {expected}");
        }
        let own = (kv_heads / channels).max(1) as usize;
        let heads = [own * (heads / kv_heads) as usize, own];
        let every = (channels / kv_heads).max(1) as usize;
        let mut sizes = Self { model: model.clone(), channels, heads, every, placed: model.layers };
        let mut needed = 0;
        sizes.each(|_, (rows, cols)| {
            needed += (rows * cols.div_ceil(HbmConfig::LANES as usize)) as u64;
            Ok(())
        })?;
        let rows = config.weight_rows().min(config.rows() / 2);
        if needed > u64::from(rows * config.banks() * HbmConfig::COLUMNS) {
            sizes.placed = 1;
        }
        Ok(sizes)
    }

    /// Channels that each stands for.
    pub fn channels(&self) -> u32 {
        self.channels
    }

    /// Bytes of keys and values of a token, over all layers and channels.
    pub fn kv_bytes_per_token(&self) -> u64 {
        self.model.kv_bytes(1) * u64::from(self.model.layers)
    }

    /// Name, class and shape of a layer's matrices; outputs are a channel's if it stands for several.
    fn matrices(&self) -> Vec<(&'static str, GemvClass, (usize, usize))> {
        let Model { hidden, heads, kv_heads, head_width, ffn, ffn_matrices, .. } = self.model;
        let [queries, keys] = [heads, kv_heads].map(|heads| heads * head_width);
        let mut all = vec![
            ("q_proj", GemvClass::Qkv, (queries, hidden)),
            ("k_proj", GemvClass::Qkv, (keys, hidden)),
            ("v_proj", GemvClass::Qkv, (keys, hidden)),
            ("out_proj", GemvClass::Proj, (hidden, queries)),
            ("fc1", GemvClass::Fc1, (ffn, hidden)),
        ];
        all.extend((ffn_matrices == 3).then_some(("up", GemvClass::Up, (ffn, hidden))));
        all.push(("fc2", GemvClass::Fc2, (hidden, ffn)));
        all.into_iter().map(|(name, class, shape)| (name, class, self.in_channel(shape))).collect()
    }

    fn head(&self) -> (usize, usize) {
        self.in_channel((self.model.vocabulary, self.model.hidden))
    }

    fn in_channel(&self, (outputs, inputs): (u32, u32)) -> (usize, usize) {
        (outputs.div_ceil(self.channels) as usize, inputs as usize)
    }

    /// Calls `add` for each matrix, in the order of a text's model.
    fn each(&self, mut add: impl FnMut(&str, (usize, usize)) -> Result<()>) -> Result<()> {
        let matrices = self.matrices();
        for layer in 0..self.placed {
            for (name, _, shape) in &matrices {
                add(&format!("layers.{layer}.{name}"), *shape)?;
            }
        }
        add("lm_head", self.head())
    }

    /// Runs tokens of each sequence, and logits after each if `logits`.
    fn run(
        &self,
        backend: &mut GroupBackend<'_>,
        requests: &mut [(&mut TimingOnly<'_>, usize)],
        logits: bool,
    ) -> Result<()> {
        let zeros = |count: usize| vec![f16::ZERO; count];
        requests.iter_mut().for_each(|(request, tokens)| request.store(*tokens));
        let batch: usize = requests.iter().map(|(_, tokens)| tokens).sum();
        let matrices = self.matrices();
        for layer in 0..self.model.layers as usize {
            for &(name, class, (rows, inputs)) in &matrices {
                if name == "out_proj" {
                    self.attend(backend, requests, layer)?;
                }
                let label = format!("layers.{}.{name}", layer % self.placed as usize);
                let vectors = zeros(batch * inputs);
                let product = GemvOp::timing_only(&label, class, (rows, inputs), &vectors)?;
                backend.linear(&LinearOp::new(product, None, Finish::Plain)?)?;
            }
        }
        if logits {
            let inputs = zeros(requests.len() * self.model.hidden as usize);
            backend.gemv(&GemvOp::timing_only("lm_head", GemvClass::Head, self.head(), &inputs)?)?;
        }
        Ok(())
    }

    fn attend(
        &self,
        backend: &mut GroupBackend<'_>,
        requests: &[(&mut TimingOnly<'_>, usize)],
        layer: usize,
    ) -> Result<()> {
        let width = self.model.head_width as usize;
        let spans = requests.iter().step_by(self.every).map(|(request, tokens)| {
            let position = request.cache.positions() - tokens;
            AttentionSpan { sequence: request.number, position, tokens: *tokens, cache: &request.cache }
        });
        let spans: Vec<_> = spans.collect();
        if self.every > 1 {
            // The request's head may have been elsewhere before.
            let key = |span: &AttentionSpan<'_>| ((span.sequence, layer), Homes::written(span.position));
            backend.homes.extend(spans.iter().map(key));
        }
        let tokens: usize = spans.iter().map(|span| span.tokens).sum();
        let queries = vec![f16::ZERO; tokens * self.heads[0] * width];
        let op = AttentionOp::new(layer, (self.heads[0], width), usize::MAX, &queries, spans)?;
        let window = self.model.windows.get(layer).copied().flatten();
        backend.attend(&op.with_window(window.map(|window| window as usize))).map(drop)
    }
}

/// A request: its lengths, and its K and V.
pub struct TimingOnly<'a> {
    sizes: &'a Sizes,
    number: u32,
    known: usize,
    /// Zeros, the same for all layers.
    cache: LayerCache,
}

impl TimingOnly<'_> {
    fn store(&mut self, tokens: usize) {
        let row = vec![f16::ZERO; self.cache.heads() * self.cache.head_width()];
        (0..tokens).for_each(|_| self.cache.push(&row, &row));
    }
}

impl Generates for TimingOnly<'_> {
    fn number(&self) -> u32 {
        self.number
    }

    fn stored(&self) -> usize {
        self.cache.positions()
    }

    fn known(&self) -> usize {
        self.known
    }

    fn restart(&mut self) {
        self.cache.truncate(0);
    }

    fn prefill(&mut self, backend: &mut GroupBackend<'_>, tokens: usize, yields: bool) -> Result<()> {
        let sizes = self.sizes;
        for done in (0..tokens).step_by(MAX_BATCH) {
            let is_last = done + MAX_BATCH >= tokens;
            let batch = MAX_BATCH.min(tokens - done);
            sizes.run(backend, &mut [(&mut *self, batch)], is_last && yields)?;
        }
        self.known += usize::from(yields);
        Ok(())
    }

    fn step(backend: &mut GroupBackend<'_>, running: &mut [&mut Self]) -> Result<()> {
        let contexts: Vec<(u32, u32)> = running.iter().map(|one| (one.number, one.known as u32)).collect();
        backend.begin_step(&contexts)?;
        let Some(sizes) = running.first().map(|one| one.sizes) else { return Ok(()) };
        let mut requests: Vec<(&mut Self, usize)> = running.iter_mut().map(|one| (&mut **one, 1)).collect();
        sizes.run(backend, &mut requests, true)?;
        running.iter_mut().for_each(|one| one.known += 1);
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    pub prompt: usize,
    pub generate: usize,
    /// Whether the prompt is in K and V from the start, and the token after it known.
    pub is_prefilled: bool,
}

impl<'a> Session<TimingOnly<'a>> {
    /// Requests of these lengths. Weights are written like a text's, or exist from the start (`is_loaded`). Fails as
    /// [`Session::new`] does without prompts, and for offloading where a channel stands for several.
    pub fn timing_only(
        sizes: &'a Sizes,
        (config, hardware): (&HbmConfig, &Hardware),
        arrangement: &Arrangement,
        (requests, is_loaded): (&[Extent], bool),
        pins: Vec<Channel>,
    ) -> Result<Self> {
        if sizes.channels > 1 && arrangement.offloading != Offloading::None {
            let what = "a channel that stands for several has no part in offloading";
            return Err(failure!("a group stopped: {what}"));
        }
        let [_, heads] = sizes.heads;
        let positions = requests.iter().map(|of| of.prompt + of.generate).max().unwrap_or(1);
        let mut caches = CacheShape { heads, ..CacheShape::of(&sizes.model, requests.len(), positions) };
        if sizes.channels > 1 {
            // Rows are closed after a layer's attention; the next layer may reuse them.
            caches.layers = 1;
        }
        let load = |machine: &mut Machine| {
            machine.stand_for(sizes.channels);
            sizes.each(|label, shape| match is_loaded {
                true => machine.place(label, shape),
                false => machine.load(label, shape, &vec![f16::ZERO; shape.0 * shape.1]),
            })
        };
        let mut loaded = prepare(&sizes.model, (config, hardware), arrangement, caches, pins, load)?;
        loaded.plan.is_timing_only = true;
        let timed = |(number, of): (u32, &Extent)| {
            let mut timed = TimingOnly {
                sizes,
                number,
                known: of.prompt,
                cache: LayerCache::new(heads, sizes.model.head_width as usize),
            };
            if of.is_prefilled {
                timed.store(of.prompt);
                timed.known += 1;
            }
            timed
        };
        let timed: Vec<_> = (0..).zip(requests).map(timed).collect();
        let mut session = Self::of(arrangement.groups, loaded, timed.into_iter());
        for (number, of) in (0..).zip(requests).filter(|(_, of)| of.is_prefilled) {
            let written = Homes::written(of.prompt);
            session.homes.extend((0..sizes.model.layers as usize).map(|layer| ((number, layer), written)));
        }
        Ok(session)
    }
}
