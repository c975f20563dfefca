//! Where the time of a token goes: cycles and share of each phase, as a table with bars, as a chart and in JSON.

use crate::tools::grouped;
use ndp_files::OutputFile;
use ndp_report::{Chart, ChartKind, Level, Report, Rows, fields};
use ndp_sim::system::{Phase, PhaseCycles};
use serde::Serialize;

fields! { PHASE
    "phase" "phase" {Text} Screen: "phase of a layer, or waiting";
    "cycles" "cycles" {Cycles} Screen: "core cycles";
    "share" "share" {Share} Screen: "part of all cycles";
}

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

    /// Adds the table, at a level, and its chart.
    pub fn show(&self, report: Report, level: Level) -> Report {
        let longest = self.rows.iter().max_by_key(|row| row.cycles);
        let caption = longest.map_or_else(String::new, |row| format!("Most of it is {}.", row.phase.name()));
        report.table_at(level, Some("share"), ("phases", "Core cycles by phase"), (PHASE, &self.rows)).chart(
            Chart {
                table: "phases",
                title: "Cycles of each phase".to_owned(),
                caption,
                kind: ChartKind::Rows { label: "phase", value: "cycles" },
            },
        )
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
