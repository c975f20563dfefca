//! Attention from DRAM to DRAM: keys and values are appended to caches, then each token attends to them.
//!
//! A cache is a matrix with a row for each token, one for keys and one for values of every sequence, layer and group of
//! heads. [`ndp_isa::planner::attention`] says how heads share rows and which instructions attention takes.

use super::bit_flip::BitFlip;
use super::transfer::values_of;
use super::unit::{GemvUnit, POISON_NAN, ProgramFigures};
use ndp_config::{BEAT_ELEMS, DesignConfig, WeightFormat};
use ndp_files::{Result, bail};
use ndp_isa::Instruction;
use ndp_isa::layout::{Burst, MatrixLayout, VectorBlock};
use ndp_isa::planner::{AttentionPart, AttentionUnit, HeadCut, ScoreStep, attention_program};
use ndp_model::{AttentionOp, AttentionSpan, LayerCache};
use ndp_numerics::{SoftCap, f16};
use std::collections::BTreeSet;
use std::ops::Range;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttentionRun {
    /// FP16 bits of the contexts, `[tokens x width]`.
    pub context: Vec<u16>,
    /// FP16 bits of the appended keys, `[tokens x kv_width]`; empty without the option `audit`.
    pub keys: Vec<u16>,
    pub values: Vec<u16>,
    pub append: ProgramFigures,
    /// The program of the scores and the number of these, if the host caps them.
    pub scores: Option<(ProgramFigures, usize)>,
    /// Values of new masks.
    pub masks: usize,
    pub attend: ProgramFigures,
    pub products: u64,
    /// MACs of the scores; the contexts take the same number.
    pub macs: u64,
}

impl GemvUnit {
    /// Appends the keys and values of a batch to the caches, and attends to each of its tokens. Earlier positions that
    /// the core has not seen are written by backdoor access.
    ///
    /// # Errors
    /// Heads or contexts that the design does not support; caches that do not fit in the DRAM; else as
    /// [`GemvUnit::product`].
    pub fn attend(&mut self, op: &AttentionOp<'_>) -> Result<AttentionRun> {
        self.alone(async |unit| unit.attend_async(op, None).await)
    }

