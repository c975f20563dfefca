//! The two clocks and the relation between their edges (docs/timing.md, "Clocks").
//!
//! Edges are counted from the first one at which the clock's reset is released. Cycle `n` is the time before edge `n`:
//! what a register holds in cycle `n` was decided at edge `n - 1` or earlier.

/// Period of the core's clock in ps.
pub const CORE_PS: u64 = 1000;
/// Period of the DRAM's clock in ps.
pub const DRAM_PS: u64 = 625;

/// Where the edges of the two clocks lie towards each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockRelation {
    /// Core's edge 0 less the DRAM's edge 0, in ps. No two edges may coincide: no multiple of 125.
    lead_ps: i64,
}

impl ClockRelation {
    /// The relation with the core's edge 0 `lead_ps` after the DRAM's; `None` if edges would coincide.
    pub fn new(lead_ps: i64) -> Option<Self> {
        (lead_ps.rem_euclid(125) != 0).then_some(Self { lead_ps })
    }

    /// That of the co-simulation: rising edge `n` of the core's clock is at `1000 n + 500` ps, of the DRAM's at
    /// `625 n + 62` ps, and `core_edge` and `dram_edge` are the first ones without reset.
    pub fn of_simulation(core_edge: u64, dram_edge: u64) -> Self {
        let core = core_edge * CORE_PS + 500;
        let dram = dram_edge * DRAM_PS + 62;
        Self { lead_ps: core as i64 - dram as i64 }
    }

    /// Core's edge 0 less the DRAM's edge 0, in ps.
    pub fn lead_ps(self) -> i64 {
        self.lead_ps
    }

    /// The first edge of the DRAM's clock after edge `edge` of the core's.
    #[inline]
    pub fn dram_after(self, edge: u64) -> u64 {
        let ps = self.lead_ps + (edge * CORE_PS) as i64;
        if ps < 0 { 0 } else { ps as u64 / DRAM_PS + 1 }
    }

    /// The first edge of the core's clock after edge `edge` of the DRAM's.
    #[inline]
    pub fn core_after(self, edge: u64) -> u64 {
        let ps = (edge * DRAM_PS) as i64 - self.lead_ps;
        if ps < 0 { 0 } else { ps as u64 / CORE_PS + 1 }
    }
}

impl Default for ClockRelation {
    /// That of the co-simulation after its first reset of eight cycles.
    fn default() -> Self {
        Self::of_simulation(8, 12)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_edge_is_the_first_one_after() {
        for (core, dram) in [(8, 12), (9, 14), (10, 15), (11, 17), (12, 18), (0, 0)] {
            let clocks = ClockRelation::of_simulation(core, dram);
            for edge in 0..100 {
                let after = clocks.dram_after(edge);
                let (at, of) = (|n: u64| (core + n) * 1000 + 500, |n: u64| (dram + n) * 625 + 62);
                assert!(of(after) > at(edge) && (after == 0 || of(after - 1) < at(edge)));
                let after = clocks.core_after(edge);
                assert!(at(after) > of(edge) && (after == 0 || at(after - 1) < of(edge)));
            }
        }
        assert_eq!(ClockRelation::new(250), None);
    }
}
