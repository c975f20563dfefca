//! Products that banks and NPU divide while the NPU reads the weights: FFN offload (LibraPIM, section 4.4, Fig. 14).
//!
//! Vector `b` of the memory is in bank `b` of every channel, in the multipliers' partition. Each column of weights read
//! for the NPU also goes into the global buffer (RDG), and one MAC multiplies it with the same column of all vectors. A
//! channel computes the outputs whose weights it has, for up to as many vectors as banks, without a second transfer.
//!
//! **Exactness.** Up to 512 inputs are one row: an output is a run of MACs and one RES, which rounds once. For more
//! inputs, opening a row per output would take longer than the MACs. So all outputs of one row of inputs come first,
//! then all outputs of the next; SUM returns each bank's exact sum, and the host adds integers and rounds once.

use crate::host::controller::{Access, Operation, Place};
use crate::host::memory::Memory;
use ndp_config::HbmConfig;
use ndp_dram::hbm::{Column, pim::column_of, pim::lane};
use ndp_files::{Result, in_range};
use ndp_numerics::{ExactSum, SumFormat, f16};
use std::collections::VecDeque;

const LANES: usize = HbmConfig::LANES as usize;
const COLUMNS: usize = HbmConfig::COLUMNS as usize;

#[derive(Clone, Debug, PartialEq)]
pub struct Product {
    pub label: String,
    /// Vectors of the memory, one per bank.
    pub vectors: Vec<Vec<f16>>,
    /// Number of the NPU's vectors.
    pub others: usize,
}

/// Work of a channel for a product, in order.
#[derive(Clone, Debug, Default)]
pub struct ChannelWork {
    /// Columns of the vectors, written first.
    pub inputs: Vec<(Place, Column)>,
    /// Reads of the weights, with the expected data.
    pub reads: Vec<(Access, Column)>,
    pub operations: Vec<Operation>,
    /// Outputs whose sums come back, in order.
    pub awaited: VecDeque<Awaited>,
}

/// Result of a RES or SUM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Awaited {
    pub output: usize,
    /// Vector of a single sum; `None` for a RES.
    pub vector: Option<usize>,
}

/// The work of `channel`. Fails without vectors, with more than banks, or as [`Memory::weights`] and
/// [`Memory::input_row`].
pub fn channel_work(
    product: &Product,
    memory: &Memory,
    config: &HbmConfig,
    channel: u32,
) -> Result<ChannelWork> {
    let vectors = product.vectors.len();
    let banks = config.banks() as usize;
    in_range("vectors of the memory", vectors as u64, 1, banks as u64)?;
    let weights = memory.weights(&product.label)?;
    let columns = weights.shape.1.div_ceil(LANES);
    let places = memory.places(weights, channel)?;
    let own = &weights.columns[channel as usize];
    let mut work = ChannelWork::default();
    for (bank, vector) in product.vectors.iter().enumerate() {
        for (column, lanes) in vector.chunks(LANES).enumerate() {
            let row = memory.input_row(column / COLUMNS)?;
            let place = Place { bank: bank as u32, row, column: (column % COLUMNS) as u32 };
            work.inputs.push((place, column_of(lanes.iter().copied())));
        }
    }
    work.inputs.sort_by_key(|(place, _)| (place.row, place.column, place.bank));
    let pieces = columns.div_ceil(COLUMNS);
    let mut slots = (0..config.buffer_slots() as u8).cycle();
    for piece in 0..pieces {
        work.operations.push(Operation::Row(memory.input_row(piece)?));
        let of_piece = piece * COLUMNS..columns.min((piece + 1) * COLUMNS);
        for number in 0..own.len() / columns.max(1) {
            for (column, of_row) in of_piece.clone().enumerate() {
                let index = number * columns + of_row;
                let slot = slots.next().unwrap_or(0);
                work.reads.push((Access::Share(places[index], slot), own[index]));
                let (column, first) = (column as u8, column == 0);
                work.operations.push(Operation::Mac { column, slot, first, take: true });
            }
            let output = number * config.channels() as usize + channel as usize;
            if pieces == 1 {
                work.operations.push(Operation::Results);
                work.awaited.push_back(Awaited { output, vector: None });
            } else {
                work.operations.extend((0..vectors as u32).map(Operation::Sum));
                work.awaited.extend((0..vectors).map(|vector| Awaited { output, vector: Some(vector) }));
            }
        }
    }
    work.operations.push(Operation::Close);
    Ok(work)
}

#[derive(Clone, Debug)]
pub struct Partial {
    format: SumFormat,
    outputs: usize,
    vectors: usize,
    /// `[vectors x outputs]`.
    sums: Vec<ExactSum>,
    /// `[vectors x outputs]`, for outputs that came rounded.
    rounded: Vec<Option<f16>>,
}

impl Partial {
    pub fn new(config: &HbmConfig, vectors: usize, outputs: usize) -> Result<Self> {
        let format = SumFormat::new(config.acc_bits(), 1)?;
        let count = vectors * outputs;
        Ok(Self { format, outputs, vectors, sums: vec![format.empty(); count], rounded: vec![None; count] })
    }

    /// Adds the result of a RES or SUM.
    pub fn take(&mut self, awaited: Awaited, column: &Column) {
        let at = |vector: usize| vector * self.outputs + awaited.output;
        match awaited.vector {
            None => (0..self.vectors).for_each(|bank| self.rounded[at(bank)] = Some(lane(column, bank))),
            Some(vector) => {
                let word = u128::from(column[0]) | u128::from(column[1]) << 64;
                let at = at(vector);
                self.sums[at].add(&self.format.from_word(word));
            }
        }
    }

    /// The product, `[vectors x outputs]`; an error if a sum overflows the accumulators.
    pub fn finish(&self) -> Result<Vec<f16>> {
        let each = self.rounded.iter().zip(&self.sums);
        each.map(|(rounded, sum)| rounded.map_or_else(|| sum.try_round(), Ok)).collect()
    }
}