    /// `resident`: query, key and value of the only token, if they are already in DRAM. Heads then take whole beats of
    /// them, and no two share keys.
    pub(crate) async fn attend_async(
        &mut self,
        op: &AttentionOp<'_>,
        resident: Option<[VectorBlock; 3]>,
    ) -> Result<AttentionRun> {
        let config = self.core.config().clone();
        let cut = HeadCut::new(&config, op.kv_heads(), op.head_width())?;
        let (sharing, width) = (op.sharing() as u32, op.head_width() as u32);
        let ranks = config.gemv().ranks() as usize;
        // Rows that a product reads for the positions before `end`, and how many of them are before the window.
        let rows_of = |end: usize| {
            let (first, skipped) = (op.first(end) / ranks * ranks, op.first(end) % ranks);
            (first as u32, (end - first) as u32, skipped as u32)
        };
        let step = match op.score_cap() {
            Some(_) => ScoreStep::Host,
            None if op.each().any(|(_, end, _)| rows_of(end).2 > 0) => ScoreStep::Mask,
            None => ScoreStep::Direct,
        };
        let longest = op.each().map(|(_, end, _)| u64::from(rows_of(end).1)).max().unwrap_or(1);
        let (queries, words) = cut.queries(&config, sharing, longest, step)?;
        for span in op.spans() {
            self.prepare(op, &cut, span)?;
        }
        for (span, end, _) in op.each() {
            let (first, _, skipped) = rows_of(end);
            check_before_window(op, span, first as usize..(first + skipped) as usize)?;
        }
        let append = self.append(op, &cut, resident).await?;
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        for span in op.spans() {
            let cache = self.caches.entry(op, &cut, span.sequence)?;
            cache.held = span.position + span.tokens;
            let groups = cache.groups.clone();
            let rows = if self.audit { span.position..span.position + span.tokens } else { 0..0 };
            for row in rows {
                for [key, value] in &groups {
                    keys.extend(self.row(key, row as u32).await?);
                    values.extend(self.row(value, row as u32).await?);
                }
            }
        }
        self.flip_key(op, &cut).await?;

        let masks = match step {
            ScoreStep::Mask => {
                self.place_masks(op.each().map(|(_, end, _)| rows_of(end)), (&cut, sharing, queries))?
            }
            _ => 0,
        };
        let mut map = self.free_map();
        let (mut units, mut places) = (Vec::new(), Vec::new());
        for (token, (span, end, query)) in op.each().enumerate() {
            let (first_row, visible, skipped) = rows_of(end);
            let groups = self.caches.entry(op, &cut, span.sequence)?.groups.clone();
            for (group, matrices) in (0..).zip(groups) {
                let (first, cols) = cut.columns(group);
                for at in (0..sharing).step_by(queries as usize) {
                    let batch = queries.min(sharing - at);
                    // Element of the token's query, all heads side by side.
                    let place = move |vector: u32, element: u32| {
                        let column = first + element;
                        (column / width * sharing + at + vector) * width + column % width
                    };
                    let output = map.add_vectors(&format!("o {token} {group} {at}"), cols, batch)?;
                    let inputs = match &resident {
                        Some([all, ..]) => vec![columns_of(&config, all, place(0, 0), cols)?],
                        None => {
                            let input = map.add_vectors(&format!("q {token} {group} {at}"), cols, batch)?;
                            self.place_block(&input, |vector, element| {
                                query[place(vector, element) as usize]
                            });
                            vec![input]
                        }
                    };
                    self.blank(&output);
                    let parts = self.parts(batch * cut.segments);
                    let (mut scores, mut masks) = (Vec::new(), Vec::new());
                    for (part, &vectors) in parts.iter().enumerate() {
                        if step == ScoreStep::Host {
                            let block =
                                map.add_vectors(&format!("s {token} {group} {at} {part}"), visible, vectors)?;
                            self.blank(&block);
                            scores.push(block);
                        } else if skipped > 0 {
                            masks.extend(self.caches.mask((visible, skipped, vectors)));
                        }
                    }
                    let matrices = matrices.clone();
                    let unit =
                        AttentionUnit { first: first_row, visible, matrices, inputs, scores, masks, output };
                    units.push(unit);
                    places.push((token, place, skipped));
                }
            }
        }
        let program = |part| attention_program(&config, &cut, &units, (words, part));
        let (mut scores, mut part) = (None, AttentionPart::Whole);
        if let Some(cap) = op.score_cap() {
            let figures = self.execute(&program(AttentionPart::Scores)).await?;
            let skipped = places.iter().map(|(.., skipped)| *skipped);
            let count = self.cap_scores(cap, units.iter().zip(skipped)).await?;
            (scores, part) = (Some((figures, count)), AttentionPart::Contexts);
        }
        let attend = self.execute(&program(part)).await?;
        self.fetch_blocks(units.iter().map(|unit| unit.output)).await?;
        let mut context = vec![0; op.queries().len()];
        for (AttentionUnit { output, .. }, (token, place, _)) in units.iter().zip(places) {
            for vector in 0..output.batch() {
                for element in 0..output.elements() {
                    let at = token * op.width() + place(vector, element) as usize;
                    context[at] = self.element(output, vector, element);
                }
            }
        }
        self.flip_result(&mut context, op);
        let macs = op.each().map(|(_, end, _)| ((end - op.first(end)) * op.width()) as u64).sum();
        let products = units.len() as u64;
        Ok(AttentionRun { context, keys, values, append, scores, masks, attend, products, macs })
    }

    /// Numbers of vectors in the blocks of some scores, as many as a load has.
    fn parts(&self, vectors: u32) -> Vec<u32> {
        let most = self.core.config().gemv().max_batch();
        (0..vectors).step_by(most as usize).map(|first| most.min(vectors - first)).collect()
    }

    /// Places the masks that `rows` need and DRAM lacks; returns the number of their values.
    fn place_masks(
        &mut self,
        rows: impl Iterator<Item = (u32, u32, u32)>,
        (cut, sharing, queries): (&HeadCut, u32, u32),
    ) -> Result<usize> {
        let mut batches = BTreeSet::from([queries.min(sharing)]);
        batches.extend(Some(sharing % queries).filter(|rest| *rest > 0));
        let vectors: BTreeSet<u32> =
            batches.into_iter().flat_map(|batch| self.parts(batch * cut.segments)).collect();
        let mut values = 0;
        for (_, visible, skipped) in rows.filter(|(.., skipped)| *skipped > 0) {
            for &vectors in &vectors {
                let Some(block) = self.caches.place_mask((visible, skipped, vectors))? else { continue };
                let of = |element| if element < skipped { f16::INFINITY } else { f16::NEG_INFINITY };
                self.place_block(&block, |_, element| of(element));
                values += (visible * vectors) as usize;
            }
        }
        Ok(values)
    }

