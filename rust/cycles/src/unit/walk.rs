//! Walks over the beats of a vector block in the buffer: in which ranks each is, and which is the last (docs/timing.md,
//! "Vector blocks").

use crate::shape::{Cut, Shape};

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Walk {
    pub position: u32,
    /// A rank that holds the beat.
    pub rank: u32,
    wave: u32,
    cut: Cut,
}

impl Walk {
    pub fn start(cut: Cut) -> Self {
        Self { cut, ..Self::default() }
    }

    fn in_waves(&self) -> bool {
        self.wave != self.cut.waves
    }

    #[inline]
    pub fn is_last(&self, shape: &Shape) -> bool {
        let last_stripe = if self.in_waves() {
            self.rank + 1 == shape.ranks && self.wave + 1 == self.cut.waves && self.cut.tail == 0
        } else {
            self.rank + 1 == self.cut.tail
        };
        last_stripe && self.position == self.cut.last_beat
    }

    /// All ranks that hold it, one bit each: one for a beat of a wave; for the tail all or every second.
    #[inline]
    pub fn holders(&self, shape: &Shape) -> u32 {
        if self.in_waves() {
            1 << self.rank
        } else if self.cut.is_paired(shape) {
            0b101 << (self.rank % 2)
        } else {
            shape.all_ranks
        }
    }

    #[inline]
    pub fn step(&mut self, shape: &Shape) {
        self.position += 1;
        if self.position < shape.positions {
            return;
        }
        self.position = 0;
        let in_waves = self.in_waves();
        self.rank += 1;
        if self.rank == shape.ranks {
            self.rank = 0;
            self.wave += u32::from(in_waves);
        }
    }
}
