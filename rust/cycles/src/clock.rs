//! The two clocks and the relation between their edges (docs/timing.md, "Clocks").
//!
//! Edges are counted from the first one at which the clock's reset is released. Cycle `n` is the time before edge `n`:
//! the content of a register in cycle `n` was decided at edge `n - 1` or earlier. If two edges fall in the same
//! picosecond, the DRAM's comes first.

use ndp_config::DesignConfig;

/// Cycles of the core in its first reset in the co-simulation.
const RESET_CYCLES: u64 = 8;

/// A period with its reciprocal: there is a division for every beat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Period {
    ps: u64,
    /// `2^64 / ps`, rounded up.
    inverse: u64,
}

impl Period {
    fn new(ps: u64) -> Self {
        let ps = ps.max(2);
        Self { ps, inverse: u64::MAX / ps + 1 }
    }

    /// Whole periods in a time: exact up to `2^64 / ps` ps, which is half an hour for 10 ns.
    #[inline]
    fn count(self, ps: u64) -> u64 {
        ((u128::from(ps) * u128::from(self.inverse)) >> 64) as u64
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockRelation {
    core: Period,
    dram: Period,
    /// Core's edge 0 less the DRAM's edge 0, in ps.
    lead_ps: i64,
}

impl ClockRelation {
    /// Clocks of these periods, 2 ps at least, with the core's edge 0 `lead_ps` after the DRAM's.
    pub fn new(core_ps: u64, dram_ps: u64, lead_ps: i64) -> Self {
        Self { core: Period::new(core_ps), dram: Period::new(dram_ps), lead_ps }
    }

    /// The clocks of a co-simulation after its first reset of eight cycles: rising edge `n` of the core's clock is at
    /// `n + 1/2` periods, of the DRAM's at `n + 1/10`, both rounded down to ps.
    pub fn after_reset(config: &DesignConfig) -> Self {
        let (core, dram) = (config.core().clock_ps(), config.dram().clock_ps());
        let released = |edge: u64| edge * core + core / 2;
        // The first edge without reset is the first one after the core's last one in reset.
        let from_first = Self::new(core, dram, core as i64 / 2 - dram as i64 / 10);
        let dram_edge = from_first.dram_after(RESET_CYCLES - 1);
        let lead = released(RESET_CYCLES) as i64 - (dram_edge * dram + dram / 10) as i64;
        Self::new(core, dram, lead)
    }

    /// The first edge of the DRAM's clock after edge `edge` of the core's.
    #[inline]
    pub fn dram_after(self, edge: u64) -> u64 {
        let ps = self.lead_ps + (edge * self.core.ps) as i64;
        if ps < 0 { 0 } else { self.dram.count(ps as u64) + 1 }
    }

    /// The first edge of the core's clock after edge `edge` of the DRAM's.
    #[inline]
    pub fn core_after(self, edge: u64) -> u64 {
        let ps = (edge * self.dram.ps) as i64 - self.lead_ps;
        if ps <= 0 { 0 } else { self.core.count(ps as u64 - 1) + 1 }
    }

    /// Least number of core cycles that these DRAM clocks take: rounded down.
    #[inline]
    pub(crate) fn core_cycles(self, clocks: u64) -> u64 {
        self.core.count(clocks * self.dram.ps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Finds each edge by looking at one after the other.
    #[test]
    fn the_next_edge_is_the_first_one_after() {
        let periods =
            [(1000, 625), (625, 625), (1250, 625), (5000, 625), (500, 833), (1000, 682), (1333, 750)];
        for (core_ps, dram_ps) in periods {
            for lead in (-4000..4000).step_by(61).chain([0, core_ps, -core_ps, dram_ps, -dram_ps]) {
                let clocks = ClockRelation::new(core_ps as u64, dram_ps as u64, lead);
                // Twice the time, so that the core's edges lie half a ps later.
                let at_core = |n: u64| 2 * (n as i64 * core_ps + lead) + 1;
                let at_dram = |n: u64| 2 * n as i64 * dram_ps;
                let (mut core, mut dram) = (0, 0);
                for edge in 0..300 {
                    while at_dram(dram) < at_core(edge) {
                        dram += 1;
                    }
                    assert_eq!(
                        clocks.dram_after(edge),
                        dram,
                        "{core_ps}:{dram_ps}, lead {lead}, edge {edge}"
                    );
                    while at_core(core) < at_dram(edge) {
                        core += 1;
                    }
                    assert_eq!(
                        clocks.core_after(edge),
                        core,
                        "{core_ps}:{dram_ps}, lead {lead}, edge {edge}"
                    );
                }
            }
        }
    }

    #[test]
    fn divisions_are_exact_for_a_simulated_hour() {
        for ps in [500, 625, 682, 750, 833, 1000, 1333, 5000] {
            let period = Period::new(ps);
            for count in [0, 1, 2, 1 << 20, (1 << 38) + 7, (1 << 50) / ps] {
                for (time, expected) in [(count * ps, count), (count * ps + ps - 1, count)] {
                    assert_eq!(period.count(time), expected, "{time} ps over {ps}");
                }
            }
        }
    }

    #[test]
    fn the_first_edges_of_the_paper_s_design_are_8_and_12() {
        let config = DesignConfig::preset("hermes").unwrap_or_else(|e| panic!("{e}"));
        let clocks = ClockRelation::after_reset(&config);
        assert_eq!(clocks, ClockRelation::new(1000, 625, 8500 - (12 * 625 + 62)));
    }
}
