//! Steps of random programs that write sums to DRAM and read partial results from it.

use ndp_config::WeightFormat;
use ndp_isa::layout::{ExportedSums, words_of};
use ndp_isa::{Data, Instruction, RandomKind, accumulator_words};
use ndp_numerics::SumFormat;

use crate::program_writer::{Kind, Live, Region, Writer};

/// Partial results that are merged are FP16.
const FP16: Option<WeightFormat> = Some(WeightFormat::Fp16);

impl Writer<'_> {
    /// Cleared words as accumulators, outside of `avoid`.
    pub(crate) fn zeroed_sums(&mut self, elements: u32, batch: u32, avoid: Option<Live>) -> Option<Live> {
        let words = accumulator_words(self.config, elements, batch);
        let dst = self.place(words, avoid)?;
        self.push(Instruction::Zero { dst, count: words });
        self.cycles += u64::from(words);
        self.keep(Kind::Sums, dst, elements, batch);
        self.live.last().copied()
    }

    fn sums(&mut self) -> Option<Live> {
        let blocks = self.blocks(Kind::Sums);
        match self.pick(&blocks) {
            Some(block) if self.chance(70) => Some(block),
            _ => {
                let (elements, batch) = (self.elements(), self.batch());
                self.zeroed_sums(elements, batch, None)
            }
        }
    }

    fn word_cycles(&self, words: u32) -> u64 {
        u64::from(words) * u64::from(self.config.gemv().beats_per_stripe() * 3)
    }

    /// A part of a block's words that does not take too long: its first word, and their number. Mostly all if possible.
    fn some_words(&mut self, block: Live) -> (u32, u32) {
        let limit = u64::from(self.options.cycles / 3) / self.word_cycles(1);
        let most = block.words.min(limit.max(1) as u32);
        let count = if self.chance(80) { most } else { 1 + self.below(most) };
        (self.below(block.words - count + 1), count)
    }

    /// A place in all ranks for these words.
    fn sums_region(&mut self, words: u32) -> usize {
        let ranks = self.config.gemv().ranks();
        let bursts = words * self.config.gemv().beats_per_stripe();
        let address = self.allocate(bursts.into()) * ranks;
        let bursts = bursts * ranks;
        self.regions.push(Region { address, bursts, touched: false, output: false, sums: None });
        self.regions.len() - 1
    }

    /// Exports sums, to be looked at and perhaps imported later.
    pub(crate) fn export(&mut self) -> Option<()> {
        let blocks = self.blocks(Kind::Sums);
        let sums = self.pick(&blocks)?;
        self.export_of(sums);
        Some(())
    }

    fn export_of(&mut self, sums: Live) {
        let (first, count) = self.some_words(sums);
        let ranks = self.config.gemv().ranks();
        let bursts = count * self.config.gemv().beats_per_stripe() * ranks;
        let fits = |region: &Region| region.address.is_multiple_of(ranks) && region.bursts >= bursts;
        let fitting: Vec<usize> =
            (0..self.regions.len()).filter(|&index| fits(&self.regions[index])).collect();
        let again = if self.chance(40) { self.pick(&fitting) } else { None };
        let region = again.unwrap_or_else(|| self.sums_region(count));
        self.fence(region);
        self.regions[region].output = true;
        self.regions[region].sums = (count == sums.words).then_some((sums.elements, sums.batch));
        let address = self.regions[region].address / ranks;
        self.push(Instruction::Export { src: sums.base + first, count, address });
        self.cycles += self.word_cycles(count);
    }

    /// Imports an export to sums of the same shape or to cleared words, or else random sums.
    pub(crate) fn import(&mut self) -> Option<()> {
        let exported: Vec<usize> =
            (0..self.regions.len()).filter(|&index| self.regions[index].sums.is_some()).collect();
        match self.pick(&exported) {
            Some(region) if self.chance(70) => self.import_exported(region),
            _ => self.import_random(),
        }
    }

    fn import_exported(&mut self, region: usize) -> Option<()> {
        let (elements, batch) = self.regions[region].sums?;
        let alike: Vec<Live> = self
            .blocks(Kind::Sums)
            .into_iter()
            .filter(|block| (block.elements, block.batch) == (elements, batch))
            .collect();
        let sums = match self.pick(&alike) {
            Some(block) if self.chance(60) => block,
            _ => self.zeroed_sums(elements, batch, None)?,
        };
        self.fence(region);
        self.import_words(sums, (0, sums.words), region);
        Some(())
    }

    fn import_words(&mut self, sums: Live, (first, count): (u32, u32), region: usize) {
        let address = self.regions[region].address / self.config.gemv().ranks();
        self.push(Instruction::Import { dst: sums.base + first, count, address });
        self.cycles += self.word_cycles(count);
        self.keep(Kind::Sums, sums.base, sums.elements, sums.batch);
    }

    /// Any bits are sums. Most are huge and have flags, and only an export shows more than that; others are drawn so
    /// that they leave finite results.
    fn import_random(&mut self) -> Option<()> {
        let sums = self.sums()?;
        let (first, count) = self.some_words(sums);
        let any_bits = self.chance(50);
        let count = if any_bits { count } else { count.min(2) };
        let region = self.sums_region(count);
        let Region { address, bursts, .. } = self.regions[region];
        if any_bits {
            let seed = self.random.next_u64();
            self.program.data.push(Data::Random { address, bursts, seed, kind: RandomKind::Bits });
        } else {
            let values = self.random_sums(count)?;
            self.program.data.push(Data::U32 { address, values });
        }
        self.fence(region);
        self.import_words(sums, (first, count), region);
        if any_bits {
            self.export_of(sums);
        }
        Some(())
    }

    /// Sums of all sizes, few of them with a flag, with anything in unused places.
    fn random_sums(&mut self, words: u32) -> Option<Vec<u32>> {
        let gemv = self.config.gemv();
        let (acc_bits, segments) = (gemv.acc_bits(), gemv.acc_segments());
        let format = SumFormat::new(acc_bits, segments).ok()?;
        let exported = ExportedSums::unchecked(self.config, 0, words);
        let unused =
            ((1 << (segments - 1)) - 1) << acc_bits | u128::MAX.checked_shl(format.bits()).unwrap_or(0);
        let mut values = Vec::new();
        for burst in exported.bursts() {
            let forms: Vec<u128> = burst
                .slices
                .map(|_| {
                    let value = i128::from(self.random.next_u64() as i64) << self.below(20) >> self.below(70);
                    let flags = if self.chance(5) { 1 << self.below(SumFormat::FLAG_BITS) } else { 0 };
                    let any = u128::from(self.random.next_u64()) << 64;
                    let value = value as u128 & ((1 << acc_bits) - 1);
                    value | any & unused | flags << (format.bits() - SumFormat::FLAG_BITS)
                })
                .collect();
            values.extend(words_of(&exported.pack(forms)));
        }
        Some(values)
    }

    /// FP16 partial results, one row for each vector.
    pub(crate) fn merge(&mut self) -> Option<()> {
        let sums = self.sums()?;
        let (dst, cols, batch) = (sums.base, sums.elements, sums.batch);
        let stored = if self.chance(15) { self.stored_matrix(cols, FP16) } else { None };
        let matrix = match stored.filter(|matrix| matrix.rows >= batch) {
            Some(matrix) => matrix,
            None => self.matrix_of(batch, cols, FP16, false)?,
        };
        self.push(Instruction::Merge { dst, cols, batch, address: matrix.address });
        self.cycles += self.row_cycles(batch, cols, 1);
        self.keep(Kind::Sums, dst, cols, batch);
        Some(())
    }
}
