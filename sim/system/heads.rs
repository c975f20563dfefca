//! Attention: each core has some of the heads, with their keys and values.

use super::backend::{SystemBackend, cache};
use super::event_log::Way;
use super::links::{Message, Round};
use super::neuron_map::NeuronMap;
use super::pool::{alike, together};
use super::resource::Resource;
use crate::gemv::{GemvUnit, Rows, columns_of, heads_at};
use ndp_config::{BEAT_ELEMS, BlockKind};
use ndp_files::Result;
use ndp_isa::layout::RowRange;
use ndp_isa::planner::WeightMatrix;
use ndp_model::{AttentionOp, AttentionSpan, LayerCache};
use ndp_numerics::f16;
use std::collections::BTreeMap;
use std::ops::Range;

/// A core's heads: columns of the queries, and when they can start.
struct Share {
    core: usize,
    start: u64,
    columns: Range<usize>,
    /// Columns of keys and values.
    of_keys: Range<usize>,
    queries: Vec<f16>,
}

impl<P: NeuronMap> SystemBackend<P> {
    /// Heads of a core, as even as whole heads can be.
    pub(super) fn heads(&self, core: usize) -> Range<usize> {
        let (heads, cores) = (self.shape.kv_heads() as usize, self.cores.len());
        heads * core / cores..heads * (core + 1) / cores
    }

    /// Columns of Q, K or V for the heads of a core.
    pub(super) fn head_columns(&self, matrix: WeightMatrix, core: usize) -> Range<usize> {
        let sharing = if matrix == WeightMatrix::Q { self.shape.heads() / self.shape.kv_heads() } else { 1 };
        let (heads, width) = (self.heads(core), (sharing * self.shape.head_width()) as usize);
        heads.start * width..heads.end * width
    }

    /// Those of Q, K and V that met on one core instead of where their heads are, and that core.
    fn gathered(&self) -> Option<(usize, Vec<WeightMatrix>)> {
        let from = self.met_at.iter().flatten().next()?;
        let met = WeightMatrix::of(BlockKind::Attention, &self.shape).iter().zip(self.met_at);
        Some((*from, met.filter(|(_, at)| *at == Some(*from)).map(|(matrix, _)| *matrix).collect()))
    }

    /// Updates a core's copy of its keys and values. Returns the bytes of missing positions before this batch, which
    /// come from a prompt on the GPU.
    fn update_cache(&mut self, op: &AttentionOp<'_>, (core, heads): (usize, &Range<usize>)) -> u64 {
        let mut handed = 0;
        for span in op.spans() {
            let key = (span.sequence, op.layer(), core);
            let own = cache(&mut self.caches, self.blank.as_ref(), key, (heads.len(), op.head_width()));
            own.truncate(span.position);
            handed += (span.position - own.positions()) * heads.len() * op.head_width() * 4;
            for row in own.positions()..span.position + span.tokens {
                let of = |rows: Rows| heads_at(span.cache, heads.clone(), row, rows);
                own.push(&of(LayerCache::keys), &of(LayerCache::values));
            }
        }
        handed as u64
    }

    /// Whether Q, K and V stay in DRAM and go over links to the cores that attend: for a single token whose heads take
    /// whole beats and have keys of their own. Otherwise the host moves them, as it does with Q and K that it rotates.
    pub(super) fn keeps_qkv(&self, tokens: usize) -> bool {
        let shares = self.shape.heads() > self.shape.kv_heads();
        self.links.is_some() && self.divides_heads(tokens) && !self.shape.is_rotary() && !shares
    }

    /// Whether Q, K and V of a batch can meet head by head.
    pub(super) fn divides_heads(&self, tokens: usize) -> bool {
        tokens == 1 && self.shape.head_width().is_multiple_of(BEAT_ELEMS)
    }

