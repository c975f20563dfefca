//! Reads a range ahead, as far as there are places for it, and hands it to the link.

use super::Patience;
use super::walker::Walker;
use crate::fifo::SramFifo;
use crate::link::frame::Beat;
use ndp_config::LinkConfig;
use ndp_isa::Transfer;

/// Most beats that wait in, or are on their way to, one rank's queue.
const PLACES: u32 = 16;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sent {
    pub takes: bool,
    pub over: bool,
    pub fails: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Lane {
    queue: SramFifo,
    free: u32,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Sender {
    last_beat: u32,
    node: u8,
    slot: u32,
    flushes: bool,
    asks: u64,
    left: u64,
    requests: Walker,
    order: Walker,
    lanes: Vec<Lane>,
    index: u32,
    begins: bool,
    patience: Patience,
}

impl Sender {
    pub fn new(config: &LinkConfig, ranks: u32) -> Self {
        Self {
            last_beat: config.flit_beats() - 1,
            lanes: vec![Lane { free: PLACES, ..Lane::default() }; ranks as usize],
            patience: Patience::new(config),
            ..Self::default()
        }
    }

    #[inline]
    pub fn is_busy(&self) -> bool {
        self.left > 0 || self.flushes
    }

    /// Slot and DIMM of the message, as the register has them.
    pub fn known_by(&self) -> u32 {
        self.slot | u32::from(self.node) << 16
    }

    /// Rank and burst of the request on offer.
    #[inline]
    pub fn wants(&self) -> Option<(usize, u32)> {
        let (rank, burst) = self.requests.place();
        (self.asks > 0 && self.lanes[rank].free > 0).then_some((rank, burst))
    }

    /// The beat that DIMM `own` offers to the link.
    #[inline]
    pub fn beat(&self, own: u8) -> Option<Beat> {
        let offered = self.left > 0 && self.lanes[self.order.place().0].queue.valid;
        offered.then_some(Beat {
            last: self.left == 1,
            dest: self.node,
            source: own,
            label: self.slot << 1 | u32::from(self.begins),
        })
    }

    /// One cycle. `start`: the message begins. `passed`: the request is taken. `ready`: the link takes beats. `beats`:
    /// ranks that deliver a burst.
    #[inline]
    pub fn step(
        &mut self,
        start: Option<Transfer>,
        passed: bool,
        ready: bool,
        beats: u32,
        fault: bool,
    ) -> Sent {
        if !self.is_busy() && start.is_none() {
            self.patience.step(false, false);
            return Sent::default();
        }
        let next = self.order.place().0;
        let takes = self.left > 0 && self.lanes[next].queue.valid && ready;
        let last = self.left == 1;
        let ends = last || self.index == self.last_beat;
        let over = takes && last;
        let between = if takes { ends } else { self.index == 0 };
        let runs = self.left > 0;
        let stops = runs && between && !over && (fault || self.patience.late);
        let returned = self.lanes.iter().all(|lane| lane.free == PLACES);
        self.patience.step(start.is_some() || takes, runs);
        for (rank, lane) in self.lanes.iter_mut().enumerate() {
            let pop = takes && rank == next || self.flushes;
            let used = passed && self.requests.place().0 == rank;
            lane.free = lane.free + u32::from(pop && lane.queue.valid) - u32::from(used);
            lane.queue.step(beats >> rank & 1 == 1, pop);
        }
        if takes {
            self.index = if ends { 0 } else { self.index + 1 };
            self.order.step();
        }
        if passed {
            self.requests.step();
        }
        self.begins = start.is_some() || self.begins && !(takes && ends);
        self.flushes = stops || self.flushes && !returned;
        self.asks = if stops { 0 } else { self.asks - u64::from(passed) };
        self.left = if stops { 0 } else { self.left - u64::from(takes) };
        if let Some(transfer) = start {
            (self.node, self.slot) = (transfer.node as u8, transfer.slot);
            (self.asks, self.left) = (transfer.bursts(), transfer.bursts());
            (self.requests, self.order) = (Walker::new(&transfer), Walker::new(&transfer));
        }
        Sent { takes, over, fails: stops }
    }
}
