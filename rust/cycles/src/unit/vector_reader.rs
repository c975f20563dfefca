//! Requests the beats of a vector block in the buffer, one per cycle (docs/timing.md, "Vector blocks").

use super::walk::Walk;
use crate::shape::{Cut, Shape};

#[derive(Clone, Debug, Default)]
pub(crate) struct VectorReader {
    /// The command comes in this cycle.
    pub starts: bool,
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

    #[inline]
    pub fn at_last_vector(&self) -> bool {
        self.vector + 1 == self.batch
    }

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
