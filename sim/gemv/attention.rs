//! Attention from DRAM to DRAM: keys and values are appended to caches, and each token is attended to with what they hold.
//!
//! A cache is a matrix with a row for each token, one for keys and one for values of every sequence, layer and group of heads. As many
//! heads as fill a stripe share a row ([`HeadCut`]), so one `dot` gives the scores of all of them. For each token and group:
//! `load` q, `dot` with the keys, `softmax`, `axpy` with the values, `round`, `store`. Two tokens or groups are under way
//! at a time if the buffer has room for both: the scores of one are computed beside the softmax of the other.

use super::plant::Plant;
use super::unit::{GemvUnit, NEVER_STORED, ProgramFigures};
use crate::error::SimError;
use ndp_config::{ConfigError, DesignConfig};
use ndp_isa::{Activation, Instruction, Product as Operands, SOFTMAX_ELEMS, accumulator_words, block_words};
use ndp_layout::{DimmAddress, DimmMap, MatrixLayout, VectorBlock};
use ndp_model::{AttentionOp, AttentionSpan, LayerCache};
use ndp_numerics::f16;
use std::collections::BTreeMap;

/// How the heads of a layer are laid into rows of a stripe at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadCut {
    /// Heads that a product is cut into; those that the layer does not have are left over. 1 if a row holds one head.
    pub segments: u32,
    /// Heads of the layer.
    pub heads: u32,
    /// Elements of a head.
    pub width: u32,
}

impl HeadCut {
    /// The cut for `heads` heads of `width` elements: rows of several heads if a power of two of them fills a stripe exactly and
    /// the design has products with so many, else one head to a row.
    ///
    /// # Errors
    /// [`SimError::Config`] for heads that are wider than a stripe, which no `append` can write, or of no width.
    pub fn new(config: &DesignConfig, heads: usize, width: usize) -> Result<Self, SimError> {
        let stripe = config.gemv().stripe_elems();
        let narrow = u32::try_from(width).ok().filter(|width| (1..=stripe).contains(width));
        let (Some(width), Ok(heads)) = (narrow, u32::try_from(heads)) else {
            return Err(ConfigError::Mismatch {
                what: "elements of an attention head".into(),
                value: width as u64,
                rule: format!("be in 1..={stripe}: a row of a cache is one stripe at most"),
            }
            .into());
        };
        let fill = stripe / width;
        let several = stripe.is_multiple_of(width)
            && fill.is_power_of_two()
            && fill <= config.gemv().max_heads()
            && heads > 1;
        Ok(Self { segments: if several { fill } else { 1 }, heads, width })
    }

    /// Rows that a token has: groups of heads.
    pub fn groups(&self) -> u32 {
        self.heads.div_ceil(self.segments)
    }

    /// First element of a group and the elements that it has.
    pub fn columns(&self, group: u32) -> (u32, u32) {
        let first = group * self.segments;
        (first * self.width, (self.heads - first).min(self.segments) * self.width)
    }
}

/// What a cache is for: sequence, layer, heads, elements of a head, positions.
type CacheKey = (u32, usize, usize, usize, usize);

/// Keys and values of one layer of one sequence.
#[derive(Clone, Debug)]
struct Cache {
    /// Positions that have been written.
    held: usize,
    /// Of each group of heads: the matrix of the keys, that of the values.
    groups: Vec<[MatrixLayout; 2]>,
}

/// All caches in DRAM.
#[derive(Clone, Debug)]
pub(super) struct Caches {
    map: DimmMap,
    entries: BTreeMap<CacheKey, Cache>,
}

impl Caches {
    pub(super) fn new(config: &DesignConfig) -> Self {
        Self { map: DimmMap::new(config), entries: BTreeMap::new() }
    }

    /// A map in which the caches' places are taken.
    pub(super) fn free_map(&self) -> DimmMap {
        self.map.clone()
    }

    /// The cache of a sequence; it is placed if there is none.
    fn entry(&mut self, op: &AttentionOp<'_>, cut: &HeadCut, sequence: u32) -> Result<&mut Cache, SimError> {
        let key = key_of(op, sequence);
        if !self.entries.contains_key(&key) {
            let rows = u32::try_from(op.capacity()).unwrap_or(u32::MAX);
            let mut groups = Vec::new();
            for group in 0..cut.groups() {
                let mut add = |what| {
                    let name = format!("{what} {key:?} group {group}");
                    self.map.add_matrix(&name, rows, cut.columns(group).1)
                };
                groups.push([add("keys")?, add("values")?]);
            }
            self.entries.insert(key, Cache { held: 0, groups });
        }
        Ok(self.entries.entry(key).or_insert_with(|| Cache { held: 0, groups: Vec::new() }))
    }
}

