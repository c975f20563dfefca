//! Attention over caches of keys and values in DRAM: tokens that each see a number of positions.
//!
//! As many heads as fill a stripe share a row of a cache ([`HeadCut`]): one `dot` scores all of them. Queries that share
//! keys are the vectors of its batch, so that a row is read once for all of them. For each token and group: `load` q,
//! `dot` with keys, `softmax`, `axpy` with values, `round`, `store`. If the buffer has room, two are in flight: scores
//! of one are computed during the other's softmax.
//!
//! A window begins at any row, but the rows of a product at a multiple of the ranks. Scores of the few rows between
//! become -Inf before softmax ([`ScoreStep`]).

use crate::layout::{MatrixLayout, VectorBlock};
use crate::planner::product::{buffer_words, load, store};
use crate::{Activation, Instruction, Product as Operands, SOFTMAX_ELEMS, accumulator_words, block_words};
use ndp_config::{DesignConfig, WeightFormat, require};
use ndp_files::{Result, bail, ensure};
use ndp_numerics::f16;

/// Step between the scores of a program and their softmax.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScoreStep {
    /// No step: softmax of all scores.
    Direct,
    /// Scores of rows before the window become -Inf, by a mask in DRAM.
    Mask,
    /// The host takes the scores and returns them: a program for the scores, then one for the contexts.
    Host,
}

/// Part of attention that a program computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttentionPart {
    /// From queries to contexts.
    Whole,
    /// From queries to scores.
    Scores,
    /// From scores to contexts.
    Contexts,
}

/// Cut of a layer's heads into rows of at most a stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadCut {
    /// Heads of a product, perhaps more than the layer has; 1 if a row holds one head.
    pub segments: u32,
    /// Heads of the layer.
    pub heads: u32,
    /// Elements of a head.
    pub width: u32,
}

impl HeadCut {
    /// Puts several heads into a row if a power of two of them fills a stripe and the design allows that many, else
    /// one.
    ///
    /// Fails for `width` 0 or above a stripe, which no `append` can write.
    pub fn new(config: &DesignConfig, heads: usize, width: usize) -> Result<Self> {
        let stripe = config.gemv().stripe_elems();
        let narrow = u32::try_from(width).ok().filter(|width| (1..=stripe).contains(width));
        let (Some(width), Ok(heads)) = (narrow, u32::try_from(heads)) else {
            bail!(
                "elements of an attention head = {width} must be in 1..={stripe}: a row of a cache is one stripe at most"
            );
        };
        let fill = stripe / width;
        let several = stripe.is_multiple_of(width)
            && fill.is_power_of_two()
            && fill <= config.gemv().max_heads()
            && heads > 1;
        Ok(Self { segments: if several { fill } else { 1 }, heads, width })
    }

    /// Queries of a head to take at a time, if `sharing` share it and see at most `visible` tokens, and the words that
    /// they need. Fewer at a time read the caches more often. Fails as [`slot_words`] of one query.
    pub fn queries(
        &self,
        config: &DesignConfig,
        sharing: u32,
        visible: u64,
        step: ScoreStep,
    ) -> Result<(u32, SlotWords)> {
        let gemv = config.gemv();
        let mut queries = sharing.clamp(1, gemv.max_batch().min(gemv.max_vectors() / self.segments));
        loop {
            match slot_words(config, self, visible, (queries, step)) {
                Err(_) if queries > 1 => queries = queries.div_ceil(2),
                words => return Ok((queries, words?)),
            }
        }
    }

    /// Groups of heads: rows per token.
    pub fn groups(&self) -> u32 {
        self.heads.div_ceil(self.segments)
    }

    /// First element of a group and its number of elements.
    pub fn columns(&self, group: u32) -> (u32, u32) {
        let first = group * self.segments;
        (first * self.width, (self.heads - first).min(self.segments) * self.width)
    }
}

/// Attention of one token and group of heads. Heads of Q that share one of K and V are vectors of one block.
#[derive(Clone, Debug)]
pub struct AttentionUnit {
    /// First row of the caches to read: a multiple of the ranks.
    pub first: u32,
    /// Rows to read, the token's own included.
    pub visible: u32,
    /// The keys and the values of the group.
    pub matrices: [MatrixLayout; 2],
    /// Queries of the group's heads, a vector for each that shares the caches, in one or several blocks.
    pub inputs: Vec<VectorBlock>,
    /// Scores in DRAM, in one or several blocks, if the host takes them.
    pub scores: Vec<VectorBlock>,
    /// Vectors for the scores, in one or several blocks: +Inf for rows before the window, -Inf for others. Empty if the
    /// window begins with `first`.
    pub masks: Vec<VectorBlock>,
    /// Destination of the contexts of the heads.
    pub output: VectorBlock,
}

impl AttentionUnit {
    /// Queries.
    fn queries(&self) -> u32 {
        self.output.batch()
    }
}

/// Words of the buffer for a unit in flight: queries first, then sums, scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotWords {
    /// Words of the mask, from word 0, for all units; 0 without one.
    pub mask: u32,
    /// Words of a unit in all.
    pub words: u32,
    /// First word of the sums; 0 if they take the place of the queries, which are not needed after the scores.
    pub sums: u32,
}

/// First words of a unit in flight.
struct Slot {
    query: u32,
    scores: u32,
    sums: u32,
}

