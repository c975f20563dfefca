//! FC1 and FC2 without the host in between: results of a listed DOT stay in the buffer, and an AXPY takes the positive
//! ones with the rows of the same numbers. Results of a gate are first multiplied by the products of another matrix,
//! whose rows are read only for positive ones.

use crate::layout::MatrixLayout;
use crate::planner::product::{Chunk, buffer_words, list_piece, longest, operands};
use crate::{Activation, Instruction, Numbers, Product, accumulator_words, block_words};
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
    /// First words of two places, used in turn by selected values.
    factors: [u32; 2],
    /// First word of the vectors.
    pub(crate) source: u32,
    /// First words of two places for products that a gate multiplies.
    products: Option<[u32; 2]>,
}

impl KeptOutputs {
    /// For a DOT of `count` listed rows with `batch` vectors of `inputs` elements, and an AXPY of rows of `cols`
    /// elements. `None` if results and sums do not fit; a gate also needs room for the vectors.
    pub fn new(
        config: &DesignConfig,
        (inputs, count, batch): (u32, u32, u32),
        cols: u32,
        is_gate: bool,
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
        let mut needed = vectors.max(sums) + 2 * largest;
        let (mut source, mut products, mut others) = (0, None, vectors);
        if is_gate {
            products = Some([sums + 2 * largest, sums + 3 * largest]);
            (source, others) = (dst.saturating_sub(vectors), sums);
            needed = sums + 4 * largest + vectors;
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
        Some(Self { chunks, batch, cols, factors: [sums, sums + largest], source, products })
    }

    /// Ranges of the list whose results each selection takes.
    pub fn selections(&self) -> impl Iterator<Item = Range<usize>> {
        self.chunks.iter().map(|chunk| chunk.first as usize..(chunk.first + chunk.count) as usize)
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
            let (dst, count, list) = (self.factors[chunk.half as usize], chunk.count, entry(chunk));
            let numbers = Numbers::Listed(list);
            let product = |layout, (src, dst)| {
                let list = Some(list);
                Product { src, dst, batch, count, list, selected: true, ..operands(layout) }
            };
            program.push(Instruction::Select { src: chunk.dst, dst, cols: count, batch, list, numbers });
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
