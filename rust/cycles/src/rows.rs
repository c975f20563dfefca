//! Rows of a product: their numbers, and the segments that each rank reads for them (docs/timing.md, "Rows of a
//! product").

use crate::rank::Segment;
use crate::reader::segment_bursts;
use crate::shape::Cut;
use ndp_config::DesignConfig;
use ndp_isa::layout::MatrixLayout;
use std::collections::VecDeque;

#[derive(Clone, Debug)]
pub(crate) struct Rows {
    pub matrix: MatrixLayout,
    pub cut: Cut,
    pub count: u32,
    /// First entry of the list memory, if the rows are listed.
    pub list: Option<u32>,
    /// Bursts of `ranks` rows on a rank, without scales if rows share them.
    period: u64,
    /// Offset and bursts of the first `ranks` rows on each rank, rank by rank; without scales if rows share them.
    first: Vec<(u64, u32)>,
    /// If rows share scales, the bursts of weights between two of scales.
    sharing: Option<u64>,
}

impl Rows {
    pub fn new(config: &DesignConfig, product: &ndp_isa::Product, cut: Cut) -> Self {
        let matrix = MatrixLayout::of_product(config, product);
        let ranks = config.gemv().ranks();
        let of = |at: u32| {
            let (rank, row) = (at / ranks, at % ranks);
            let before = matrix.bursts_before(row, rank);
            let bursts = match product.shared {
                true => (matrix.bursts_before(row + 1, rank) - before) as u32,
                false => matrix.row_bursts(row, rank),
            };
            (before, bursts)
        };
        let first = (0..ranks * ranks).map(of).collect();
        let period = matrix.bursts_before(ranks, 0);
        let sharing = product.shared.then(|| matrix.sharing_bursts());
        Self { matrix, cut, count: product.count, list: product.list, period, first, sharing }
    }

    /// First burst and number of bursts of a row on a rank.
    fn place(&self, row: u32, rank: u32) -> (u32, u32) {
        let ranks = self.matrix.cut().ranks;
        let (offset, bursts) = self.first[(rank * ranks + row % ranks) as usize];
        let offset = u64::from(row / ranks) * self.period + offset;
        let Some(sharing) = self.sharing else { return (self.matrix.burst_at(offset), bursts) };
        let with_scales = |weights: u64| weights + weights.div_ceil(sharing);
        let (first, end) = (with_scales(offset), with_scales(offset + u64::from(bursts)));
        (self.matrix.burst_at(first), (end - first) as u32)
    }
}

/// Cycles from the request for an entry of the list to the entry.
const READ: u64 = 2;

#[derive(Clone, Debug, Default)]
pub(crate) struct Generator {
    /// Rows not taken yet; 0 in the command's cycle.
    pub left: u32,
    /// The row on offer, from this cycle.
    from: u64,
    row: u32,
    entry: u32,
    listed: bool,
    /// Cycle from which the next entry of the list is known.
    known: u64,
    /// Cycles of the multiplication of a listed row by the length of rows.
    steps: u64,
}

impl Generator {
    /// The command comes in cycle `cycle`.
    pub fn start(&mut self, cycle: u64, rows: &Rows, list: &[u32]) {
        (self.left, self.listed) = (rows.count, rows.list.is_some());
        let factor = rows.period;
        let factor = if factor.is_multiple_of(16) { factor / 16 } else { factor };
        self.steps = u64::from((u64::BITS - factor.leading_zeros()).div_ceil(2)).max(1);
        self.entry = rows.list.unwrap_or(0);
        self.row = 0;
        self.known = cycle + READ;
        self.begin(cycle, list);
    }

    fn begin(&mut self, cycle: u64, list: &[u32]) {
        if self.listed {
            let loaded = cycle.max(self.known);
            self.row = list[self.entry as usize] & 0xFF_FFFF;
            (self.from, self.known) = (loaded + self.steps + 1, loaded + READ);
        } else {
            self.from = cycle + 1;
        }
    }

    #[inline]
    pub fn offers(&self, cycle: u64) -> Option<u32> {
        (self.left > 0 && self.from <= cycle).then_some(self.row)
    }

    #[inline]
    pub fn taken(&mut self, cycle: u64, list: &[u32]) {
        self.left -= 1;
        if self.left > 0 {
            if self.listed {
                self.entry = (self.entry + 1) % list.len() as u32;
            } else {
                self.row += 1;
            }
            self.begin(cycle, list);
        }
    }

    /// The first cycle from which a row is offered.
    pub fn next(&self) -> u64 {
        if self.left > 0 { self.from } else { u64::MAX }
    }
}

