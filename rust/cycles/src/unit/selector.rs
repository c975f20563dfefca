//! Finds positive elements and reads their values (docs/timing.md, "Selection"). The host says which elements these
//! are: a mask for each place, when the unit has looked at all of it.

use super::walk::Walk;
use crate::shape::{Cut, Shape};
use ndp_config::BEAT_ELEMS;

/// Values that are read and not written.
const QUEUED_VALUES: u32 = 4;

#[derive(Clone, Debug, Default)]
pub(crate) struct Selector {
    starts: bool,
    active: bool,
    /// The unit looks at the beats of a place; it reads the values of its elements.
    looks: bool,
    reads: bool,
    /// The place's last beat comes in this cycle, came in the one before.
    comes: bool,
    counts: bool,
    /// The unit has looked at all of the place: its mask is needed in this cycle.
    pub begins: bool,
    vector: u32,
    batch: u32,
    walk: Walk,
    last_elem: u32,
    place: u32,
    /// Elements whose values are to be read.
    mask: u32,
    /// Values requested and not taken; values waiting; values that come in the next cycle and the one after.
    places: u32,
    pub queued: u32,
    back: [bool; 2],
    /// The element that is named in this cycle: its first value was requested in the cycle before.
    pub named: Option<u32>,
}

impl Selector {
    pub fn start(&mut self, cut: Cut, batch: u32) {
        let (walk, last_elem) = (Walk::start(cut), cut.last_elem);
        *self = Self { starts: true, batch, walk, last_elem, ..Self::default() };
    }

    #[inline]
    pub fn is_busy(&self) -> bool {
        self.starts || self.active || self.places > 0
    }

    #[inline]
    pub fn asks(&self) -> bool {
        self.looks || self.reads && self.mask != 0 && self.places < QUEUED_VALUES
    }

    /// Takes the selected elements of a place, at the beginning of the cycle in which they are needed.
    #[inline]
    pub fn take_mask(&mut self, mask: u32, shape: &Shape) {
        if std::mem::take(&mut self.begins) {
            // Nothing is selected past the end of the vectors.
            let end = if self.walk.is_last(shape) { self.last_elem } else { BEAT_ELEMS - 1 };
            self.mask = mask & u32::MAX >> (BEAT_ELEMS - 1 - end);
        }
    }

    /// End of a cycle: whether the requested beat was read, the value on offer was taken.
    pub fn step(&mut self, read: bool, item_taken: bool, shape: &Shape) {
        if self.starts {
            (self.starts, self.active, self.looks) = (false, true, true);
            return;
        }
        let value_read = read && self.reads;
        self.queued = self.queued + u32::from(self.back[0]) - u32::from(item_taken);
        self.back = [self.back[1], value_read];
        self.places = self.places + u32::from(value_read) - u32::from(item_taken);
        let element = self.place * BEAT_ELEMS + self.mask.trailing_zeros();
        self.named = (value_read && self.vector == 0).then_some(element);
        let empty = self.mask == 0;
        let last_vector = read && self.vector + 1 == self.batch;
        if read {
            self.vector = if last_vector { 0 } else { self.vector + 1 };
        }
        let looked = last_vector && self.looks;
        if last_vector && self.reads {
            self.mask &= self.mask.wrapping_sub(1);
        }
        let steps = self.reads && (empty || last_vector && self.mask == 0);
        self.looks &= !looked;
        self.reads &= !steps;
        if self.counts {
            (self.reads, self.begins) = (true, true);
        }
        (self.counts, self.comes) = (self.comes, looked);
        if steps {
            let last = self.walk.is_last(shape);
            (self.active, self.looks) = (!last, !last);
            self.walk.step(shape);
            self.place += 1;
        }
    }
}
