//! Where the time of a token goes: cycles and share of each phase, as a table with bars, as a chart and in JSON.

use crate::output::Asked;
use ndp_report::{Chart, ChartKind, Level, Report, Rows, grouped, rows};
use ndp_sim::system::{Phase, PhaseCycles};

#[derive(Debug)]
pub struct PhaseTable {
    /// In the order of a layer, with their cycles and shares, 0 to 1; the cycles add up to all cycles.
    rows: Vec<(Phase, u64, f64)>,
}

impl PhaseTable {
    pub fn new(phases: &PhaseCycles) -> Self {
        let total = phases.total().max(1) as f64;
        Self { rows: phases.iter().map(|(phase, cycles)| (phase, cycles, cycles as f64 / total)).collect() }
    }

    /// Adds the table, at a level, and its chart.
    pub fn show(&self, report: Report, level: Level) -> Report {
        let longest = self.rows.iter().max_by_key(|(_, cycles, _)| *cycles);
        let caption =
            longest.map_or_else(String::new, |(phase, ..)| format!("Most of it is {}.", phase.name()));
        let rows = rows! { &self.rows => |(phase, cycles, share)|
            "phase" "phase" {Text} Screen: "phase of a layer, or waiting" = phase;
            "cycles" "cycles" {Cycles} Screen: "core cycles" = cycles;
            "share" "share" {Share} Screen: "part of all cycles" = share;
        };
        let bars = ChartKind::Rows { label: "phase", value: "cycles" };
        report.table_at(level, Some("share"), ("phases", "Core cycles by phase"), rows).chart(Chart::new(
            "phases",
            "Cycles of each phase",
            caption,
            bars,
        ))
    }

    /// Writes the chart, if there is a file for it.
    pub fn write_chart(&self, file: Asked, title: &str) -> anyhow::Result<()> {
        let chart = self.rows.iter().fold(Rows::new(title), |chart, (phase, cycles, share)| {
            let text = format!("{} cycles, {:.1} %", grouped(*cycles), 100.0 * share);
            chart.row(phase.name(), *cycles as f64, &text, colour(*phase))
        });
        file.write(|| Ok(chart.draw()?))
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