    /// Sends Q, K and V of a token from the core where they met to the same places on the cores of their heads. Returns
    /// the round of each core.
    fn send_qkv(&mut self, op: &AttentionOp<'_>) -> Result<BTreeMap<usize, Round>> {
        let Some((from, gathered)) = self.gathered() else { return Ok(BTreeMap::new()) };
        let ranks = self.config.gemv().ranks();
        let mut messages = Vec::new();
        for to in (0..self.cores.len()).filter(|core| *core != from) {
            if self.heads(to).is_empty() || !self.keeps_qkv(op.tokens()) {
                continue;
            }
            let range = |matrix: &WeightMatrix| -> Result<_> {
                let columns = self.head_columns(*matrix, to);
                let vector = &self.residence.qkv[*matrix as usize];
                let block = columns_of(&self.config, vector, columns.start as u32, columns.len() as u32)?;
                // Bursts alternate among the ranks: from the first one's row of ranks to the last one's.
                let (begin, end) =
                    (block.address() / ranks, (block.address() + block.bursts()).div_ceil(ranks));
                let range = RowRange { address: begin, count: end - begin, ranks: (1 << ranks) - 1 };
                Ok((range, range))
            };
            let ranges = gathered.iter().map(range).collect::<Result<_, _>>()?;
            messages.push(Message { from, to, ranges });
        }
        let Some(links) = &mut self.links else { return Ok(BTreeMap::new()) };
        // One core sends, so each round has one message.
        let rounds = links.deliver(&mut self.cores, &messages)?.into_iter();
        Ok(rounds.filter_map(|round| Some((messages[*round.messages.first()?].to, round))).collect())
    }

    fn rotated_bytes(&self, op: &AttentionOp<'_>, core: usize) -> u64 {
        let columns = [WeightMatrix::Q, WeightMatrix::K].map(|matrix| self.head_columns(matrix, core).len());
        2 * (op.tokens() * columns.iter().sum::<usize>()) as u64
    }

    /// For rotary embedding the host reads Q and K from where they met. Returns when it has them; 0 for other models.
    fn take_rotated(&mut self, op: &AttentionOp<'_>, gathered: Option<usize>) -> u64 {
        if !self.shape.is_rotary() {
            return 0;
        }
        let (begin, mut end) = (self.event_log.now, self.event_log.now);
        for core in 0..self.cores.len() {
            let bytes = self.rotated_bytes(op, core);
            if bytes > 0 {
                let from = gathered.unwrap_or(core);
                end = end.max(self.event_log.exchange(from, ("q, k", begin), bytes, Way::ToHost));
            }
        }
        end
    }