fn key_of(op: &AttentionOp<'_>, sequence: u32) -> CacheKey {
    (sequence, op.layer(), op.heads(), op.head_width(), op.capacity())
}

/// Results and cycles of attention.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttentionRun {
    /// FP16 bits of the contexts, `[tokens x width]`.
    pub context: Vec<u16>,
    /// FP16 bits of the keys that the core has appended, `[tokens x width]`.
    pub keys: Vec<u16>,
    /// The same of the values.
    pub values: Vec<u16>,
    /// The program that appends.
    pub append: ProgramFigures,
    /// The program that attends.
    pub attend: ProgramFigures,
    /// Products of either kind.
    pub products: u64,
    /// Multiply-accumulates of the scores, and as many of the contexts.
    pub macs: u64,
}

/// One token and one group of heads: what is to be computed, and where.
struct Unit<'a> {
    visible: u32,
    query: &'a [f16],
    matrices: [MatrixLayout; 2],
    input: VectorBlock,
    output: VectorBlock,
    /// Token, first element of the group.
    place: (usize, u32),
}

/// Words of the buffer for one unit that is under way.
struct Slot {
    query: u32,
    scores: u32,
    sums: u32,
}

impl GemvUnit {
    /// Appends the keys and values of a batch to the caches in DRAM, and attends to each of its tokens. Positions before the batch
    /// that the core has not seen are written into the DRAM at once.
    ///
    /// # Errors
    /// [`SimError::Config`] for heads or contexts that the design does not take, [`SimError::Layout`] for caches that the DRAM does not
    /// hold; else as [`GemvUnit::product`].
    pub fn attend(&mut self, op: &AttentionOp<'_>) -> Result<AttentionRun, SimError> {
        let config = self.core.config().clone();
        let cut = HeadCut::new(&config, op.heads(), op.head_width())?;
        let words = slot_words(&config, &cut, op)?;
        for span in op.spans() {
            self.prepare(op, &cut, span)?;
        }
        let append = self.append(op, &cut)?;
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        for span in op.spans() {
            let cache = self.caches.entry(op, &cut, span.sequence)?;
            cache.held = span.position + span.tokens;
            let groups = cache.groups.clone();
            for row in span.position..span.position + span.tokens {
                for [key, value] in &groups {
                    keys.extend(self.row(key, row as u32));
                    values.extend(self.row(value, row as u32));
                }
            }
        }
        self.plant_key(op, &cut)?;

        let mut map = self.caches.free_map();
        let mut units = Vec::new();
        for (token, (span, visible, query)) in op.each().enumerate() {
            let groups = self.caches.entry(op, &cut, span.sequence)?.groups.clone();
            for (group, matrices) in (0..).zip(groups) {
                let (first, cols) = cut.columns(group);
                let input = map.add_vectors(&format!("q {token} {group}"), cols, 1)?;
                let output = map.add_vectors(&format!("o {token} {group}"), cols, 1)?;
                let query = &query[first as usize..][..cols as usize];
                let visible = visible as u32; // below the rows of the matrix
                units.push(Unit { visible, query, matrices, input, output, place: (token, first) });
            }
        }
        for unit in &units {
            self.place_block(&unit.input, |_, element| unit.query[element as usize]);
            self.spoil_block(&unit.output);
        }
        let attend = self.execute(&program(&config, &cut, &units, words))?;
        let mut context = vec![0; op.queries().len()];
        for Unit { output, place: (token, first), .. } in &units {
            for element in 0..output.elements() {
                context[token * op.width() + (first + element) as usize] = self.element(output, 0, element);
            }
        }
        self.plant_result(&mut context, op);
        let macs = op.each().map(|(_, visible, _)| (visible * op.width()) as u64).sum();
        let products = units.len() as u64;
        Ok(AttentionRun { context, keys, values, append, attend, products, macs })
    }

