//! When the clocks rise in a model that has two of them.
//!
//! Rising edge `n` of the core's clock `clk_i` (1 GHz) is at `1000 n + 500` ps, that of the DRAM's clock `dram_clk_i`
//! (1.6 GHz) at `625 n + 62` ps: five cycles of the one are eight of the other. The offset keeps any two edges at least
//! 62 ps apart, so that there is an order between them that does not depend on the simulator; over the eight edges each
//! clock meets the other one at eight different distances, which is what synchronisers are tried with.

/// A rising edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Edge {
    /// Of `clk_i`.
    Core,
    /// Of `dram_clk_i`.
    Dram,
}

impl Edge {
    /// When rising edge `n` of the clock is, in ps.
    pub fn rise_ps(self, n: u64) -> u64 {
        match self {
            Self::Core => n * 1000 + 500,
            Self::Dram => n * 625 + 62,
        }
    }
}

/// Edges that were, and so the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Schedule {
    /// Rising edges of `clk_i` so far.
    pub core: u64,
    /// Rising edges of `dram_clk_i` so far.
    pub dram: u64,
}

impl Schedule {
    /// How long each clock is up: half a period, or a little less, so that no clock falls within 10 ps before the other
    /// rises.
    const HIGH_PS: [u64; 2] = [500, 300];

    /// The next rising edge and its time in ps.
    pub(super) fn next(self) -> (Edge, u64) {
        let (core, dram) = (Edge::Core.rise_ps(self.core), Edge::Dram.rise_ps(self.dram));
        if core < dram { (Edge::Core, core) } else { (Edge::Dram, dram) }
    }

    /// The schedule after an edge.
    pub(super) fn after(self, edge: Edge) -> Self {
        match edge {
            Edge::Core => Self { core: self.core + 1, ..self },
            Edge::Dram => Self { dram: self.dram + 1, ..self },
        }
    }

    /// When a clock falls that rises at `rise_ps`.
    pub(super) fn fall_ps(edge: Edge, rise_ps: u64) -> u64 {
        rise_ps + Self::HIGH_PS[edge as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_core_cycles_are_eight_of_the_dram_and_no_edges_coincide() {
        let (mut schedule, mut last, mut nearest) = (Schedule::default(), None, u64::MAX);
        for _ in 0..13 * 100 {
            let (edge, time) = schedule.next();
            if let Some(last) = last {
                nearest = nearest.min(time - last);
            }
            last = Some(time);
            schedule = schedule.after(edge);
        }
        assert_eq!((schedule.core, schedule.dram), (500, 800));
        assert_eq!(nearest, 62);
    }
}
