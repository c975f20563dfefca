//! Random programs whose every result is specified.
//!
//! A program loads, multiplies, accumulates, rounds and stores at random places of the buffer, so that words are reused
//! while earlier instructions may still use them, and ends by storing everything that has a value. The contents of
//! words are tracked while the program is written; instructions read only specified ones. A barrier precedes every
//! reuse of DRAM. The same seed gives the same programs.

use ndp_config::DesignConfig;
use ndp_isa::{
    Activation, Data, Dump, Instruction, Product, Program, RandomKind, accumulator_words, block_words, fields,
};
use ndp_numerics::SplitMix64;

use crate::program_writer::{Kind, Live, Region, Writer};
use ndp_isa::layout::MatrixLayout;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProgramOptions {
    /// Instructions are added until a rough estimate of the program's cycles exceeds this number.
    pub cycles: u32,
    /// Malformed words for each 100 instructions, of every kind.
    pub malformed_percent: u32,
}

impl Default for ProgramOptions {
    fn default() -> Self {
        Self { cycles: 3000, malformed_percent: 0 }
    }
}

#[derive(Debug, Clone)]
pub struct RandomPrograms {
    config: DesignConfig,
    options: ProgramOptions,
    random: SplitMix64,
}

impl RandomPrograms {
    pub fn new(config: &DesignConfig, seed: u64) -> Self {
        Self::with_options(config, seed, ProgramOptions::default())
    }

    pub fn with_options(config: &DesignConfig, seed: u64, options: ProgramOptions) -> Self {
        Self { config: config.clone(), options, random: SplitMix64::new(seed) }
    }

    pub fn next_program(&mut self) -> Program {
        let mut writer = Writer::new(&self.config, SplitMix64::new(self.random.next_u64()), self.options);
        while writer.cycles < u64::from(self.options.cycles) {
            writer.step();
        }
        writer.finish()
    }
}

impl Iterator for RandomPrograms {
    type Item = Program;

    fn next(&mut self) -> Option<Program> {
        Some(self.next_program())
    }
}

