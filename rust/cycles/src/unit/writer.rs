//! Writers of vector blocks: of loads, beat by beat, and of results, by single values or by one value of each rank
//! (docs/timing.md, "Vector blocks").

use super::walk::Walk;
use crate::shape::{Cut, Shape};
use ndp_config::BEAT_ELEMS;

/// One item per cycle and, for each stripe and vector, a write of zeros before the first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Writer {
    /// Elements of an item: a beat's, one, or one of each rank.
    elements: u32,
    starts: bool,
    pub active: bool,
    /// Ranks of the write on offer.
    pub staged: Option<u32>,
    blanked: bool,
    vector: u32,
    batch: u32,
    element: u32,
    last_elem: u32,
    walk: Walk,
}

impl Writer {
    /// Starts in the next cycle.
    pub fn start(&mut self, cut: Cut, batch: u32, elements: u32) {
        self.starts = true;
        (self.elements, self.batch) = (elements, batch);
        (self.last_elem, self.walk) = (cut.last_elem, Walk::start(cut));
    }

    #[inline]
    pub fn is_busy(&self) -> bool {
        self.starts || self.active || self.staged.is_some()
    }

    fn blanks(&self) -> bool {
        self.walk.position == 0 && self.element == 0 && !self.blanked
    }

    /// One cycle. `written`: the write on offer is done; `item`: an item is offered. Returns whether it is taken.
    #[inline]
    pub fn step(&mut self, written: bool, item: bool, shape: &Shape) -> bool {
        if self.starts {
            (self.starts, self.active) = (false, true);
            (self.vector, self.element, self.blanked) = (0, 0, false);
            return false;
        }
        let free = self.staged.is_none() || written;
        if !free {
            return false;
        }
        self.staged = None;
        if !self.active {
            return false;
        }
        let blanks = self.blanks();
        if !blanks && !item {
            return false;
        }
        self.staged = Some(self.walk.holders(shape));
        self.blanked = blanks;
        if blanks {
            return false;
        }
        self.vector += 1;
        if self.vector == self.batch {
            self.vector = 0;
            self.next_place(shape);
        }
        true
    }

    fn next_place(&mut self, shape: &Shape) {
        let last_element = self.element / self.elements == self.last_elem / self.elements;
        if last_element && self.walk.is_last(shape) {
            self.active = false;
        }
        self.element = (self.element + self.elements) % BEAT_ELEMS;
        if self.element == 0 {
            self.walk.step(shape);
        }
    }

    /// Nothing changes until an item comes.
    #[inline]
    pub fn is_still(&self) -> bool {
        !self.starts && self.staged.is_none() && !(self.active && self.blanks())
    }
}
