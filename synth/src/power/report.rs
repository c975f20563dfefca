//! Sums of the windows of a power run.

use super::replay::Energy;
use super::{Activity, MemoryAccesses};

#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct WindowReport {
    #[serde(flatten)]
    pub activity: Activity,
    /// Power of all modules.
    pub total_mw: Energy,
    /// Memory macros, by the assumed energy per bit.
    pub sram_mw: f64,
    /// Energy of the logic per unit of work.
    pub pj_per_work: Option<f64>,
    /// Energy of memory macros per unit of work.
    pub sram_pj_per_work: Option<f64>,
}

impl WindowReport {
    pub fn new(activity: Activity, sram_pj_per_bit: f64) -> Self {
        let mut total_mw = Energy::default();
        activity.modules.iter().for_each(|module| total_mw += module.power_mw);
        let bits = |memory: &MemoryAccesses| memory.read_bits + memory.written_bits;
        let period_ns = activity.period_ps as f64 / 1000.0;
        // 1 pJ in 1 ns is 1 mW.
        let sram_mw = activity.memories.iter().map(bits).fold(0.0, |all, bits| all + bits) * sram_pj_per_bit
            / period_ns;
        let work = activity.window.work.as_ref().map(|(count, _)| *count as f64);
        let per_work = |mw: f64| Some(mw * period_ns * activity.cycles as f64 / work?);
        let (pj_per_work, sram_pj_per_work) = (per_work(total_mw.total()), per_work(sram_mw));
        Self { activity, total_mw, sram_mw, pj_per_work, sram_pj_per_work }
    }
}
