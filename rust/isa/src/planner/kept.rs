//! FC1 and FC2 without the host in between: results of a listed DOT stay in the buffer, and an AXPY takes them with the
//! rows of the same numbers: after a ReLU only positive ones, with a threshold those above it. Results of a gate are first multiplied by the products of
//! another matrix, whose rows are read only for results that are taken.

use crate::layout::MatrixLayout;
use crate::planner::product::{Chunk, buffer_words, list_piece, longest, operands};
use crate::{Activation, Condition, Instruction, Numbers, Product, accumulator_words, block_words};
use ndp_config::{DesignConfig, require};
use ndp_files::Result;
use std::ops::Range;

/// Results of a DOT that stay in the buffer, chunk by chunk at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptOutputs {
    pub(crate) chunks: Vec<Chunk>,
    batch: u32,
    /// Columns of the AXPY.
    cols: u32,
    /// First words of two places, used in turn by selected values, and the condition that they meet; `None` if all are
    /// taken where they are.
    factors: Option<([u32; 2], Condition)>,
    /// First word of the vectors.
    pub(crate) source: u32,
    /// First words of two places for products that a gate multiplies.
    products: Option<[u32; 2]>,
}

impl KeptOutputs {
    /// For a DOT of `count` listed rows with `batch` vectors of `inputs` elements, and an AXPY of rows of `cols`
    /// elements. The AXPY takes results that meet the condition in some vector, all without one. `None` if results and sums
    /// do not fit; a gate also needs room for the vectors.
    pub fn new(
        config: &DesignConfig,
        (inputs, count, batch): (u32, u32, u32),
        cols: u32,
        (is_gate, condition): (bool, Option<Condition>),
    ) -> Option<Self> {
        let (words, most) = (buffer_words(config), list_piece(config).min(longest(config)));
        if batch > config.gemv().max_batch() || inputs.max(cols) > longest(config) {
            return None;
        }
        let counts = (0..count.div_ceil(most)).map(|index| most.min(count - index * most));
        let results: u32 = counts.clone().map(|count| block_words(config, count, batch)).sum();
        // A shorter list may take more words.
        let largest = counts.clone().map(|count| block_words(config, count, batch)).max().unwrap_or(0);
        let mut dst = words.checked_sub(results)?;
        // Besides: two places for biases, then selected values; with a gate two more.
        let (vectors, sums) = (block_words(config, inputs, batch), accumulator_words(config, cols, batch));
        let factors = condition.map(|condition| ([sums, sums + largest], condition));
        let selected = factors.map_or(0, |_| 2 * largest);
        let mut needed = (vectors + 2 * largest).max(sums + selected);
        let (mut source, mut products, mut others) = (0, None, vectors);
        if is_gate {
            let first = sums + selected;
            products = Some([first, first + largest]);
            (source, others) = (dst.saturating_sub(vectors), sums);
            needed = first + 2 * largest + vectors;
        }
        if needed > dst {
            return None;
        }
        let mut chunks = Vec::new();
        for (index, count) in (0..).zip(counts) {
            let half = index % 2;
            chunks.push(Chunk { first: index * most, count, half, dst, other: others + half * largest });
            dst += block_words(config, count, batch);
        }
        Some(Self { chunks, batch, cols, factors, source, products })
    }

    /// Ranges of the list whose results each selection takes; none if nothing is selected.
    pub fn selections(&self) -> impl Iterator<Item = Range<usize>> {
        let range = |chunk: &Chunk| chunk.first as usize..(chunk.first + chunk.count) as usize;
        self.chunks.iter().filter(|_| self.factors.is_some()).map(range)
    }

    /// Words that the DOT does not use for vectors and results.
    pub(crate) fn free(&self) -> Range<u32> {
        let results = self.chunks.first().map_or(0, |chunk| chunk.dst);
        let first = self.chunks.first().map_or(0, |chunk| chunk.other);
        first..if self.products.is_some() { self.source } else { results }
    }

    /// Results of each vector.
    pub fn count(&self) -> u32 {
        self.chunks.iter().map(|chunk| chunk.count).sum()
    }

    /// Program of the AXPY; sums stay in the buffer, starting at word 0. `lists` are the DOT's lists in DRAM
    /// ([`crate::planner::Plan::lists`]), with rows of `layout` and of `up`, the matrix of a gate. `None` takes the
    /// list memory as [`crate::planner::Plan::predicted`] left it. Fails for other columns or lists, for a gate without
    /// `up`, and for `up` without a gate.
    pub fn axpy(
        &self,
        config: &DesignConfig,
        (layout, up): (&MatrixLayout, Option<&MatrixLayout>),
        lists: Option<&[(u32, u32, u32)]>,
    ) -> Result<Vec<Instruction>> {
        for (what, value, expected) in [
            ("columns of the matrix", layout.cols(), self.cols),
            ("lists of the results", lists.map_or(1, <[_]>::len) as u32, self.chunks.len() as u32),
            ("matrices besides the gate's", up.is_some().into(), self.products.is_some().into()),
        ] {
            let rule = format!("be {expected}, as for the results that were kept");
            require(value == expected, what, value, rule)?;
        }
        let (cols, batch) = (self.cols, self.batch);
        let entry = |chunk: &Chunk| chunk.half * list_piece(config);
        let list = |(chunk, (_, count, address)): (&Chunk, &(u32, u32, u32))| Instruction::List {
            list: entry(chunk),
            count: *count,
            address: *address,
        };
        let mut lists = self.chunks.iter().zip(lists.unwrap_or_default()).map(list);
        let mut program = vec![Instruction::Zero { dst: 0, count: accumulator_words(config, cols, batch) }];
        program.extend(lists.next());
        for chunk in &self.chunks {
            let (count, list) = (chunk.count, entry(chunk));
            let numbers = Numbers::Listed(list);
            let selected = self.factors.map(|(places, condition)| (places[chunk.half as usize], condition));
            let dst = selected.map_or(chunk.dst, |(place, _)| place);
            let product = |layout, (src, dst)| {
                let (list, selected) = (Some(list), selected.is_some());
                Product { src, dst, batch, count, list, selected, ..operands(layout) }
            };
            if let Some((_, condition)) = selected {
                let src = chunk.dst;
                program.push(Instruction::Select { src, dst, cols: count, batch, list, numbers, condition });
            }
            if let (Some(up), Some(products)) = (up, self.products) {
                let other = products[chunk.half as usize];
                program.push(Instruction::Dot(product(up, (self.source, other))));
                program.push(Activation::Mul { other }.in_place(dst, count, batch));
            }
            program.extend(lists.next());
            program.push(Instruction::Axpy(product(layout, (dst, 0))));
        }
        Ok(program)
    }
}
