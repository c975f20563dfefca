//! In which order to ask for a list of rows.
//!
//! A `dot`'s results follow the list and an `axpy`'s do not depend on it, so the host chooses the order. Two things
//! cost time. A **conflict**: a row needs another DRAM row of a bank than the one that its rank left open, and waits
//! for precharge and activate. **Imbalance**: a list that has the same kind of tail several times running loads one
//! rank while the others wait.
//!
//! Rows are sorted into buckets by the banks that they touch and the rank where their tail begins, then taken greedily:
//! first keep the kinds of tails balanced, then avoid conflicts, then prefer the banks with the most rows left, rows
//! over two banks first. Inside a bucket rows keep their order, so a sorted list uses up an open DRAM row.

use std::collections::{BTreeMap, VecDeque};

use crate::layout::MatrixLayout;
use crate::layout::address::BLOCK_BURSTS;

/// Cost of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct OrderQuality {
    /// Rows that need another DRAM row of a bank than the one that their rank left open.
    pub conflicts: usize,
    /// Largest difference between the counts of the kinds of tails, until the first kind is used up.
    pub imbalance: usize,
    /// Imbalance in stripes of tails between the ranks at the same places.
    pub rank_imbalance: usize,
}

/// Ranks to look at: without tails all ranks have the same blocks.
fn looked_at<'a>(layouts: impl IntoIterator<Item = &'a MatrixLayout>) -> u32 {
    let ranks = layouts.into_iter().map(|layout| match layout.cut().tail_stripes {
        0 => 1,
        _ => layout.cut().ranks,
    });
    ranks.max().unwrap_or(1)
}

/// Blocks of a row on a rank: bursts that share an open row in two banks. Blocks `banks` apart share banks.
#[derive(Debug, Clone, Copy)]
struct Blocks {
    first: u64,
    last: u64,
    banks: u64,
}

impl Blocks {
    /// Whether a bank has to close the row that `self` left open before `next` can begin there.
    fn conflicts(self, next: Self) -> bool {
        let banks = self.banks;
        // If several blocks are in one bank, the first of `next` meets the last of `self`.
        (next.first..=next.last.min(next.first + banks - 1)).any(|block| {
            let back = self.last.wrapping_sub(block) % banks;
            let open = self.last.checked_sub(back).filter(|open| *open >= self.first);
            open.is_some_and(|open| open != block)
        })
    }

    fn banks(self) -> u32 {
        (self.first..=self.last.min(self.first + self.banks - 1))
            .fold(0, |banks, block| banks | 1 << (block % self.banks))
    }
}

/// The blocks of a row on each of the first `ranks` ranks where it has stripes.
fn blocks_of(layout: &MatrixLayout, row: u32, ranks: u32) -> impl Iterator<Item = Option<Blocks>> {
    (0..ranks).map(move |rank| {
        let first = u64::from(layout.base()) + layout.offset(row, rank);
        let end = first + u64::from(layout.row_bursts(row, rank));
        let block = u64::from(BLOCK_BURSTS);
        let banks = layout.open_blocks().into();
        (end > first).then(|| Blocks { first: first / block, last: (end - 1) / block, banks })
    })
}

/// Kinds of tails: rows whose tails begin at the same rank.
struct Kinds {
    count: u32,
}

impl Kinds {
    fn new(layout: &MatrixLayout) -> Self {
        let cut = layout.cut();
        // First row whose tail begins at rank 0 again.
        let again = (1..=cut.ranks).find(|row| cut.tail_start(*row) == 0);
        Self { count: if cut.tail_stripes == 0 { 1 } else { again.unwrap_or(1) } }
    }

    fn of(&self, row: u32) -> usize {
        (row % self.count) as usize
    }
}

fn conflict(before: &[Option<Blocks>], next: &[Option<Blocks>]) -> bool {
    before.iter().zip(next).any(|pair| matches!(pair, (Some(a), Some(b)) if a.conflicts(*b)))
}

/// Set of banks that a row touches in each matrix, and its kind of tail.
type Bucket = (Vec<u32>, usize);

/// Updates the blocks that each rank has read last.
fn pass(before: &mut [Option<Blocks>], next: &[Option<Blocks>]) {
    before.iter_mut().zip(next).filter(|(_, next)| next.is_some()).for_each(|(before, next)| *before = *next);
}

