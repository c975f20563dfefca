//! Contents of the GEMV unit's buffer, instruction by instruction: the oracle of the unit's testbenches. Works on
//! vectors and exact sums, never on bits of words: only [`RowLayout`] determines the words of a vector or its sums.
//! Products are summed by `exact`, which shares nothing with the design.

use super::exact::{dot, result};
use ndp_config::{GemvConfig, RowLayout};
use std::ops::Range;

/// A vector block: `values[b][k]`.
pub type Block = Vec<Vec<u16>>;
/// An exact sum and its flags.
pub type Sum = (i128, u8);

/// The weights of a product: row ids, and the rows in the same order.
#[derive(Clone, Debug)]
pub struct Matrix {
    /// Place of each row in DRAM, which decides where its tail starts.
    pub ids: Vec<u32>,
    /// FP16 weights of each row.
    pub rows: Vec<Vec<u16>>,
}

#[derive(Clone, Debug)]
pub enum Op {
    Load {
        dst: u32,
        block: Block,
    },
    Store {
        src: u32,
        cols: u32,
        batch: u32,
    },
    Zero {
        dst: u32,
        words: u32,
    },
    /// A matrix times vectors, row by row and head by head: vectors of FP16 results.
    Dot {
        src: u32,
        /// First word of the results, one vector for each head of each vector.
        dst: u32,
        /// Elements of a vector and of a row, all heads together.
        cols: u32,
        batch: u32,
        heads: u32,
        matrix: Matrix,
    },
    /// Adds the rows of a matrix, each times an element of the vectors, to exact sums.
    Axpy {
        /// First word of the vectors, one for each head of each sum, with an element for each row.
        src: u32,
        dst: u32,
        cols: u32,
        batch: u32,
        heads: u32,
        matrix: Matrix,
    },
    /// Exact sums to vectors of FP16.
    Round {
        src: u32,
        dst: u32,
        cols: u32,
        batch: u32,
    },
}

pub fn block_words(config: &GemvConfig, n: u32, batch: u32) -> u32 {
    RowLayout::new(config, n).words_per_vector() * batch
}

pub fn sum_words(config: &GemvConfig, n: u32, batch: u32) -> u32 {
    block_words(config, n, batch) * config.lanes()
}

impl Op {
    /// Words that are read, and words that are written.
    pub fn uses(&self, config: &GemvConfig) -> (Range<u32>, Range<u32>) {
        let block = |at: u32, n, batch| at..at + block_words(config, n, batch);
        let sums = |at: u32, n, batch| at..at + sum_words(config, n, batch);
        match self {
            Self::Load { dst, block: values } => {
                (0..0, block(*dst, values[0].len() as u32, values.len() as u32))
            }
            Self::Store { src, cols, batch } => (block(*src, *cols, *batch), 0..0),
            Self::Zero { dst, words } => (0..0, *dst..*dst + words),
            Self::Dot { src, dst, cols, batch, heads, matrix } => {
                (block(*src, *cols, *batch), block(*dst, matrix.ids.len() as u32, batch * heads))
            }
            Self::Axpy { src, dst, cols, batch, heads, matrix } => {
                (block(*src, matrix.ids.len() as u32, batch * heads), sums(*dst, *cols, *batch))
            }
            Self::Round { src, dst, cols, batch } => (sums(*src, *cols, *batch), block(*dst, *cols, *batch)),
        }
    }
}

#[derive(Clone, Debug)]
pub enum Content {
    /// Zeros: vectors of any size and empty sums.
    Zero,
    Vectors(Block),
    Sums(Vec<Vec<Sum>>),
}

#[derive(Clone, Debug)]
pub struct Region {
    pub words: Range<u32>,
    pub content: Content,
}

pub struct BufferModel {
    config: GemvConfig,
    regions: Vec<Region>,
}

/// A NaN leaves the buffer as the canonical one, everything else unchanged.
fn canonical(bits: u16) -> u16 {
    if bits & 0x7FFF > 0x7C00 { 0x7E00 } else { bits }
}

/// A weight without the significand bits that `steps` serial steps do not reach.
fn truncated(bits: u16, steps: u32) -> u16 {
    let cut = 11 - steps;
    // An infinity and a NaN have no significand to cut.
    if bits & 0x7C00 == 0x7C00 { bits } else { bits >> cut << cut }
}

impl BufferModel {
    pub fn new(config: &GemvConfig) -> Self {
        Self { config: config.clone(), regions: Vec::new() }
    }

    pub fn regions(&self) -> &[Region] {
        &self.regions
    }

    pub fn forget(&mut self) {
        self.regions.clear();
    }

    fn write(&mut self, words: Range<u32>, content: Content) {
        self.regions.retain(|r| r.words.end <= words.start || words.end <= r.words.start);
        self.regions.push(Region { words, content });
    }

