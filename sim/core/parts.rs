//! Which part of the core each cycle belongs to: one part per cycle, so that the parts' cycles add up to all cycles.
//!
//! Parts work side by side. A cycle counts for the first busy one in the order of the fields of [`PartCycles`]:
//! computing before moving data, which is how a host sees where its time goes.

use super::recording::PARTS;
use serde::Serialize;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PartCycles {
    pub gemv: u64,
    pub activation: u64,
    pub round: u64,
    pub store: u64,
    pub load: u64,
    pub list: u64,
    pub zero: u64,
    pub link: u64,
    /// No part: instructions in flight, writes to DRAM, waiting.
    pub idle: u64,
}

ndp_energy::sums!(PartCycles: gemv, activation, round, store, load, list, zero, link, idle);

impl PartCycles {
    /// `busy` has a bit for each of [`PARTS`].
    pub(super) fn count(&mut self, busy: u64) {
        self.add(busy, 1);
    }

    pub(super) fn add(&mut self, busy: u64, cycles: u64) {
        let [load, list, store, zero, gemv, round, activation, send, receive]: [bool; PARTS.len()] =
            std::array::from_fn(|part| busy >> part & 1 == 1);
        let of = match () {
            () if gemv => &mut self.gemv,
            () if activation => &mut self.activation,
            () if round => &mut self.round,
            () if store => &mut self.store,
            () if load => &mut self.load,
            () if list => &mut self.list,
            () if zero => &mut self.zero,
            () if send | receive => &mut self.link,
            () => &mut self.idle,
        };
        *of += cycles;
    }

    pub fn total(&self) -> u64 {
        self.gemv + self.activation + self.round + self.moving() + self.idle
    }

    /// Cycles that only moved data or cleared words.
    pub fn moving(&self) -> u64 {
        self.store + self.load + self.list + self.zero + self.link
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cycle_belongs_to_one_part() {
        let mut parts = PartCycles::default();
        (0..1 << PARTS.len()).for_each(|busy| parts.count(busy));
        let PartCycles { gemv, round, activation, store, load, list, zero, link, idle } = parts;
        assert_eq!([gemv, activation, round, store, load, list], [256, 128, 64, 32, 16, 8]);
        assert_eq!([zero, link, idle], [4, 3, 1]);
        assert_eq!(parts.total(), 512);
        assert_eq!(parts - parts, PartCycles::default());
    }
}
