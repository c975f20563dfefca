//! What is reported: the figures that both jobs share, in JSON and as text.
//!
//! Wall-clock speed is the only figure that differs from run to run.

use ndp_cosim::backend::Figures;
use ndp_cosim::ffi::verilator_version;
use ndp_cosim::gemv::{GemvUnit, Mismatch};
use serde::Serialize;

/// Mismatches that are listed; the rest is only counted.
const LISTED: usize = 16;

/// Versions of what made and ran the models.
#[derive(Debug, Serialize)]
pub struct Tools {
    ndp_cosim: &'static str,
    verilator: &'static str,
    rustc: &'static str,
}

impl Tools {
    /// Those of this build.
    pub fn new() -> Self {
        Self {
            ndp_cosim: env!("CARGO_PKG_VERSION"),
            verilator: verilator_version().unwrap_or("none"),
            rustc: env!("NDP_RUSTC_VERSION"),
        }
    }

    /// Verilator's.
    pub fn verilator(&self) -> &'static str {
        self.verilator
    }
}

/// The figures of a run.
#[derive(Debug, Serialize)]
pub struct Summary {
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
        say!(
            "outputs checked    {}, {} mismatches, {} violations of DRAM timing",
            grouped(self.outputs_checked),
            self.mismatches,
            self.protocol_violations
        );
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

/// Digits in groups of three.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_grouped_from_the_right() {
        let cases = [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")];
        for (number, text) in cases {
            assert_eq!(grouped(number), text);
        }
    }
}
