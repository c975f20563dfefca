//! Stores the message that is waited for in a range, and drops others.

use super::walker::Walker;
use super::{NODES, Patience};
use crate::link::frame::Beat;
use crate::link::receiver::Arrived;
use ndp_config::LinkConfig;
use ndp_isa::Transfer;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Got {
    pub takes: bool,
    pub complete: bool,
    pub fails: bool,
    pub gives_up: bool,
    pub drops: bool,
}

/// Side that a beat belongs to.
#[derive(Clone, Copy, Debug, Default)]
struct Whose {
    wants: bool,
    foreign: bool,
    surplus: bool,
    again: bool,
}

#[derive(Clone, Debug)]
pub(super) struct Receiver {
    own: u8,
    range: Transfer,
    active: bool,
    began: bool,
    flit_begins: bool,
    left: u64,
    places: Walker,
    pending: u32,
    patience: Patience,
}

impl Receiver {
    pub fn new(config: &LinkConfig, own: u8) -> Self {
        Self {
            own,
            range: Transfer { address: 0, count: 0, ranks: 0, node: NODES, slot: 0 },
            active: false,
            began: false,
            flit_begins: true,
            left: 0,
            places: Walker::default(),
            pending: 0,
            patience: Patience::new(config),
        }
    }

    #[inline]
    pub fn is_busy(&self) -> bool {
        self.active || self.pending > 0
    }

    pub fn only_waits(&self) -> bool {
        self.active && self.pending == 0 && !self.patience.late
    }

    /// Cycles that it can wait without giving up.
    pub fn patience(&self) -> u64 {
        u64::from(self.patience.mask - self.patience.time)
    }

    /// Waits for these cycles.
    pub fn rest(&mut self, cycles: u64) {
        if self.active {
            self.patience.time += cycles as u32;
        }
    }

    /// Slot and DIMM of the message, as the register has them.
    pub fn known_by(&self) -> u32 {
        self.range.slot | (self.range.node % NODES) << 16
    }

    #[inline]
    fn whose(&self, beat: Option<Arrived>) -> Whose {
        let Some(Beat { dest, source, label, .. }) = beat.map(|arrived| arrived.beat) else {
            return Whose::default();
        };
        let for_us = dest == self.own;
        let Transfer { node, slot, .. } = self.range;
        let expected = self.active && for_us && u32::from(source) == node && label >> 1 == slot;
        let first = label & 1 == 1;
        let again = expected && first && self.flit_begins && self.began;
        let suits = expected && (first || self.began);
        let room = self.left > 0;
        Whose {
            wants: suits && room && !again,
            foreign: !for_us || self.active && !suits,
            surplus: suits && !room && !again,
            again,
        }
    }

    /// Rank and burst of the write on offer.
    #[inline]
    pub fn wants(&self, beat: Option<Arrived>) -> Option<(usize, u32)> {
        self.whose(beat).wants.then(|| self.places.place())
    }

    /// One cycle. `start`: the message to wait for. `passed`: the write is taken. `written`: ranks that have written a
    /// burst.
    #[inline]
    pub fn step(
        &mut self,
        start: Option<Transfer>,
        passed: bool,
        beat: Option<Arrived>,
        written: u32,
        fault: bool,
    ) -> Got {
        if !self.is_busy() && start.is_none() && beat.is_none() {
            self.patience.step(false, false);
            return Got::default();
        }
        let Whose { foreign, surplus, again, .. } = self.whose(beat);
        let arrived = beat.unwrap_or_default();
        let takes = passed || foreign || surplus;
        let ends = (passed || surplus) && arrived.beat.last;
        let complete = passed && ends && self.left == 1;
        let gives_up = self.active && beat.is_none() && (fault || self.patience.late);
        self.patience.step(start.is_some() || passed, self.active);
        if takes {
            self.flit_begins = arrived.flit_last;
        }
        // After a restart, the beat on offer is the first one.
        self.began = (passed || self.began) && !(start.is_some() || again);
        self.left -= u64::from(passed);
        if passed {
            self.places.step();
        }
        if again {
            (self.left, self.places) = (self.range.bursts(), Walker::new(&self.range));
        }
        self.active = start.is_some() || self.active && !(ends || gives_up);
        self.pending = self.pending + u32::from(passed) - written.count_ones();
        if let Some(transfer) = start {
            (self.left, self.places, self.range) = (transfer.bursts(), Walker::new(&transfer), transfer);
        }
        Got {
            takes,
            complete,
            fails: ends && !complete || gives_up,
            gives_up,
            drops: foreign && arrived.flit_last,
        }
    }
}
