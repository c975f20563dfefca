//! Reads consecutive bursts of the DIMM for loads and lists (docs/timing.md, "Reader of loads and lists").

use crate::fifo::SramFifo;
use crate::rank::Segment;

/// Bursts up to the next multiple of 16, at most `left`.
#[inline]
pub(crate) fn segment_bursts(address: u32, left: u32) -> u32 {
    (16 - address % 16).min(left)
}

/// Most beats that wait in, or are on their way to, one rank's queue.
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
    /// Beats that have not been passed on.
    left: u32,
    /// Bursts of all ranks whose segments were not taken.
    asked: u32,
    rank: usize,
    /// Address of the next beat in the DIMM.
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

    #[inline]
    pub fn is_busy(&self) -> bool {
        self.starts || self.left > 0
    }

    #[inline]
    pub fn is_asking(&self) -> bool {
        self.asked > 0
    }

    #[inline]
    pub fn asks(&self, rank: usize) -> Option<Segment> {
        let lane = &self.lanes[rank];
        if lane.left == 0 {
            return None;
        }
        let bursts = segment_bursts(lane.address, lane.left);
        (lane.places >= bursts).then_some(Segment { address: lane.address, bursts, for_reader: true })
    }

    #[inline]
    pub fn segment_taken(&mut self, rank: usize, segment: Segment) {
        let (mask, lane) = (self.rank_mask, &mut self.lanes[rank]);
        lane.left -= segment.bursts;
        self.asked -= segment.bursts;
        lane.places -= segment.bursts;
        lane.address = (lane.address - lane.address % 16 + 16) & mask;
    }

    /// Address of the beat on offer; beats come in order.
    #[inline]
    pub fn offers(&self) -> Option<u32> {
        (self.left > 0 && self.lanes[self.rank].queue.valid).then_some(self.address)
    }

    /// End of a cycle: whether the beat on offer was taken, and the ranks that delivered one.
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
            // Bursts `address .. address + count` that are congruent to `g` modulo the ranks.
            let turns = |end: u32| (end + ranks - 1 - g) / ranks;
            lane.left = turns(first_rank + count) - turns(first_rank);
            lane.address = (first_burst + u32::from(g < first_rank)) & self.rank_mask;
        }
    }
}