    /// Caps the scores of units in DRAM; those before the window become -Inf. Returns the number of scores.
    async fn cap_scores(
        &mut self,
        cap: SoftCap,
        units: impl Iterator<Item = (&AttentionUnit, u32)>,
    ) -> Result<usize> {
        let blocks: Vec<(VectorBlock, u32)> = units
            .flat_map(|(unit, skipped)| unit.scores.iter().map(move |block| (*block, skipped)))
            .collect();
        self.fetch_blocks(blocks.iter().map(|(block, _)| *block)).await?;
        let mut count = 0;
        for (block, skipped) in blocks {
            let length = block.elements() as usize;
            count += length * block.batch() as usize;
            let capped: Vec<f16> = (0..block.batch())
                .flat_map(|vector| (0..block.elements()).map(move |element| (vector, element)))
                .map(|(vector, element)| match element < skipped {
                    true => f16::NEG_INFINITY,
                    false => cap.of(f16::from_bits(self.element(&block, vector, element))),
                })
                .collect();
            self.place_block(&block, |vector, element| capped[vector as usize * length + element as usize]);
        }
        Ok(count)
    }

    /// Places the cache of a span, with the positions before it; the span's own positions get contents that are never
    /// stored.
    fn prepare(&mut self, op: &AttentionOp<'_>, cut: &HeadCut, span: &AttentionSpan<'_>) -> Result<()> {
        let cache = self.caches.entry(op, cut, span.sequence)?;
        let (held, groups) = (cache.held.min(span.position), cache.groups.clone());
        let missing = (held..span.position).map(|row| (row, true));
        let new = (span.position..span.position + span.tokens).map(|row| (row, false));
        let audit = self.audit;
        for (row, known) in missing.chain(new.filter(|_| audit)) {
            let vectors = [LayerCache::keys as Rows, LayerCache::values]
                .map(|rows| heads_at(span.cache, 0..op.kv_heads(), row, rows));
            for (group, layouts) in (0..).zip(&groups) {
                let (first, cols) = cut.columns(group);
                for (layout, vector) in layouts.iter().zip(&vectors) {
                    let never = vec![f16::from_bits(POISON_NAN as u16); cols as usize];
                    let values = if known { &vector[first as usize..][..cols as usize] } else { &never };
                    self.write_row(layout, row as u32, values);
                }
            }
        }
        Ok(())
    }

    /// Blocks one after the other, in two places by turns.
    async fn append(
        &mut self,
        op: &AttentionOp<'_>,
        cut: &HeadCut,
        resident: Option<[VectorBlock; 3]>,
    ) -> Result<ProgramFigures> {
        let config = self.core.config().clone();
        let gemv = config.gemv();
        let most = gemv.max_batch().min(gemv.slice_words() / 2);
        let mut map = self.free_map();
        let (mut instructions, mut half) = (Vec::new(), 0);
        for (index, span) in op.spans().iter().enumerate() {
            let groups = self.caches.entry(op, cut, span.sequence)?.groups.clone();
            let rows = span.position as u32..(span.position + span.tokens) as u32;
            for row in rows.clone().step_by(most as usize) {
                let batch = most.min(rows.end - row);
                let vectors = |rows: Rows| -> Vec<Vec<f16>> {
                    let at = |row| heads_at(span.cache, 0..op.kv_heads(), row as usize, rows);
                    (row..row + batch).map(at).collect()
                };
                let both = [vectors(LayerCache::keys), vectors(LayerCache::values)];
                for (group, layouts) in (0..).zip(&groups) {
                    let (first, cols) = cut.columns(group);
                    for (kind, (layout, vectors)) in layouts.iter().zip(&both).enumerate() {
                        let block = match &resident {
                            Some([_, both @ ..]) => columns_of(&config, &both[kind], first, cols)?,
                            None => {
                                let name = format!("append {index} {row} {group} {kind}");
                                let block = map.add_vectors(&name, cols, batch)?;
                                self.place_block(&block, |vector, element| {
                                    vectors[vector as usize][(first + element) as usize]
                                });
                                block
                            }
                        };
                        let (place, address) = (half * most, block.address());
                        instructions.push(Instruction::Load { dst: place, cols, batch, address });
                        let address = layout.base();
                        instructions.push(Instruction::Append { src: place, cols, batch, row, address });
                        half = 1 - half;
                    }
                }
            }
        }
        self.execute(&instructions).await
    }

