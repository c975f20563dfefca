//! The core's cycle counters, register 1 (docs/timing.md, "Counters").

use crate::issue::{ACTIVATION, LIST, LOAD, PARTS, PRODUCT, ROUND, STORE, ZERO};

/// Words of register 1 that count.
pub const COUNTERS: usize = 15;
/// Causes that a group's cycles are counted by.
const CAUSES: usize = 4;

/// All counters except the groups' causes, which the groups count.
#[derive(Clone, Debug)]
pub(crate) struct CounterFile {
    /// AXPY cycles before this one.
    axpy: u64,
    cycles: u64,
    /// Cycles by the set of busy parts.
    masks: Box<[u64]>,
    /// Busy parts of the last cycle.
    last: usize,
}

impl CounterFile {
    pub fn new() -> Self {
        Self { axpy: 0, cycles: 0, masks: vec![0; 1 << PARTS.len()].into(), last: 0 }
    }

    /// Counts all cycles before `cycle` that are not counted yet, which are alike: busy parts, AXPY.
    #[inline]
    pub fn count(&mut self, cycle: u64, busy: u32, axpy: bool) {
        let cycles = cycle - self.cycles;
        if cycles == 0 {
            return;
        }
        self.axpy += u64::from(busy >> PRODUCT & 1 == 1 && axpy) * cycles;
        self.cycles = cycle;
        self.last = busy as usize % self.masks.len();
        self.masks[self.last] += cycles;
    }

    /// Cycles by the set of busy parts, without the last cycle.
    pub fn busy_times(&self) -> impl Iterator<Item = (u32, u64)> {
        let last = |busy: usize| u64::from(busy == self.last && self.cycles > 0);
        let times = self.masks.iter().enumerate().filter(|(_, cycles)| **cycles > 0);
        times.map(move |(busy, cycles)| (busy as u32, cycles - last(busy)))
    }

    /// Contents of the register in the next cycle. `causes` are sums over `ranks` groups before the last cycle, as the
    /// core counts them a cycle late.
    pub fn register(&self, causes: [u64; CAUSES], ranks: u32) -> [u32; COUNTERS] {
        let [working, row, weights, room] = causes;
        let cycles = |of: &dyn Fn(usize) -> bool| -> u64 {
            self.masks.iter().enumerate().filter(|(busy, _)| of(*busy)).map(|(_, cycles)| cycles).sum()
        };
        let part = |part: usize| cycles(&|busy| busy >> part & 1 == 1);
        let products = part(PRODUCT) - (self.last >> PRODUCT & 1) as u64;
        let filling = products * u64::from(ranks) - causes.iter().sum::<u64>();
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
            cycles(&|busy| busy & (1 << PRODUCT | 1 << ROUND) == 0),
            self.cycles,
            part(ACTIVATION),
        ]
        .map(|count| count as u32)
    }
}
