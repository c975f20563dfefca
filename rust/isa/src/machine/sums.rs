//! Instructions on accumulators: one sum in each slice of each unit, modulo `2^acc_bits`.
//!
//! A row is added stripe by stripe in the rank where the stripe lies, so columns of a tail have a sum in every rank
//! that holds them. Rounding adds these; exported sums show them.

use crate::Product;
use crate::layout::{BufferLayout, ExportedSums, MatrixLayout};
use ndp_config::{RowLayout, WeightFormat};
use ndp_numerics::{f16, fp16};

use crate::machine::buffer::{SumWord, Vectors};
use crate::machine::{Machine, Memory};

const ONE: f16 = f16::from_bits(0x3C00);

struct Accumulators {
    places: BufferLayout,
    words: Vec<SumWord>,
    lanes: u32,
    units_per_rank: u32,
}

/// Weights of a row, +0 past its end, and a mark for each unspecified one; empty without any.
struct Row {
    weights: Vec<f16>,
    marks: Vec<bool>,
}

impl Row {
    fn new(cut: &RowLayout) -> Self {
        Self {
            weights: vec![f16::from_bits(0); (cut.stripes() * cut.stripe_elems) as usize],
            marks: Vec::new(),
        }
    }
}

impl Accumulators {
    fn forget_all(&mut self) {
        self.words.iter_mut().for_each(SumWord::forget_all);
    }

    /// Adds a stripe to the sums of a vector. `factors` has one entry per segment; `None` is unspecified.
    fn add_stripe(&mut self, vector: u32, (rank, stripe): (u32, u32), row: &Row, factors: &[Option<f16>]) {
        let (word, _) = self.places.stripe(vector, stripe);
        let first = (stripe * self.places.cut().stripe_elems) as usize;
        let width = self.units_per_rank / factors.len() as u32;
        let elements = self.places.cut().elems_of(stripe);
        for lane in 0..self.lanes {
            // Units with a weight inside the row.
            let inside = elements.saturating_sub(lane).div_ceil(self.lanes);
            let sums = &mut self.words[(word * self.lanes + lane) as usize];
            for (segment, factor) in (0..).zip(factors) {
                // +0 times a finite factor adds nothing.
                let padded = factor.is_none_or(|factor| !fp16::is_finite(factor));
                let end = if padded { self.units_per_rank } else { inside };
                for unit in segment * width..end.min((segment + 1) * width) {
                    let at = first + (unit * self.lanes + lane) as usize;
                    let slice = rank * self.units_per_rank + unit;
                    match factor {
                        Some(factor) if !row.marks.get(at).is_some_and(|mark| *mark) => {
                            sums.sum_mut(slice).mul_add(row.weights[at], *factor);
                        }
                        _ => sums.forget(slice),
                    }
                }
            }
        }
    }

    fn add_row(&mut self, vector: u32, number: u32, row: &Row, factors: &[Option<f16>]) {
        let cut = *self.places.cut();
        for rank in 0..cut.ranks {
            for stripe in cut.stripes_of(number, rank) {
                self.add_stripe(vector, (rank, stripe), row, factors);
            }
        }
    }
}

impl<M: Memory> Machine<M> {
    fn take_accumulators(&mut self, base: u32, cols: u32, batch: u32) -> Accumulators {
        let words = crate::accumulator_words(&self.config, cols, batch);
        let gemv = self.config.gemv();
        Accumulators {
            places: BufferLayout::new(&self.config, cols, batch),
            words: self.buffer.take_sums(base, words),
            lanes: gemv.lanes(),
            units_per_rank: gemv.units_per_rank(),
        }
    }

    fn read_padded_row(&mut self, layout: &MatrixLayout, number: u32, row: &mut Row) {
        row.marks = self.read_row(layout, number, &mut row.weights[..layout.cols() as usize]);
    }

