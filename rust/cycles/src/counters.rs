//! The core's cycle counters, register 1 (docs/timing.md, "Counters").

use crate::issue::{LIST, LOAD, PRODUCT, ROUND, STORE, ZERO};
use crate::unit::NO_CAUSE;

/// Causes of the groups' cycles and, last, those with a product and without a cause.
const CAUSES: usize = NO_CAUSE + 1;
/// Counters.
pub(crate) const COUNTERS: usize = 14;

/// The counters.
#[derive(Clone, Debug, Default)]
pub(crate) struct CounterFile {
    /// Of the cycles before this one; those of the causes before the one before.
    causes: [u64; CAUSES],
    last_causes: [u64; CAUSES],
    parts: [u64; 6],
    axpy: u64,
    outside: u64,
    cycles: u64,
}

impl CounterFile {
    /// `cycles` cycles that are alike: busy parts, AXPY, groups by cause.
    #[inline]
    pub fn step(&mut self, cycles: u64, busy: u32, axpy: bool, mut groups: [u64; CAUSES]) {
        let product = busy >> PRODUCT & 1 == 1;
        if !product {
            groups[NO_CAUSE] = 0;
        }
        for ((sum, last), now) in self.causes.iter_mut().zip(&mut self.last_causes).zip(groups) {
            *sum += *last + now * (cycles - 1);
            *last = now;
        }
        for (part, count) in self.parts.iter_mut().enumerate() {
            *count += u64::from(busy >> part & 1) * cycles;
        }
        self.axpy += u64::from(product && axpy) * cycles;
        self.outside += u64::from(!product && busy >> ROUND & 1 == 0) * cycles;
        self.cycles += cycles;
    }

    /// As the register shows them in the next cycle.
    pub fn register(&self) -> [u32; COUNTERS] {
        let [working, row, weights, room, filling] = self.causes;
        let part = |part: usize| self.parts[part];
        [
            working,
            row,
            weights,
            room,
            part(PRODUCT),
            self.axpy,
            part(ROUND),
            part(LOAD),
            part(STORE),
            part(LIST),
            part(ZERO),
            filling,
            self.outside,
            self.cycles,
        ]
        .map(|count| count as u32)
    }
}
