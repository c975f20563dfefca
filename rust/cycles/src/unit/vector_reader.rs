//! Asks for the beats of a vector block in the buffer (docs/timing.md, "Vector blocks").

use super::walk::Walk;
use crate::shape::{Cut, Shape};

/// A reader: one beat per cycle.
#[derive(Clone, Debug, Default)]
pub(crate) struct VectorReader {
    /// The command comes in this cycle.
    pub starts: bool,
    /// The reader asks for a beat.
    pub active: bool,
    vector: u32,
    batch: u32,
    pub walk: Walk,
}

impl VectorReader {
    /// Starts in the next cycle.
    pub fn start(&mut self, cut: Cut, batch: u32) {
        self.starts = true;
        (self.batch, self.walk) = (batch, Walk::start(cut));
    }

    /// The beat is that of the last vector.
    #[inline]
    pub fn at_last_vector(&self) -> bool {
        self.vector + 1 == self.batch
    }

    /// End of a cycle: whether the beat was taken.
    #[inline]
    pub fn step(&mut self, taken: bool, shape: &Shape) {
        if self.starts {
            (self.starts, self.active, self.vector) = (false, true, 0);
        } else if taken {
            self.vector += 1;
            if self.vector == self.batch {
                self.vector = 0;
                self.active = !self.walk.is_last(shape);
                self.walk.step(shape);
            }
        }
    }
}