    /// `exact` is the reference.
    pub(super) fn by_heads(&mut self, op: &AttentionOp<'_>, exact: &[f16]) -> Result<Vec<f16>> {
        let (width, begin) = (op.width(), self.event_log.now);
        let mut came = self.send_qkv(op)?;
        self.learn();
        let gathered = self.gathered();
        let rotated = self.take_rotated(op, gathered.as_ref().map(|(from, _)| *from));
        let (mut jobs, mut carried, mut sent) = (Vec::new(), 0, begin);
        for core in 0..self.cores.len() {
            let heads = self.heads(core);
            if heads.is_empty() {
                continue;
            }
            let delivery = came.remove(&core);
            let handed = self.update_cache(op, (core, &heads));
            self.event_log.figures.bytes.bus_prompt_cache += handed;
            let mut start =
                self.event_log.exchange(core, ("keys and values of the prompt", begin), handed, Way::Down);
            let columns = self.head_columns(WeightMatrix::Q, core);
            let queries: Vec<f16> =
                op.queries().chunks(width).flat_map(|query| &query[columns.clone()]).copied().collect();
            if rotated > 0 {
                let own = self.rotated_bytes(op, core);
                start =
                    start.max(self.event_log.exchange(core, ("rotated q, k", rotated), own, Way::FromHost));
            }
            if let Some((from, gathered)) = gathered.as_ref().filter(|(from, _)| *from != core) {
                let over_links = gathered.iter().filter(|matrix| rotated == 0 || **matrix == WeightMatrix::V);
                let columns = over_links.map(|matrix| self.head_columns(*matrix, core).len());
                let bytes = 2 * (op.tokens() * columns.sum::<usize>()) as u64;
                self.event_log.figures.bytes.link_qkv += bytes;
                let link = Resource::LinkOut(*from as u32);
                let arrived = match &delivery {
                    None => self.event_log.carry(link, ("q, k, v", begin), bytes),
                    Some(round) => {
                        carried += round.cycles();
                        self.event_log.round(sent, round, &[(link, "q, k, v", bytes)])
                    }
                };
                start = start.max(arrived);
                sent = sent.max(arrived);
            }
            let of_keys = self.head_columns(WeightMatrix::K, core);
            jobs.push((core, Share { core, start, columns, of_keys, queries }));
        }
        // With simulated links, the sending core attends after it has sent everything.
        let own = gathered.as_ref().map(|(from, _)| *from);
        let is_linked = self.links.is_some();
        for (_, share) in jobs.iter_mut().filter(|(core, _)| is_linked && Some(*core) == own) {
            share.start = share.start.max(sent);
        }
        let resident = self.keeps_qkv(op.tokens()).then_some(self.residence.qkv);
        let (caches, config) = (&self.caches, &self.config);
        let cores = (self.cores.as_mut_slice(), self.links.as_mut());
        let threads = self.options.threads;
        let done = together(cores, threads, jobs, alike, async |core: &mut GemvUnit, share: Share| {
            let spans = op.spans().iter().map(|span| AttentionSpan {
                cache: &caches[&(span.sequence, op.layer(), share.core)],
                ..*span
            });
            let shape = (share.columns.len() / op.head_width(), op.head_width());
            let part = AttentionOp::new(op.layer(), shape, op.capacity(), &share.queries, spans.collect())?;
            let part = part.with_window(op.window()).with_score_cap(op.score_cap());
            let resident = match resident {
                None => None,
                Some([q, k, v]) => {
                    let own = |vector, columns: &Range<usize>| {
                        columns_of(config, &vector, columns.start as u32, columns.len() as u32)
                    };
                    Some([own(q, &share.columns)?, own(k, &share.of_keys)?, own(v, &share.of_keys)?])
                }
            };
            let run = core.attend_async(&part, resident).await?;
            Ok((share, run))
        })?;
        self.learn();
        let mut bits = vec![0; op.queries().len()];
        let (mut slowest, mut ready) = (0, begin);
        for (core, (Share { start, columns, .. }, run)) in done {
            let mut cycles = run.append.cycles + run.attend.cycles;
            let masked = self.event_log.exchange(core, ("masks", start), 2 * run.masks as u64, Way::FromHost);
            let mut ready_at = self.event_log.program(core, ("append", masked), run.append, &[]);
            if let Some((figures, scores)) = run.scores {
                // The host applies the soft cap.
                cycles += figures.cycles;
                let scored = self.event_log.program(core, ("scores", ready_at), figures, &[]);
                let bytes = 2 * scores as u64;
                let taken = self.event_log.exchange(core, ("scores", scored), bytes, Way::ToHost);
                ready_at = self.event_log.exchange(core, ("capped scores", taken), bytes, Way::FromHost);
            }
            slowest = slowest.max(cycles);
            let attended = self.event_log.program(core, ("attend", ready_at), run.attend, &[]);
            let bytes = 2 * (columns.len() * op.tokens()) as u64;
            self.event_log.figures.bytes.bus_results += bytes;
            ready = ready.max(self.event_log.exchange(core, ("contexts", attended), bytes, Way::Up));
            for (token, context) in run.context.chunks(columns.len()).enumerate() {
                bits[token * width..][columns.clone()].copy_from_slice(context);
            }
        }
        self.event_log.critical(carried + slowest);
        self.event_log.advance(ready);
        self.verdict(op.label(), width, exact, &bits)
    }
}
