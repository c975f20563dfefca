//! Attention: each core has some of the heads, with their keys and values.

use super::backend::{DOWN, SystemBackend};
use super::books::Place;
use super::places::Places;
use super::pool::side_by_side;
use crate::error::SimError;
use ndp_model::{AttentionOp, AttentionSpan, LayerCache};
use ndp_numerics::f16;
use std::ops::Range;

/// What a core attends to: its heads' columns of the queries, from when on.
struct Share {
    core: usize,
    start: u64,
    columns: Range<usize>,
    queries: Vec<f16>,
}

impl<P: Places> SystemBackend<P> {
    /// Heads of a core: as even as whole heads can be.
    fn heads(&self, heads: usize, core: usize) -> Range<usize> {
        let cores = self.cores.len();
        heads * core / cores..heads * (core + 1) / cores
    }

    /// The core's own copy of its heads' keys and values, up to date. Returns the bytes of positions before this batch that were
    /// missing: those of the prompt, if the GPU has computed it.
    fn update_cache(&mut self, op: &AttentionOp<'_>, core: usize, heads: &Range<usize>) -> u64 {
        let mut handed = 0;
        for span in op.spans() {
            let key = (span.sequence, op.layer(), core);
            let own = self.caches.entry(key).or_insert_with(|| LayerCache::new(heads.len(), op.head_width()));
            own.truncate(span.position);
            handed += (span.position - own.positions()) * heads.len() * op.head_width() * 4;
            for row in own.positions()..span.position + span.tokens {
                let of = |rows: fn(&LayerCache, usize, usize) -> &[f16]| -> Vec<f16> {
                    let head = |head| &rows(span.cache, head, row + 1)[row * op.head_width()..];
                    heads.clone().flat_map(head).copied().collect()
                };
                own.push(&of(LayerCache::keys), &of(LayerCache::values));
            }
        }
        handed as u64
    }

    /// Attention head by head where the heads live; `exact` is the reference.
    pub(super) fn by_heads(&mut self, op: &AttentionOp<'_>, exact: &[f16]) -> Result<Vec<f16>, SimError> {
        let (width, begin) = (op.width(), self.books.now);
        let mut jobs = Vec::new();
        for core in 0..self.cores.len() {
            let heads = self.heads(op.heads(), core);
            if heads.is_empty() {
                continue;
            }
            let handed = self.update_cache(op, core, &heads);
            self.books.figures.bytes.bus_prompt_cache += handed;
            let mut start = self.books.carry(DOWN, ("keys and values of the prompt", begin), handed);
            let columns = heads.start * op.head_width()..heads.end * op.head_width();
            if core != self.met_at {
                // Q, K and V have met on one core.
                let bytes = (6 * op.tokens() * columns.len()) as u64;
                self.books.figures.bytes.link_qkv += bytes;
                let link = Place::LinkOut(self.met_at as u32);
                start = start.max(self.books.carry(link, ("q, k, v", begin), bytes));
            }
            let queries: Vec<f16> =
                op.queries().chunks(width).flat_map(|query| &query[columns.clone()]).copied().collect();
            jobs.push((core, Share { core, start, columns, queries }));
        }
        let caches = &self.caches;
        let done = side_by_side(&mut self.cores, self.options.threads, jobs, |core, share| {
            let spans = op.spans().iter().map(|span| AttentionSpan {
                cache: &caches[&(span.sequence, op.layer(), share.core)],
                ..*span
            });
            let shape = (share.columns.len() / op.head_width(), op.head_width());
            let part = AttentionOp::new(op.layer(), shape, op.capacity(), &share.queries, spans.collect())?;
            let run = core.attend(&part)?;
            Ok((share, run))
        })?;
        let mut bits = vec![0; op.queries().len()];
        let (mut slowest, mut ready) = (0, begin);
        for (core, (Share { start, columns, .. }, run)) in done {
            slowest = slowest.max(run.append.cycles + run.attend.cycles);
            let appended = self.books.program(core, ("append", start), run.append, &[]);
            ready = ready.max(self.books.program(core, ("attend", appended), run.attend, &[]));
            for (token, context) in run.context.chunks(columns.len()).enumerate() {
                bits[token * width..][columns.clone()].copy_from_slice(context);
            }
        }
        let bytes = 2 * bits.len() as u64;
        self.books.figures.bytes.bus_results += bytes;
        let end = self.books.carry(Place::BusUp, ("contexts", ready), bytes);
        self.books.figures.critical(slowest);
        self.books.advance(end);
        self.verdict(op.label(), width, exact, &bits)
    }
}
