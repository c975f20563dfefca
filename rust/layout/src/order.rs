//! In which order to ask for a list of rows.
//!
//! The result of a `dot` with a list comes in the order of the list, and that of an `axpy` does not depend on it, so
//! the host is free to choose. Two things cost time. A **conflict**: a row needs another DRAM row of a bank than the
//! one that the row before it has left open there, and waits for precharge and activate with nothing to hide them
//! behind. And **imbalance**: tail stripes go round the ranks by row number, and a list that has the same kind of row
//! several times in a row loads one rank while the others wait.
//!
//! Rows are sorted into buckets by the banks that they touch and by the rank where their tail begins, and taken from
//! them greedily: most of all the kinds of tails stay balanced, then conflicts are avoided, then the banks go first
//! of which most rows are left, rows over two banks before others, so that the end is neither of one bank nor of the
//! hard cases. Inside a bucket rows keep their given order; a sorted list thus uses an open DRAM row up before it
//! leaves it.

use std::collections::VecDeque;

use ndp_config::DramConfig;

use crate::MatrixLayout;
use crate::address::BLOCK_BURSTS;

const BANKS: u32 = DramConfig::BANKS_PER_GROUP;
/// Sets of banks.
const BANK_SETS: usize = 1 << BANKS;

/// What an order costs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OrderQuality {
    /// Rows that need another DRAM row of a bank, in some rank, than the row before them has left open.
    pub conflicts: usize,
    /// Kinds of tails: by how many rows the most and the least taken kind differ, at the worst place up to that where
    /// the first kind is used up.
    pub imbalance: usize,
    /// Imbalance in stripes of tails between the ranks at the same places.
    pub rank_imbalance: usize,
}

/// The row's blocks on a rank: bursts that share a bank and an open row in each bank group.
#[derive(Debug, Clone, Copy)]
struct Blocks {
    first: u64,
    last: u64,
}

impl Blocks {
    /// Whether a bank has to close the row that `self` left open before `next` can begin there.
    fn conflicts(self, next: Self) -> bool {
        let banks = u64::from(BANKS);
        // Of several blocks in one bank the first of `next` meets the last of `self`.
        (next.first..=next.last.min(next.first + banks - 1)).any(|block| {
            let back = self.last.wrapping_sub(block) % banks;
            let open = self.last.checked_sub(back).filter(|open| *open >= self.first);
            open.is_some_and(|open| open != block)
        })
    }

    /// The set of banks.
    fn banks(self) -> u32 {
        (self.first..=self.last.min(self.first + u64::from(BANKS) - 1))
            .fold(0, |banks, block| banks | 1 << (block % u64::from(BANKS)))
    }
}

/// The blocks of a row on every rank where it has stripes.
fn blocks_of(layout: &MatrixLayout, row: u32) -> impl Iterator<Item = Option<Blocks>> {
    (0..layout.cut().ranks).map(move |rank| {
        let first = u64::from(layout.base()) + layout.offset(row, rank);
        let end = first + u64::from(layout.row_bursts(row, rank));
        let block = u64::from(BLOCK_BURSTS);
        (end > first).then(|| Blocks { first: first / block, last: (end - 1) / block })
    })
}

/// Kinds of tails: rows whose tails begin at the same rank.
struct Kinds {
    count: u32,
}

impl Kinds {
    fn new(layout: &MatrixLayout) -> Self {
        let (ranks, tail) = (layout.cut().ranks, layout.cut().tail_stripes);
        // The first row whose tail begins at rank 0 again.
        Self { count: (1..=ranks).find(|rows| (rows * tail).is_multiple_of(ranks)).unwrap_or(1) }
    }

    fn of(&self, row: u32) -> usize {
        (row % self.count) as usize
    }
}

fn conflict(before: &[Option<Blocks>], next: &[Option<Blocks>]) -> bool {
    before.iter().zip(next).any(|pair| matches!(pair, (Some(a), Some(b)) if a.conflicts(*b)))
}

/// Orders `rows` for `layout`; the same rows in another order.
///
/// Takes time proportional to the number of rows, some 64 steps for each.
pub fn order_rows(layout: &MatrixLayout, rows: &mut [u32]) {
    let kinds = Kinds::new(layout);
    let kind_count = kinds.count as usize;
    // One bucket for each set of banks and kind.
    let mut buckets = vec![VecDeque::new(); BANK_SETS * kind_count];
    let mut left_in_bank = [0usize; BANKS as usize];
    let banks_of = |set: usize| (0..BANKS as usize).filter(move |bank| set >> bank & 1 == 1);
    for &row in rows.iter() {
        let set = blocks_of(layout, row).flatten().fold(0, |set, blocks| set | blocks.banks()) as usize;
        banks_of(set).for_each(|bank| left_in_bank[bank] += 1);
        buckets[set * kind_count + kinds.of(row)].push_back(row);
    }
    let mut taken = vec![0usize; kind_count];
    let mut left_of_kind: Vec<usize> = (0..kind_count)
        .map(|kind| buckets.iter().skip(kind).step_by(kind_count).map(VecDeque::len).sum())
        .collect();
    let mut before: Vec<Option<Blocks>> = Vec::new();
    for place in rows.iter_mut() {
        let least = (0..kind_count).filter(|&kind| left_of_kind[kind] > 0).map(|kind| taken[kind]).min();
        let least = least.unwrap_or(0);
        let cost = |index: usize, row: u32| {
            let (set, kind) = (index / kind_count, index % kind_count);
            let next: Vec<_> = blocks_of(layout, row).collect();
            let most_left: usize = banks_of(set).map(|bank| left_in_bank[bank]).sum();
            let ahead = taken[kind] - least.min(taken[kind]);
            (ahead > 1, conflict(&before, &next), ahead, usize::MAX - most_left)
        };
        let fronts = buckets.iter().enumerate().filter_map(|(index, rows)| Some((index, *rows.front()?)));
        let Some((index, row)) = fronts.min_by_key(|&(index, row)| cost(index, row)) else { return };
        buckets[index].pop_front();
        banks_of(index / kind_count).for_each(|bank| left_in_bank[bank] -= 1);
        taken[index % kind_count] += 1;
        left_of_kind[index % kind_count] -= 1;
        before = blocks_of(layout, row).collect();
        *place = row;
    }
}

/// What the order of `rows` costs.
pub fn measure_order(layout: &MatrixLayout, rows: &[u32]) -> OrderQuality {
    let kinds = Kinds::new(layout);
    let mut left = vec![0usize; kinds.count as usize];
    rows.iter().for_each(|&row| left[kinds.of(row)] += 1);
    let mut taken = vec![0usize; kinds.count as usize];
    let mut tails = vec![0usize; layout.cut().ranks as usize];
    let spread = |counts: &[usize]| counts.iter().max().unwrap_or(&0) - counts.iter().min().unwrap_or(&0);
    let mut quality = OrderQuality::default();
    let mut before: Vec<Option<Blocks>> = Vec::new();
    for &row in rows {
        let blocks: Vec<_> = blocks_of(layout, row).collect();
        quality.conflicts += usize::from(conflict(&before, &blocks));
        before = blocks;
        if left.contains(&0) {
            continue;
        }
        left[kinds.of(row)] -= 1;
        taken[kinds.of(row)] += 1;
        let waves = layout.cut().full_waves as usize;
        for (rank, tails) in tails.iter_mut().enumerate() {
            *tails += layout.cut().stripes_of(row, rank as u32).count() - waves;
        }
        quality.imbalance = quality.imbalance.max(spread(&taken));
        quality.rank_imbalance = quality.rank_imbalance.max(spread(&tails));
    }
    quality
}
