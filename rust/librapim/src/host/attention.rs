//! Attention in memory: the operations of a head of keys and values, and their results.
//!
//! Scores: the query goes to the global buffer; each key is a run of MACs, and one RES returns a score per bank. The
//! NPU does softmax. Values: the probabilities go to the buffer, a row of each bank has one element of many positions,
//! and one RES returns a result element per bank (`docs/hbm-pim.md`, "Mapping").
//!
//! Heads of queries that share keys and values lie in the buffer together and share the opening of each row.
//!
//! Positions before a window are not read, except those in the first one's row of banks or column of values. The NPU
//! drops the scores of these, and their probabilities are +0. It also caps scores.

use crate::host::controller::{Operation, Place};
use crate::host::memory::Memory;
use ndp_config::HbmConfig;
use ndp_dram::hbm::{Column, pim::column_of, pim::lane};
use ndp_files::{Result, ensure};
use ndp_numerics::{SoftCap, f16, softmax};

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
pub struct Query {
    /// Elements of the head.
    pub elements: Vec<f16>,
    /// First element of its result in the result of all.
    pub at: usize,
}

/// A token's heads of queries that share a head of keys and values, one or more, of equal widths.
#[derive(Clone, Debug)]
pub struct HeadQuery {
    pub head: u64,
    pub queries: Vec<Query>,
    /// First visible position.
    pub first: usize,
    /// Positions up to the token's own.
    pub visible: usize,
    /// Function of scores before softmax.
    pub score_cap: Option<SoftCap>,
}

impl HeadQuery {
    fn width(&self) -> usize {
        self.queries.first().map_or(0, |query| query.elements.len())
    }
}

/// Operations, and the query of each of their results.
pub type Part = (Vec<Operation>, Vec<usize>);

/// Heads of queries use each open row in turn: MACs and a RES of one, then of the next.
#[derive(Clone, Debug)]
pub struct Progress {
    pub query: HeadQuery,
    /// By query.
    scores: Vec<Vec<f16>>,
    results: Vec<Vec<f16>>,
}

impl Progress {
    pub fn new(query: HeadQuery) -> Self {
        let none = vec![Vec::new(); query.queries.len()];
        Self { query, scores: none.clone(), results: none }
    }

    /// Queries as many at a time as the buffer holds, given the columns of each.
    fn turns(&self, columns: usize, config: &HbmConfig) -> impl Iterator<Item = Vec<usize>> {
        let (at_once, all) = (config.buffer_slots() as usize / columns.max(1), self.query.queries.len());
        let at_once = at_once.max(1);
        (0..all).step_by(at_once).map(move |first| (first..all.min(first + at_once)).collect())
    }

    /// Operations that compute the scores; fails as [`Memory::key`], or if a query does not fit the buffer.
    pub fn score_operations(&self, memory: &Memory, config: &HbmConfig) -> Result<Part> {
        let HeadQuery { head, queries, first, visible, .. } = &self.query;
        let parts = self.query.width().div_ceil(LANES);
        ensure!(
            parts <= config.buffer_slots() as usize,
            "columns of the global buffer for a query: {parts} needed, only {} available",
            config.buffer_slots()
        );
        let (mut operations, mut results) = (Vec::new(), Vec::new());
        for turn in self.turns(parts, config) {
            operations.push(Operation::Break);
            for (place, &query) in turn.iter().enumerate() {
                operations.extend(loads(place * parts, &queries[query].elements));
            }
            let mut row = None;
            let banks = config.banks() as usize;
            for position in (first / banks * banks..*visible).step_by(banks) {
                let at = memory.key(*head, position, 0)?;
                if row.replace(at.row) != Some(at.row) {
                    operations.push(Operation::Row(at.row));
                }
                for (place, &query) in turn.iter().enumerate() {
                    for part in 0..parts {
                        let column = at.column as u8 + part as u8;
                        let (slot, first) = ((place * parts + part) as u8, part == 0);
                        operations.push(Operation::Mac { column, slot, first, take: false });
                    }
                    operations.push(Operation::Results);
                    results.push(query);
                }
            }
        }
        Ok((operations, results))
    }