    /// Places the cache of a span, with the positions before it; those of the span look like nothing that was ever stored.
    fn prepare(
        &mut self,
        op: &AttentionOp<'_>,
        cut: &HeadCut,
        span: &AttentionSpan<'_>,
    ) -> Result<(), SimError> {
        let config = self.core.config().clone();
        let cache = self.caches.entry(op, cut, span.sequence)?;
        let (held, groups) = (cache.held.min(span.position), cache.groups.clone());
        let missing = (held..span.position).map(|row| (row, true));
        let new = (span.position..span.position + span.tokens).map(|row| (row, false));
        for (row, known) in missing.chain(new) {
            let vectors = [
                all_heads(span.cache, row, LayerCache::keys),
                all_heads(span.cache, row, LayerCache::values),
            ];
            for (group, layouts) in (0..).zip(&groups) {
                let (first, cols) = cut.columns(group);
                for (layout, vector) in layouts.iter().zip(&vectors) {
                    for packed in layout.pack_row(row as u32, &vector[first as usize..][..cols as usize]) {
                        let place = DimmAddress { rank: packed.rank, burst: packed.burst };
                        let data = if known { packed.data } else { [NEVER_STORED; 8] };
                        self.core.poke(place.to_burst(&config), &data);
                    }
                }
            }
        }
        Ok(())
    }

    /// The program that appends keys and values: block after block, two places in turn.
    fn append(&mut self, op: &AttentionOp<'_>, cut: &HeadCut) -> Result<ProgramFigures, SimError> {
        let gemv = self.core.config().gemv().clone();
        let most = gemv.max_batch().min(gemv.slice_words() / 2);
        let mut map = self.caches.free_map();
        let (mut instructions, mut half) = (Vec::new(), 0);
        for (index, span) in op.spans().iter().enumerate() {
            let groups = self.caches.entry(op, cut, span.sequence)?.groups.clone();
            let rows = span.position as u32..(span.position + span.tokens) as u32;
            for row in rows.clone().step_by(most as usize) {
                let batch = most.min(rows.end - row);
                let vectors = |rows: fn(&LayerCache, usize, usize) -> &[f16]| -> Vec<Vec<f16>> {
                    (row..row + batch).map(|row| all_heads(span.cache, row as usize, rows)).collect()
                };
                let both = [vectors(LayerCache::keys), vectors(LayerCache::values)];
                for (group, layouts) in (0..).zip(&groups) {
                    let (first, cols) = cut.columns(group);
                    for (kind, (layout, vectors)) in layouts.iter().zip(&both).enumerate() {
                        let name = format!("append {index} {row} {group} {kind}");
                        let block = map.add_vectors(&name, cols, batch)?;
                        self.place_block(&block, |vector, element| {
                            vectors[vector as usize][(first + element) as usize]
                        });
                        let (place, address) = (half * most, block.address());
                        instructions.push(Instruction::Load { dst: place, cols, batch, address });
                        let address = layout.base();
                        instructions.push(Instruction::Append { src: place, cols, batch, row, address });
                        half = 1 - half;
                    }
                }
            }
        }
        self.execute(&instructions)
    }

    /// A row of a cache in DRAM.
    fn row(&self, layout: &MatrixLayout, row: u32) -> Vec<u16> {
        let element = |col| {
            let place = layout.locate(row, col);
            let burst = DimmAddress { rank: place.rank, burst: place.burst }.to_burst(self.core.config());
            (self.core.peek(burst)[place.element as usize / 4] >> (16 * (place.element % 4))) as u16
        };
        (0..layout.cols()).map(element).collect()
    }

    /// Flips the planted bit of a key, if a sequence has it.
    fn plant_key(&mut self, op: &AttentionOp<'_>, cut: &HeadCut) -> Result<(), SimError> {
        let Some(Plant::Key { row, col, bit }) = self.plant else { return Ok(()) };
        let holds = |span: &&AttentionSpan<'_>| (row as usize) < span.position + span.tokens;
        let Some(span) = op.spans().iter().find(holds).filter(|_| (col as usize) < op.width()) else {
            return Ok(());
        };
        let group = col / (cut.segments * cut.width);
        let layout = self.caches.entry(op, cut, span.sequence)?.groups[group as usize][0].clone();
        self.flip(&layout, (row, col - cut.columns(group).0, bit));
        self.plant = None;
        Ok(())
    }

    /// Flips the planted bit of a result, if no product before had it.
    fn plant_result(&mut self, context: &mut [u16], op: &AttentionOp<'_>) {
        if let Some(Plant::Result { row, batch, bit }) = self.plant
            && (row as usize) < op.width()
            && (batch as usize) < op.tokens()
        {
            context[batch as usize * op.width() + row as usize] ^= 1 << bit;
            self.plant = None;
        }
    }
}

/// One position of a cache, `[width]`: the rows of all heads side by side.
fn all_heads(cache: &LayerCache, row: usize, rows: fn(&LayerCache, usize, usize) -> &[f16]) -> Vec<f16> {
    let width = cache.head_width();
    (0..cache.heads()).flat_map(|head| &rows(cache, head, row + 1)[row * width..]).copied().collect()
}