impl Writer<'_> {
    fn step(&mut self) {
        // A step without effect has a cost too, so programs end.
        self.cycles += 4;
        match self.below(35) {
            0..=3 => drop(self.load(None, None)),
            4..=6 => drop(self.dot()),
            7 | 8 => drop(self.dot_heads()),
            9..=11 => drop(self.axpy()),
            12 => drop(self.axpy_heads()),
            13 | 14 => drop(self.round()),
            15 | 16 => drop(self.store()),
            17 => drop(self.zero_vectors()),
            18 => {
                let tag = self.random.next_u64() as u32;
                self.push(Instruction::Signal { tag });
            }
            19..=22 => drop(self.activate()),
            23 | 24 => drop(self.append()),
            26 | 27 => drop(self.export()),
            28 | 29 => drop(self.import()),
            30 | 31 => drop(self.merge()),
            32..=34 => drop(self.select()),
            _ if self.chance(50) => self.push(Instruction::Nop),
            _ => self.push(Instruction::Barrier),
        }
    }

    /// A vector block from fresh data, or from stored data.
    fn load(&mut self, elements: Option<u32>, batch: Option<u32>) -> Option<Live> {
        let elements = elements.unwrap_or_else(|| self.elements());
        let batch = batch.unwrap_or_else(|| self.batch());
        let words = block_words(self.config, elements, batch);
        let dst = self.place(words, None)?;
        let bursts = elements.div_ceil(32) * batch;
        let stored: Vec<usize> =
            (0..self.regions.len()).filter(|&index| self.regions[index].bursts >= bursts).collect();
        let again = if self.chance(30) { self.pick(&stored) } else { None };
        let region = again.unwrap_or_else(|| self.vector_data(bursts));
        self.fence(region);
        let address = self.regions[region].address;
        self.push(Instruction::Load { dst, cols: elements, batch, address });
        self.cycles += u64::from(bursts * 3);
        self.keep(Kind::Vectors, dst, elements, batch);
        self.live.last().copied()
    }

    pub(crate) fn vectors(&mut self) -> Option<Live> {
        let blocks = self.blocks(Kind::Vectors);
        match self.pick(&blocks) {
            Some(block) if self.chance(80) => Some(block),
            _ => self.load(None, None),
        }
    }

    fn dot(&mut self) -> Option<()> {
        let x = self.vectors()?;
        let mut count = self.elements();
        while count > 1 && self.row_cycles(count, x.elements, x.batch) > u64::from(self.options.cycles / 3) {
            count = count.div_ceil(2);
        }
        let stored = if self.chance(15) { self.stored_matrix(x.elements, None) } else { None };
        let (matrix, list) = match stored {
            Some(matrix) => (matrix, None),
            None => self.rows(count, x.elements)?,
        };
        let count = if stored.is_some() { count.min(matrix.rows) } else { count };
        let dst = self.place(block_words(self.config, count, x.batch), Some(x))?;
        let (cols, batch, address) = (x.elements, x.batch, matrix.address);
        self.push(Instruction::Dot(Product {
            src: x.base,
            dst,
            cols,
            batch,
            count,
            address,
            list,
            heads: 1,
            selected: false,
            weights: matrix.weights,
            shared: matrix.shared,
        }));
        self.cycles += self.row_cycles(count, cols, batch);
        self.keep(Kind::Vectors, dst, count, batch);
        Some(())
    }

    /// One to three products into the same accumulators, old ones or cleared ones.
    fn axpy(&mut self) -> Option<()> {
        let factors = self.vectors()?;
        let (count, batch) = (factors.elements, factors.batch);
        let old: Vec<Live> =
            self.blocks(Kind::Sums).into_iter().filter(|block| block.batch == batch).collect();
        let sums = match self.pick(&old) {
            Some(block) if self.chance(60) => block,
            _ => {
                let limit = self.config.gemv().slice_words().min(1024).checked_sub(factors.words)?;
                let mut cols = self.elements();
                while cols > 1 && accumulator_words(self.config, cols, batch) > limit {
                    cols = cols.div_ceil(2);
                }
                self.zeroed_sums(cols, batch, Some(factors))?
            }
        };
        for _ in 0..1 + self.below(3) {
            if self.row_cycles(count, sums.elements, batch) > u64::from(self.options.cycles / 2) {
                return None;
            }
            let (matrix, list) = self.rows(count, sums.elements)?;
            let (src, dst, cols, address) = (factors.base, sums.base, sums.elements, matrix.address);
            self.push(Instruction::Axpy(Product {
                src,
                dst,
                cols,
                batch,
                count,
                address,
                list,
                heads: 1,
                selected: false,
                weights: matrix.weights,
                shared: matrix.shared,
            }));
            self.keep(Kind::Sums, dst, cols, batch);
            self.cycles += self.row_cycles(count, cols, batch);
        }
        Some(())
    }

    /// Numbers of heads and vectors that go together.
    fn heads(&mut self) -> Option<(u32, u32)> {
        let gemv = self.config.gemv();
        let heads = 2 << self.below(gemv.max_heads().trailing_zeros());
        let batch = self.batch();
        (batch * heads <= gemv.max_vectors()).then_some((heads, batch))
    }

    /// Elements of a row of one stripe: often all of it.
    fn stripe_elements(&mut self) -> u32 {
        let stripe = self.config.gemv().stripe_elems();
        if self.chance(50) { stripe } else { 1 + self.below(stripe) }
    }

    /// A product of rows with several heads. Its results often have more vectors than a store can have.
    fn dot_heads(&mut self) -> Option<()> {
        let (heads, batch) = self.heads()?;
        let old: Vec<Live> = self.blocks(Kind::Vectors);
        let stripe = self.config.gemv().stripe_elems();
        let fits = |block: &Live| block.elements <= stripe && block.batch == batch;
        let old: Vec<Live> = old.into_iter().filter(fits).collect();
        let x = match self.pick(&old) {
            Some(block) if self.chance(60) => block,
            _ => {
                let elements = self.stripe_elements();
                self.load(Some(elements), Some(batch))?
            }
        };
        let count = self.elements().min(self.options.cycles / (4 * batch));
        let matrix = self.matrix(count, x.elements)?;
        let vectors = batch * heads;
        let dst = self.place(block_words(self.config, count, vectors), Some(x))?;
        let (cols, address) = (x.elements, matrix.address);
        let product = Product {
            src: x.base,
            dst,
            cols,
            batch,
            count,
            address,
            list: None,
            heads,
            selected: false,
            weights: matrix.weights,
            shared: matrix.shared,
        };
        Instruction::Dot(product).check(self.config).ok()?;
        self.push(Instruction::Dot(product));
        self.cycles += self.row_cycles(count, cols, batch);
        self.keep_vectors(dst, count, vectors);
        Some(())
    }

    /// Records a block; in parts if it has too many vectors for a store, and one word for each.
    fn keep_vectors(&mut self, base: u32, elements: u32, vectors: u32) {
        let most = self.config.gemv().max_batch();
        if vectors <= most || block_words(self.config, elements, 1) > 1 {
            return self.keep(Kind::Vectors, base, elements, vectors);
        }
        for first in (0..vectors).step_by(most as usize) {
            self.keep(Kind::Vectors, base + first, elements, most.min(vectors - first));
        }
    }

    /// The other product of such rows. Factors are a live block, or one or more that are loaded side by side.
    fn axpy_heads(&mut self) -> Option<()> {
        let (heads, batch) = self.heads()?;
        let vectors = batch * heads;
        let most = self.config.gemv().max_batch();
        let blocks = self.scalar_blocks(vectors);
        let factors = match self.pick(&blocks) {
            Some(block) if self.chance(70) => block,
            _ if vectors <= most => {
                let count = self.elements().min(self.options.cycles / (4 * batch));
                self.load(Some(count), Some(vectors))?
            }
            _ => {
                // With one word per vector, adjacent blocks of this number of elements form one.
                let count = 1 + self.below(2 * self.config.gemv().stripe_elems());
                if block_words(self.config, count, 1) > 1 {
                    return None;
                }
                let base = self.place(vectors, None)?;
                for first in (0..vectors).step_by(most as usize) {
                    let (cols, batch) = (count, most.min(vectors - first));
                    let region = self.vector_data(count.div_ceil(32) * batch);
                    let address = self.regions[region].address;
                    self.fence(region);
                    self.push(Instruction::Load { dst: base + first, cols, batch, address });
                    self.keep(Kind::Vectors, base + first, cols, batch);
                }
                Live { kind: Kind::Vectors, base, words: vectors, elements: count, batch: vectors }
            }
        };
        let cols = self.stripe_elements();
        let dst = self.zeroed_sums(cols, batch, Some(factors))?.base;
        let (src, count) = (factors.base, factors.elements);
        if self.row_cycles(count, cols, batch) > u64::from(self.options.cycles / 2) {
            return None;
        }
        let matrix = self.matrix(count, cols)?;
        let product = Product {
            src,
            dst,
            cols,
            batch,
            count,
            address: matrix.address,
            list: None,
            heads,
            selected: false,
            weights: matrix.weights,
            shared: matrix.shared,
        };
        Instruction::Axpy(product).check(self.config).ok()?;
        self.push(Instruction::Axpy(product));
        self.keep(Kind::Sums, dst, cols, batch);
        self.cycles += self.row_cycles(count, cols, batch);
        Some(())
    }

    /// Appends short vectors to rows of a matrix, which later instructions may load or multiply with.
    fn append(&mut self) -> Option<()> {
        let gemv = self.config.gemv();
        let (stripe, most, ranks) = (gemv.stripe_elems(), gemv.max_batch(), gemv.ranks());
        let blocks: Vec<Live> = self
            .blocks(Kind::Vectors)
            .into_iter()
            .filter(|block| block.elements <= stripe && block.batch <= most)
            .collect();
        let block = self.pick(&blocks)?;
        let (src, cols, batch) = (block.base, block.elements, block.batch);
        let rows = batch + self.below(3 * ranks);
        let bursts = MatrixLayout::new(self.config, 0, rows, cols).ok()?.bursts_per_rank();
        let whole = |region: &Region| region.address.is_multiple_of(ranks);
        let fitting: Vec<usize> = (0..self.regions.len())
            .filter(|&index| whole(&self.regions[index]))
            .filter(|&index| u64::from(self.regions[index].bursts) >= bursts * u64::from(ranks))
            .collect();
        let again = if self.chance(60) { self.pick(&fitting) } else { None };
        let region = again.unwrap_or_else(|| {
            let address = self.allocate(bursts) * ranks;
            let bursts = bursts as u32 * ranks;
            self.regions.push(Region { address, bursts, touched: false, output: false, sums: None });
            // Rows without an append are read as well.
            let (seed, kind) = (self.random.next_u64(), self.kind());
            self.program.data.push(Data::Random { address, bursts, seed, kind });
            self.regions.len() - 1
        });
        self.fence(region);
        self.regions[region].output = true;
        self.regions[region].sums = None;
        let address = self.regions[region].address / ranks;
        let row = self.below(rows - batch + 1);
        self.push(Instruction::Append { src, cols, batch, row, address });
        self.cycles += u64::from(cols.div_ceil(32) * batch * 3);
        Some(())
    }

    /// The activation unit on a live block, and on another of the same shape for operations of two.
    fn activate(&mut self) -> Option<()> {
        let block = self.vectors()?;
        let gemv = self.config.gemv();
        // The vectors as heads of a batch.
        let splits: Vec<u32> = [1, 2, 4, 8]
            .into_iter()
            .filter(|heads| *heads <= gemv.max_heads() && block.batch % heads == 0)
            .filter(|heads| block.batch / heads <= gemv.max_batch())
            .collect();
        let heads = self.pick(&splits)?;
        let alike: Vec<Live> = self
            .blocks(Kind::Vectors)
            .into_iter()
            .filter(|other| (other.elements, other.batch) == (block.elements, block.batch))
            .collect();
        let other = self.pick(&alike)?.base;
        let scalar = match self.below(3) {
            0 => self.random.next_u64() as u16,
            1 => RandomKind::SPECIALS[self.below(12) as usize],
            _ => 0x3000 + self.below(0x1000) as u16,
        };
        let operations = operations_on(other, scalar);
        let operation = self.pick(&operations)?;
        let dst = match self.below(3) {
            0 => block.base,
            1 => other,
            _ => self.place(block.words, None)?,
        };
        let (src, cols, batch) = (block.base, block.elements, block.batch / heads);
        let instruction = Instruction::Activate { operation, src, dst, cols, batch, heads };
        instruction.check(self.config).ok()?;
        self.push(instruction);
        let gemv = self.config.gemv();
        let turns = block.words * gemv.slices_per_lane();
        let alone = turns * 9 + 20;
        // Elements go round through a unit that the lanes of a rank share.
        let round = turns * (gemv.activation_lanes_per_rank() * gemv.lanes() + 20) + 20;
        let exponential = if gemv.shares_exponential() { round } else { alone };
        let cycles = match operation {
            Activation::Softmax => 2 * alone + exponential,
            Activation::Exp => exponential,
            Activation::Silu | Activation::Gelu | Activation::Div { .. } => round,
            _ => alone,
        };
        self.cycles += u64::from(cycles);
        self.keep(Kind::Vectors, dst, cols, block.batch);
        Some(())
    }

    fn round(&mut self) -> Option<()> {
        let blocks = self.blocks(Kind::Sums);
        let sums = self.pick(&blocks)?;
        let (cols, batch) = (sums.elements, sums.batch);
        let words = block_words(self.config, cols, batch);
        let dst = if self.chance(40) { sums.base } else { self.place(words, None)? };
        let instruction = Instruction::Round { src: sums.base, dst, cols, batch };
        instruction.check(self.config).ok()?;
        self.push(instruction);
        self.cycles += u64::from(sums.words * 4);
        self.keep(Kind::Vectors, dst, cols, batch);
        Some(())
    }

    fn store(&mut self) -> Option<()> {
        let blocks = self.blocks(Kind::Vectors);
        let block = self.pick(&blocks)?;
        let bursts = block.elements.div_ceil(32) * block.batch;
        let fitting: Vec<usize> =
            (0..self.regions.len()).filter(|&index| self.regions[index].bursts >= bursts).collect();
        let again = if self.chance(40) { self.pick(&fitting) } else { None };
        let region = again.unwrap_or_else(|| self.region(bursts));
        self.store_to(block, region);
        Some(())
    }

    fn store_to(&mut self, block: Live, region: usize) {
        self.fence(region);
        self.regions[region].output = true;
        self.regions[region].sums = None;
        let (src, cols, batch) = (block.base, block.elements, block.batch);
        let address = self.regions[region].address;
        self.push(Instruction::Store { src, cols, batch, address });
        self.cycles += u64::from(cols.div_ceil(32) * batch * 3);
    }

    fn zero_vectors(&mut self) -> Option<()> {
        let (elements, batch) = (self.elements(), self.batch());
        let words = block_words(self.config, elements, batch);
        let dst = self.place(words, None)?;
        self.push(Instruction::Zero { dst, count: words });
        self.cycles += u64::from(words);
        self.keep(Kind::Vectors, dst, elements, batch);
        Some(())
    }

    /// Stores everything that has a value, and lists all stores for comparison.
    fn finish(mut self) -> Program {
        self.export();
        for sums in self.blocks(Kind::Sums) {
            let (src, cols, batch) = (sums.base, sums.elements, sums.batch);
            self.push(Instruction::Round { src, dst: src, cols, batch });
            self.keep(Kind::Vectors, src, cols, batch);
        }
        for block in self.blocks(Kind::Vectors) {
            let region = self.region(block.elements.div_ceil(32) * block.batch);
            self.store_to(block, region);
        }
        let tag = self.random.next_u64() as u32;
        self.push(Instruction::Signal { tag });
        let outputs = self.regions.iter().filter(|region| region.output);
        self.program.dumps =
            outputs.map(|region| Dump { address: region.address, bursts: region.bursts }).collect();
        self.program
    }
}

/// The activation unit's operations; softmax as often as two others.
pub(crate) fn operations_on(other: u32, scalar: u16) -> Vec<Activation> {
    let value = |field| if field == fields::SCALAR { scalar.into() } else { other };
    Activation::all(&value)
        .flat_map(|of| std::iter::repeat_n(of, if of == Activation::Softmax { 2 } else { 1 }))
        .collect()
}
