//! A random program being written: the contents of buffer, list memory and DRAM at this point.
//! [`crate::random_programs`] chooses the next instructions.

use std::ops::Range;

use ndp_config::{DesignConfig, WeightFormat};
use ndp_isa::layout::MatrixLayout;
use ndp_isa::{Code, Data, ErrorCode, Instruction, Program, RandomKind, accumulator_words, block_words};
use ndp_numerics::SplitMix64;

use crate::{ProgramOptions, malformed_word};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Vectors,
    Sums,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Live {
    pub(crate) kind: Kind,
    pub(crate) base: u32,
    pub(crate) words: u32,
    pub(crate) elements: u32,
    pub(crate) batch: u32,
}

impl Live {
    pub(crate) fn meets(&self, words: &Range<u32>) -> bool {
        self.base < words.end && words.start < self.base + self.words
    }
}

/// Bursts of the DIMM that vectors are loaded from or stored to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Region {
    pub(crate) address: u32,
    pub(crate) bursts: u32,
    /// Accessed since the last barrier.
    pub(crate) touched: bool,
    pub(crate) output: bool,
    /// Elements and vectors of the accumulators exported here last, if they are all still there.
    pub(crate) sums: Option<(u32, u32)>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Matrix {
    pub(crate) address: u32,
    pub(crate) rows: u32,
    pub(crate) cols: u32,
    pub(crate) weights: WeightFormat,
    pub(crate) shared: bool,
}

/// Entries of the list memory, all below a number of rows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct List {
    pub(crate) first: u32,
    pub(crate) count: u32,
    pub(crate) rows: u32,
}