/// Words for a unit of at most `visible` tokens and `queries` vectors; an error if softmax or buffer are too small.
pub fn slot_words(
    config: &DesignConfig,
    cut: &HeadCut,
    visible: u64,
    (queries, step): (u32, ScoreStep),
) -> Result<SlotWords> {
    let gemv = config.gemv();
    let longest = gemv.max_cols().min(SOFTMAX_ELEMS);
    if visible > longest.into() {
        let rule = format!("be at most {longest}, the elements of a softmax");
        bail!("tokens of a context = {visible} must {rule}");
    }
    // A query is a word, and its sums are one per lane.
    let words = (1..=visible as u32).rev().take(4 * gemv.stripe_elems() as usize);
    let vectors = cut.segments * queries;
    let scores = words.map(|count| block_words(config, count, vectors)).max().unwrap_or(1);
    // A block of more vectors moves in parts, but only if its vectors have a word each.
    ensure!(
        step == ScoreStep::Direct || vectors <= gemv.max_batch() || scores == vectors,
        "heads of a row = {vectors} must be at most {}, the vectors of a load, if a window or a soft cap has {visible} tokens",
        gemv.max_batch()
    );
    let mask = if step == ScoreStep::Mask { scores } else { 0 };
    let needed = scores + accumulator_words(config, cut.width, queries);
    let what = format!("slice words for a context of {visible} tokens and {vectors} heads");
    let rule = format!("be at most {} (a {} KiB buffer)", buffer_words(config), gemv.buffer_kib());
    require(mask + needed <= buffer_words(config), what, mask + needed, rule)?;
    // Sums that have words of their own are zeroed earlier.
    let places = |words: u32| ((buffer_words(config) - mask) / words).min(2);
    let sums = if places(needed + queries) == places(needed) { queries } else { 0 };
    Ok(SlotWords { mask, words: needed + sums, sums })
}

/// The program for all units, with the words of [`slot_words`] for each.
pub fn attention_program(
    config: &DesignConfig,
    cut: &HeadCut,
    units: &[AttentionUnit],
    (at, part): (SlotWords, AttentionPart),
) -> Vec<Instruction> {
    let queries = units.iter().map(AttentionUnit::queries).max().unwrap_or(1);
    let sums = accumulator_words(config, cut.width, queries);
    let places = ((buffer_words(config) - at.mask) / at.words).min(2);
    let slot = |index: usize| {
        let query = at.mask + index as u32 % places * at.words;
        Slot { query, sums: query + at.sums, scores: query + at.sums + sums }
    };
    let product = |unit: &AttentionUnit, matrix: usize, src: u32, dst: u32| {
        let layout = &unit.matrices[matrix];
        let address = layout.burst_at(layout.offset(unit.first, 0));
        let (batch, count, heads) = (unit.queries(), unit.visible, cut.segments);
        let operands = Operands::of_matrix(unit.output.elements(), address, WeightFormat::Fp16);
        Operands { src, dst, batch, count, heads, ..operands }
    };
    let mut program = Vec::new();
    let mut mask: &[VectorBlock] = &[];
    let begin = |program: &mut Vec<Instruction>, index: usize, unit: &AttentionUnit| {
        let Slot { query, scores, .. } = slot(index);
        if part == AttentionPart::Contexts {
            program.extend(blocks(scores, &unit.scores).map(|(word, block)| load(word, block)));
        } else {
            program.extend(blocks(query, &unit.inputs).map(|(word, block)| load(word, block)));
            program.push(Instruction::Dot(product(unit, 0, query, scores)));
        }
        if part == AttentionPart::Scores {
            program.extend(blocks(scores, &unit.scores).map(|(word, block)| store(word, block)));
            return;
        }
        let mut activate = |operation| {
            let (cols, batch, heads) = (unit.visible, unit.queries(), cut.segments);
            program.push(Instruction::Activate { operation, src: scores, dst: scores, cols, batch, heads });
        };
        if !unit.masks.is_empty() {
            // `max` of negated scores: a mask that is added would make a NaN of +Inf.
            let negate = Activation::Scale { scalar: f16::NEG_ONE.to_bits() };
            activate(negate);
            activate(Activation::Max { other: 0 });
            activate(negate);
        }
        activate(Activation::Softmax);
    };
    let end = |index: usize, unit: &AttentionUnit| {
        let Slot { scores, sums: place, .. } = slot(index);
        let (cols, batch) = (unit.output.elements(), unit.queries());
        [
            Instruction::Zero { dst: place, count: sums },
            Instruction::Axpy(product(unit, 1, scores, place)),
            Instruction::Round { src: place, dst: place, cols, batch },
            store(place, &unit.output),
        ]
    };
    let ahead = places as usize - 1;
    for index in 0..units.len() + ahead {
        if let Some(unit) = units.get(index) {
            if !unit.masks.is_empty() && unit.masks != mask {
                mask = &unit.masks;
                program.extend(blocks(0, mask).map(|(word, block)| load(word, block)));
            }
            begin(&mut program, index, unit);
        }
        let ending = index.checked_sub(ahead).filter(|_| part != AttentionPart::Scores);
        if let Some((index, unit)) = ending.and_then(|index| Some((index, units.get(index)?))) {
            program.extend(end(index, unit));
        }
    }
    program
}

/// Vectors side by side in the buffer, in blocks, and the first word of each. Several blocks have vectors of one word.
fn blocks(first: u32, blocks: &[VectorBlock]) -> impl Iterator<Item = (u32, &VectorBlock)> {
    let next = |word: &mut u32, block: &VectorBlock| {
        let own = *word;
        *word += block.batch();
        Some(own)
    };
    blocks.iter().scan(first, next).zip(blocks)
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
        assert_eq!([cut(4, 80).segments, cut(20, 32).segments, cut(1, 64).segments], [1, 1, 1]);
        assert_eq!((cut(4, 80).groups(), cut(4, 80).columns(3)), (4, (240, 80)));
        let error = HeadCut::new(&hermes, 2, 513).unwrap_err().to_string();
        assert!(error.contains("513") && error.contains("1..=512"), "{error}");
        assert!(HeadCut::new(&hermes, 2, 0).is_err());
    }
}
