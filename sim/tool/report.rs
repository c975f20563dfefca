//! Figures that several commands report, in JSON and as text.
//!
//! Wall-clock speed is the only figure that differs from run to run.

use crate::prelude::*;
use ndp_sim::core::Backend;
use ndp_sim::error::Mismatch;
use ndp_sim::system::{LoneCore, ProductFigures};
use std::time::Duration;

pub const LISTED: usize = 16;

#[derive(Debug)]
pub struct Summary {
    pub backend: Backend,
    pub figures: ProductFigures,
    pub mismatches: u64,
    /// The first mismatches, at most [`LISTED`].
    pub first_mismatches: Vec<Mismatch>,
    /// Number of broken timing rules.
    pub protocol_violations: u64,
    /// Cycles of products, and wall-clock time including the driver but not the reference.
    pub simulated: (u64, Duration),
}

impl Summary {
    pub fn new(core: &LoneCore) -> Self {
        let (unit, mismatches) = (core.unit(), core.mismatches());
        Self {
            backend: unit.core().backend(),
            figures: core.total(),
            mismatches: mismatches.len() as u64,
            first_mismatches: mismatches.iter().take(LISTED).cloned().collect(),
            protocol_violations: unit.core().protocol_violations(),
            simulated: unit.simulated(),
        }
    }

    pub fn macs_per_cycle(&self) -> f64 {
        self.figures.macs as f64 / self.figures.cycles.max(1) as f64
    }

    /// Simulated cycles per second of wall-clock time.
    pub fn sim_cycles_per_second(&self) -> f64 {
        let (cycles, wall) = self.simulated;
        if wall.is_zero() { 0.0 } else { cycles as f64 / wall.as_secs_f64() }
    }

    pub fn outcome(&self) -> Values {
        figures! {
            "cycles" "cycles" {Cycles} Head: "core cycles of the products" = self.figures.cycles;
            "outputs_checked" "outputs" {Count} Verbose: "outputs compared with exact arithmetic" = self.figures.outputs_checked;
            "mismatches" "wrong outputs" {Count} Verbose: "outputs that differ" = self.mismatches;
            "first_mismatches" "first mismatches" {Data} Json: "first wrong outputs: product, row, batch, expected and actual bits"
                = self.first_mismatches;
            "protocol_violations" "broken timing rules" {Count} Verbose: "broken timing rules of the DRAM" = self.protocol_violations;
            "backend" "backend" {Text} Verbose: "rtl or cycles" = self.backend;
        }
    }

    pub fn throughput(&self) -> Values {
        figures! {
            "efficiency" "of the roofline" {Share} Head: "roofline_cycles / cycles" = self.figures.efficiency();
            "macs_per_cycle" "MAC per cycle" {Real("", 1)} Head: "multiply-accumulates in a core cycle" = self.macs_per_cycle();
            "roofline_cycles" "roofline" {Cycles} Verbose: "core cycles at full bandwidth of the DRAM, refresh counted, and peak arithmetic"
                = self.figures.roofline_cycles;
            "macs" "multiply-accumulates" {Count} Verbose: "multiply-accumulates" = self.figures.macs;
            "simulated_cycles" "simulated" {Cycles} Verbose: "core cycles simulated in products" = self.simulated.0;
            "sim_cycles_per_second" "simulation" {Real("cycles/s", 0)} Verbose: "simulated cycles in a second of wall-clock time, driver included"
                = self.sim_cycles_per_second();
        }
    }

    /// Returns whether all outputs are right, and a sentence that says so.
    pub fn verdict(&self) -> (bool, String) {
        let checked = grouped(self.figures.outputs_checked);
        let timing = match (self.backend, self.protocol_violations) {
            (Backend::Cycles, _) => "cycle model and functional model, no RTL".to_owned(),
            (_, 0) => "no DRAM timing rule is broken".to_owned(),
            (_, broken) => format!("{broken} DRAM timing rules are broken"),
        };
        match self.mismatches {
            0 => (true, format!("{checked} outputs equal exact arithmetic; {timing}")),
            wrong => (false, format!("{wrong} of {checked} outputs differ from exact arithmetic; {timing}")),
        }
    }

    pub fn mismatches(&self, report: Report, seed: u64) -> Report {
        listed(self.first_mismatches.iter(), self.mismatches, seed).fold(report, Report::note)
    }
}

/// One line for each of the first mismatches, and one for the rest of `all`.
pub fn listed<'m>(
    first: impl Iterator<Item = &'m Mismatch>,
    all: u64,
    seed: u64,
) -> impl Iterator<Item = String> {
    let lines = first.take(LISTED).map(move |mismatch| format!("MISMATCH {mismatch}; seed {seed}"));
    let more = all.checked_sub(LISTED as u64).filter(|more| *more > 0);
    lines.chain(more.map(|more| format!("and {more} more")))
}
