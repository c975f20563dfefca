//! FC1 and FC2 of a core's neurons without a host between them: the results of a listed DOT stay in the buffer, and an AXPY takes those that
//! are positive, with the rows of the same numbers.

use crate::PlanError;
use crate::product::{Chunk, buffer_words, list_piece, longest};
use ndp_config::DesignConfig;
use ndp_isa::{Instruction, Numbers, Product, accumulator_words, block_words};
use ndp_layout::MatrixLayout;

/// Where the results of a DOT stay: chunk by chunk at the end of the buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeptOutputs {
    pub(crate) chunks: Vec<Chunk>,
    batch: u32,
    /// Columns of the AXPY.
    cols: u32,
    /// First words of the places that selected values use in turn.
    factors: [u32; 2],
}

impl KeptOutputs {
    /// For a DOT of `count` listed rows with `batch` vectors of `inputs` elements, and an AXPY of rows of `cols` elements; none if the buffer
    /// does not hold the results beside the sums of all columns.
    pub fn new(config: &DesignConfig, (inputs, count, batch): (u32, u32, u32), cols: u32) -> Option<Self> {
        let (words, most) = (buffer_words(config), list_piece(config).min(longest(config)));
        if batch > config.gemv().max_batch() || inputs.max(cols) > longest(config) {
            return None;
        }
        let counts = (0..count.div_ceil(most)).map(|index| most.min(count - index * most));
        let results: u32 = counts.clone().map(|count| block_words(config, count, batch)).sum();
        let largest = block_words(config, most.min(count), batch);
        let mut dst = words.checked_sub(results)?;
        // Both products have two places beside these: for biases, then for selected values.
        let (vectors, sums) = (block_words(config, inputs, batch), accumulator_words(config, cols, batch));
        if vectors.max(sums) + 2 * largest > dst {
            return None;
        }
        let mut chunks = Vec::new();
        for (index, count) in (0..).zip(counts) {
            let half = index % 2;
            chunks.push(Chunk { first: index * most, count, half, dst, other: vectors + half * largest });
            dst += block_words(config, count, batch);
        }
        Some(Self { chunks, batch, cols, factors: [sums, sums + largest] })
    }

    /// Results of each vector.
    pub fn count(&self) -> u32 {
        self.chunks.iter().map(|chunk| chunk.count).sum()
    }

    /// The program of the AXPY: its sums stay in the buffer from word 0 on. `lists` are those of the DOT ([`crate::Plan::lists`]), which are in DRAM
    /// still; entries name rows of `layout`.
    ///
    /// # Errors
    /// [`PlanError::Config`] for a matrix of other columns, or other lists.
    pub fn axpy(
        &self,
        config: &DesignConfig,
        layout: &MatrixLayout,
        lists: &[(u32, u32, u32)],
    ) -> Result<Vec<Instruction>, PlanError> {
        for (what, value, expected) in [
            ("columns of the matrix", layout.cols(), self.cols),
            ("lists of the results", lists.len() as u32, self.chunks.len() as u32),
        ] {
            if value != expected {
                let rule = format!("be {expected}, as for the results that were kept");
                return Err(ndp_config::ConfigError::Mismatch {
                    what: what.to_owned(),
                    value: value.into(),
                    rule,
                }
                .into());
            }
        }
        let (cols, batch) = (self.cols, self.batch);
        let entry = |chunk: &Chunk| chunk.half * list_piece(config);
        let list = |(chunk, (_, count, address)): (&Chunk, &(u32, u32, u32))| Instruction::List {
            list: entry(chunk),
            count: *count,
            address: *address,
        };
        let mut lists = self.chunks.iter().zip(lists).map(list);
        let mut program = vec![Instruction::Zero { dst: 0, count: accumulator_words(config, cols, batch) }];
        program.extend(lists.next());
        for chunk in &self.chunks {
            let (dst, count, list) = (self.factors[chunk.half as usize], chunk.count, entry(chunk));
            let numbers = Numbers::Listed(list);
            program.push(Instruction::Select { src: chunk.dst, dst, cols: count, batch, list, numbers });
            // The next list comes while this product runs.
            program.extend(lists.next());
            program.push(Instruction::Axpy(Product {
                src: dst,
                dst: 0,
                cols,
                batch,
                count,
                address: layout.base(),
                list: Some(list),
                heads: 1,
                selected: true,
            }));
        }
        Ok(program)
    }
}
