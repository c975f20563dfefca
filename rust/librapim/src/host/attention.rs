//! Attention in memory: the operations of a head, and their results.
//!
//! Scores: the query goes to the global buffer; each key is a run of MACs, and one RES returns a score per bank. The
//! NPU does softmax. Values: the probabilities go to the buffer, a row of each bank has one element of many positions,
//! and one RES returns a result element per bank (`docs/hbm-pim.md`, "Mapping").

use crate::host::controller::{Operation, Place};
use crate::host::memory::Memory;
use ndp_config::HbmConfig;
use ndp_dram::hbm::{Column, pim::column_of, pim::lane};
use ndp_files::{Result, ensure};
use ndp_numerics::{f16, softmax};

const LANES: usize = HbmConfig::LANES as usize;

#[derive(Clone, Debug)]
pub struct NewToken {
    pub position: usize,
    pub key: Vec<f16>,
}

/// Tokens that one head adds to its caches.
#[derive(Clone, Debug)]
pub struct Append {
    pub head: u64,
    pub tokens: Vec<NewToken>,
    /// Values by position, starting at `first`.
    pub values: Vec<Vec<f16>>,
    /// First position of the first changed column, a multiple of 16.
    pub first: usize,
}

impl Append {
    pub fn columns(&self, memory: &Memory) -> Result<Vec<(Place, Column)>> {
        let mut columns = Vec::new();
        for token in &self.tokens {
            for (part, lanes) in token.key.chunks(LANES).enumerate() {
                let place = memory.key(self.head, token.position, part * LANES)?;
                columns.push((place, column_of(lanes.iter().copied())));
            }
        }
        for (block, values) in self.values.chunks(LANES).enumerate() {
            let position = self.first + block * LANES;
            for element in 0..values.first().map_or(0, Vec::len) {
                let place = memory.value(self.head, position, element)?;
                columns.push((place, column_of(values.iter().map(|value| value[element]))));
            }
        }
        // Row by row, as few openings as there can be; the banks side by side.
        columns.sort_by_key(|(place, _)| (place.row, place.column, place.bank));
        Ok(columns)
    }
}

#[derive(Clone, Debug)]
pub struct HeadQuery {
    pub head: u64,
    pub query: Vec<f16>,
    pub visible: usize,
    /// First element of its result in the result of all.
    pub at: usize,
}

#[derive(Clone, Debug)]
pub struct Progress {
    pub query: HeadQuery,
    scores: Vec<f16>,
    result: Vec<f16>,
}

impl Progress {
    pub fn new(query: HeadQuery) -> Self {
        Self { query, scores: Vec::new(), result: Vec::new() }
    }

    /// Operations that compute the scores; fails as [`Memory::key`], or if the query does not fit the buffer.
    pub fn score_operations(&self, memory: &Memory, config: &HbmConfig) -> Result<Vec<Operation>> {
        let HeadQuery { head, query, visible, .. } = &self.query;
        let parts = query.len().div_ceil(LANES);
        ensure!(
            parts <= config.buffer_slots() as usize,
            "columns of the global buffer for a query: {parts} needed, only {} available",
            config.buffer_slots()
        );
        let mut operations = vec![Operation::Break];
        operations.extend(loads(query));
        let mut row = None;
        for position in (0..*visible).step_by(config.banks() as usize) {
            let place = memory.key(*head, position, 0)?;
            if row.replace(place.row) != Some(place.row) {
                operations.push(Operation::Row(place.row));
            }
            for part in 0..parts {
                let column = place.column as u8 + part as u8;
                let (slot, first) = (part as u8, part == 0);
                operations.push(Operation::Mac { column, slot, first, take: false });
            }
            operations.push(Operation::Results);
        }
        Ok(operations)
    }

    /// Takes the sums of all banks; whether the scores are complete.
    pub fn take_scores(&mut self, column: &Column, banks: usize) -> bool {
        let missing = self.query.visible - self.scores.len();
        self.scores.extend((0..banks.min(missing)).map(|bank| lane(column, bank)));
        self.scores.len() == self.query.visible
    }

    pub fn value_operations(&self, memory: &Memory, config: &HbmConfig) -> Result<Vec<Operation>> {
        let probabilities = softmax(&self.scores);
        let slots = config.buffer_slots() as usize;
        let pieces: Vec<&[f16]> = probabilities.chunks(slots * LANES).collect();
        let mut operations = Vec::new();
        if let [only] = pieces[..] {
            operations.extend(loads(only));
        }
        for element in (0..self.query.query.len()).step_by(config.banks() as usize) {
            let mut row = None;
            for (number, piece) in pieces.iter().enumerate() {
                if pieces.len() > 1 {
                    operations.extend(loads(piece));
                }
                for slot in 0..piece.len().div_ceil(LANES) {
                    let position = (number * slots + slot) * LANES;
                    let place = memory.value(self.query.head, position, element)?;
                    if row.replace(place.row) != Some(place.row) {
                        operations.push(Operation::Row(place.row));
                    }
                    let (column, slot, first) = (place.column as u8, slot as u8, position == 0);
                    operations.push(Operation::Mac { column, slot, first, take: false });
                }
            }
            operations.push(Operation::Results);
        }
        Ok(operations)
    }

    /// Takes the sums of all banks; whether the result is complete.
    pub fn take_result(&mut self, column: &Column, banks: usize) -> bool {
        let width = self.query.query.len();
        let missing = width - self.result.len();
        self.result.extend((0..banks.min(missing)).map(|bank| lane(column, bank)));
        self.result.len() == width
    }

    pub fn result(&self) -> &[f16] {
        &self.result
    }
}

fn loads(values: &[f16]) -> impl Iterator<Item = Operation> {
    let column = |lanes: &[f16]| column_of(lanes.iter().copied());
    values
        .chunks(LANES)
        .enumerate()
        .map(move |(slot, lanes)| Operation::Load { slot: slot as u8, data: column(lanes) })
}