    async fn row_bursts(&mut self, layout: &MatrixLayout, row: u32) -> Result<Vec<Burst>> {
        let places: Vec<u64> =
            layout.row_places(row).iter().map(|place| place.to_burst(self.core.config())).collect();
        self.fetch(&places).await?;
        Ok(places.into_iter().map(|place| self.fetched(place)).collect())
    }

    /// Copies a row to a row of the same matrix on another DIMM.
    pub(crate) fn copy_row(
        &mut self,
        (layout, row): (&MatrixLayout, u32),
        (to, to_row): (&mut Self, u32),
    ) -> Result<()> {
        let bursts = self.alone(async |unit| {
            unit.flush().await?;
            unit.row_bursts(layout, row).await
        })?;
        for (place, burst) in layout.row_places(to_row).iter().zip(bursts) {
            to.write(place.to_burst(to.core.config()), burst);
        }
        Ok(())
    }

    pub(crate) async fn row(&mut self, layout: &MatrixLayout, row: u32) -> Result<Vec<u16>> {
        let bursts = self.row_bursts(layout, row).await?;
        if layout.weights() != WeightFormat::Fp16 {
            let row = layout.unpack_quantised(self.core.config(), row, |burst| self.fetched(burst));
            return Ok(row.dequantised().map(|weight| weight.to_bits()).collect());
        }
        Ok(values_of(&bursts).take(layout.cols() as usize).collect())
    }

    /// Applies a flip of a key, once a sequence has that key.
    async fn flip_key(&mut self, op: &AttentionOp<'_>, cut: &HeadCut) -> Result<()> {
        let Some(BitFlip::Key { row, col, bit }) = self.flip else { return Ok(()) };
        let holds = |span: &&AttentionSpan<'_>| (row as usize) < span.position + span.tokens;
        let Some(span) = op.spans().iter().find(holds).filter(|_| (col as usize) < op.width()) else {
            return Ok(());
        };
        let group = col / (cut.segments * cut.width);
        let layout = self.caches.entry(op, cut, span.sequence)?.groups[group as usize][0].clone();
        self.flip(&layout, (row, col - cut.columns(group).0, bit)).await?;
        self.flip = None;
        Ok(())
    }

    /// Applies a flip of a result, if no product before had that result.
    fn flip_result(&mut self, context: &mut [u16], op: &AttentionOp<'_>) {
        if let Some(BitFlip::Result { row, batch, bit }) = self.flip
            && (row as usize) < op.width()
            && (batch as usize) < op.tokens()
        {
            context[batch as usize * op.width() + row as usize] ^= 1 << bit;
            self.flip = None;
        }
    }
}

/// Refuses keys and values that are not finite in rows before a window that a product reads: a probability of +0 does
/// not hide them.
fn check_before_window(op: &AttentionOp<'_>, span: &AttentionSpan<'_>, rows: Range<usize>) -> Result<()> {
    for (part, of) in [("key", LayerCache::keys as Rows), ("value", LayerCache::values)] {
        for row in rows.clone() {
            let values = heads_at(span.cache, 0..op.kv_heads(), row, of);
            if let Some(element) = values.iter().position(|value| !value.is_finite()) {
                let (label, found) = (op.label(), values[element]);
                bail!(
                    "{label}: element {element} of the {part} at position {row} is {found}, expected a finite number, since a core reads it with the window after it; run the text in software"
                );
            }
        }
    }
    Ok(())
}

/// Some columns of a single vector in DRAM, starting at a beat.
pub(crate) fn columns_of(
    config: &DesignConfig,
    vector: &VectorBlock,
    first: u32,
    cols: u32,
) -> Result<VectorBlock> {
    debug_assert!(vector.batch() == 1 && first.is_multiple_of(BEAT_ELEMS));
    VectorBlock::new(config, vector.burst(first / BEAT_ELEMS) as u32, cols, 1)
}

pub(crate) type Rows = fn(&LayerCache, usize, usize) -> &[f16];

/// One position of a cache, `[width]`: the rows of some heads side by side.
pub(crate) fn heads_at(cache: &LayerCache, heads: Range<usize>, row: usize, rows: Rows) -> Vec<f16> {
    let width = cache.head_width();
    heads.flat_map(|head| &rows(cache, head, row + 1)[row * width..]).copied().collect()
}