    pub(crate) fn axpy(&mut self, product: &Product) {
        let &Product { src, dst, cols, batch, count, heads, .. } = product;
        let layout = MatrixLayout::of_product(&self.config, product);
        let factors = self.buffer.read_vectors(src, count, product.vectors());
        let mut sums = self.take_accumulators(dst, cols, batch);
        let mut row = Row::new(layout.cut());
        let rows = self.rows_of(product);
        if rows.is_none() {
            sums.forget_all();
        }
        for k in 0..rows.unwrap_or(0) {
            let Some(number) = self.row_number(product, k) else {
                sums.forget_all();
                continue;
            };
            self.read_padded_row(&layout, number, &mut row);
            for b in 0..batch {
                let of_row: Vec<Option<f16>> =
                    (b * heads..(b + 1) * heads).map(|v| factors.get(v, k).copied()).collect();
                sums.add_row(b, number, &row, &of_row);
            }
        }
        self.buffer.put_sums(dst, sums.words);
    }

    pub(crate) fn round(&mut self, src: u32, dst: u32, cols: u32, batch: u32) {
        let places = BufferLayout::new(&self.config, cols, batch);
        let (lanes, units) = (self.config.gemv().lanes(), self.config.gemv().units_per_rank());
        let mut result = Vectors::filled(cols, batch, f16::from_bits(0));
        for (b, c) in (0..batch).flat_map(|b| (0..cols).map(move |c| (b, c))) {
            let place = places.locate(b, c);
            let word = src + place.word * lanes + place.lane;
            let holders = (0..places.cut().ranks).filter(|rank| place.ranks >> rank & 1 == 1);
            let mut total = Some(self.format.empty());
            for rank in holders {
                let sum = self.buffer.sum(word, rank * units + place.tile);
                total = total.zip(sum).map(|(mut total, sum)| {
                    total.add(sum);
                    total
                });
            }
            result.set(b, c, total.map(|sum| sum.wrapped().round()));
        }
        self.buffer.write_vectors(dst, result);
    }

    /// Row `b` of the matrix (batch rows, cols), to vector `b`.
    pub(crate) fn merge(&mut self, dst: u32, cols: u32, batch: u32, address: u32) {
        let layout = MatrixLayout::unbounded(&self.config, address, cols, WeightFormat::Fp16);
        let mut sums = self.take_accumulators(dst, cols, batch);
        let mut row = Row::new(layout.cut());
        for b in 0..batch {
            self.read_padded_row(&layout, b, &mut row);
            sums.add_row(b, b, &row, &[Some(ONE)]);
        }
        self.buffer.put_sums(dst, sums.words);
    }

    pub(crate) fn export(&mut self, src: u32, count: u32, address: u32) {
        let exported = ExportedSums::unchecked(&self.config, address, count);
        for burst in exported.bursts() {
            let sums = burst.slices.map(|slice| self.buffer.sum(src + burst.word, slice));
            let forms: Vec<Option<u128>> = sums.map(|sum| sum.map(|sum| self.format.to_word(sum))).collect();
            let missing = (0..).zip(&forms).filter(|(_, form)| form.is_none());
            let unspecified = missing.fold(0, |mask, (chunk, _)| mask | exported.elements(chunk));
            let data = exported.pack(forms.iter().map(|form| form.unwrap_or(0)));
            self.write(burst.place.to_burst(&self.config), data, unspecified);
        }
    }

    pub(crate) fn import(&mut self, dst: u32, count: u32, address: u32) {
        let exported = ExportedSums::unchecked(&self.config, address, count);
        let mut words = self.buffer.take_sums(dst, count);
        for burst in exported.bursts() {
            let (data, unspecified) = self.read(burst.place.to_burst(&self.config));
            let word = &mut words[burst.word as usize];
            for ((chunk, slice), form) in (0..).zip(burst.slices).zip(exported.unpack(&data)) {
                if unspecified & exported.elements(chunk) != 0 {
                    word.forget(slice);
                } else {
                    word.sum_mut(slice).add(&self.format.from_word(form));
                }
            }
        }
        self.buffer.put_sums(dst, words);
    }
}
