//! Logic of a core: mean power by class of work, from mapped netlists with the activity of RTL runs (docs/power.md).

use crate::constant::{self, Constant, constants};
use crate::energy::Energy;
use crate::table::table;
use ndp_config::DesignConfig;
use ndp_dram::counts;
use ndp_files::Result;

counts! {
    #[derive(Copy)]
    pub struct CoreUse {
        /// Products by rows (`dot`).
        dot: u64,
        /// Products that add to sums in the slices (`axpy`, `merge`, `import`, `select`).
        axpy: u64,
        /// With rounding.
        activation: u64,
        /// Moving instructions and data, and waiting.
        other: u64,
    }
}

constants! {
    /// Power in mW, logic and SRAM, of a core with `multipliers` multiplier units at `clock_mhz`.
    pub struct CoreConstants {
        name: String,
        /// Clock at which power was measured.
        clock_mhz: u32 = 1.0 to 1e5,
        /// Multiplier units of the core that was measured; others are taken in proportion.
        multipliers: u32 = 1.0 to 65_536.0,
        /// Mean power in a `dot` of batch 1.
        dot_mw: Constant = 1e-3 to 1e6,
        /// Mean power in an `axpy` of batch 1.
        axpy_mw: Constant = 1e-3 to 1e6,
        /// Mean power in a softmax.
        activation_mw: Constant = 1e-3 to 1e6,
        /// Mean power without work.
        idle_mw: Constant = 0.0 to 1e6,
    }
}

ndp_config::presets!(CoreConstants, "energy of a core", "hermes-asap7" => "../presets/hermes-asap7.toml");

impl CoreConstants {
    /// Parses and checks a file. Fails for unknown keys, bounds out of order, missing sources, and impossible clocks or
    /// multipliers.
    pub fn from_toml(text: &str) -> Result<Self> {
        let constants: Self = constant::read(text)?;
        let Self { dot_mw, axpy_mw, activation_mw, idle_mw, .. } = &constants;
        for (key, constant) in [("dot_mw", dot_mw), ("axpy_mw", axpy_mw), ("activation_mw", activation_mw)] {
            constant::in_order(("idle_mw", idle_mw), (key, constant))?;
        }
        Ok(constants)
    }
}

table! {
    /// Use of a core's logic.
    CorePart,
    /// A value for each [`CorePart`].
    ByCorePart {
        Dot = "dot",
        /// `axpy` and its like.
        Axpy = "axpy",
        /// With rounding.
        Activation = "activation",
        Idle = "idle",
    }
}

/// Cost of a core's cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoreCosts(ByCorePart<Energy>);

impl CoreCosts {
    /// Energy per cycle does not depend on the clock, except leakage, below a percent.
    pub fn new(constants: &CoreConstants, design: &DesignConfig) -> Self {
        let CoreConstants { clock_mhz, multipliers, dot_mw, axpy_mw, activation_mw, idle_mw, .. } = constants;
        let share = f64::from(design.gemv().multipliers()) / f64::from(*multipliers);
        // mW times us are nJ.
        let cycle =
            |mw: &Constant| Energy::from_pj(mw.range().map(|mw| mw * 1e3 / f64::from(*clock_mhz) * share));
        Self(ByCorePart([dot_mw, axpy_mw, activation_mw, idle_mw].map(cycle)))
    }

    pub fn of(&self, cycles: &CoreUse) -> impl Iterator<Item = (CorePart, Energy)> {
        let CoreUse { dot, axpy, activation, other } = *cycles;
        let cycles = [dot, axpy, activation, other];
        self.0.iter().zip(cycles).map(|((part, cost), cycles)| (part, cost * cycles))
    }

    /// Cycles without work.
    pub fn idle(&self, cycles: u64) -> Energy {
        self.0.get(CorePart::Idle) * cycles
    }
}
