//! Selections in random programs: vectors with few, many or no positive elements, elements above a magnitude, and products
//! that take the selected rows.
//!
//! The number of selected elements is not known while a program is written. So data with that number of elements are
//! stored at once, and no other instruction reads them.

use ndp_config::BEAT_ELEMS;
use ndp_isa::{Condition, Data, Instruction, Numbers, Product, accumulator_words, block_words};

use crate::program_writer::{Kind, Live, Matrix, Writer};

const NOT_POSITIVE: [u16; 6] = [0x0000, 0x8000, 0x7E00, 0xFE01, 0xFC00, 0x8001];
const POSITIVE: [u16; 4] = [0x0001, 0x7C00, 0x7BFF, 0x0400];

impl Writer<'_> {
    /// A selection, and instructions that may follow it.
    pub(crate) fn select(&mut self) -> Option<()> {
        let (entries, most) = (self.config.core().list_entries(), self.config.gemv().max_batch());
        let old: Vec<Live> = self.blocks(Kind::Vectors);
        let old: Vec<Live> = old.into_iter().filter(|x| x.elements <= entries && x.batch <= most).collect();
        let x = match self.pick(&old) {
            Some(block) if self.chance(30) => block,
            _ => self.sparse_vectors()?,
        };
        let (src, cols, batch) = (x.base, x.elements, x.batch);
        let dst = self.place(x.words, Some(x))?;
        let (rows, numbers) = if self.chance(40) {
            let rows = 1 + self.below(2 * cols.min(200));
            (rows, Numbers::Listed(self.list(cols, rows)?))
        } else {
            let row = self.below(40);
            (row + cols, Numbers::From(row))
        };
        let places = (entries.checked_sub(cols)? / 16).min(14) + 1;
        let list = match numbers {
            Numbers::Listed(from) if from % 16 == 0 && self.chance(50) => from,
            _ => 16 * self.below(places),
        };
        let condition = Condition {
            threshold: [0, 1, 0x37FF, 0x3800, 0x7BFF, 0x7C00, 0x7FFF][self.below(7) as usize],
            magnitude: self.chance(50),
        };
        let condition = if self.chance(50) { Condition::POSITIVE } else { condition };
        let select = Instruction::Select { src, dst, cols, batch, list, numbers, condition };
        // The list may lie where it would be overwritten before it is read.
        select.check(self.config).ok()?;
        self.push(select);
        self.lists.retain(|other| other.first >= list + cols || other.first + other.count <= list);
        self.cycles += u64::from(cols.div_ceil(BEAT_ELEMS) * (batch + 3) + cols * batch / 2);
        let values = Live { base: dst, ..x };
        match self.below(4) {
            0 => drop(self.dot_selected(values, list, rows)),
            1 => {}
            _ => drop(self.axpy_selected(values, list, rows)),
        }
        if self.chance(50) {
            self.store_apart(dst, cols, batch);
        }
        Some(())
    }

    /// A block with a share of positive elements: none, few, half, all.
    fn sparse_vectors(&mut self) -> Option<Live> {
        let (entries, batch) = (self.config.core().list_entries(), self.batch());
        let most = (self.options.cycles / (3 * batch)).clamp(1, entries);
        let cols = self.elements().min(most);
        let words = block_words(self.config, cols, batch);
        let dst = self.place(words, None)?;
        let bursts = cols.div_ceil(BEAT_ELEMS) * batch;
        let region = self.region(bursts);
        let address = self.regions[region].address;
        let share = [0, 0, 2, 5, 20, 50, 98, 100][self.below(8) as usize];
        let value = |writer: &mut Self| {
            let (positive, special) = (writer.chance(share), writer.chance(4));
            match (positive, special) {
                (true, true) => POSITIVE[writer.below(4) as usize],
                (false, true) => NOT_POSITIVE[writer.below(6) as usize],
                _ => (0x3000 + writer.below(0x1000)) as u16 | if positive { 0 } else { 0x8000 },
            }
        };
        let values = (0..bursts * BEAT_ELEMS).map(|_| value(self)).collect();
        self.program.data.push(Data::F16 { address, values });
        self.fence(region);
        self.push(Instruction::Load { dst, cols, batch, address });
        self.cycles += u64::from(bursts * 3);
        self.keep(Kind::Vectors, dst, cols, batch);
        self.live.last().copied()
    }

    /// Selected values as factors of the rows that were selected.
    fn axpy_selected(&mut self, values: Live, list: u32, rows: u32) -> Option<()> {
        let Live { base: src, elements: count, batch, .. } = values;
        let limit = self.config.gemv().slice_words().min(1024).checked_sub(values.words)?;
        let mut cols = self.elements();
        while cols > 1
            && (accumulator_words(self.config, cols, batch) > limit
                || self.row_cycles(count, cols, batch) > u64::from(self.options.cycles))
        {
            cols = cols.div_ceil(2);
        }
        let sums = self.zeroed_sums(cols, batch, Some(values))?;
        let Matrix { address, weights, .. } = self.listed_matrix(rows, cols)?;
        let (dst, list) = (sums.base, Some(list));
        let product = Product {
            src,
            dst,
            cols,
            batch,
            count,
            address,
            list,
            heads: 1,
            selected: true,
            weights,
            shared: false,
        };
        self.push(Instruction::Axpy(product));
        self.keep(Kind::Sums, dst, cols, batch);
        self.cycles += self.row_cycles(count / 2, cols, batch);
        Some(())
    }

    /// A DOT with rows that were selected with other vectors; often with a bound below the number selected.
    fn dot_selected(&mut self, values: Live, list: u32, rows: u32) -> Option<()> {
        let count = if self.chance(50) { values.elements } else { 1 + self.below(values.elements) };
        let x = self.vectors()?;
        if self.row_cycles(count, x.elements, x.batch) > u64::from(self.options.cycles) {
            return None;
        }
        let dst = self.place(block_words(self.config, count, x.batch), Some(x))?;
        let Matrix { address, weights, .. } = self.listed_matrix(rows, x.elements)?;
        let (src, cols, batch, list) = (x.base, x.elements, x.batch, Some(list));
        let product = Product {
            src,
            dst,
            cols,
            batch,
            count,
            address,
            list,
            heads: 1,
            selected: true,
            weights,
            shared: false,
        };
        self.push(Instruction::Dot(product));
        self.cycles += self.row_cycles(count / 2, cols, batch);
        self.store_apart(dst, count, batch);
        Some(())
    }

    /// Stores a block with some unspecified elements to a place that is not read.
    fn store_apart(&mut self, src: u32, cols: u32, batch: u32) {
        let bursts = cols.div_ceil(BEAT_ELEMS) * batch;
        let region = self.region(bursts);
        let address = self.regions.remove(region).address;
        self.push(Instruction::Store { src, cols, batch, address });
        self.cycles += u64::from(bursts * 3);
    }
}