    /// Takes the sums of all banks for a query; whether the scores of all are complete.
    pub fn take_scores(&mut self, query: usize, column: &Column, banks: usize) -> bool {
        let HeadQuery { first, visible, .. } = self.query;
        let scores = &mut self.scores[query];
        let all = visible - first;
        let skipped = if scores.is_empty() { first % banks } else { 0 };
        let banks = banks.min(skipped + all - scores.len());
        scores.extend((skipped..banks).map(|bank| lane(column, bank)));
        self.scores.iter().all(|scores| scores.len() == all)
    }

    /// Operations that compute the weighted values, after all scores; fails as [`Memory::value`].
    pub fn value_operations(&self, memory: &Memory, config: &HbmConfig) -> Result<Part> {
        let HeadQuery { first: window, visible, score_cap, .. } = self.query;
        let skipped = window % LANES;
        let begin = window - skipped;
        let probabilities: Vec<Vec<f16>> = self
            .scores
            .iter()
            .map(|scores| {
                let capped = scores.iter().map(|score| score_cap.map_or(*score, |cap| cap.of(*score)));
                let own = softmax(&capped.collect::<Vec<f16>>());
                std::iter::repeat_n(f16::ZERO, skipped).chain(own).collect()
            })
            .collect();
        let slots = config.buffer_slots() as usize;
        let columns = (visible - begin).div_ceil(LANES);
        let (mut operations, mut results) = (Vec::new(), Vec::new());
        for turn in self.turns(columns, config) {
            if turn.first() != Some(&0) {
                operations.push(Operation::Break);
            }
            // Longer probabilities are loaded in pieces, again for each element: such a query is alone in its turn.
            let fits = columns <= slots;
            if fits {
                for (place, &query) in turn.iter().enumerate() {
                    operations.extend(loads(place * columns, &probabilities[query]));
                }
            }
            for element in (0..self.query.width()).step_by(config.banks() as usize) {
                let mut row = None;
                for (place, &query) in turn.iter().enumerate() {
                    for (number, piece) in probabilities[query].chunks(slots * LANES).enumerate() {
                        if !fits {
                            operations.extend(loads(0, piece));
                        }
                        for slot in 0..piece.len().div_ceil(LANES) {
                            let position = (number * slots + slot) * LANES;
                            let at = memory.value(self.query.head, begin + position, element)?;
                            if row.replace(at.row) != Some(at.row) {
                                operations.push(Operation::Row(at.row));
                            }
                            let (column, first) = (at.column as u8, position == 0);
                            let slot = (place * columns + slot) as u8;
                            operations.push(Operation::Mac { column, slot, first, take: false });
                        }
                    }
                    operations.push(Operation::Results);
                    results.push(query);
                }
            }
        }
        Ok((operations, results))
    }

    /// Takes the sums of all banks for a query; whether all results are complete.
    pub fn take_result(&mut self, query: usize, column: &Column, banks: usize) -> bool {
        let (width, result) = (self.query.width(), &mut self.results[query]);
        let missing = width - result.len();
        result.extend((0..banks.min(missing)).map(|bank| lane(column, bank)));
        self.results.iter().all(|result| result.len() == width)
    }

    /// Results of all queries, with their first elements in the result of all.
    pub fn results(&self) -> impl Iterator<Item = (usize, &[f16])> {
        self.query.queries.iter().zip(&self.results).map(|(query, result)| (query.at, &result[..]))
    }
}

fn loads(first: usize, values: &[f16]) -> impl Iterator<Item = Operation> {
    let column = |lanes: &[f16]| column_of(lanes.iter().copied());
    let columns = values.chunks(LANES).enumerate();
    columns.map(move |(slot, lanes)| Operation::Load { slot: (first + slot) as u8, data: column(lanes) })
}
