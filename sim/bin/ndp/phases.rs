//! Where the time of a token goes: cycles and share of each phase, as a table with bars, as a chart and in JSON.

use crate::tools::grouped;
use ndp_files::OutputFile;
use ndp_report::Rows;
use ndp_sim::phases::{Phase, PhaseCycles};
use serde::Serialize;

/// Characters of the longest bar.
const BAR: u64 = 40;
/// One phase.
#[derive(Debug, Serialize)]
pub struct PhaseFigures {
    phase: Phase,
    cycles: u64,
    /// Of all cycles, 0 to 1.
    share: f64,
}

/// All phases that occurred.
#[derive(Debug)]
pub struct PhaseTable {
    /// In the order of a layer; their cycles add up to all cycles.
    pub rows: Vec<PhaseFigures>,
}

impl PhaseTable {
    /// From what was counted.
    pub fn new(phases: &PhaseCycles) -> Self {
        let total = phases.total().max(1) as f64;
        let row = |(phase, cycles)| PhaseFigures { phase, cycles, share: cycles as f64 / total };
        Self { rows: phases.iter().map(row).collect() }
    }

    /// The table under a title.
    pub fn print(&self, title: &str) {
        let longest = self.rows.iter().map(|row| row.cycles).max().unwrap_or(0).max(1);
        say!("{title:<32}{:>12}{:>9}", "cycles", "share");
        for PhaseFigures { phase, cycles, share } in &self.rows {
            let bar = "#".repeat((cycles * BAR).div_ceil(longest) as usize);
            say!("  {:<30}{:>12}{:>7.1} %  {bar}", phase.name(), grouped(*cycles), 100.0 * share);
        }
    }

    /// Writes the chart, if there is a file for it.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write_chart(&self, file: Option<OutputFile>, title: &str) -> anyhow::Result<()> {
        let Some(file) = file else { return Ok(()) };
        let chart =
            self.rows.iter().fold(Rows::new(title), |chart, PhaseFigures { phase, cycles, share }| {
                let text = format!("{} cycles, {:.1} %", grouped(*cycles), 100.0 * share);
                chart.row(phase.name(), *cycles as f64, &text, colour(*phase))
            });
        let chart = chart.draw()?;
        Ok(file.finish(|out| out.write_all(chart.as_bytes()))?)
    }
}

/// Products of linear layers, products of attention, what is between products, and what no product hides.
fn colour(phase: Phase) -> usize {
    match phase {
        Phase::Qkv | Phase::Projection | Phase::Fc1 | Phase::Fc2 | Phase::Head => 0,
        Phase::Scores | Phase::Context => 1,
        Phase::Softmax | Phase::Round | Phase::ElementWise => 2,
        Phase::Rotary | Phase::Append | Phase::Transfer | Phase::Waiting => 6,
    }
}