/// Order of `rows` for matrices of one DIMM that are read with the same list (one, or the tiles of an `axpy`): for each
/// place of the list, an index into `rows`.
///
/// Each row takes a step for every bucket: up to some 64 for one matrix with two bank groups, twice as many with four,
/// a few hundred for tiles of two widths. Matrices that lie alike, as tiles of one width do, count once.
pub fn row_order(layouts: &[&MatrixLayout], rows: &[u32]) -> Vec<u32> {
    // Only where a matrix begins in a round of the banks and how its rows are cut matter.
    let banks = layouts.first().map_or(1, |layout| layout.open_blocks());
    let round = BLOCK_BURSTS * banks;
    let mut different: Vec<&MatrixLayout> = Vec::new();
    for layout in layouts {
        let alike = |other: &&MatrixLayout| {
            other.cut() == layout.cut() && other.base() % round == layout.base() % round
        };
        if !different.iter().any(alike) {
            different.push(layout);
        }
    }
    let layouts = different;
    let kinds = layouts.iter().map(|layout| Kinds::new(layout)).max_by_key(|kinds| kinds.count);
    let kinds = kinds.unwrap_or(Kinds { count: 1 });
    let kind_count = kinds.count as usize;
    let banks_of = |set: u32| (0..banks as usize).filter(move |bank| set >> bank & 1 == 1);
    let ranks = looked_at(layouts.iter().copied());
    let width = ranks as usize * layouts.len();
    let mut blocks = Vec::with_capacity(rows.len() * width);

    let mut buckets: BTreeMap<Bucket, VecDeque<usize>> = BTreeMap::new();
    let mut left_in_bank = vec![vec![0usize; banks as usize]; layouts.len()];
    let mut left_of_kind = vec![0usize; kind_count];
    let mut bucket: Bucket = (vec![0; layouts.len()], 0);
    for (at, &row) in rows.iter().enumerate() {
        bucket.1 = kinds.of(row);
        left_of_kind[bucket.1] += 1;
        for ((layout, set), left) in layouts.iter().zip(&mut bucket.0).zip(&mut left_in_bank) {
            let from = blocks.len();
            blocks.extend(blocks_of(layout, row, ranks));
            *set = blocks[from..].iter().flatten().fold(0, |set, blocks| set | blocks.banks());
            banks_of(*set).for_each(|bank| left[bank] += 1);
        }
        match buckets.get_mut(&bucket) {
            Some(bucket) => bucket.push_back(at),
            None => _ = buckets.insert(bucket.clone(), VecDeque::from([at])),
        }
    }
    let mut buckets: Vec<(Bucket, VecDeque<usize>)> = buckets.into_iter().collect();
    let blocks_at = |at: usize| &blocks[at * width..][..width];
    let mut taken = vec![0usize; kind_count];
    let mut before = vec![None; width];
    let mut order = Vec::with_capacity(rows.len());
    while order.len() < rows.len() {
        let least = (0..kind_count).filter(|&kind| left_of_kind[kind] > 0).map(|kind| taken[kind]).min();
        let least = least.unwrap_or(0);
        let cost = |kind: usize, next: &[Option<Blocks>]| {
            let ahead = taken[kind] - least.min(taken[kind]);
            let matrices = before.chunks(ranks as usize).zip(next.chunks(ranks as usize));
            let conflicts = matrices.filter(|(before, next)| conflict(before, next)).count();
            (ahead > 1, conflicts, ahead)
        };
        let most_left = |sets: &[u32]| -> usize {
            let of = |(set, left): (&u32, &Vec<usize>)| banks_of(*set).map(|bank| left[bank]).sum::<usize>();
            sets.iter().zip(&left_in_bank).map(of).sum()
        };
        // The first bucket of the least cost; among equals the one with the most rows left in its banks.
        let mut best: Option<((bool, usize, usize), usize, usize)> = None;
        for (number, ((sets, kind), places)) in buckets.iter().enumerate() {
            let Some(&at) = places.front() else { continue };
            let cost = cost(*kind, blocks_at(at));
            let left = match best {
                Some((least, ..)) if cost > least => continue,
                Some((least, most, _)) if cost == least => {
                    let left = most_left(sets);
                    if left <= most {
                        continue;
                    }
                    left
                }
                _ => most_left(sets),
            };
            best = Some((cost, left, number));
        }
        let Some((bucket, places)) = best.and_then(|(.., number)| buckets.get_mut(number)) else { break };
        let Some(at) = places.pop_front() else { break };
        for (left, set) in left_in_bank.iter_mut().zip(&bucket.0) {
            banks_of(*set).for_each(|bank| left[bank] -= 1);
        }
        taken[bucket.1] += 1;
        left_of_kind[bucket.1] -= 1;
        pass(&mut before, blocks_at(at));
        order.push(at as u32);
    }
    order
}

/// Puts `rows` in the order of [`row_order`].
pub fn order_rows(layouts: &[&MatrixLayout], rows: &mut [u32]) {
    let ordered: Vec<u32> = row_order(layouts, rows).into_iter().map(|place| rows[place as usize]).collect();
    rows.copy_from_slice(&ordered);
}

/// Cost of the order of `rows`.
pub fn measure_order(layout: &MatrixLayout, rows: &[u32]) -> OrderQuality {
    let kinds = Kinds::new(layout);
    let mut left = vec![0usize; kinds.count as usize];
    rows.iter().for_each(|&row| left[kinds.of(row)] += 1);
    let mut taken = vec![0usize; kinds.count as usize];
    let mut tails = vec![0usize; layout.cut().ranks as usize];
    let spread = |counts: &[usize]| counts.iter().max().unwrap_or(&0) - counts.iter().min().unwrap_or(&0);
    let mut quality = OrderQuality::default();
    let ranks = looked_at([layout]);
    let mut before = vec![None; ranks as usize];
    for &row in rows {
        let blocks: Vec<_> = blocks_of(layout, row, ranks).collect();
        quality.conflicts += usize::from(conflict(&before, &blocks));
        pass(&mut before, &blocks);
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