    fn find(&self, words: &Range<u32>) -> &Content {
        let within = |r: &&Region| match r.content {
            Content::Zero => r.words.start <= words.start && words.end <= r.words.end,
            _ => r.words == *words,
        };
        match self.regions.iter().find(within) {
            Some(region) => &region.content,
            None => panic!("the program reads words {words:?}, whose contents are unknown"),
        }
    }

    fn vectors(&self, at: u32, n: u32, batch: u32) -> Block {
        // If vectors are a word each, a part of a block's vectors is also a block.
        if block_words(&self.config, n, 1) == 1 {
            let part = self.regions.iter().find_map(|region| match &region.content {
                Content::Vectors(block) if region.words.contains(&at) && block[0].len() == n as usize => {
                    let first = (at - region.words.start) as usize;
                    block.get(first..first + batch as usize)
                }
                _ => None,
            });
            if let Some(part) = part {
                return part.to_vec();
            }
        }
        match self.find(&(at..at + block_words(&self.config, n, batch))) {
            Content::Vectors(block) => {
                assert_eq!((block.len(), block[0].len()), (batch as usize, n as usize), "block at {at}");
                block.clone()
            }
            Content::Zero => vec![vec![0; n as usize]; batch as usize],
            Content::Sums(_) => panic!("there are sums at {at}"),
        }
    }

    fn sums(&self, at: u32, n: u32, batch: u32) -> Vec<Vec<Sum>> {
        match self.find(&(at..at + sum_words(&self.config, n, batch))) {
            Content::Sums(sums) => {
                assert_eq!((sums.len(), sums[0].len()), (batch as usize, n as usize), "sums at {at}");
                sums.clone()
            }
            Content::Zero => vec![vec![(0, 0); n as usize]; batch as usize],
            Content::Vectors(_) => panic!("there is a vector block at {at}"),
        }
    }

    fn columns_of(&self, head: usize, heads: u32, cols: u32) -> Range<usize> {
        let (width, cols) = ((self.config.stripe_elems() / heads) as usize, cols as usize);
        match heads {
            1 => 0..cols,
            _ => (head * width).min(cols)..((head + 1) * width).min(cols),
        }
    }

    /// Executes a command; returns the values that leave the unit: the block of a store, the results of a DOT.
    pub fn execute(&mut self, op: &Op) -> Block {
        let (_, written) = op.uses(&self.config);
        let weight = |w: &u16| truncated(*w, self.config.serial_steps());
        let canonical = |block: Block| -> Block {
            block.into_iter().map(|v| v.into_iter().map(canonical).collect()).collect()
        };
        match op {
            Op::Load { block, .. } => {
                self.write(written, Content::Vectors(block.clone()));
                Vec::new()
            }
            Op::Store { src, cols, batch } => canonical(self.vectors(*src, *cols, *batch)),
            Op::Zero { .. } => {
                self.write(written, Content::Zero);
                Vec::new()
            }
            Op::Dot { src, cols, batch, heads, matrix, .. } => {
                let x = self.vectors(*src, *cols, *batch);
                let rows: Block = matrix.rows.iter().map(|row| row.iter().map(weight).collect()).collect();
                let value = |row: &Vec<u16>, x: &Vec<u16>, columns: Range<usize>| {
                    let (sum, flags) = dot(&row[columns.clone()], &x[columns]);
                    result(sum, flags)
                };
                let mut y: Block = Vec::new();
                for (x, head) in x.iter().flat_map(|x| (0..*heads as usize).map(move |head| (x, head))) {
                    let columns = self.columns_of(head, *heads, *cols);
                    y.push(rows.iter().map(|row| value(row, x, columns.clone())).collect());
                }
                self.write(written, Content::Vectors(y.clone()));
                y
            }
            Op::Axpy { src, dst, cols, batch, heads, matrix } => {
                let a = self.vectors(*src, matrix.ids.len() as u32, batch * heads);
                let mut sums = self.sums(*dst, *cols, *batch);
                for (index, a) in a.iter().enumerate() {
                    let sums = &mut sums[index / *heads as usize];
                    let columns = self.columns_of(index % *heads as usize, *heads, *cols);
                    for (a, row) in a.iter().zip(&matrix.rows) {
                        for (sum, w) in sums[columns.clone()].iter_mut().zip(&row[columns.clone()]) {
                            let (product, flags) = dot(&[weight(w)], &[*a]);
                            *sum = (sum.0 + product, sum.1 | flags);
                        }
                    }
                }
                self.write(written, Content::Sums(sums));
                Vec::new()
            }
            Op::Round { src, cols, batch, .. } => {
                let sums = self.sums(*src, *cols, *batch);
                let rounded = |sums: Vec<Sum>| sums.into_iter().map(|(sum, flags)| result(sum, flags));
                let block = sums.into_iter().map(|sums| rounded(sums).collect()).collect();
                self.write(written, Content::Vectors(block));
                Vec::new()
            }
        }
    }
}