/// Words of the buffer that the longest context needs.
fn slot_words(config: &DesignConfig, cut: &HeadCut, op: &AttentionOp<'_>) -> Result<u32, SimError> {
    let gemv = config.gemv();
    let visible = op.each().map(|(_, visible, _)| visible as u64).max().unwrap_or(1);
    let longest = gemv.max_cols().min(SOFTMAX_ELEMS);
    if visible > longest.into() {
        let rule = format!("be at most {longest}, the elements of a softmax");
        return Err(ConfigError::Mismatch { what: "tokens of a context".into(), value: visible, rule }.into());
    }
    // A query is a word, and so are its sums but for the lanes.
    let words = (1..=visible as u32).rev().take(4 * gemv.stripe_elems() as usize);
    let scores = words.map(|count| block_words(config, count, cut.segments)).max().unwrap_or(1);
    let needed = 1 + scores + accumulator_words(config, cut.width, 1);
    if needed > gemv.slice_words() {
        return Err(ConfigError::Mismatch {
            what: format!("slice words for a context of {visible} tokens and {} heads", cut.segments),
            value: needed.into(),
            rule: format!("be at most {} (a {} KiB buffer)", gemv.slice_words(), gemv.buffer_kib()),
        }
        .into());
    }
    Ok(needed)
}

/// The program for all units, of which each takes `words` words.
fn program(config: &DesignConfig, cut: &HeadCut, units: &[Unit<'_>], words: u32) -> Vec<Instruction> {
    let sums = accumulator_words(config, cut.width, 1);
    let places = (config.gemv().slice_words() / words).min(2);
    let slot = |index: usize| {
        let query = index as u32 % places * words;
        Slot { query, sums: query + 1, scores: query + 1 + sums }
    };
    let product = |unit: &Unit<'_>, matrix: usize, src: u32, dst: u32| Operands {
        src,
        dst,
        cols: unit.input.elements(),
        batch: 1,
        count: unit.visible,
        address: unit.matrices[matrix].base(),
        list: None,
        heads: cut.segments,
    };
    let begin = |index: usize, unit: &Unit<'_>| {
        let Slot { query, scores, .. } = slot(index);
        let (cols, count, address) = (unit.input.elements(), unit.visible, unit.input.address());
        [
            Instruction::Load { dst: query, cols, batch: 1, address },
            Instruction::Dot(product(unit, 0, query, scores)),
            Instruction::Activate {
                operation: Activation::Softmax,
                src: scores,
                dst: scores,
                cols: count,
                batch: 1,
                heads: cut.segments,
            },
        ]
    };
    let end = |index: usize, unit: &Unit<'_>| {
        let Slot { scores, sums: place, .. } = slot(index);
        let (cols, address) = (unit.input.elements(), unit.output.address());
        [
            Instruction::Zero { dst: place, count: sums },
            Instruction::Axpy(product(unit, 1, scores, place)),
            Instruction::Round { src: place, dst: place, cols, batch: 1 },
            Instruction::Store { src: place, cols, batch: 1, address },
        ]
    };
    let mut instructions = Vec::new();
    let ahead = places as usize - 1;
    for index in 0..units.len() + ahead {
        if let Some(unit) = units.get(index) {
            instructions.extend(begin(index, unit));
        }
        if let Some((index, unit)) = index.checked_sub(ahead).and_then(|i| Some((i, units.get(i)?))) {
            instructions.extend(end(index, unit));
        }
    }
    instructions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_cut_where_they_fill_a_stripe() {
        let hermes = DesignConfig::preset("hermes").unwrap();
        let cut = |heads, width| HeadCut::new(&hermes, heads, width).unwrap();
        assert_eq!((cut(3, 64).segments, cut(3, 64).groups(), cut(3, 64).columns(0)), (8, 1, (0, 192)));
        assert_eq!((cut(40, 128).segments, cut(40, 128).groups()), (4, 10));
        assert_eq!(cut(11, 64).columns(1), (512, 192));
        // A segment of another width, too many segments, and a single head.
        assert_eq!([cut(4, 80).segments, cut(20, 32).segments, cut(1, 64).segments], [1, 1, 1]);
        assert_eq!((cut(4, 80).groups(), cut(4, 80).columns(3)), (4, (240, 80)));
        let error = HeadCut::new(&hermes, 2, 513).unwrap_err().to_string();
        assert!(error.contains("513") && error.contains("1..=512"), "{error}");
        assert!(HeadCut::new(&hermes, 2, 0).is_err());
    }
}
