//! Reads consecutive bursts of the DIMM for loads and lists (docs/timing.md, "Reader of loads and lists").

use crate::fifo::SramFifo;
use crate::rank::Segment;

/// Bursts up to the next multiple of 16, but not more than are left.
#[inline]
pub(crate) fn segment_bursts(address: u32, left: u32) -> u32 {
    (16 - address % 16).min(left)
}

/// Beats that can be on their way to or wait in one rank's queue.
const PLACES: u32 = 32;

#[derive(Clone, Copy, Debug, Default)]
struct Lane {
    address: u32,
    left: u32,
    places: u32,
    queue: SramFifo,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Reader {
    lanes: Vec<Lane>,
    /// Beats that have not been handed on.
    left: u32,
    /// Of all ranks, bursts whose segments were not taken.
    asked: u32,
    rank: usize,
    /// Address of the DIMM of the next beat.
    address: u32,
    starts: bool,
    command: (u32, u32),
    rank_mask: u32,
    dimm_mask: u32,
}

impl Reader {
    pub fn new(ranks: u32, rank_bursts: u64) -> Self {
        Self {
            lanes: vec![Lane { places: PLACES, ..Lane::default() }; ranks as usize],
            rank_mask: (rank_bursts - 1) as u32,
            dimm_mask: (rank_bursts * u64::from(ranks) - 1) as u32,
            ..Self::default()
        }
    }

    /// Starts in the next cycle.
    pub fn start(&mut self, address: u32, count: u32) {
        (self.starts, self.command) = (true, (address, count));
    }

    /// Bursts are to be read or on their way.
    #[inline]
    pub fn is_busy(&self) -> bool {
        self.starts || self.left > 0
    }

    /// Segments are to be offered.
    #[inline]
    pub fn is_asking(&self) -> bool {
        self.asked > 0
    }

    /// The segment that is offered to a rank.
    #[inline]
    pub fn asks(&self, rank: usize) -> Option<Segment> {
        let lane = &self.lanes[rank];
        if lane.left == 0 {
            return None;
        }
        let bursts = segment_bursts(lane.address, lane.left);
        (lane.places >= bursts).then_some(Segment { address: lane.address, bursts, for_reader: true })
    }

    /// The segment that it asked for was taken.
    #[inline]
    pub fn segment_taken(&mut self, rank: usize, segment: Segment) {
        let (mask, lane) = (self.rank_mask, &mut self.lanes[rank]);
        lane.left -= segment.bursts;
        self.asked -= segment.bursts;
        lane.places -= segment.bursts;
        lane.address = (lane.address - lane.address % 16 + 16) & mask;
    }

    /// A beat is offered, in order; its address.
    #[inline]
    pub fn offers(&self) -> Option<u32> {
        (self.left > 0 && self.lanes[self.rank].queue.valid).then_some(self.address)
    }

    /// End of a cycle: whether the offered beat was taken, and which ranks delivered one.
    #[inline]
    pub fn step(&mut self, taken: bool, delivered: u32) {
        for (g, lane) in self.lanes.iter_mut().enumerate() {
            let pop = taken && g == self.rank;
            if lane.queue.count == 0 && !pop && delivered == 0 {
                // Nothing comes, moves up or leaves.
                continue;
            }
            lane.queue.step(delivered >> g & 1 == 1, pop);
            lane.places += u32::from(pop);
        }
        if taken {
            self.left -= 1;
            self.rank = (self.rank + 1) % self.lanes.len();
            self.address = (self.address + 1) & self.dimm_mask;
        }
        if self.starts {
            self.starts = false;
            self.begin();
        }
    }

    fn begin(&mut self) {
        let (address, count) = self.command;
        let ranks = self.lanes.len() as u32;
        (self.left, self.asked, self.address) = (count, count, address);
        let (first_rank, first_burst) = (address % ranks, address / ranks);
        self.rank = first_rank as usize;
        for (g, lane) in (0..ranks).zip(&mut self.lanes) {
            // Bursts `address .. address + count` of which `g` modulo the ranks.
            let turns = |end: u32| (end + ranks - 1 - g) / ranks;
            lane.left = turns(first_rank + count) - turns(first_rank);
            lane.address = (first_burst + u32::from(g < first_rank)) & self.rank_mask;
        }
    }
}