/// Rows that can wait in a feeder.
const QUEUED_ROWS: usize = 2;
/// Cycles from a row's turn to its first segment.
const PLACED: u64 = 3;

#[derive(Clone, Debug)]
pub(crate) struct Feeder {
    rank: u32,
    waiting: VecDeque<u32>,
    /// Cycle from which the present row has segments on offer.
    from: u64,
    address: u32,
    left: u32,
    mask: u32,
}

impl Feeder {
    pub fn new(rank: u32, rank_bursts: u64) -> Self {
        let mask = (rank_bursts - 1) as u32;
        Self { rank, waiting: VecDeque::new(), from: 0, address: 0, left: 0, mask }
    }

    /// Whether both have the same future from cycle `cycle`.
    pub fn is_symmetric(&self, other: &Self, cycle: u64) -> bool {
        let state = |feeder: &Self| {
            (feeder.left, if feeder.left > 0 { feeder.address } else { 0 }, feeder.from.max(cycle))
        };
        state(self) == state(other) && self.waiting == other.waiting
    }

    pub fn replica(&self, rank: u32) -> Self {
        Self { rank, ..self.clone() }
    }

    #[inline]
    pub fn has_room(&self) -> bool {
        self.waiting.len() < QUEUED_ROWS
    }

    #[inline]
    pub fn is_busy(&self, cycle: u64) -> bool {
        self.left > 0 || cycle < self.from || !self.waiting.is_empty()
    }

    #[inline]
    pub fn offers(&self, cycle: u64) -> Option<Segment> {
        if self.left == 0 || cycle < self.from {
            return None;
        }
        let bursts = segment_bursts(self.address, self.left);
        Some(Segment { address: self.address, bursts, for_reader: false })
    }

    /// End of a cycle: the segment on offer if it was taken, and a row that comes.
    #[inline]
    pub fn step(&mut self, cycle: u64, taken: Option<Segment>, row: Option<u32>, rows: Option<&Rows>) {
        let working = self.left > 0 || cycle < self.from;
        if let Some(segment) = taken {
            self.left -= segment.bursts;
            self.address = (self.address - self.address % 16 + 16) & self.mask;
        }
        if !working && let (Some(row), Some(rows)) = (self.waiting.pop_front(), rows) {
            self.place(cycle, row, rows);
        }
        self.waiting.extend(row);
    }

    fn place(&mut self, cycle: u64, row: u32, rows: &Rows) {
        (self.address, self.left) = rows.place(row, self.rank);
        // A row that leaves this rank out takes only the cycle in which it leaves the queue.
        if self.left > 0 {
            self.from = cycle + PLACED;
        }
    }

    /// The first cycle from `cycle` in which something happens, if a segment on offer is taken from `room_from`.
    #[inline]
    pub fn next(&self, cycle: u64, room_from: impl FnOnce() -> u64) -> u64 {
        if self.left > 0 {
            self.from.max(cycle).max(room_from())
        } else if !self.waiting.is_empty() || cycle < self.from {
            self.from.max(cycle)
        } else {
            u64::MAX
        }
    }
}

/// Segments of a feeder that may go before one of the reader.
const PASSED: u32 = 7;
/// Bursts of a rank that share an open row in each of two banks.
const BLOCK_BURSTS: u32 = 256;

/// Choice between the reader's segment and the feeder's for a rank.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Turn {
    /// Blocks whose rows can be open at the same time.
    open_blocks: u32,
    /// Block of the last segment taken.
    last: u32,
    /// Number of times that the reader was passed over.
    passed: u32,
}

impl Turn {
    pub fn new(bank_groups: u32) -> Self {
        Self { open_blocks: 4 * bank_groups / 2, last: 0, passed: 0 }
    }

    /// Whether both blocks are different rows of the same banks.
    fn clash(&self, block: u32, other: u32) -> bool {
        block != other && (block ^ other).is_multiple_of(self.open_blocks)
    }

    #[inline]
    pub fn passes(&self, reader: Segment, feeder: Option<Segment>) -> bool {
        let Some(feeder) = feeder else { return false };
        let (reader, feeder) = (reader.address / BLOCK_BURSTS, feeder.address / BLOCK_BURSTS);
        self.passed < PASSED
            && (self.clash(reader, self.last) || self.clash(reader, feeder))
            && !self.clash(feeder, self.last)
    }

    #[inline]
    pub fn taken(&mut self, segment: Segment, passes: bool) {
        self.last = segment.address / BLOCK_BURSTS;
        self.passed = if segment.for_reader { 0 } else { self.passed + u32::from(passes) };
    }
}
