//! The computing part: the channel's global buffer and an exact accumulator per bank.
//!
//! `docs/numerics.md` is the contract: a sum of products is exact, its low `acc_bits` bits are kept, and it is rounded
//! once, when it is read. So neither the order of MACs nor the structure of the adder tree matters.

use ndp_config::HbmConfig;
use ndp_config::Result;
use ndp_numerics::{ExactSum, SumFormat, f16};

use crate::hbm::storage::Column;

/// FP16 lane `lane` of a column.
///
/// # Panics
/// If `lane` is not below 16.
pub fn lane(column: &Column, lane: usize) -> f16 {
    f16::from_bits((column[lane / 4] >> (16 * (lane % 4))) as u16)
}

/// A column of FP16 lanes; missing lanes are +0.
pub fn column_of(lanes: impl IntoIterator<Item = f16>) -> Column {
    let mut column = [0; 4];
    for (i, value) in lanes.into_iter().take(HbmConfig::LANES as usize).enumerate() {
        column[i / 4] |= u64::from(value.to_bits()) << (16 * (i % 4));
    }
    column
}

#[derive(Clone, Debug, PartialEq)]
pub struct PimUnits {
    format: SumFormat,
    buffer: Vec<Column>,
    sums: Vec<ExactSum>,
}

impl PimUnits {
    /// An empty buffer, and empty sums.
    ///
    /// # Errors
    /// If there is no sum of `acc_bits` bits; no validated configuration asks for one.
    pub fn new(config: &HbmConfig) -> Result<Self> {
        let format = SumFormat::new(config.acc_bits(), 1)?;
        Ok(Self {
            format,
            buffer: vec![[0; 4]; config.buffer_slots() as usize],
            sums: vec![format.empty(); config.banks() as usize],
        })
    }

    pub fn buffer(&self, slot: u8) -> &Column {
        &self.buffer[usize::from(slot)]
    }

    pub(crate) fn set_buffer(&mut self, slot: u8, column: Column) {
        self.buffer[usize::from(slot)] = column;
    }

    pub(crate) fn set_buffer_beat(&mut self, slot: u8, beat: usize, words: [u64; 2]) {
        self.buffer[usize::from(slot)][2 * beat..2 * beat + 2].copy_from_slice(&words);
    }

    /// `sum += column . buffer[slot]` in `bank`, or `sum = column . buffer[slot]` if `first`.
    pub(crate) fn mac(&mut self, bank: usize, column: &Column, slot: u8, first: bool) {
        let operand = self.buffer[usize::from(slot)];
        let sum = &mut self.sums[bank];
        if first {
            *sum = self.format.empty();
        }
        (0..HbmConfig::LANES as usize).for_each(|i| sum.mul_add(lane(column, i), lane(&operand, i)));
        *sum = sum.wrapped();
    }

    pub fn sum(&self, bank: usize) -> &ExactSum {
        &self.sums[bank]
    }

    /// Column that RES reads: the sums rounded to FP16, bank `i` in lane `i`.
    pub fn results(&self) -> Column {
        // Wrapped sums are in range, so they can be rounded.
        column_of(self.sums.iter().map(ExactSum::round))
    }

    /// Column that SUM reads: the exact sum of a bank as [`SumFormat`] with one segment writes it, in the low 128 bits.
    pub fn sum_column(&self, bank: usize) -> Column {
        let word = self.format.to_word(&self.sums[bank]);
        [word as u64, (word >> 64) as u64, 0, 0]
    }
}
