//! What is reported: the figures that both jobs share, in JSON and as text.
//!
//! Wall-clock speed is the only figure that differs from run to run.

use crate::tools::grouped;
use ndp_sim::backend::Figures;
use ndp_sim::core::Backend;
use ndp_sim::error::Mismatch;
use ndp_sim::gemv::GemvUnit;
use serde::Serialize;

/// Mismatches that are listed; the rest is only counted.
const LISTED: usize = 16;

/// The figures of a run.
#[derive(Debug, Serialize)]
pub struct Summary {
    /// What stood for the core.
    pub backend: Backend,
    /// Outputs compared with the reference.
    pub outputs_checked: u64,
    /// Outputs that differ.
    pub mismatches: u64,
    /// The first of them.
    pub first_mismatches: Vec<Mismatch>,
    /// Multiply-accumulates.
    pub macs: u64,
    /// Core cycles of the products.
    pub cycles: u64,
    /// Core cycles at full bandwidth, refresh counted, and peak arithmetic.
    pub roofline_cycles: u64,
    /// `roofline_cycles / cycles`.
    pub efficiency: f64,
    /// Broken timing rules of the DRAM.
    pub protocol_violations: u64,
    /// Cycles simulated in products.
    pub simulated_cycles: u64,
    /// Simulated cycles per second of wall-clock time, driver included, reference not.
    pub sim_cycles_per_second: f64,
}

impl Summary {
    /// Collects the figures.
    pub fn new(figures: &Figures, mismatches: &[Mismatch], unit: &GemvUnit) -> Self {
        let (simulated_cycles, wall) = unit.simulated();
        let seconds = wall.as_secs_f64();
        Self {
            backend: unit.core().backend(),
            outputs_checked: figures.outputs_checked,
            mismatches: mismatches.len() as u64,
            first_mismatches: mismatches.iter().take(LISTED).cloned().collect(),
            macs: figures.macs,
            cycles: figures.cycles,
            roofline_cycles: figures.roofline_cycles,
            efficiency: figures.efficiency(),
            protocol_violations: unit.core().protocol_violations(),
            simulated_cycles,
            sim_cycles_per_second: if seconds > 0.0 { simulated_cycles as f64 / seconds } else { 0.0 },
        }
    }

    /// The lines that both jobs print.
    pub fn print(&self) {
        let (checked, mismatches) = (grouped(self.outputs_checked), self.mismatches);
        match self.backend {
            Backend::Rtl => {
                let violations = self.protocol_violations;
                say!(
                    "outputs checked    {checked}, {mismatches} mismatches, {violations} violations of DRAM timing"
                );
            }
            Backend::Cycles => {
                say!(
                    "outputs checked    {checked}, {mismatches} mismatches; cycle model and functional model, no RTL"
                );
            }
        }
        say!(
            "cycles             {} (roofline {}, efficiency {:.3}), {:.1} MAC per cycle",
            grouped(self.cycles),
            grouped(self.roofline_cycles),
            self.efficiency,
            self.macs as f64 / self.cycles.max(1) as f64,
        );
        say!(
            "simulation         {} cycles at {} cycles/s",
            grouped(self.simulated_cycles),
            grouped(self.sim_cycles_per_second as u64),
        );
    }

    /// The mismatches and how to see them again, on standard error.
    pub fn print_mismatches(&self, seed: u64, rerun: &str) {
        for mismatch in &self.first_mismatches {
            note!("MISMATCH {mismatch}; seed {seed}");
        }
        if self.mismatches > self.first_mismatches.len() as u64 {
            note!("and {} more", self.mismatches - self.first_mismatches.len() as u64);
        }
        if self.mismatches > 0 {
            note!("rerun: {rerun}");
        }
    }
}
