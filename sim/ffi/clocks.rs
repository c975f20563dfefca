//! When the clocks rise in a model that has two of them.
//!
//! Rising edge `n` of `clk_i` is at `n + 1/2` of its periods. Rising edge `n` of `dram_clk_i` is at `n` of its periods
//! plus a phase (by default a tenth of a period). Both are rounded down to ps. In the same picosecond the DRAM's edge
//! comes first, whatever the simulator. With 1000 and 625 ps the clocks meet at eight distances, at least 62 ps apart;
//! without a common divisor at every distance.

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Edge {
    /// Edge of `clk_i`.
    Core,
    /// Edge of `dram_clk_i`.
    Dram,
}

/// Periods of the two clocks, and where their edges lie. A model with one clock uses the core's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clocks {
    core_ps: u64,
    dram_ps: u64,
    phase_ps: u64,
}

impl Clocks {
    /// Clocks of these periods, 4 ps at least.
    pub fn new(core_ps: u64, dram_ps: u64) -> Self {
        let (core_ps, dram_ps) = (core_ps.max(4), dram_ps.max(4));
        Self { core_ps, dram_ps, phase_ps: dram_ps / 10 }
    }

    /// Moves the DRAM's first edge to this time, modulo its period.
    pub fn with_phase(self, ps: u64) -> Self {
        Self { phase_ps: ps % self.dram_ps, ..self }
    }

    pub fn core_ps(self) -> u64 {
        self.core_ps
    }

    pub fn dram_ps(self) -> u64 {
        self.dram_ps
    }

    pub fn rise_ps(self, edge: Edge, n: u64) -> u64 {
        match edge {
            Edge::Core => n * self.core_ps + self.core_ps / 2,
            Edge::Dram => n * self.dram_ps + self.phase_ps,
        }
    }

    /// By how much an edge of the core comes after one of the DRAM, in ps.
    pub fn lead_ps(self, core: u64, dram: u64) -> i64 {
        self.rise_ps(Edge::Core, core) as i64 - self.rise_ps(Edge::Dram, dram) as i64
    }

    /// Half a period after the rise, or a little less, so that with 1000 and 625 ps no clock falls within 10 ps before
    /// the other rises.
    pub(super) fn fall_ps(self, edge: Edge, rise_ps: u64) -> u64 {
        match edge {
            Edge::Core => rise_ps + self.core_ps / 2,
            Edge::Dram => rise_ps + self.dram_ps * 12 / 25,
        }
    }
}

impl Default for Clocks {
    /// 1000 and 625 ps: the paper's core, and DDR4-3200.
    fn default() -> Self {
        Self::new(1000, 625)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Schedule {
    pub core: u64,
    /// Number of rising edges so far.
    pub dram: u64,
}

impl Schedule {
    pub(super) fn next(self, clocks: Clocks) -> (Edge, u64) {
        let (core, dram) = (clocks.rise_ps(Edge::Core, self.core), clocks.rise_ps(Edge::Dram, self.dram));
        if core < dram { (Edge::Core, core) } else { (Edge::Dram, dram) }
    }

    pub(super) fn after(self, edge: Edge) -> Self {
        match edge {
            Edge::Core => Self { core: self.core + 1, ..self },
            Edge::Dram => Self { dram: self.dram + 1, ..self },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Edges of both clocks and the least time between two.
    fn run(clocks: Clocks, edges: u64) -> (u64, u64, u64) {
        let (mut schedule, mut last, mut nearest) = (Schedule::default(), None, u64::MAX);
        for _ in 0..edges {
            let (edge, time) = schedule.next(clocks);
            if let Some(last) = last {
                nearest = nearest.min(time - last);
            }
            last = Some(time);
            schedule = schedule.after(edge);
        }
        (schedule.core, schedule.dram, nearest)
    }

    #[test]
    fn five_core_cycles_are_eight_of_the_dram_and_no_edges_coincide() {
        assert_eq!(run(Clocks::default(), 13 * 100), (500, 800, 62));
    }

    #[test]
    fn other_periods_have_their_ratio_at_every_phase() {
        for phase in [0, 1, 62, 311, 624] {
            let (core, dram, nearest) = run(Clocks::new(1250, 625).with_phase(phase), 3000);
            assert_eq!((core, dram), (1000, 2000), "phase {phase}");
            assert_eq!(nearest, phase.min(625 - phase), "phase {phase}");
        }
        // Without a common divisor edges come as near as can be, and keep their order.
        let clocks = Clocks::new(1000, 833);
        assert_eq!(run(clocks, 1833 * 3), (833 * 3, 1000 * 3, 0));
        let clocks = Clocks::new(1000, 625).with_phase(625 + 500);
        assert_eq!(Schedule::default().next(clocks), (Edge::Dram, 500));
        assert_eq!(clocks.lead_ps(0, 0), 0);
    }
}