pub(crate) struct Writer<'a> {
    pub(crate) config: &'a DesignConfig,
    pub(crate) random: SplitMix64,
    pub(crate) options: ProgramOptions,
    pub(crate) program: Program,
    pub(crate) cycles: u64,
    pub(crate) live: Vec<Live>,
    pub(crate) regions: Vec<Region>,
    pub(crate) matrices: Vec<Matrix>,
    pub(crate) lists: Vec<List>,
    /// Next free burst of each rank, modulo their number.
    pub(crate) next_burst: u64,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(config: &'a DesignConfig, mut random: SplitMix64, options: ProgramOptions) -> Self {
        let bursts = config.dram().bursts();
        // Often at the start, sometimes across the end of the DRAM, where addresses continue at 0.
        let next_burst = match random.next_u64() % 4 {
            0 => bursts - 1 - random.next_u64() % 30,
            1 => random.next_u64() % bursts,
            _ => random.next_u64() % 300,
        };
        let program = Program::default();
        let (live, regions, matrices, lists) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { config, random, options, program, cycles: 0, live, regions, matrices, lists, next_burst }
    }

    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        (self.random.next_u64() % u64::from(bound.max(1))) as u32
    }

    pub(crate) fn chance(&mut self, percent: u32) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn pick<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        let index = self.below(from.len() as u32) as usize;
        from.get(index).copied()
    }

    /// Adds an instruction and applies its effect on the buffer.
    pub(crate) fn push(&mut self, instruction: Instruction) {
        debug_assert_eq!(instruction.check(self.config), Ok(()), "{instruction}");
        if self.below(100) < self.options.malformed_percent {
            let codes = ErrorCode::PRECEDENCE;
            let code = codes[self.below(codes.len() as u32) as usize];
            self.program.code.push(Code::Word(malformed_word(self.config, code, &mut self.random)));
        }
        for words in instruction.writes(self.config).buffer {
            self.live.retain(|block| !block.meets(&words));
        }
        if instruction == Instruction::Barrier {
            self.regions.iter_mut().for_each(|region| region.touched = false);
        }
        self.cycles += 4;
        self.program.push(instruction);
    }

    pub(crate) fn keep(&mut self, kind: Kind, base: u32, elements: u32, batch: u32) {
        let words = match kind {
            Kind::Vectors => block_words(self.config, elements, batch),
            Kind::Sums => accumulator_words(self.config, elements, batch),
        };
        self.live.push(Live { kind, base, words, elements, batch });
    }

    /// Blocks with a batch that every instruction supports.
    pub(crate) fn blocks(&self, kind: Kind) -> Vec<Live> {
        let most = self.config.gemv().max_batch();
        self.live.iter().copied().filter(|block| block.kind == kind && block.batch <= most).collect()
    }

    /// Vector blocks of `vectors` vectors for the scalars of several heads. Vectors of one word each may be two
    /// adjacent blocks.
    pub(crate) fn scalar_blocks(&self, vectors: u32) -> Vec<Live> {
        let whole = |block: &&Live| block.kind == Kind::Vectors && block.batch == vectors;
        let mut found: Vec<Live> = self.live.iter().filter(whole).copied().collect();
        for first in &self.live {
            let second = self.live.iter().find(|second| {
                (second.kind, second.elements, second.base)
                    == (first.kind, first.elements, first.base + first.words)
            });
            if let Some(second) = second
                && first.kind == Kind::Vectors
                && block_words(self.config, first.elements, 1) == 1
                && first.batch + second.batch == vectors
            {
                found.push(Live { words: vectors, batch: vectors, ..*first });
            }
        }
        found
    }

    /// Allocates bursts of each rank, after the last ones.
    pub(crate) fn allocate(&mut self, bursts: u64) -> u32 {
        let first = self.next_burst;
        let gap = u64::from(self.below(3));
        self.next_burst = (first + bursts + gap) % self.config.dram().bursts();
        first as u32
    }

    pub(crate) fn region(&mut self, bursts: u32) -> usize {
        let ranks = self.config.gemv().ranks();
        let first = self.allocate((bursts + ranks).div_ceil(ranks).into());
        // Not always in rank 0.
        let address = first * ranks + self.below(ranks);
        self.regions.push(Region { address, bursts, touched: false, output: false, sums: None });
        self.regions.len() - 1
    }

    pub(crate) fn kind(&mut self) -> RandomKind {
        [RandomKind::Normal, RandomKind::Normal, RandomKind::Finite, RandomKind::Special, RandomKind::Bits]
            [self.below(5) as usize]
    }

    /// A number of elements: mostly few, around the borders of beats and stripes, sometimes many.
    pub(crate) fn elements(&mut self) -> u32 {
        let gemv = self.config.gemv();
        let (stripe, wave) = (gemv.stripe_elems(), gemv.stripe_elems() * gemv.ranks());
        if self.chance(1) {
            return 1 + self.below(gemv.max_cols());
        }
        let elements = match self.below(10) {
            0..=3 => 1 + self.below(40),
            4 | 5 => 32 * (1 + self.below(6)) + self.below(3) - 1,
            6 | 7 => stripe * (1 + self.below(6)) + self.below(3) - 1,
            8 => 1 + self.below(4 * wave),
            _ => wave * (1 + self.below(4)) + self.below(3) - 1,
        };
        elements.clamp(1, gemv.max_cols())
    }

    /// A number of vectors, small enough that blocks leave room for others.
    pub(crate) fn batch(&mut self) -> u32 {
        let max = self.config.gemv().max_batch();
        if self.chance(40) { 1 } else { 1 + self.below(max) }
    }

    /// Rough cycles of rows: beats at the memory's rate or windows.
    pub(crate) fn row_cycles(&self, rows: u32, cols: u32, batch: u32) -> u64 {
        let gemv = self.config.gemv();
        let stripes = cols.div_ceil(gemv.stripe_elems()).div_ceil(gemv.ranks());
        let stripe = (gemv.beats_per_stripe() * 5 / 2).max(gemv.window_cycles() * batch);
        u64::from(rows) * u64::from(stripes * stripe + 2)
    }

    /// A place for `words` words, outside of `avoid`.
    pub(crate) fn place(&mut self, words: u32, avoid: Option<Live>) -> Option<u32> {
        let room = self.config.gemv().slice_words().min(1024).checked_sub(words)?;
        for _ in 0..8 {
            let base = self.below(room + 1);
            if !avoid.is_some_and(|block| block.meets(&(base..base + words))) {
                return Some(base);
            }
        }
        None
    }

    pub(crate) fn fence(&mut self, region: usize) {
        if self.regions[region].touched {
            self.push(Instruction::Barrier);
        }
        self.regions[region].touched = true;
    }

    /// A region with random data, and sometimes a burst of all special values.
    pub(crate) fn vector_data(&mut self, bursts: u32) -> usize {
        let region = self.region(bursts);
        let (address, seed, kind) = (self.regions[region].address, self.random.next_u64(), self.kind());
        self.program.data.push(Data::Random { address, bursts, seed, kind });
        if self.chance(15) {
            let total = 1u64 << self.config.dimm_burst_bits();
            let at = ((u64::from(address) + u64::from(self.below(bursts))) % total) as u32;
            let values = (0..32).map(|_| RandomKind::SPECIALS[self.below(12) as usize]).collect();
            self.program.data.push(Data::F16 { address: at, values });
        }
        region
    }

    /// A format of weights; draws nothing in a design with only FP16.
    pub(crate) fn weights(&mut self) -> WeightFormat {
        match self.config.gemv().weight_formats() {
            [only] => *only,
            formats => self.pick(formats).unwrap_or_default(),
        }
    }

    /// Whether rows of a matrix share scales; draws nothing for FP16.
    fn shares(&mut self, weights: WeightFormat) -> bool {
        weights != WeightFormat::Fp16 && self.chance(50)
    }

    /// A matrix of at least `rows` rows of `cols` elements.
    pub(crate) fn matrix(&mut self, rows: u32, cols: u32) -> Option<Matrix> {
        self.matrix_of(rows, cols, None, true)
    }

    /// [`Self::matrix`], whose rows can be listed.
    pub(crate) fn listed_matrix(&mut self, rows: u32, cols: u32) -> Option<Matrix> {
        self.matrix_of(rows, cols, None, false)
    }

    /// [`Self::matrix`] of format `only` or any, with rows that `may_share` scales.
    pub(crate) fn matrix_of(
        &mut self,
        rows: u32,
        cols: u32,
        only: Option<WeightFormat>,
        may_share: bool,
    ) -> Option<Matrix> {
        let fits = |m: &Matrix| {
            m.cols == cols
                && m.rows >= rows
                && only.is_none_or(|format| m.weights == format)
                && (may_share || !m.shared)
        };
        let fitting: Vec<Matrix> = self.matrices.iter().copied().filter(fits).collect();
        if self.chance(50)
            && let Some(matrix) = self.pick(&fitting)
        {
            return Some(matrix);
        }
        let weights = only.unwrap_or_else(|| self.weights());
        let shared = may_share && self.shares(weights);
        let place = if shared { MatrixLayout::sharing_scales } else { MatrixLayout::with_weights };
        let layout = place(self.config, 0, rows, cols, weights).ok()?;
        let address = self.allocate(layout.bursts_per_rank());
        let (seed, kind) = (self.random.next_u64(), self.kind());
        self.program.data.push(Data::Matrix { address, rows, cols, weights, shared, seed, kind });
        let matrix = Matrix { address, rows, cols, weights, shared };
        self.matrices.push(matrix);
        Some(matrix)
    }

    pub(crate) fn list(&mut self, count: u32, rows: u32) -> Option<u32> {
        let fitting: Vec<List> =
            self.lists.iter().copied().filter(|list| list.count >= count && list.rows <= rows).collect();
        if self.chance(40)
            && let Some(list) = self.pick(&fitting)
        {
            return Some(list.first + self.below(list.count - count + 1));
        }
        let entries = self.config.core().list_entries();
        let written = count.next_multiple_of(16);
        // Close together, so that lists overwrite each other.
        let places = (entries.checked_sub(written)? / 16).min(12) + 1;
        let first = 16 * self.below(places);
        let bursts = count.div_ceil(16);
        let region = self.region(bursts);
        let address = self.regions[region].address;
        // No vectors are loaded from or stored to the list.
        self.regions.remove(region);
        // The high bits of an entry mean nothing.
        let values = (0..count).map(|_| self.below(rows) | self.below(256) << 24).collect();
        self.program.data.push(Data::U32 { address, values });
        self.push(Instruction::List { list: first, count, address });
        self.lists.retain(|list| list.first >= first + written || list.first + list.count <= first);
        self.lists.push(List { first, count, rows });
        self.cycles += u64::from(bursts * 3);
        Some(first)
    }

    /// Stored data taken as a matrix of as many rows as there are, up to 32.
    pub(crate) fn stored_matrix(&mut self, cols: u32, only: Option<WeightFormat>) -> Option<Matrix> {
        let ranks = self.config.gemv().ranks();
        let outputs: Vec<usize> =
            (0..self.regions.len()).filter(|&index| self.regions[index].output).collect();
        let index = self.pick(&outputs)?;
        let region = self.regions[index];
        // Bursts of it that every rank has.
        let first = region.address.div_ceil(ranks);
        let bursts = ((region.address + region.bursts) / ranks).saturating_sub(first);
        let weights = only.unwrap_or_else(|| self.weights());
        let shared = self.shares(weights);
        let place = if shared { MatrixLayout::sharing_scales } else { MatrixLayout::with_weights };
        let rows = (1..=32).rev().find(|&rows| {
            let layout = place(self.config, 0, rows, cols, weights);
            layout.is_ok_and(|layout| layout.bursts_per_rank() <= bursts.into())
        })?;
        self.fence(index);
        let address = (u64::from(first) % self.config.dram().bursts()) as u32;
        Some(Matrix { address, rows, cols, weights, shared })
    }

    /// Rows and perhaps a list for a product of `count` rows of `cols` elements.
    pub(crate) fn rows(&mut self, count: u32, cols: u32) -> Option<(Matrix, Option<u32>)> {
        if count > self.config.core().list_entries() || !self.chance(50) {
            return Some((self.matrix(count, cols)?, None));
        }
        let rows = 1 + self.below(2 * count.min(200));
        let matrix = self.listed_matrix(rows, cols)?;
        let list = self.list(count, matrix.rows)?;
        Some((matrix, Some(list)))
    }
}
