//! Rounding: fixed times from its start (docs/timing.md, "Rounding").

use crate::shape::Shape;

/// Cycles from the command to the first read of a sum.
const FIRST_READ: u64 = 2;
/// Cycles from the command to the first write, plus the digits of a sum.
const FIRST_WRITE: u64 = 11;

/// The rounding in flight, or the last one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Round {
    /// Cycle of the command.
    from: u64,
    /// Sums of a position and rank.
    sums: u64,
    segments: u64,
}

impl Round {
    pub fn start(&mut self, from: u64, sums: u64, shape: &Shape) {
        *self = Self { from, sums, segments: shape.segments };
    }

    pub fn last(&self) -> u64 {
        self.from + FIRST_WRITE + self.sums * self.segments
    }

    #[inline]
    pub fn is_busy(&self, cycle: u64) -> bool {
        self.sums > 0 && cycle <= self.last()
    }

    fn is_turn(&self, cycle: u64, first: u64) -> bool {
        let since = cycle.wrapping_sub(self.from + first);
        since < self.sums * self.segments && since.is_multiple_of(self.segments)
    }

    #[inline]
    pub fn reads(&self, cycle: u64) -> bool {
        self.is_busy(cycle) && self.is_turn(cycle, FIRST_READ)
    }

    #[inline]
    pub fn writes(&self, cycle: u64) -> bool {
        self.is_busy(cycle) && self.is_turn(cycle, FIRST_WRITE + self.segments)
    }
}
