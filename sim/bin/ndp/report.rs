//! What is reported: the figures that both jobs share, in JSON and as text.
//!
//! Wall-clock speed is the only figure that differs from run to run.

use ndp_report::{Report, fields, grouped};
use ndp_sim::core::Backend;
use ndp_sim::error::Mismatch;
use ndp_sim::system::LoneCore;
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
    /// Core cycles of the products.
    pub cycles: u64,
    /// Broken timing rules of the DRAM.
    pub protocol_violations: u64,
    /// Rates.
    #[serde(flatten)]
    pub throughput: Throughput,
}

/// Rates of a core and of its simulation.
#[derive(Clone, Debug, Serialize)]
pub struct Throughput {
    /// Multiply-accumulates.
    pub macs: u64,
    /// `macs / cycles`.
    pub macs_per_cycle: f64,
    /// Core cycles at full bandwidth, refresh counted, and peak arithmetic.
    pub roofline_cycles: u64,
    /// `roofline_cycles / cycles`.
    pub efficiency: f64,
    /// Cycles simulated in products.
    pub simulated_cycles: u64,
    /// Simulated cycles per second of wall-clock time, driver included, reference not.
    pub sim_cycles_per_second: f64,
}

impl Summary {
    /// The figures of a core.
    pub fn new(core: &LoneCore) -> Self {
        let (figures, mismatches) = (core.total(), core.mismatches());
        Self {
            backend: core.unit().core().backend(),
            outputs_checked: figures.outputs_checked,
            mismatches: mismatches.len() as u64,
            first_mismatches: mismatches.iter().take(LISTED).cloned().collect(),
            cycles: figures.cycles,
            protocol_violations: core.unit().core().protocol_violations(),
            throughput: Throughput::new(core),
        }
    }

    /// Whether all outputs are right, and the sentence that says so.
    pub fn verdict(&self) -> (bool, String) {
        let checked = grouped(self.outputs_checked);
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

    /// Adds the mismatches.
    pub fn mismatches(&self, report: Report, seed: u64) -> Report {
        let listed = self.first_mismatches.iter();
        let report =
            listed.fold(report, |report, mismatch| report.note(format!("MISMATCH {mismatch}; seed {seed}")));
        match self.mismatches - self.first_mismatches.len() as u64 {
            0 => report,
            more => report.note(format!("and {more} more")),
        }
    }
}

impl Throughput {
    /// The rates of a core.
    pub fn new(core: &LoneCore) -> Self {
        let (figures, (simulated_cycles, wall)) = (core.total(), core.unit().simulated());
        let seconds = wall.as_secs_f64();
        Self {
            macs: figures.macs,
            macs_per_cycle: figures.macs as f64 / figures.cycles.max(1) as f64,
            roofline_cycles: figures.roofline_cycles,
            efficiency: figures.efficiency(),
            simulated_cycles,
            sim_cycles_per_second: if seconds > 0.0 { simulated_cycles as f64 / seconds } else { 0.0 },
        }
    }
}

// Fields of a `Summary`, without its rates.
fields! { pub SUMMARY
    "cycles" "cycles" {Cycles} Head: "core cycles of the products";
    "outputs_checked" "outputs" {Count} Verbose: "outputs compared with exact arithmetic";
    "mismatches" "wrong outputs" {Count} Verbose: "outputs that differ";
    "first_mismatches" "first mismatches" {Data} Json: "the first of them: product, row, batch, expected and actual bits";
    "protocol_violations" "broken timing rules" {Count} Verbose: "broken timing rules of the DRAM";
    "backend" "backend" {Text} Verbose: "rtl or cycles";
}

// Fields of a `Throughput`.
fields! { pub THROUGHPUT
    "efficiency" "of the roofline" {Share} Head: "roofline_cycles / cycles";
    "macs_per_cycle" "MAC per cycle" {Real("", 1)} Head: "multiply-accumulates in a core cycle";
    "roofline_cycles" "roofline" {Cycles} Verbose: "core cycles at full bandwidth of the DRAM, refresh counted, and peak arithmetic";
    "macs" "multiply-accumulates" {Count} Verbose: "multiply-accumulates";
    "simulated_cycles" "simulated" {Cycles} Verbose: "core cycles simulated in products";
    "sim_cycles_per_second" "simulation" {Real("cycles/s", 0)} Verbose: "simulated cycles in a second of wall-clock time, driver included";
}
